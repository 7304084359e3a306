/* SPDX-License-Identifier: BSD-3-Clause
 *
 * prequest.c: the host's part in rounds of partitioned messages that kernels send. See prequest.h.
 */
#include "ampi/p2p/partitioned/prequest.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "ampi/datatype/buffer.h"
#include "ampi/p2p/p2p.h"
#include "ampi/p2p/partitioned/partitioned.h"
#include "base/log.h"

/* Maximum number of a prequest's moves in progress. Partitions that are marked meanwhile are gathered: neighbors
 * become one move. */
#define COPIES_MAX 8

/* Partitions that the PE copies in a direct round. */
struct part_copy {
    struct gpu_move move;
    struct ampi_prequest *prequest;
    int first, n;           /* the partitions */
    struct part_copy *next; /* of those that are not in use */
};

void ampi_prequest_set_state(const struct ampi_prequest *prequest, bool is_direct, bool is_active)
{
    const struct ampi_partitioned *end = prequest->request->u.extra;

    for (int i = 0; i < prequest->n_copies; i++)
        heddle_prequest_store(&prequest->shared[i].state,
                              HEDDLE_PREQUEST_STATE(end->round, is_direct, is_active));
}

void ampi_prequest_set_magic(const struct ampi_prequest *prequest, uint32_t magic)
{
    for (int i = 0; i < HEDDLE_PREQUEST_COPIES; i++) /* calls for partitions that do not exist read any */
        heddle_prequest_store(&prequest->shared[i].magic, magic);
}

/* ---- Wrong calls of kernels ---- */

static BASE_COLD int describe_fault(enum HEDDLE_Prequest_fault fault, int partition, int n_partitions,
                                    char *text, size_t text_bytes)
{
    switch (fault) {
    case HEDDLE_PREQUEST_RANGE:
        snprintf(text, text_bytes, "a kernel named partition %d, which is not one of 0 to %d", partition,
                 n_partitions - 1);
        return MPI_ERR_ARG;
    case HEDDLE_PREQUEST_TWICE:
        snprintf(text, text_bytes, "a kernel marked partition %d ready, which was ready already", partition);
        return MPI_ERR_ARG;
    case HEDDLE_PREQUEST_INACTIVE:
        snprintf(text, text_bytes, "a kernel marked partition %d ready, but the request was not active",
                 partition);
        return MPI_ERR_REQUEST;
    case HEDDLE_PREQUEST_NO_SEND:
        snprintf(text, text_bytes, "a kernel marked partition %d of a receive ready", partition);
        return MPI_ERR_REQUEST;
    default:
        snprintf(text, text_bytes, "a kernel asked whether partition %d of a send had arrived", partition);
        return MPI_ERR_REQUEST;
    }
}

static int n_partitions_of(const struct ampi_prequest *prequest)
{
    return ((const struct ampi_partitioned *)prequest->request->u.extra)->n_partitions;
}

int ampi_prequest_take_fault(struct ampi_prequest *prequest, char *text, size_t text_bytes)
{
    uint64_t fault = __atomic_load_n(&prequest->shared->fault, __ATOMIC_ACQUIRE);

    if (BASE_LIKELY(fault == 0))
        return MPI_SUCCESS;
    prequest->shared->fault = 0;
    if (prequest->error) /* the round has failed already, before its kernel ended */
        return MPI_SUCCESS;
    return describe_fault((enum HEDDLE_Prequest_fault)(fault >> 32), (int)(uint32_t)fault,
                          n_partitions_of(prequest), text, text_bytes);
}

/* The calls that return these classes have no room for a text. */
static BASE_COLD void log_fault(const struct ampi_prequest *prequest, const char *text)
{
    base_log("rank %d: MPIX_Prequest: %s", ampi_rank_number(prequest->request->owner), text);
}

static int report_fault(struct ampi_prequest *prequest)
{
    char text[128];
    int error = ampi_prequest_take_fault(prequest, text, sizeof text);

    if (BASE_UNLIKELY(error))
        log_fault(prequest, text);
    return error;
}

/* Records a fault that the PE has found. Returns its error class. */
static BASE_COLD int blame(struct ampi_prequest *prequest, enum HEDDLE_Prequest_fault fault, int partition)
{
    char text[128];
    int error = describe_fault(fault, partition, n_partitions_of(prequest), text, sizeof text);

    log_fault(prequest, text);
    return error;
}

