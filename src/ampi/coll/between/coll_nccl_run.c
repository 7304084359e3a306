/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_nccl_run.c: polls NCCL's pending work, on the PE between ranks. See coll_nccl.h.
 */
#include "ampi/coll/between/coll_nccl.h"
#include "ampi/coll/between/coll_remote.h"
#include "ampi/procs/procs.h"
#include "base/log.h"

/* Check for async errors every POLLS_PER_CHECK polls. */
#define POLLS_PER_CHECK 256

/* NCCL may detect a failed process earlier than this library: its error waits this long for the report, and
 * then counts as a failed process. */
#define NEWS_NS 1000000000u

/* State of a PE. */
struct nccl_pe {
    struct ult_source source; /* polls the operations */
    struct ampi_coll_nccl_op *first;
};
static struct nccl_pe *pes[AMPI_PES_MAX];

static _Atomic uint64_t n_done;

uint64_t ampi_coll_nccl_count(void)
{
    return atomic_load(&n_done);
}

/* ---- Errors ---- */

/* True if another process has reported that it failed. */
static bool has_remote_failure(const struct ampi_exchange *x)
{
    const struct ampi_exchange_message *message =
        ampi_exchange_bucket(&x->slot->state->remote->table, x->seq, x->series)->arrived;

    while (message && (message->series != x->series || message->seq != x->seq ||
                       (message->tag != AMPI_COLL_NCCL_TAG_BROKEN &&
                        (message->tag != AMPI_COLL_NCCL_TAG_CONNECTED || message->cookie != 0))))
        message = message->next;
    return message != NULL;
}

static bool is_hopeless(const struct ampi_exchange *x)
{
    return x->has_failed || has_remote_failure(x);
}

static void fail(struct ampi_coll_nccl_op *op, int error)
{
    if (op->error)
        return;
    op->error = error;
    op->error_ns = ult_now_ns();
    ampi_coll_nccl_break(op->x);
}

static bool awaits_news(const struct ampi_coll_nccl_op *op)
{
    return gpu_nccl_may_be_loss(op->error) && !op->x->has_failed && ult_now_ns() - op->error_ns < NEWS_NS;
}

/* ---- Operations in the queue ---- */

static void handle_ticket(struct gpu_ticket *ticket, int error)
{
    struct ampi_coll_nccl_op *op = BASE_CONTAINER(ticket, struct ampi_coll_nccl_op, ticket);

    op->is_past = true;
    if (BASE_UNLIKELY(error))
        fail(op, error);
}

/* It is in NCCL's stream: adds the ticket after it. */
static void follow(struct ampi_coll_nccl_op *op)
{
    op->phase = AMPI_COLL_NCCL_RUNS;
    op->is_queued = true;
    op->ticket.handle = handle_ticket;
    gpu_queue_then(op->queue, &op->ticket);
    ampi_coll_nccl_pass(op->x);
}

/* It will never be in the stream. */
static void fail_to_start(struct ampi_coll_nccl_op *op, int error)
{
    op->phase = AMPI_COLL_NCCL_RUNS;
    fail(op, error);
    ampi_coll_nccl_pass(op->x);
}

static void check_start(struct ampi_coll_nccl_op *op, struct gpu_nccl *comm)
{
    int error = gpu_nccl_ask(comm);

    if (error == GPU_NCCL_BUSY && op->n_polls % POLLS_PER_CHECK == 0 && is_hopeless(op->x))
        error = GPU_NCCL_ELSEWHERE;
    if (error == 0)
        follow(op);
    else if (error != GPU_NCCL_BUSY)
        fail_to_start(op, error);
}

static void check_run(struct ampi_coll_nccl_op *op, struct gpu_nccl *comm)
{
    int error;

    if (op->error || op->n_polls % POLLS_PER_CHECK)
        return;
    if (is_hopeless(op->x)) {
        fail(op, GPU_NCCL_ELSEWHERE);
        return;
    }
    error = gpu_nccl_ask(comm);
    if (error && error != GPU_NCCL_BUSY)
        fail(op, error);
}

void ampi_coll_nccl_run(struct ampi_coll_nccl_op *op)
{
    struct gpu_nccl *comm = ampi_coll_nccl_comm(op->x);
    int error = 0;

    op->phase = AMPI_COLL_NCCL_STARTS;
    ampi_coll_nccl_poll(op);
    op->queue = gpu_nccl_queue(comm, &error);
    if (op->queue)
        error = gpu_nccl_start(comm, op->queue, &op->call);
    if (error == 0)
        follow(op);
    else if (error != GPU_NCCL_BUSY)
        fail_to_start(op, error);
}

/* ---- Polling ---- */

/* Checks an operation; true: its phase is over. */
static bool is_over(struct ampi_coll_nccl_op *op)
{
    struct gpu_nccl *comm = ampi_coll_nccl_comm(op->x);
    bool is_busy = gpu_nccl_state(comm) == GPU_NCCL_BUSY;

    op->n_polls++;
    switch (op->phase) {
    case AMPI_COLL_NCCL_STARTS:
        check_start(op, comm);
        return false;
    case AMPI_COLL_NCCL_RUNS:
        check_run(op, comm);
        /* An aborted communicator is not touched until the aborting thread has ended. */
        return (op->is_past || !op->is_queued) &&
               (!op->error || (gpu_nccl_state(comm) != GPU_NCCL_BUSY && !awaits_news(op)));
    case AMPI_COLL_NCCL_CONNECTS:
        if (is_busy && op->n_polls % POLLS_PER_CHECK == 0 && is_hopeless(op->x))
            gpu_nccl_cancel(comm);
        return !is_busy;
    default:
        return !is_busy;
    }
}

/* Ending an operation may begin others. */
static int poll_all(struct ult_source *source)
{
    struct nccl_pe *pe = BASE_CONTAINER(source, struct nccl_pe, source);
    struct ampi_coll_nccl_op *list = pe->first, *next;
    int n_over = 0;

    pe->first = NULL;
    for (; list; list = next) {
        next = list->next;
        if (is_over(list)) {
            source->pending--;
            n_over++;
            if (list->phase == AMPI_COLL_NCCL_RUNS && !list->error)
                atomic_fetch_add(&n_done, 1);
            ampi_exchange_go_on(list->x);
        } else {
            list->next = pe->first;
            pe->first = list;
        }
    }
    return n_over;
}

static BASE_COLD struct nccl_pe *make_pe(struct ult_pe *pe)
{
    struct nccl_pe *made = base_calloc(1, sizeof *made, "a PE's state of NCCL");

    made->source = (struct ult_source){.poll = poll_all, .fd = -1};
    ult_pe_add_source(pe, &made->source);
    return made;
}

void ampi_coll_nccl_poll(struct ampi_coll_nccl_op *op)
{
    struct ult_pe *self = ult_self()->pe;
    struct nccl_pe **pe = &pes[ult_pe_id(self)];

    if (!*pe)
        *pe = make_pe(self);
    op->n_polls = 0;
    op->next = (*pe)->first;
    (*pe)->first = op;
    (*pe)->source.pending++;
    ampi_exchange_hold(op->x);
}
