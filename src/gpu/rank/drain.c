/* SPDX-License-Identifier: BSD-3-Clause
 *
 * drain.c: see drain.h.
 */
#include "gpu/rank/drain.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "gpu/driver/driver.h"
#include "gpu/driver/pe_state.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/repeats.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/waits.h"

/* Time for which a context is closed at first, and at most. */
#define CLOSED_AT_FIRST_NS 2000000
#define CLOSED_MAX_NS 4096000000

/* It is open as long as it was closed, but no longer than this: ranks that launch more meanwhile than the GPU gets done would
 * otherwise keep it busy for ever. */
#define OPEN_MAX_NS 256000000

/* The thread queries the driver this often without a pause, and then with one. */
#define QUERIES_AT_ONCE 20
#define PAUSE_NS 20000

_Atomic int gpu_drain_n_closed, gpu_drain_n_captures;

/* A suspended rank; on its stack. */
struct waiter {
    struct waiter *next;
    struct ult *u;
    CUcontext context;
    struct ult_wakeup wakeup;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the variables below */
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;
static struct gpu_drain *drains;
static struct waiter *waiters, **waiters_end = &waiters;
static uint64_t open_until_ns; /* no context is closed before this time, except for a submission */

static bool is_closed(CUcontext context)
{
    for (const struct gpu_drain *i = drains; i; i = i->next)
        if (i->context == context)
            return true;
    return false;
}

/* ---- Ranks ---- */

/* On the rank's PE. */
static void wake(struct ult_wakeup *wakeup)
{
    gpu_pe_self()->source.pending--;
    ult_ready(BASE_CONTAINER(wakeup, struct waiter, wakeup)->u);
}

/* Waits until the context has been opened once. Returns false if it is open. */
static bool wait_once(CUcontext context)
{
    struct waiter waiter = {.u = ult_self(), .context = context, .wakeup.handle = wake};

    pthread_mutex_lock(&lock);
    if (!is_closed(context)) {
        pthread_mutex_unlock(&lock);
        return false;
    }
    *waiters_end = &waiter;
    waiters_end = &waiter.next;
    pthread_mutex_unlock(&lock);
    gpu_pe_self()->source.pending++;
    ult_suspend();
    return true;
}

/* Announces that the PE submits work. False: the context has been closed meanwhile. A thread that closes it later sees the
 * announcement. */
static bool announce_while_open(CUcontext context)
{
    bool is_open;

    if (gpu_drain_announce(gpu_pe_self()) || !context)
        return true;
    pthread_mutex_lock(&lock);
    is_open = !is_closed(context);
    pthread_mutex_unlock(&lock);
    return is_open;
}

/* Work that is held back is submitted before the rank is suspended: it was launched before the context was
 * closed. context: NULL: none. */
static void wait_while_closed(CUcontext context)
{
    gpu_repeats_break();
    do {
        gpu_submit_end();
        while (context && wait_once(context))
            continue;
    } while (!announce_while_open(context));
}

void gpu_drain_wait(CUstream stream, const void *caller)
{
    if (caller && gpu_wait_may_suspend(caller))
        wait_while_closed(gpu_stream_context(stream));
}

/* A bound ULT waits in MPI as others do (ult/sharing.h). */
static bool is_bound_in_mpi(void)
{
    const struct ult *self = ult_self();

    return self && self->detours == ULT_BOUND && self->world_rank >= 0 && !self->is_called &&
           ult_has_pe(self);
}

void gpu_drain_wait_in_mpi(CUcontext context)
{
    if (gpu_wait_may_suspend_in_mpi() || is_bound_in_mpi())
        wait_while_closed(context);
}

/* ---- Other threads of ranks, and ranks outside MPI on PEs that several threads use ---- */

/* Number of those that submit work, and whether the calling one does. */
static _Atomic int n_threads;
static __thread bool is_submitting __attribute__((tls_model("initial-exec")));

void gpu_drain_begin_elsewhere(CUstream stream, const void *caller)
{
    const struct ult *self = ult_self();
    CUcontext context;

    if (!gpu_streams_are_private || is_submitting || !gpu_rank_of_self())
        return;
    if (self && ult_has_pe(self)) {
        (void)gpu_pe_self();
        gpu_submit_begin_to(stream, caller);
        return;
    }
    for (;;) {
        is_submitting = true;
        atomic_fetch_add(&n_threads, 1);
        if (BASE_LIKELY(atomic_load(&gpu_drain_n_closed) == 0))
            return;
        context = gpu_stream_context(stream);
        pthread_mutex_lock(&lock);
        if (!is_closed(context)) {
            pthread_mutex_unlock(&lock);
            return;
        }
        gpu_drain_end_elsewhere();
        while (is_closed(context))
            pthread_cond_wait(&opened, &lock);
        pthread_mutex_unlock(&lock);
    }
}

void gpu_drain_end_elsewhere(void)
{
    if (!is_submitting)
        return;
    is_submitting = false;
    atomic_fetch_sub(&n_threads, 1);
}

/* ---- The thread that closes a context ---- */

static void pause_for(uint64_t ns)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)},
              NULL);
}

/* Lock held; it is released meanwhile. A call that only submits work need not leave the context open for the
 * time that others left it open: the GPU's work may wait for this call. */
static void wait_for_turn(CUcontext context, bool is_submission)
{
    uint64_t now_ns;

    for (;;) {
        if (is_closed(context)) {
            pthread_cond_wait(&opened, &lock);
            continue;
        }
        now_ns = ult_now_ns();
        if (is_submission || now_ns >= open_until_ns)
            return;
        pthread_mutex_unlock(&lock);
        pause_for(open_until_ns - now_ns);
        pthread_mutex_lock(&lock);
    }
}

