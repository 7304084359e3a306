/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gate.c: see gate.h.
 */
#include "ampi/object/gate.h"

#include <pthread.h>
#include <unistd.h>

#include "ampi/object/error.h"
#include "base/log.h"
#include "gpu/gpu.h"
#include "gpu_detect.h"
#include "ult/shuffle.h"

bool ampi_gate_is_on;
void (*ampi_gate_watcher)(const char *call, bool is_thread);

/* The calling thread; NULL: it is a main thread, or has not called MPI yet. */
static __thread struct ampi_thread *own __attribute__((tls_model("initial-exec")));

static pthread_key_t end_key; /* its destructor runs when a thread ends */
static pthread_once_t end_once = PTHREAD_ONCE_INIT;

/* ---- Threads of a rank, besides the main thread ---- */

/* Called when the thread ends. */
static void end_thread(void *arg)
{
    struct ampi_thread *thread = arg;
    struct ampi_thread **link = &thread->rank->threads;

    own = NULL;
    if (ampi_job.is_forked)
        return;
    ult_enter_bound(&thread->ult);
    while (*link != thread)
        link = &(*link)->next;
    *link = thread->next;
    if (thread->rank->main_thread == &thread->ult)
        thread->rank->main_thread = NULL;
    ult_leave_bound(&thread->ult);
    ult_unbind(&thread->ult);
    gpu_detect_end_thread();
    free(thread);
    ult_wake_all(); /* the remaining threads may be in a deadlock now: the PEs look again */
}

static void make_end_key(void)
{
    if (pthread_key_create(&end_key, end_thread) != 0)
        base_fatal(1, "the process has no pthread key left for threads that call MPI");
}

static BASE_COLD struct ampi_thread *create(struct ampi_rank *rank)
{
    struct ampi_thread *thread = base_calloc_aligned(1, sizeof *thread, "a thread that calls MPI");

    pthread_once(&end_once, make_end_key);
    if (pthread_setspecific(end_key, thread) != 0)
        base_fatal(1, "out of memory: a thread of rank %d cannot call MPI", ampi_rank_number(rank));
    thread->rank = rank;
    thread->thread = pthread_self();
    thread->tid = gettid();
    ult_bind(&thread->ult, &rank->ult);
    ult_enter_bound(&thread->ult);
    thread->next = rank->threads;
    rank->threads = thread;
    ult_leave_bound(&thread->ult);
    own = thread;
    return thread;
}

static bool may_call(const struct ampi_rank *rank)
{
    return (__atomic_load_n(&rank->state, __ATOMIC_RELAXED) == AMPI_RANK_INITIALIZED ||
            __atomic_load_n(&rank->n_tool_inits, __ATOMIC_RELAXED) > 0) &&
           __atomic_load_n(&rank->threads_level, __ATOMIC_RELAXED) >= MPI_THREAD_SERIALIZED &&
           ult_pe_is_shared(rank->ult.pe);
}

/* The struct of the calling thread, which is not a main thread; created at its first call. NULL: the thread
 * may not call MPI. */
static struct ampi_thread *thread_of(const void *from)
{
    struct ampi_rank *rank;

    if (ampi_job.is_forked)
        return NULL;
    if (own)
        return may_call(own->rank) ? own : NULL;
    rank = ampi_upper.rank_of_thread(from);
    return rank && may_call(rank) ? create(rank) : NULL;
}

/* ---- The gate ---- */

/* Ends the job: two threads of a rank are in MPI at the same time, at the level MPI_THREAD_SERIALIZED. */
static BASE_COLD void refuse_second(struct ampi_rank *rank, struct ult *u, const char *call)
{
    const struct ampi_thread *other = rank->threads;
    const struct ult *inside = &rank->ult;

    for (; other; other = other->next)
        if (&other->ult != u && other->ult.depth > 0)
            inside = &other->ult;
    u->call = call;
    ampi_upper.report_overlap(u, inside);
    ampi_job_abort(MPI_ERR_OTHER);
}

static void count_in(struct ampi_rank *rank, struct ult *u, const char *call)
{
    rank->n_in_calls++;
    if (BASE_UNLIKELY(rank->n_in_calls > 1 && rank->threads_level == MPI_THREAD_SERIALIZED))
        refuse_second(rank, u, call);
}

