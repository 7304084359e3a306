/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reduction_lent.c: elements of reductions that the receiver copies from the sender's memory
 * (exchange_direct.c). It copies them to their final place, or combines each block while it is in the cache
 * ("absorbs" the message).
 */
#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/between/reduction.h"

/* The kernel copies lent elements for other processes. They must be one piece of memory, and unchanged until
 * the copy: the next step waits for it. */
bool ampi_reduction_can_lend(const struct ampi_exchange *x)
{
    const struct ampi_coll_remote *remote = x->slot->state->remote;
    bool can = x->reduction->is_block && x->n < AMPI_COLL_FEW && x->device < 0 && !x->is_staged &&
               (x->reduction->is_stable || x->algorithm == AMPI_BETWEEN_REDUCE_BINOMIAL ||
                x->algorithm == AMPI_BETWEEN_SCAN_DOUBLING);

    for (int i = 0; i < x->n && can; i++)
        can = i == x->own || ampi_exchange_direct_reaches(remote->proc_id[x->proc[i]]);
    return can;
}

bool ampi_reduction_lends(const struct ampi_exchange *x, int proc, size_t n_bytes)
{
    return x->reduction->is_lent && n_bytes >= ampi_coll_selections[AMPI_COLL_ONE_COPY].share_from &&
           ampi_exchange_direct_reaches(x->slot->state->remote->proc_id[proc]);
}

unsigned char *ampi_reduction_room(struct ampi_exchange *x, const struct ampi_exchange_message *message)
{
    const struct ampi_reduction *r = x->reduction;
    void *place = r->place && !r->is_mismatch && message->cookie == r->n_bytes ? r->place(x, message) : NULL;

    return place ? ampi_type_address(place, r->type->true_lb_bytes)
                 : ampi_exchange_alloc(x, message->n_bytes);
}

/* ---- Absorbing ---- */

/* Bytes that are copied, and then combined, at a time. */
#define ABSORBED_BYTES ((MPI_Count)256 << 10)

bool ampi_reduction_can_absorb(const struct ampi_exchange *x, const struct ampi_exchange_message *message)
{
    const struct ampi_reduction *r = x->reduction;

    return r && r->absorb && !r->is_mismatch && message->cookie == r->n_bytes && r->op->is_commutative;
}

MPI_Count ampi_reduction_absorb(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                                void *own, void *into, int *result_out)
{
    const struct ampi_reduction *r = x->reduction;
    MPI_Count all = (MPI_Count)message->n_bytes / r->type->size_bytes, done, count;
    MPI_Count block = base_min_u64((uint64_t)all, ABSORBED_BYTES / (uint64_t)r->type->size_bytes + 1);
    char *room = into ? NULL : ampi_exchange_alloc(x, (size_t)(block * r->type->extent_bytes));

    *result_out = MACHINE_DONE;
    for (done = 0; done < all; done += count) {
        void *mine = ampi_reduction_at(r, own, done);
        void *came =
            into ? ampi_reduction_at(r, into, done) : ampi_type_address(room, -r->type->true_lb_bytes);
        count = all - done < block ? all - done : block;
        *result_out = ampi_exchange_direct_copy(
            message->direct, message->direct->address + (uint64_t)(done * r->type->size_bytes),
            ampi_type_address(came, r->type->true_lb_bytes), (size_t)(count * r->type->size_bytes));
        if (*result_out != MACHINE_DONE)
            break;
        ampi_op_apply(r->op, into ? mine : came, into ? came : mine, count, r->type);
    }
    return done;
}

int ampi_reduction_absorb_whole(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                                void *into)
{
    struct ampi_reduction *r = x->reduction;
    int result;

    r->n_absorbed = ampi_reduction_absorb(x, message, r->elems, into, &result);
    if (into) {
        ampi_type_copy(ampi_reduction_at(r, into, r->n_absorbed), r->count - r->n_absorbed, r->type,
                       ampi_reduction_at(r, r->elems, r->n_absorbed), r->count - r->n_absorbed, r->type);
        r->elems = into;
        r->is_own = true;
    }
    return result;
}

void ampi_reduction_combine_rest(struct ampi_exchange *x, const struct ampi_exchange_message *message)
{
    struct ampi_reduction *r = x->reduction;
    MPI_Count done = r->n_absorbed;
    const void *came;

    r->n_absorbed = 0;
    if (!message->bytes && message->n_bytes > 0) /* all elements were absorbed */
        return;
    if (done == 0) {
        ampi_reduction_combine(x, message, 0, r->count);
        return;
    }
    came = ampi_reduction_elems(x, message, r->count);
    if (came)
        ampi_op_apply(r->op, ampi_reduction_at(r, came, done), ampi_reduction_at(r, r->elems, done),
                      r->count - done, r->type);
}