/* One thread at a time closes a context. */
static void close_context(struct gpu_drain *drain, bool is_submission)
{
    pthread_mutex_lock(&lock);
    wait_for_turn(drain->context, is_submission);
    drain->next = drains;
    drains = drain;
    atomic_fetch_add(&gpu_drain_n_closed, 1);
    pthread_mutex_unlock(&lock);
    drain->is_closed = true;
}

/* True if work that the PE's running rank has launched has not reached the driver yet. */
static bool has_work_on_its_way(struct gpu_pe *pe)
{
    struct gpu_repeats *repeats;

    if (atomic_load_explicit(&pe->is_submitting, memory_order_acquire))
        return true;
    repeats = __atomic_load_n(&pe->repeats, __ATOMIC_ACQUIRE);
    return repeats && gpu_repeats_are_held(repeats);
}

/* Waits until all work that was launched before the context was closed is with the driver. False: the time
 * limit is over. */
static bool wait_for_submissions(uint64_t limit_ns)
{
    uint64_t until_ns = ult_now_ns() + limit_ns;

    atomic_thread_fence(memory_order_seq_cst);
    for (struct gpu_pe *pe = gpu_pe_first(); pe; pe = pe->next_pe)
        while (has_work_on_its_way(pe)) {
            if (ult_now_ns() > until_ns)
                return false;
            sched_yield();
        }
    while (atomic_load(&n_threads) > 0) {
        if (ult_now_ns() > until_ns)
            return false;
        sched_yield();
    }
    return true;
}

/* Takes the waiters whose context is open off the list. Lock held. */
static struct waiter *take_waiters(void)
{
    struct waiter *taken = NULL, **taken_end = &taken, **link = &waiters;

    while (*link) {
        struct waiter *waiter = *link;
        if (is_closed(waiter->context)) {
            link = &waiter->next;
            continue;
        }
        *link = waiter->next;
        waiter->next = NULL;
        *taken_end = waiter;
        taken_end = &waiter->next;
    }
    waiters_end = link;
    return taken;
}

/* Opens the context for at least this time. A waiter must not be touched after it was woken. */
static void open_context(struct gpu_drain *drain, uint64_t ns)
{
    struct gpu_drain **link = &drains;
    struct waiter *taken, *next;

    pthread_mutex_lock(&lock);
    while (*link != drain)
        link = &(*link)->next;
    *link = drain->next;
    atomic_fetch_sub(&gpu_drain_n_closed, 1);
    if (ns > 0)
        open_until_ns = ult_now_ns() + ns;
    taken = take_waiters();
    pthread_cond_broadcast(&opened);
    pthread_mutex_unlock(&lock);
    drain->is_closed = false;
    for (; taken; taken = next) {
        next = taken->next;
        ult_post_wakeup(taken->u->pe, &taken->wakeup);
    }
}

/* Waits until the event is complete. False: the time limit is over. */
static bool wait_for_event(CUevent event, uint64_t limit_ns)
{
    uint64_t until_ns = ult_now_ns() + limit_ns;

    for (int n = 0; gpu_driver.cuEventQuery(event) == CUDA_ERROR_NOT_READY; n++) {
        if (ult_now_ns() > until_ns)
            return false;
        if (n >= QUERIES_AT_ONCE)
            pause_for(PAUSE_NS);
    }
    return true;
}

/* Waits until the context's current work is done. False: the time limit is over. If the driver refuses, the
 * call that follows gets its error. */
static bool wait_until_idle(CUcontext context, uint64_t limit_ns)
{
    bool is_idle = true;
    CUevent event;

    if (gpu_driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return true;
    if (gpu_stream_real.r_cuCtxRecordEvent(context, event) == CUDA_SUCCESS)
        is_idle = wait_for_event(event, limit_ns);
    gpu_driver.cuEventDestroy(event);
    return is_idle;
}

enum outcome { IDLE, BUSY, CAPTURED };

/* Closes the context, and leaves it closed if it becomes idle in time. */
static enum outcome try_once(struct gpu_drain *drain, uint64_t closed_ns, uint64_t open_ns)
{
    close_context(drain, false);
    if (atomic_load(&gpu_drain_n_captures) > 0) {
        open_context(drain, 0);
        return CAPTURED;
    }
    if (wait_for_submissions(closed_ns) && wait_until_idle(drain->context, closed_ns))
        return IDLE;
    open_context(drain, open_ns);
    return BUSY;
}

void gpu_drain_begin(struct gpu_drain *drain, CUcontext context, int n_tries)
{
    uint64_t limit_ns = CLOSED_AT_FIRST_NS;

    *drain = (struct gpu_drain){.context = context};
    if (!context || !gpu_stream_real.r_cuCtxRecordEvent)
        return;
    if (n_tries == GPU_DRAIN_NOT)
        close_context(drain, true);
    for (int i = 0; i < n_tries; i++) {
        if (try_once(drain, limit_ns, limit_ns < OPEN_MAX_NS ? limit_ns : OPEN_MAX_NS) != BUSY)
            return;
        if (limit_ns < CLOSED_MAX_NS)
            limit_ns *= 2;
    }
}

void gpu_drain_end(struct gpu_drain *drain)
{
    if (drain->is_closed)
        open_context(drain, 0);
}
