/* SPDX-License-Identifier: BSD-3-Clause
 *
 * two_phase.c: collective reads and writes, inside a process. See two_phase.h.
 *
 * Each rank leaves its operation in the file's shared state. The last one to arrive starts the transfer of all pieces
 * (two_phase_merge.h); when that is over, its PE distributes the results. Operations have numbers, so several may be in
 * progress.
 *
 * Between processes nothing is exchanged (two_phase_exchange.h) unless a hint asks for it: on the file system of one node, each
 * process writing its own pieces is faster than sending them to another one first.
 *
 * A rank's pieces are left out, and the rank transfers them alone, if they are in GPU memory, or if their offsets do not
 * ascend.
 */
#include <errno.h>
#include <pthread.h>

#include "ampi/io/two_phase_exchange.h"
#include "ampi/io/two_phase_merge.h"
#include "ampi/io/two_phase.h"
#include "base/log.h"

/* Larger windows save no time: a system call's cost is small beside the copy of this size. */
#define WINDOW_MAX ((size_t)4 << 20)
#define WINDOW_MIN ((size_t)64 << 10)

/* An operation in progress. */
struct round {
    struct round *next; /* next in the file's list */
    uint32_t number;
    int n_arrived;                /* ranks */
    struct ampi_disk_hints hints; /* of the last one; those of collective buffering are equal at all */
    struct ampi_merge merge;      /* of those with pieces; a source's owner is the struct ampi_disk_op */
};

struct ampi_two_phase {
    struct ampi_comm_shared *comm;
    struct ampi_two_phase_procs *procs; /* NULL: all ranks are in this process */
    int n_local;                        /* ranks of this process */
    pthread_mutex_t lock;               /* guards the list, and the rounds until all have arrived */
    struct round *rounds;               /* oldest first */
    uint32_t *n_started;                /* by rank: its operations; used on its PE */
};

struct ampi_two_phase *ampi_two_phase_create(struct ampi_comm_shared *comm)
{
    struct ampi_two_phase *shared = calloc(1, sizeof *shared);

    if (!shared)
        return NULL;
    shared->n_started = calloc((size_t)comm->side[0].n_ranks, sizeof *shared->n_started);
    if (!shared->n_started) {
        free(shared);
        return NULL;
    }
    shared->comm = comm;
    shared->procs = ampi_two_phase_find_procs(comm);
    shared->n_local = comm->side[0].layout->n_local;
    pthread_mutex_init(&shared->lock, NULL);
    return shared;
}

void ampi_two_phase_destroy(struct ampi_two_phase *shared)
{
    pthread_mutex_destroy(&shared->lock);
    free(shared->n_started);
    free(shared->procs);
    free(shared);
}

/* ---- Completion ---- */

/* Completes the operations of a PE, which are linked by work.next, from this one on. */
static void complete_chain(struct ampi_disk_op *op)
{
    while (op) {
        struct ult_offload *next = op->work.next;
        op->complete(op);
        op = next ? BASE_CONTAINER(next, struct ampi_disk_op, work) : NULL;
    }
}

static void handle_chain(struct ult_wakeup *wakeup)
{
    complete_chain(BASE_CONTAINER(wakeup, struct ampi_disk_op, work.wakeup));
}

/* Completes all operations, each on its PE. */
static void complete_all(const struct ampi_merge *merge)
{
    struct ult_pe *self = ult_self()->pe;
    size_t n_pes = (size_t)ult_pe_count();
    struct ampi_disk_op **firsts = base_calloc(n_pes, sizeof(*firsts), "a collective access to a file");

    for (size_t i = merge->n_sources; i-- > 0;) {
        struct ampi_disk_op *op = merge->sources[i].owner, **first = &firsts[ult_pe_id(op->work.pe)];
        op->work.next = *first ? &(*first)->work : NULL;
        *first = op;
    }
    for (size_t i = 0; i < n_pes; i++) {
        if (firsts[i] && firsts[i]->work.pe == self) {
            complete_chain(firsts[i]);
        } else if (firsts[i]) {
            firsts[i]->work.wakeup.handle = handle_chain;
            ult_post_wakeup(firsts[i]->work.pe, &firsts[i]->work.wakeup);
        }
    }
    free(firsts);
}

static void end_round(struct ampi_merge *merge)
{
    for (size_t i = 0; i < merge->n_sources; i++) {
        const struct ampi_merge_source *source = &merge->sources[i];
        struct ampi_disk_op *op = source->owner;
        op->done = ampi_merge_count(merge, source);
        op->error = op->done < source->n_bytes ? merge->error : 0;
    }
    complete_all(merge);
    free(merge->sources);
    free(BASE_CONTAINER(merge, struct round, merge));
}