int ampi_prequest_check_start(struct ampi_request *request)
{
    const struct ampi_partitioned *end = request->u.extra;
    char text[128];
    int error = end->prequest ? ampi_prequest_take_fault(end->prequest, text, sizeof text) : MPI_SUCCESS;

    return BASE_LIKELY(!error) ? MPI_SUCCESS : ampi_raise(request->comm, error, "%s", text);
}

/* ---- Pairs ---- */

struct ampi_pair *ampi_pair_create(void)
{
    struct ampi_pair *made = base_calloc(1, sizeof *made, "a partitioned operation");

    atomic_init(&made->n_refs, 2);
    return made;
}

void ampi_pair_unref(struct ampi_pair *pair)
{
    if (pair && atomic_fetch_sub_explicit(&pair->n_refs, 1, memory_order_acq_rel) == 1)
        free(pair);
}

static bool can_be_direct(const struct ampi_partitioned *recv, const struct ampi_pair *pair)
{
    return pair->device >= 0 && recv->n_partitions == pair->n_partitions &&
           ampi_partitioned_bytes(recv) == pair->part_bytes * (size_t)pair->n_partitions &&
           ampi_type_is_block(recv->type, recv->count) &&
           gpu_watch_can_use(pair->device, ampi_partitioned_first(recv), ampi_partitioned_bytes(recv));
}

bool ampi_pair_start_receive(struct ampi_request *request)
{
    struct ampi_partitioned *recv = request->u.extra;
    struct ampi_pair *pair = recv->pair;
    bool is_direct = BASE_UNLIKELY(atomic_load_explicit(&pair->is_wanted, memory_order_acquire)) &&
                     can_be_direct(recv, pair);

    if (is_direct) {
        pair->recv = request;
        pair->to = ampi_partitioned_first(recv);
        pair->arrived = recv->prequest ? heddle_prequest_words_of(recv->prequest->shared) : NULL;
    }
    recv->is_by_kernels = is_direct;
    atomic_store_explicit(&pair->published, recv->round << 1 | is_direct, memory_order_release);
    return is_direct;
}

/* A direct round is over. On the receive's PE. */
static void end_receive(struct ult_wakeup *wakeup)
{
    struct ampi_pair *pair = BASE_CONTAINER(wakeup, struct ampi_pair, over);
    struct ampi_request *request = pair->recv;
    const struct ampi_partitioned *recv = request->u.extra;

    ampi_p2p_fill_status(&request->status, recv->peer_rank, recv->tag, ampi_partitioned_bytes(recv),
                         ampi_partitioned_bytes(recv));
    request->status.MPI_ERROR = pair->error;
    ampi_prequest_end_round(request);
    ampi_request_complete(request);
}

/* ---- A round of a send ---- */

/* Kernels may continue after a round has failed: further marks are neither copied nor errors. */
static void leave_round(const struct ampi_prequest *prequest)
{
    ampi_prequest_set_state(prequest, false, prequest->error != MPI_SUCCESS);
}

/* Completes both requests. The watch is over. */
static void end_direct(struct ampi_prequest *prequest)
{
    struct ampi_request *send = prequest->request;
    struct ampi_pair *pair = ((struct ampi_partitioned *)send->u.extra)->pair;
    struct ult_pe *recv_pe = pair->recv->owner->ult.pe;

    leave_round(prequest);
    send->status.MPI_ERROR = pair->error = prequest->error;
    pair->over.handle = end_receive;
    if (recv_pe == send->owner->ult.pe)
        end_receive(&pair->over);
    else
        ult_post_wakeup(recv_pe, &pair->over);
    ampi_request_complete(send); /* this may free it */
}

void ampi_prequest_free_copies(struct ampi_prequest *prequest)
{
    struct part_copy *copy;

    while ((copy = prequest->free_copies)) {
        prequest->free_copies = copy->next;
        free(copy);
    }
}

static void begin_copies(struct ampi_prequest *prequest);

static void copy_done(struct gpu_move *move, int error)
{
    struct part_copy *copy = BASE_CONTAINER(move, struct part_copy, move);
    struct ampi_prequest *prequest = copy->prequest;
    uint32_t *arrived = prequest->shared->arrived;

    if (BASE_UNLIKELY(error) && !prequest->error)
        prequest->error = ampi_device_error(prequest->request->owner, error);
    for (int i = copy->first; i < copy->first + copy->n && !error && arrived; i++)
        heddle_prequest_store(arrived + i * HEDDLE_PREQUEST_STRIDE(n_partitions_of(prequest)),
                              ampi_prequest_round(prequest->request->u.extra));
    prequest->n_copying--;
    prequest->n_done += copy->n;
    copy->next = prequest->free_copies;
    prequest->free_copies = copy;
    begin_copies(prequest);
}

