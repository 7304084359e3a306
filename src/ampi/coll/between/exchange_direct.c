/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_direct.c: data of exchanges that the receiver copies from the sender's memory (struct
 * machine_rma: one copy by the kernel). The message has the address of the data. The receiver copies the
 * data when it awaits the message, and answers; the sender's exchange ends only after that. If the kernel
 * refuses the copy, the answer says so, and the sender sends the data in another way.
 *
 * Invariant: a receiver answers each such message, unless it fails. It answers at once if it will never
 * await the message: if the communicator is unknown, or has a failed process.
 */
#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/between/parts.h"
#include "ampi/comm/contexts.h"
#include "ampi/procs/procs.h"
#include "base/log.h"

/* Data of this process that another one has not copied yet. */
struct ampi_exchange_loan {
    struct ampi_exchange_loan *next; /* next in x->loans */
    int proc;                        /* index of the receiver's process */
    bool is_list;                    /* a listed part */
    struct ampi_am_header am;        /* header of a message with the data itself */
    struct ampi_exchange_direct direct;
};

bool ampi_exchange_direct_reaches(int proc_id)
{
    return ampi_machine->rma && ampi_machine->rma->access(proc_id) == MACHINE_DIRECT_ACCESS;
}

/* ---- The sender ---- */

static struct ampi_exchange_loan *new_loan(struct ampi_exchange *x, int proc, const struct ampi_am_header *am,
                                           const void *bytes, size_t n_bytes)
{
    struct ampi_exchange_loan *loan = ampi_exchange_alloc(x, sizeof *loan);

    *loan =
        (struct ampi_exchange_loan){.next = x->loans,
                                    .proc = proc,
                                    .am = *am,
                                    .direct = {.address = (uintptr_t)bytes,
                                               .n_bytes = n_bytes,
                                               .proc_id = (uint32_t)ampi_job.proc_id,
                                               .pe_id = (uint32_t)ult_pe_id(x->slot->state->remote->leader),
                                               .answer = {.kind = AMPI_AM_COLL_COPIED,
                                                          .context_id = am->context_id,
                                                          .seq = am->seq,
                                                          .source = am->source,
                                                          .cookie = ++x->n_loans}}};
    x->loans = loan;
    x->n_sending++;
    return loan;
}

static struct ampi_am_header direct_of(const struct ampi_am_header *am)
{
    struct ampi_am_header direct = *am;

    direct.flags |= AMPI_AM_DIRECT;
    return direct;
}

void ampi_exchange_direct_send(struct ampi_exchange *x, int proc, const struct ampi_am_header *am,
                               const void *bytes, size_t n_bytes)
{
    struct ampi_exchange_loan *loan = new_loan(x, proc, am, bytes, n_bytes);
    struct ampi_am_header direct = direct_of(am);

    ampi_exchange_send_bytes(x, proc, &direct, &loan->direct, sizeof loan->direct);
}

void ampi_exchange_direct_send_list(struct ampi_exchange *x, int proc, const struct ampi_am_header *am,
                                    const struct ampi_exchange_block *part)
{
    struct ampi_exchange_loan *loan = new_loan(x, proc, am, NULL, 0);
    struct ampi_am_header direct = direct_of(am);

    loan->is_list = true;
    ampi_exchange_run_ahead(
        x); /* the receiver copies it after its steps, which may wait for steps of this process */
    memcpy((unsigned char *)(uintptr_t)part->bytes + part->n_bytes, &loan->direct, sizeof loan->direct);
    ampi_exchange_send_data(x, proc, &direct, part->bytes, part->n_bytes + sizeof loan->direct);
}

