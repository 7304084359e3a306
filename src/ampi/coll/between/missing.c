/* SPDX-License-Identifier: BSD-3-Clause
 *
 * missing.c: asks other processes which of their members have not entered a collective. See missing.h.
 *
 * A process knows only of its own members whether they have entered. When the job is deadlocked (procs/termination.c) and before it
 * prints its ranks, it asks the other processes of each communicator on which its members wait for a collective. No rank runs
 * then in any process, so the tables of all PEs may be read.
 *
 *      question   context_id, source, seq: the collective (source: number of a persistent one); AMPI_AM_SIDE: on side 1; cookie:
 *                 number of the question
 *      answer     AMPI_AM_DONE; cookie; the missing members (struct ampi_coll_absent); or AMPI_AM_GONE: all of the process
 *
 * A job may go on after a report (a verdict is void then), and ask again: the earlier answers are dropped, also if they come late.
 */
#include "ampi/coll/between/missing.h"

#include <stdlib.h>

#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/engine/series.h"
#include "ampi/comm/contexts.h"
#include "base/log.h"

/* Members of all communicators that are asked about, and their number: others are left out of the report. */
#define MEMBERS_MAX 4000000
#define QUESTIONS_MAX 1000

struct question {
    const struct ampi_comm_side *side;
    uint32_t series;                 /* number of the persistent collective; 0: another one */
    uint32_t seq;                    /* number of the collective, or of its start */
    struct ampi_coll_absent *absent; /* as returned by ampi_coll_missing */
};

static struct {
    struct question questions[QUESTIONS_MAX];
    int n;
    uint64_t first;   /* number of the first one: all earlier reports have asked so many */
    size_t n_members; /* of all sides */
} asked;

/* NULL: it belongs to another process. It may have freed the handle, which lasts as long as the communicator. */
static const struct ampi_comm *local_member(const struct ampi_comm_side *side, int i)
{
    return side->layout->pe_of[i] != AMPI_PE_REMOTE ? &side->handles[i] : NULL;
}

/* ---- The process that asks ---- */

const struct ampi_coll_absent *ampi_coll_missing(const struct ampi_comm_side *side, uint32_t series,
                                                 uint32_t seq)
{
    for (int i = 0; i < asked.n; i++) {
        const struct question *question = &asked.questions[i];
        if (question->side == side && question->series == series && question->seq == seq)
            return question->absent;
    }
    return NULL;
}

/* Finds the oldest collective that a member of this process waits for. Members that have entered it leave it together. */
static bool find_pending(const struct ampi_comm_side *side, uint32_t *seq_out)
{
    for (int i = 0; i < side->n_ranks; i++) {
        const struct ampi_comm *handle = local_member(side, i);
        for (uint32_t back = AMPI_COLL_SLOTS; handle && back > 0; back--)
            if (back <= handle->coll_seq &&
                handle->coll_pending >> (handle->coll_seq - back) % AMPI_COLL_SLOTS & 1) {
                *seq_out = handle->coll_seq - back;
                return true;
            }
    }
    return false;
}

static int ask_side(const struct ampi_comm_shared *shared, int which, uint32_t series, uint32_t seq)
{
    const struct ampi_coll_remote *remote = shared->coll->remote;
    const struct ampi_comm_side *side = &shared->side[which];
    size_t n_bytes = (size_t)side->n_ranks * sizeof(struct ampi_coll_absent);
    struct question *question = &asked.questions[asked.n];
    int n_asked = 0;

    if (asked.n == QUESTIONS_MAX || (size_t)side->n_ranks > MEMBERS_MAX - asked.n_members)
        return 0;
    asked.n_members += (size_t)side->n_ranks;
    *question = (struct question){side, series, seq, base_malloc(n_bytes, "a report")};
    memset(question->absent, -1, n_bytes);
    for (int i = 0; i < remote->n_procs; i++) {
        struct ampi_am_header am = {.kind = AMPI_AM_MISSING,
                                    .flags = which ? AMPI_AM_SIDE : 0,
                                    .context_id = shared->context_id,
                                    .source = (int32_t)series,
                                    .seq = seq,
                                    .cookie = asked.first + (uint64_t)asked.n};
        if (i != remote->own && remote->sides[i] >> which & 1 && ampi_procs_is_own(remote->proc_id[i]))
            n_asked += ampi_procs_post(remote->proc_id[i], 0, &am, NULL, 0);
    }
    asked.n++;
    return n_asked;
}

