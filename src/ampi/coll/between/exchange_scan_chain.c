/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_scan_chain.c: prefix sums between few processes of one rank each. Each process combines the
 * result of the previous process with its own elements and passes it on, in segments. A segment is copied
 * from the memory of the process before, into the rank's buffer if possible, and combined while it is in the
 * cache. Cost: p - 1 successive messages of the first segment and one for each other, n bytes sent and n
 * combined by each.
 */
#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/between/reduction.h"

#define SEGMENT_BYTES ((size_t)64 << 10)

/* Segments end at multiples of this many elements. */
#define UNIT_ELEMS 64

static int n_segments(const struct ampi_exchange *x)
{
    return (int)((x->reduction->n_bytes + SEGMENT_BYTES - 1) / SEGMENT_BYTES);
}

/* The first element of a segment. */
static MPI_Count from_of(const struct ampi_exchange *x, int segment)
{
    MPI_Count count = x->reduction->count, units = (count + UNIT_ELEMS - 1) / UNIT_ELEMS;
    MPI_Count from = units * segment / n_segments(x) * UNIT_ELEMS;

    return from < count ? from : count;
}

static MPI_Count count_of(const struct ampi_exchange *x, int segment)
{
    return from_of(x, segment + 1) - from_of(x, segment);
}

static bool is_exclusive(const struct ampi_exchange *x)
{
    return x->slot->last->plan->is_exclusive;
}

static bool is_last(const struct ampi_exchange *x)
{
    return x->own == x->n - 1;
}

/* ---- One segment ---- */

static void copy(const struct ampi_reduction *r, void *to, const void *from, MPI_Count count)
{
    if (to != from)
        ampi_type_copy(to, count, r->type, from, count, r->type);
}

/* Combines the elements that came with the own ones, into the result. `came` may be the memory of the
 * result; its first element is number `from`. */
static void combine(struct ampi_exchange *x, MPI_Count from, MPI_Count count, const void *came)
{
    struct ampi_reduction *r = x->reduction;
    const void *own = ampi_reduction_at(r, r->elems, from);
    void *result = ampi_reduction_at(r, r->result, from);

    if (is_exclusive(x)) {
        if (!is_last(x)) {
            void *next = ampi_reduction_at(r, r->next, from);
            copy(r, next, own, count);
            ampi_op_apply(r->op, came, next, count, r->type);
        }
        copy(r, result, came, count);
    } else if (came == result) {
        ampi_op_apply(r->op, own, result, count, r->type);
    } else {
        copy(r, result, own, count);
        ampi_op_apply(r->op, came, result, count, r->type);
    }
}

/* Copies the elements to the result's memory, unless this process's own are there. */
static int absorb(struct ampi_exchange *x, const struct ampi_exchange_message *message)
{
    struct ampi_reduction *r = x->reduction;
    MPI_Count from = from_of(x, message->tag), count = count_of(x, message->tag);
    void *came =
        ampi_reduction_at(r, r->result == r->elems ? r->room : r->result, r->result == r->elems ? 0 : from);
    int result;

    if (message->n_bytes != (size_t)(count * r->type->size_bytes))
        return MACHINE_FAILED; /* the sizes differ: it comes again as data, and is reported then */
    result = ampi_exchange_direct_copy(message->direct, message->direct->address,
                                       ampi_type_address(came, r->type->true_lb_bytes), message->n_bytes);
    if (result == MACHINE_DONE)
        combine(x, from, count, came);
    return result;
}

/* ---- Steps ---- */

static void begin(struct ampi_exchange *x)
{
    struct ampi_reduction *r = x->reduction;
    void *buffer = x->slot->last->recv.buf;

    if (r->is_mismatch)
        return;
    r->next = r->elems;
    if (x->own == 0)
        return;
    r->result =
        buffer && !ampi_device_has(buffer, r->count, r->type) ? buffer : ampi_reduction_alloc(x, r->count);
    r->room = r->result == r->elems ? ampi_reduction_alloc(x, count_of(x, 0) + UNIT_ELEMS) : NULL;
    r->next = !is_exclusive(x) ? r->result : is_last(x) ? NULL : ampi_reduction_alloc(x, r->count);
    r->absorb = absorb;
}

static void pass_on(struct ampi_exchange *x, int segment)
{
    struct ampi_reduction *r = x->reduction;

    if (!is_last(x))
        ampi_reduction_send_elems(x, x->own + 1, segment,
                                  r->is_mismatch ? NULL : ampi_reduction_at(r, r->next, from_of(x, segment)),
                                  r->is_mismatch ? 0 : count_of(x, segment));
}

/* A segment has come. */
static void take(struct ampi_exchange *x, int segment)
{
    const struct ampi_exchange_message *message = x->got;
    MPI_Count count = count_of(x, segment);
    const void *came;

    if (message->bytes || message->n_bytes == 0) { /* it was not absorbed */
        came = ampi_reduction_elems(x, message, count);
        if (came)
            combine(x, from_of(x, segment), count, came);
    }
    pass_on(x, segment);
}

/* The first process's own result; the others' if it is not in their buffer yet. */
static void end(struct ampi_exchange *x)
{
    const struct ampi_reduction *r = x->reduction;
    struct ampi_coll_args *args = x->slot->last;
    const void *result = x->own > 0 ? r->result : is_exclusive(x) ? args->recv.buf : r->elems;

    if (!r->is_mismatch && result != args->recv.buf)
        ampi_coll_move(args, (struct ampi_coll_block){args->recv.buf, r->count, args->recv.type, NULL},
                       (struct ampi_coll_block){(void *)(uintptr_t)result, r->count, r->type, NULL});
}

void ampi_exchange_scan_chain(struct ampi_exchange *x)
{
    int n = n_segments(x);

    if (x->step == 0) {
        ampi_exchange_run_ahead(x); /* sent data does not change */
        x->reduction->is_given = true;
        begin(x);
        for (int i = 0; i < n && x->own == 0; i++)
            pass_on(x, i);
    } else {
        take(x, x->step - 1);
    }
    if (x->own > 0 && x->step < n)
        ampi_exchange_await(x, x->step, 1);
    else
        end(x);
}
