/* SPDX-License-Identifier: BSD-3-Clause
 *
 * livelock.c: see report.h. The processes of a job vote (procs/termination.c).
 */

#include <string.h>

#include "ampi/job/report.h"
#include "ampi/procs/procs.h"
#include "base/log.h"
#include "base/settings.h"

/* A rank's tests and probes. */
struct polls {
    _Atomic unsigned n;
    unsigned n_before;          /* at the start of the time without progress; the watching thread's */
    unsigned n_seen;            /* at the last look; the watching thread's */
    _Atomic(const char *) call; /* the last one */
    _Atomic(const void *) from; /* its return address */
} BASE_CACHE_ALIGNED;

bool ampi_livelock_is_watched;

static struct polls *polls;       /* by index in ampi_job.ranks */
static _Atomic unsigned progress; /* other calls, and tests and probes that found something */
static atomic_bool is_said;

void ampi_livelock_poll(const char *call, const void *from)
{
    const struct ampi_rank *self = ampi_self();
    struct polls *own = self ? &polls[self - ampi_job.ranks] : NULL;

    if (!own)
        return;
    atomic_fetch_add_explicit(&own->n, 1, memory_order_relaxed);
    atomic_store_explicit(&own->call, call, memory_order_relaxed);
    atomic_store_explicit(&own->from, from, memory_order_relaxed);
}

void ampi_livelock_progress(void)
{
    atomic_fetch_add_explicit(&progress, 1, memory_order_relaxed);
}

void ampi_livelock_watch(void)
{
    polls =
        base_calloc_aligned((size_t)(ampi_job.n_local + ampi_job.spawn_room), sizeof *polls, "+check stuck");
    ampi_livelock_is_watched = true;
}

/* True if the rank is blocked in a call of MPI, rather than asleep, and no disk can wake it. */
static bool is_blocked(const struct ampi_rank *rank)
{
    const char *call = __atomic_load_n(&rank->ult.call, __ATOMIC_RELAXED);

    return __atomic_load_n(&rank->ult.state, __ATOMIC_RELAXED) == ULT_BLOCKED &&
           __atomic_load_n(&rank->ult.called_from, __ATOMIC_RELAXED) &&
           __atomic_load_n(&rank->ult.wake_at_ns, __ATOMIC_RELAXED) < ult_now_ns() && call &&
           strncmp(call, "MPI_File", 8) != 0;
}

static void add_line(struct ampi_lines *lines, const struct ampi_rank *rank)
{
    struct polls *own = &polls[rank - ampi_job.ranks];
    struct ampi_line line = {.rank = ampi_rank_number(rank), .count = 1};
    bool has_polled = atomic_load_explicit(&own->n, memory_order_relaxed) != own->n_before;
    char site[AMPI_CALL_SITE_BYTES];

    ampi_line_add(&line, "of %d: %s%s", ampi_rank_world_size(rank),
                  has_polled ? atomic_load_explicit(&own->call, memory_order_relaxed) : rank->ult.call,
                  has_polled ? "" : ": blocked");
    if (ampi_call_site_describe(has_polled ? atomic_load_explicit(&own->from, memory_order_relaxed)
                                           : rank->ult.called_from,
                                site))
        ampi_line_add(&line, "%s called at %s", has_polled ? "," : ";", site);
    ampi_lines_add(lines, &line);
}

void ampi_livelock_report(bool is_first)
{
    struct ampi_lines lines = {0};

    if (atomic_exchange(&is_said, true))
        return;
    if (is_first)
        base_log("suspected livelock: for %ld s all ranks have tested, probed or were blocked, and nothing "
                 "was found",
                 base_settings.stuck_s);
    for (int i = 0; i < atomic_load(&ampi_job.n_present); i++)
        if (__atomic_load_n(&ampi_job.ranks[i].state, __ATOMIC_RELAXED) != AMPI_RANK_ENDED)
            add_line(&lines, &ampi_job.ranks[i]);
    ampi_lines_print(&lines);
}

void ampi_livelock_check(int n_polls)
{
    static unsigned progress_before;
    static int n_quiet;
    unsigned now = atomic_load_explicit(&progress, memory_order_relaxed);
    int n_polling = 0, n_others = 0;

    if (!ampi_livelock_is_watched || atomic_load(&is_said))
        return;
    n_quiet = now == progress_before ? n_quiet + 1 : 0;
    progress_before = now;
    for (int i = 0; i < atomic_load(&ampi_job.n_present); i++) {
        const struct ampi_rank *rank = &ampi_job.ranks[i];
        unsigned n = atomic_load_explicit(&polls[i].n, memory_order_relaxed);
        if (n_quiet == 0)
            polls[i].n_before = n;
        if (n != polls[i].n_seen)
            n_polling++;
        else if (__atomic_load_n(&rank->state, __ATOMIC_RELAXED) != AMPI_RANK_ENDED && !is_blocked(rank))
            n_others++;
        polls[i].n_seen = n;
    }
    if (n_others > 0) /* they compute */
        n_quiet = 0;
    if (n_polling == 0 || n_quiet < n_polls)
        return;
    if (ampi_machine)
        ampi_procs_vote_livelock(now);
    else
        ampi_livelock_report(true);
}