/* Asks about both sides, where there are two. */
static int ask_sides(const struct ampi_comm_shared *shared, uint32_t series, uint32_t seq)
{
    int n_asked = 0;

    for (int side = 0; side <= shared->is_inter; side++)
        if (!ampi_coll_missing(&shared->side[side], series, seq))
            n_asked += ask_side(shared, side, series, seq);
    return n_asked;
}

static void ask(struct ampi_comm_shared *shared, void *arg)
{
    struct ampi_coll_start_name *pending;
    int *n_asked = arg;
    uint32_t seq;

    if (!shared->coll || !shared->coll->remote)
        return;
    for (int i = 0; i <= shared->is_inter; i++)
        if (find_pending(&shared->side[i], &seq))
            *n_asked += ask_sides(shared, 0, seq);
    pending = ampi_coll_series_find_pending(shared->coll);
    for (int i = 0; pending[i].number > 0; i++)
        *n_asked += ask_sides(shared, pending[i].number, pending[i].seq);
    free(pending);
}

int ampi_coll_missing_ask(void)
{
    int n_asked = 0;

    for (int i = 0; i < asked.n; i++)
        free(asked.questions[i].absent);
    asked.first += (uint64_t)asked.n;
    asked.n = 0;
    asked.n_members = 0;
    ampi_contexts_each(ask, &n_asked);
    return n_asked;
}

/* All members of that process have freed the communicator, and have not entered the collective. Spawned ones have other numbers in reports,
 * which this process may not know. */
static void take_gone(const struct question *question, int proc_id)
{
    const struct ampi_comm_side *side = question->side;

    for (int i = 0; i < side->n_ranks; i++) {
        int world_rank = ampi_group_world_rank(side->layout->group, i);
        if (!ampi_job_is_spawned(world_rank) && ampi_procs_of_rank(world_rank) == proc_id)
            question->absent[i] = (struct ampi_coll_absent){i, world_rank, 0};
    }
}

static void take_answer(const struct ampi_am_header *am, const struct ampi_coll_absent *missing, size_t n)
{
    const struct question *question;

    if (am->cookie < asked.first) /* late */
        return;
    question = &asked.questions[am->cookie - asked.first];
    if (am->flags & AMPI_AM_GONE)
        take_gone(question, (int)am->src_proc);
    for (size_t i = 0; i < n; i++)
        question->absent[missing[i].member] = missing[i];
    ampi_procs_answered();
}

/* ---- The process that answers ---- */

static bool is_missing(const struct ampi_comm *handle, uint32_t series, uint32_t seq)
{
    return series > 0 ? ampi_coll_series_lacks(handle, series, seq) : (int32_t)(handle->coll_seq - seq) <= 0;
}

/* A process that does not know the communicator any more may name no members. */
static void answer(const struct ampi_am_header *am)
{
    struct ampi_am_header out = {.kind = AMPI_AM_MISSING, .flags = AMPI_AM_DONE, .cookie = am->cookie};
    const struct ampi_comm_shared *shared = ampi_contexts_find(0, am->context_id);
    const struct ampi_comm_side *side = shared ? &shared->side[am->flags & AMPI_AM_SIDE ? 1 : 0] : NULL;
    struct ampi_coll_absent *missing =
        side ? base_malloc((size_t)side->layout->n_local * sizeof *missing, "a report") : NULL;
    size_t n = 0;

    if (!shared && am->source == 0 && ampi_contexts_are_behind(am->context_id, am->seq))
        out.flags |= AMPI_AM_GONE;
    for (int i = 0; side && i < side->n_ranks; i++) {
        const struct ampi_comm *handle = local_member(side, i);
        if (handle && is_missing(handle, (uint32_t)am->source, am->seq))
            missing[n++] =
                (struct ampi_coll_absent){i, ampi_rank_number(handle->owner), ampi_rank_spawn(handle->owner)};
    }
    ampi_procs_post((int)am->src_proc, 0, &out, missing, n * sizeof *missing);
}

/* ---- Messages ---- */

static void take(const struct ampi_am_header *am, void *bytes, size_t n_bytes)
{
    if (am->flags & AMPI_AM_DONE)
        take_answer(am, bytes, n_bytes / sizeof(struct ampi_coll_absent));
    else
        answer(am);
    free(bytes);
}

static bool handle_message(int pe_id, const struct ampi_am_header *am, const void *header,
                           const struct machine_data *data)
{
    return ampi_procs_take(pe_id, am, data, take);
}

void ampi_coll_missing_connect(void)
{
    ampi_procs_set_handler(AMPI_AM_MISSING, handle_message);
}