/* The kernel has refused the copy, because of this memory or the receiver's. */
static void send_again(struct ampi_exchange *x, struct ampi_exchange_loan *loan)
{
    struct ampi_exchange_block part = {.n_bytes = (size_t)loan->direct.n_bytes};

    loan->am.flags |= AMPI_AM_AGAIN;
    if (loan->is_list) {
        loan->am.tag = AMPI_EXCHANGE_TAG_AGAIN;
        part = ampi_part_make_packed(x, loan->proc);
    } else {
        part.bytes = memcpy(ampi_exchange_alloc(x, part.n_bytes),
                            (const void *)(uintptr_t)loan->direct.address, part.n_bytes);
    }
    ampi_exchange_send_data(x, loan->proc, &loan->am, part.bytes, part.n_bytes);
}

static bool handle_copied(int pe_id, const struct ampi_am_header *am, const void *header,
                          const struct machine_data *data)
{
    struct ampi_comm_shared *shared = ampi_contexts_find(pe_id, am->context_id);
    struct ampi_exchange *x =
        shared ? ampi_exchange_find(shared->coll->remote, am->seq, (uint32_t)am->source) : NULL;
    struct ampi_exchange_loan **link, *loan;

    if (!x) /* the exchange has ended because a process has failed */
        return false;
    for (link = &x->loans; *link && (*link)->direct.answer.cookie != am->cookie;)
        link = &(*link)->next;
    loan = *link;
    if (!loan)
        return false;
    *link = loan->next;
    if (am->flags & AMPI_AM_FAILED)
        send_again(x, loan);
    ampi_exchange_sent(x, MACHINE_DONE);
    return false;
}

void ampi_exchange_direct_fail(struct ampi_exchange *x)
{
    const struct ampi_coll_remote *remote = x->slot->state->remote;
    struct ampi_exchange_loan **link = &x->loans;

    while (*link)
        if (ampi_failed_is(remote->proc_id[(*link)->proc])) {
            *link = (*link)->next;
            x->n_sending--;
        } else {
            link = &(*link)->next;
        }
}

/* ---- The receiver ---- */

static void answer(struct ampi_exchange_direct *direct, bool is_refused)
{
    direct->answer.flags = is_refused ? AMPI_AM_FAILED : 0;
    ampi_procs_post((int)direct->proc_id, (int)direct->pe_id, &direct->answer, NULL, 0);
    free(direct);
}

int ampi_exchange_direct_copy(const struct ampi_exchange_direct *direct, uint64_t from, void *to,
                              size_t n_bytes_all)
{
    struct machine_piece own = {(uintptr_t)to, n_bytes_all};
    struct machine_piece other = {(uintptr_t)from, n_bytes_all};
    int result = ampi_exchange_direct_reaches((int)direct->proc_id) ? MACHINE_DONE : MACHINE_FAILED;

    while (own.n_bytes > 0 && result == MACHINE_DONE) {
        size_t n_bytes = 0;
        result = ampi_machine->rma->copy((int)direct->proc_id, false, &own, 1, &other, 1, &n_bytes);
        own.address += n_bytes, own.n_bytes -= n_bytes;
        other.address += n_bytes, other.n_bytes -= n_bytes;
    }
    return result;
}

int ampi_exchange_direct_fetch(struct ampi_exchange_direct *direct, void *to)
{
    int result = ampi_exchange_direct_copy(direct, direct->address, to, (size_t)direct->n_bytes);

    answer(direct, result == MACHINE_FAILED);
    return result;
}

void ampi_exchange_direct_answer(struct ampi_exchange_direct *direct, int result)
{
    answer(direct, result == MACHINE_FAILED);
}

struct ampi_exchange_direct *ampi_exchange_direct_cut(const void *bytes, size_t *n_bytes)
{
    struct ampi_exchange_direct *direct = base_malloc(sizeof *direct, "a message between processes");

    *n_bytes -= sizeof *direct;
    return memcpy(direct, (const char *)bytes + *n_bytes, sizeof *direct);
}

void ampi_exchange_direct_drop(struct ampi_exchange_direct *direct)
{
    answer(direct, false);
}

void ampi_exchange_direct_connect(void)
{
    ampi_procs_set_handler(AMPI_AM_COLL_COPIED, handle_copied);
}
