/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_direct.c: data of exchanges that its receiver copies from the sender's memory (struct machine_rma: one
 * copy by the kernel). The message has the address of the data. The receiver copies it when it awaits the message, and
 * answers; until then the sender's exchange does not end. If the kernel refuses the copy, the answer says so, and the
 * data is sent in another way.
 *
 * Invariant: a receiver answers each such message, or fails. It keeps none that it will not await: those of a
 * communicator that has a failed process, or that it does not know.
 */
#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/between/between.h"
#include "ampi/comm/contexts.h"
#include "ampi/procs/procs.h"

/* The data of such a message. */
struct ampi_exchange_direct {
    uint64_t address; /* of the data, in the sender */
    uint64_t n_bytes;
    uint32_t proc_id; /* the sender */
    uint32_t pe_id;
    struct ampi_am_header answer; /* its cookie is the loan's number */
};

/* Data of this process that another one has not copied yet. */
struct ampi_exchange_loan {
    struct ampi_exchange_loan *next; /* next in x->loans */
    int proc;                        /* index of the receiver's process */
    struct ampi_am_header am;        /* of a message that has the data */
    struct ampi_exchange_direct direct;
};

/* ---- The sender ---- */

bool ampi_exchange_direct_reaches(int proc_id)
{
    return ampi_machine->rma && ampi_machine->rma->access(proc_id) == MACHINE_DIRECT_ACCESS;
}

void ampi_exchange_direct_send(struct ampi_exchange *x, int proc, const struct ampi_am_header *am,
                               const void *bytes, size_t n_bytes)
{
    const struct ampi_coll_remote *remote = x->slot->state->remote;
    struct ampi_exchange_loan *loan = ampi_exchange_alloc(x, sizeof *loan);
    struct ampi_am_header direct = *am;

    *loan = (struct ampi_exchange_loan){.next = x->loans,
                                        .proc = proc,
                                        .am = *am,
                                        .direct = {.address = (uintptr_t)bytes,
                                                   .n_bytes = n_bytes,
                                                   .proc_id = (uint32_t)ampi_job.proc_id,
                                                   .pe_id = (uint32_t)ult_pe_id(remote->leader),
                                                   .answer = {.kind = AMPI_AM_COLL_COPIED,
                                                              .context_id = am->context_id,
                                                              .seq = am->seq,
                                                              .source = am->source,
                                                              .cookie = ++x->n_loans}}};
    x->loans = loan;
    x->n_sending++;
    direct.flags |= AMPI_AM_DIRECT;
    ampi_exchange_send_bytes(x, proc, &direct, &loan->direct, sizeof loan->direct);
}

/* The kernel has refused the copy: from this memory, or to the receiver's. */
static void send_again(struct ampi_exchange *x, struct ampi_exchange_loan *loan)
{
    size_t n_bytes = (size_t)loan->direct.n_bytes;
    void *bytes = ampi_exchange_alloc(x, n_bytes);

    memcpy(bytes, (const void *)(uintptr_t)loan->direct.address, n_bytes);
    loan->am.flags |= AMPI_AM_AGAIN;
    ampi_exchange_send_data(x, loan->proc, &loan->am, bytes, n_bytes);
}

static bool handle_copied(int pe_id, const struct ampi_am_header *am, const void *header,
                          const struct machine_data *data)
{
    struct ampi_comm_shared *shared = ampi_contexts_find(pe_id, am->context_id);
    struct ampi_exchange *x =
        shared ? ampi_exchange_find(shared->coll->remote, am->seq, (uint32_t)am->source) : NULL;
    struct ampi_exchange_loan **link, *loan;

    if (!x) /* it has ended because a process has failed */
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

/* Returns the machine's result. */
static int copy(const struct ampi_exchange_direct *direct, void *to)
{
    struct machine_piece own = {(uintptr_t)to, direct->n_bytes};
    struct machine_piece other = {direct->address, direct->n_bytes};
    int result = MACHINE_DONE;

    while (own.n_bytes > 0 && result == MACHINE_DONE) {
        size_t n_bytes = 0;
        result = ampi_machine->rma->copy((int)direct->proc_id, false, &own, 1, &other, 1, &n_bytes);
        own.address += n_bytes, own.n_bytes -= n_bytes;
        other.address += n_bytes, other.n_bytes -= n_bytes;
    }
    return result;
}

size_t ampi_exchange_direct_bytes(const struct ampi_exchange_direct *direct)
{
    return direct->n_bytes;
}

int ampi_exchange_direct_fetch(struct ampi_exchange_direct *direct, void *to)
{
    int result = copy(direct, to);

    answer(direct, result == MACHINE_FAILED);
    return result;
}

void ampi_exchange_direct_drop(struct ampi_exchange_direct *direct)
{
    answer(direct, false);
}

void ampi_exchange_direct_connect(void)
{
    ampi_procs_set_handler(AMPI_AM_COLL_COPIED, handle_copied);
}