/* The PE copies partitions of a direct round. */
static void copy_parts(struct ampi_prequest *prequest, int first, int n)
{
    const struct HEDDLE_Prequest *shared = prequest->shared;
    size_t n_bytes = (size_t)n * shared->part_bytes, at = (size_t)first * shared->part_bytes;
    struct part_copy *copy = prequest->free_copies;

    if (copy)
        prequest->free_copies = copy->next;
    else
        copy = base_malloc(sizeof *copy, "a copy of a partition");
    copy->prequest = prequest;
    copy->first = first;
    copy->n = n;
    copy->move = (struct gpu_move){.dst = gpu_bytes(shared->to + at, n_bytes),
                                   .src = gpu_bytes((char *)(uintptr_t)shared->from + at, n_bytes),
                                   .n_bytes = n_bytes,
                                   .done = copy_done};
    prequest->n_copying++;
    gpu_move_start(&copy->move);
}

/* The maximum number of partitions of one move. A kernel that fills the GPU and waits gets only data that
 * the resident kernel can copy. */
static int longest_run(const struct ampi_prequest *prequest)
{
    size_t n_bytes = prequest->shared->part_bytes,
           most = n_bytes % 16 == 0 ? GPU_RESIDENT_MAX : GPU_RESIDENT_MAX / 4;

    if (!gpu_resident_is_there(prequest->watch.device))
        return INT_MAX;
    return n_bytes < most ? (int)(most / n_bytes) : 1;
}

/* Begins to copy gathered partitions. */
static void begin_copies(struct ampi_prequest *prequest)
{
    int longest;

    if (prequest->n_gathered == 0 || prequest->n_copying >= COPIES_MAX || prequest->error)
        return;
    longest = longest_run(prequest);
    while (prequest->n_gathered > 0 && prequest->n_copying < COPIES_MAX) {
        int first = prequest->next_gathered, n = 0;
        while (!prequest->is_gathered[first])
            first++;
        while (n < longest && n < prequest->n_gathered && prequest->is_gathered[first + n])
            prequest->is_gathered[first + n++] = false;
        prequest->next_gathered = first + n;
        prequest->n_gathered -= n;
        copy_parts(prequest, first, n);
    }
}

/* Adds a partition of a direct round to those that the PE copies. */
static void gather(struct ampi_prequest *prequest, int partition)
{
    prequest->is_gathered[partition] = true;
    if (prequest->n_gathered++ == 0 || partition < prequest->next_gathered)
        prequest->next_gathered = partition;
}

void ampi_prequest_learn(struct ampi_prequest *prequest)
{
    const struct ampi_partitioned *send = prequest->request->u.extra;
    uint64_t published;

    if (prequest->is_known)
        return;
    published = atomic_load_explicit(&send->pair->published, memory_order_acquire);
    if (published >> 1 != send->round)
        return;
    prequest->is_known = true;
    prequest->is_direct = published & 1;
    if (prequest->is_direct) {
        for (int i = 0; i < prequest->n_copies; i++) {
            prequest->shared[i].to = send->pair->to;
            prequest->shared[i].arrived = send->pair->arrived;
        }
        ampi_prequest_set_state(prequest, true, true);
        for (int i = 0; i < send->n_partitions && send->n_ready > 0; i++)
            if (send->is_ready[i])
                gather(prequest, i);
        begin_copies(prequest);
    }
    while (prequest->preparing) {
        struct ult *u = prequest->preparing->u;
        prequest->preparing = prequest->preparing->next;
        ult_ready(u);
    }
}

/* A partition that was not ready has been marked. */
static void note_ready(struct ampi_prequest *prequest, int partition, bool is_copied)
{
    struct ampi_partitioned *send = prequest->request->u.extra;

    if (BASE_UNLIKELY(send->is_ready[partition])) { /* by MPI_Pready, which has not seen the kernel's mark */
        if (!prequest->error)
            prequest->error = blame(prequest, HEDDLE_PREQUEST_TWICE, partition);
        return;
    }
    send->is_ready[partition] = true;
    send->n_ready++;
    if (is_copied)
        prequest->n_done++;
    else if (prequest->is_direct)
        gather(prequest, partition);
}

