/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shared_pointer.c: the shared file pointer. It is a number in the process of the file's rank 0: ranks of that process add to
 * it directly, others by a message to the PE of rank 0 and its answer.
 *
 *      member                             PE of rank 0
 *      ADD  file, how much, waiter   -->  adds
 *                                    <--  ANSWER  waiter, the value before
 *
 * A number of 64 bits travels in the header's two fields for ranks.
 */
#include "ampi/comm/contexts.h"
#include "ampi/io/file.h"
#include "ampi/p2p/request.h"
#include "ampi/procs/procs.h"

enum message { ADD = 1, ANSWER };

/* A rank that waits for an answer; on its stack. */
struct waiter {
    struct waiter *next; /* in its PE's list */
    int proc;            /* where the answer comes from */
    MPI_Offset value;
    int error;
    struct ampi_request request;
};

static struct waiter *waiters[AMPI_PES_MAX]; /* by PE; each PE uses only its own list */

static void set_value(struct ampi_am_header *am, MPI_Offset value)
{
    am->source = (int32_t)(uint32_t)((uint64_t)value & UINT32_MAX);
    am->dest = (int32_t)(uint32_t)((uint64_t)value >> 32);
}

static MPI_Offset get_value(const struct ampi_am_header *am)
{
    return (MPI_Offset)((uint64_t)(uint32_t)am->source | (uint64_t)(uint32_t)am->dest << 32);
}

/* Takes a waiter off its PE's list; false: it is not there any more. */
static bool take(const struct waiter *waiter, int pe_id)
{
    struct waiter **link = &waiters[pe_id];

    while (*link && *link != waiter)
        link = &(*link)->next;
    if (!*link)
        return false;
    *link = waiter->next;
    return true;
}

static const struct ampi_request_kind pointer_kind = {.name = "shared file pointer"};

/* In another process than rank 0's. */
static int add_there(const struct ampi_file *file, int world_rank, MPI_Offset n, MPI_Offset *before_out)
{
    int pe_id = ult_pe_id(file->owner->ult.pe), dest_pe = ampi_procs_pe_of(world_rank);
    struct waiter me = {.next = waiters[pe_id], .proc = ampi_procs_of_rank(world_rank)};
    struct ampi_am_header am = {.kind = AMPI_AM_FILE,
                                .context_id = file->shared->comm->context_id,
                                .tag = ADD,
                                .cookie = (uint64_t)(uintptr_t)&me};

    set_value(&am, n);
    ampi_request_init_on_stack(&me.request, file->owner, &pointer_kind, NULL);
    waiters[pe_id] = &me;
    if (dest_pe < 0 || ampi_failed_is(me.proc) || !ampi_procs_post(me.proc, dest_pe, &am, NULL, 0)) {
        take(&me, pe_id);
        return MPI_ERR_PROC_ABORTED;
    }
    ampi_request_await(&me.request);
    *before_out = me.value;
    return me.error;
}

int ampi_file_pointer_add(struct ampi_file *file, MPI_Offset n, MPI_Offset *before_out)
{
    int world_rank = ampi_group_world_rank(file->comm->local->layout->group, 0);

    if (!ampi_job_is_local(world_rank))
        return add_there(file, world_rank, n, before_out);
    *before_out = atomic_fetch_add_explicit(&file->shared->pointer, n, memory_order_acq_rel);
    return MPI_SUCCESS;
}

void ampi_file_pointer_set(struct ampi_file *file, MPI_Offset value)
{
    atomic_store_explicit(&file->shared->pointer, value, memory_order_release);
}

/* ---- Messages ---- */

static void answer_add(const struct ampi_am_header *am, int pe_id)
{
    struct ampi_comm_shared *comm = ampi_contexts_find(pe_id, am->context_id);
    struct ampi_am_header answer = *am;

    answer.tag = ANSWER;
    answer.seq = MPI_ERR_FILE;
    if (comm && comm->file) {
        answer.seq = MPI_SUCCESS;
        set_value(&answer,
                  atomic_fetch_add_explicit(&comm->file->pointer, get_value(am), memory_order_acq_rel));
    }
    ampi_procs_post((int)am->src_proc, am->src_pe, &answer, NULL, 0);
}

static void handle_answer(const struct ampi_am_header *am, int pe_id)
{
    struct waiter *waiter = (struct waiter *)(uintptr_t)am->cookie;

    if (!take(waiter, pe_id))
        return;
    waiter->value = get_value(am);
    waiter->error = (int)am->seq;
    ampi_request_complete(&waiter->request);
}

static bool handle(int pe_id, const struct ampi_am_header *am, const void *header,
                   const struct machine_data *data)
{
    (void)header;
    (void)data;
    if (am->tag == ADD)
        answer_add(am, pe_id);
    else
        handle_answer(am, pe_id);
    return false;
}

/* A process has failed: it does not answer any more. */
static void forget(int pe_id, int proc_id)
{
    for (struct waiter **link = &waiters[pe_id]; *link;) {
        struct waiter *waiter = *link;
        if (waiter->proc != proc_id) {
            link = &waiter->next;
            continue;
        }
        *link = waiter->next;
        waiter->error = MPI_ERR_PROC_ABORTED;
        ampi_request_complete(&waiter->request);
    }
}

void ampi_io_connect(void)
{
    static const struct ampi_procs_client client = {.forget = forget};

    ampi_procs_add_client(&client);
    ampi_procs_set_handler(AMPI_AM_FILE, handle);
}