/* ---- Arrival ---- */

/* Finds the rank's next operation, which is new if it is the first rank. With the lock. */
static struct round *find_round(struct ampi_two_phase *shared, uint32_t number, const struct ampi_disk_op *op)
{
    static const char what[] = "a collective access to a file";
    struct round **link = &shared->rounds, *round;

    while (*link && (*link)->number != number)
        link = &(*link)->next;
    if (*link)
        return *link;
    round = *link = base_calloc(1, sizeof *round, what);
    round->number = number;
    round->merge = (struct ampi_merge){.fd = op->fd, .is_write = op->is_write, .done = end_round};
    round->merge.sources = base_calloc((size_t)shared->n_local, sizeof *round->merge.sources, what);
    return round;
}

static void remove_round(struct ampi_two_phase *shared, struct round *round)
{
    struct round **link = &shared->rounds;

    while (*link != round)
        link = &(*link)->next;
    *link = round->next;
}

/* The rank arrives at its next operation; source: its pieces, or NULL. The last one starts the transfer. */
static void arrive(struct ampi_two_phase *shared, int rank, const struct ampi_disk_op *op,
                   const struct ampi_merge_source *source)
{
    bool must_exchange = (op->is_write ? op->hints->cb_write : op->hints->cb_read) == AMPI_DISK_ENABLE;
    struct round *round;
    bool is_last;

    pthread_mutex_lock(&shared->lock);
    round = find_round(shared, shared->n_started[rank]++, op);
    if (source)
        round->merge.sources[round->merge.n_sources++] = *source;
    is_last = ++round->n_arrived == shared->n_local;
    if (is_last) {
        round->hints = *op->hints;
        remove_round(shared, round);
    }
    pthread_mutex_unlock(&shared->lock);
    if (!is_last)
        return;
    round->merge.window_bytes = base_round_up(
        base_max_u64(WINDOW_MIN, base_min_u64(WINDOW_MAX, round->hints.cb_buffer_bytes)), WINDOW_MIN);
    if (shared->procs && must_exchange)
        ampi_two_phase_exchange(shared->procs, shared->comm, round->number, &round->hints, &round->merge);
    else
        ampi_merge_start(&round->merge);
}

/* Describes the pieces of an operation. False: it has none, or they cannot be merged with others. */
static bool describe(struct ampi_disk_op *op, struct ampi_merge_source *source_out)
{
    const struct ampi_disk_piece *pieces = op->pieces;
    size_t n_bytes = 0;
    MPI_Offset to = 0;

    for (size_t i = 0; i < op->n_pieces; i++) {
        if (pieces[i].n_bytes == 0 || pieces[i].at < to)
            return false;
        to = pieces[i].at + (MPI_Offset)pieces[i].n_bytes;
        n_bytes += pieces[i].n_bytes;
    }
    if (n_bytes == 0 || ampi_disk_has_device(op))
        return false;
    *source_out = (struct ampi_merge_source){pieces, op->n_pieces, pieces[0].at, to, n_bytes, op};
    return true;
}

void ampi_two_phase_start(struct ampi_two_phase *shared, struct ampi_comm *comm, struct ampi_disk_op *op)
{
    struct ampi_merge_source source;
    enum ampi_disk_choice choice = op->is_write ? op->hints->cb_write : op->hints->cb_read;
    bool is_merged = choice != AMPI_DISK_DISABLE && describe(op, &source);
    op->work.pe = ult_self()->pe;
    if (choice != AMPI_DISK_DISABLE)
        arrive(shared, comm->rank, op, is_merged ? &source : NULL);
    if (is_merged)
        return; /* the operation may be over */
    if (op->n_pieces > 0)
        ampi_disk_start(op);
    else
        op->complete(op);
}

void ampi_two_phase_run(struct ampi_two_phase *shared, struct ampi_comm *comm, struct ampi_disk_op *op)
{
    ampi_disk_wait_begin(op);
    ampi_two_phase_start(shared, comm, op);
    ampi_disk_wait_end(op);
}

/* ---- Reports ---- */

bool ampi_two_phase_find_waiting(struct ampi_two_phase *shared, int rank, uint32_t *number_out)
{
    bool is_found = false;

    pthread_mutex_lock(&shared->lock);
    for (const struct round *round = shared->rounds; round && !is_found; round = round->next)
        if (ampi_two_phase_has_started(shared, rank, round->number)) {
            *number_out = round->number;
            is_found = true;
        }
    pthread_mutex_unlock(&shared->lock);
    return is_found;
}

bool ampi_two_phase_has_started(const struct ampi_two_phase *shared, int rank, uint32_t number)
{
    return (int32_t)(shared->n_started[rank] - number) > 0;
}