bool ampi_prequest_ready(struct ampi_request *request, int partition)
{
    const struct ampi_partitioned *send = request->u.extra;
    uint32_t *mark = &send->prequest->shared->words[partition];

    if (!ampi_marks_are_near(&send->prequest->marks)) {
        note_ready(send->prequest, partition, false);
        return true;
    }
    if (heddle_prequest_load(mark) >> 2 == ampi_prequest_round(send))
        return false;
    heddle_prequest_store(mark, ampi_prequest_round(send) << 2 | HEDDLE_PREQUEST_HANDED);
    note_ready(send->prequest, partition, false);
    return true;
}

void ampi_prequest_flush(const struct ampi_request *send)
{
    begin_copies(((const struct ampi_partitioned *)send->u.extra)->prequest);
}

bool ampi_prequest_poll(struct gpu_watch *watch, int error)
{
    struct ampi_prequest *prequest = BASE_CONTAINER(watch, struct ampi_prequest, watch);
    struct ampi_request *request = prequest->request;
    const struct ampi_partitioned *send = request->u.extra;

    ampi_prequest_learn(prequest);
    if (send->n_ready < send->n_partitions && !error && !prequest->error)
        error = ampi_marks_poll(prequest, note_ready);
    begin_copies(prequest);
    if (BASE_UNLIKELY(error) && !prequest->error)
        prequest->error = ampi_device_error(request->owner, error);
    if (BASE_UNLIKELY(__atomic_load_n(&prequest->shared->fault, __ATOMIC_RELAXED) != 0) && !prequest->error)
        prequest->error = report_fault(prequest);
    if (!prequest->is_known || prequest->n_copying > 0 || prequest->marks.is_fetching ||
        (prequest->n_gathered > 0 && !prequest->error))
        return true;
    if (prequest->is_direct ? prequest->n_done < send->n_partitions : send->n_ready < send->n_partitions)
        if (BASE_LIKELY(!prequest->error))
            return true;
    prequest->is_watched = false;
    if (prequest->is_direct)
        end_direct(prequest);
    else
        ampi_partitioned_send(request); /* after an error, too: the receive waits for it */
    return false;
}

void ampi_prequest_start(struct ampi_request *request)
{
    struct ampi_partitioned *end = request->u.extra;
    struct ampi_prequest *prequest = end->prequest;

    if (!end->is_send) {
        ampi_prequest_set_state(prequest, false, true);
        return;
    }
    prequest->error = MPI_SUCCESS;
    prequest->n_done = prequest->n_copying = 0;
    if (BASE_UNLIKELY(prequest->n_gathered > 0)) /* by a round that has failed */
        memset(prequest->is_gathered, 0, (size_t)end->n_partitions * sizeof *prequest->is_gathered);
    prequest->n_gathered = 0;
    ampi_marks_start(prequest);
    prequest->is_direct = false;
    prequest->is_known = !end->pair;
    ampi_prequest_set_state(prequest, false, true);
    if (end->n_partitions == 0) /* the message is on its way */
        return;
    prequest->is_watched = true;
    gpu_watch_begin(&prequest->watch);
}

void ampi_prequest_end_round(struct ampi_request *request)
{
    const struct ampi_partitioned *end = request->u.extra;
    struct ampi_prequest *prequest = end->prequest;
    int error;

    if (BASE_LIKELY(!prequest))
        return;
    for (int i = 0; i < prequest->n_copies && !end->is_send; i++)
        heddle_prequest_store(&prequest->shared[i].received, ampi_prequest_round(end));
    leave_round(prequest);
    error = end->is_send ? prequest->error : report_fault(prequest);
    if (request->status.MPI_ERROR == MPI_SUCCESS)
        request->status.MPI_ERROR = error;
}

bool ampi_prequest_has_arrived(const struct ampi_request *request, int partition)
{
    const struct ampi_partitioned *recv = request->u.extra;

    return recv->is_by_kernels && recv->prequest &&
           heddle_prequest_load(heddle_prequest_words_of(recv->prequest->shared) +
                                partition * HEDDLE_PREQUEST_STRIDE(recv->n_partitions)) ==
               ampi_prequest_round(recv);
}