static struct ult *enter_thread(struct ampi_thread *thread, const char *call, const void *from)
{
    if (!thread)
        return NULL;
    if (BASE_UNLIKELY(ampi_gate_watcher != NULL))
        ampi_gate_watcher(call, true);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &thread->cancel_state);
    ult_enter_bound(&thread->ult);
    thread->ult.called_from = from;
    count_in(thread->rank, &thread->ult, call);
    return &thread->ult;
}

struct ult *ampi_gate_enter(const char *call, const void *from)
{
    struct ult *u = ult_self();

    if (!u)
        return enter_thread(thread_of(from), call, from);
    if (!u->owner)
        return NULL;
    ult_enter(u);
    if (u->depth == 1) {
        u->called_from = from;
        if (BASE_UNLIKELY(ampi_gate_watcher != NULL))
            ampi_gate_watcher(call, u != &((struct ampi_rank *)u->owner)->ult);
        if (BASE_UNLIKELY(ult_shuffles))
            ult_shuffle_preempt();
        if (ult_pe_is_shared(u->pe))
            count_in(u->owner, u, call);
    }
    return u;
}

struct ult *ampi_gate_admit(struct ampi_rank *rank, const char *call, const void *from)
{
    struct ult *entered = enter_thread(own ? own : create(rank), call, from);

    ampi_gate_set_level(rank, MPI_THREAD_SERIALIZED);
    return entered;
}

void ampi_gate_leave(struct ult *entered)
{
    struct ampi_thread *thread;
    struct ampi_rank *rank;

    if (!entered)
        return;
    if (entered->depth > 1) {
        entered->depth--;
        return;
    }
    entered->called_from = NULL;
    rank = entered->owner;
    if (rank->n_in_calls > 0)
        rank->n_in_calls--;
    if (BASE_LIKELY(entered == &rank->ult)) {
        ult_leave(entered);
        return;
    }
    thread = BASE_CONTAINER(entered, struct ampi_thread, ult);
    ult_leave_bound(entered);
    pthread_setcancelstate(thread->cancel_state, NULL);
}

void ampi_gate_leave_waiting(struct ult *entered)
{
    if (__atomic_load_n(&gpu_needs_progress, __ATOMIC_RELAXED) && ult_self())
        ampi_upper.start_progress();
    ampi_gate_leave(entered);
}

bool ampi_gate_is_main(void)
{
    return own && own->rank->main_thread == &own->ult;
}

struct ampi_rank *ampi_gate_rank(const void *from)
{
    const struct ult *u = ult_self();
    const struct ampi_thread *thread;
    struct ampi_rank *rank;

    if (!u) {
        thread = thread_of(from);
        return thread ? thread->rank : NULL;
    }
    rank = u->owner;
    return rank && !ampi_job.is_forked &&
                   __atomic_load_n(&rank->state, __ATOMIC_RELAXED) == AMPI_RANK_INITIALIZED
               ? rank
               : NULL;
}

/* ---- Levels ---- */

int ampi_gate_level(int required)
{
    static const int levels[] = {MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED, MPI_THREAD_FUNNELED};

    for (size_t i = 0; i < BASE_COUNT(levels); i++)
        if (required >= levels[i])
            return levels[i];
    return MPI_THREAD_SINGLE;
}

void ampi_gate_set_level(struct ampi_rank *rank, int level)
{
    if (level > rank->threads_level)
        __atomic_store_n(&rank->threads_level, level, __ATOMIC_RELAXED);
    if (level < MPI_THREAD_SERIALIZED)
        return;
    __atomic_store_n(&ampi_gate_is_on, true, __ATOMIC_RELAXED);
    if (ampi_upper.has_threads(rank))
        ult_pe_share();
}

void ampi_gate_thread_begins(void)
{
    const struct ampi_rank *self = ampi_self();

    if (self && ult_self() == &self->ult && self->threads_level >= MPI_THREAD_SERIALIZED)
        ult_pe_share();
}

const struct ampi_thread *ampi_gate_other_in_call(const struct ampi_rank *rank)
{
    const struct ampi_thread *thread = rank->threads;

    while (thread && (thread->ult.depth == 0 || thread == own))
        thread = thread->next;
    return thread;
}

void ampi_rank_send(struct ampi_rank *rank, struct ult_errand *errand)
{
    struct ult *to = &rank->ult;

    if (BASE_UNLIKELY(rank->threads != NULL) && !ult_is_blocked(to))
        for (struct ampi_thread *thread = rank->threads; thread; thread = thread->next)
            if (ult_is_blocked(&thread->ult))
                to = &thread->ult;
    ult_post_errand(to, errand);
}
