/* SPDX-License-Identifier: BSD-3-Clause
 *
 * offload.c: see offload.h.
 */
#include "gpu/rank/offload.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "gpu/copy/resident.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/pe_state.h"
#include "gpu/rank/drain.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/streams.h"
#include "gpu/rank/waits.h"

/* A call that has been inside the driver for this time may never end. */
#define LONG_NS 2000000000

/* A thread. */
struct helper {
    struct helper *next;      /* of the idle ones */
    struct gpu_offload *call; /* its next call; NULL: none */
    pthread_cond_t wanted;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct helper *idle; /* idle threads; the last one used comes first */

/* The rank whose call the thread makes; NULL: none. */
static __thread struct ult *served __attribute__((tls_model("initial-exec")));

struct ult *gpu_offload_rank(void)
{
    return served ? served : gpu_rank_of_self();
}

/* The process of the threads: a child of fork has none, and CUDA refuses all calls there. */
static _Atomic pid_t home;

/* The rank may be suspended. */
static bool is_useful(void)
{
    const struct gpu_rank_streams *rank = gpu_streams_of_self();

    return rank && rank->n_captures == 0 && !gpu_wait_is_alone();
}

bool gpu_offload_is_wanted(const void *caller)
{
    return gpu_wait_may_suspend(caller) && is_useful();
}

bool gpu_offload_is_wanted_later(const void *caller)
{
    return atomic_load_explicit(&gpu_streams_wait_for_pes, memory_order_relaxed) &&
           gpu_offload_is_wanted(caller);
}

bool gpu_offload_is_wanted_in_mpi(void)
{
    return gpu_wait_may_suspend_in_mpi() && is_useful();
}

/* ---- The threads ---- */

static void enlist(struct gpu_pe *pe, struct gpu_offload *call)
{
    call->since_ns = ult_now_ns();
    call->next = pe->offloads;
    pe->offloads = call;
    pe->source.pending++;
}

static void delist(struct gpu_pe *pe, struct gpu_offload *call)
{
    struct gpu_offload **link = &pe->offloads;

    while (*link != call)
        link = &(*link)->next;
    *link = call->next;
    pe->source.pending--;
}

/* On the rank's PE. */
static void wake(struct ult_wakeup *wakeup)
{
    struct gpu_offload *call = BASE_CONTAINER(wakeup, struct gpu_offload, wakeup);

    delist(gpu_pe_self(), call);
    ult_ready(call->u);
}

static struct gpu_offload *wait_for_call(struct helper *self)
{
    struct gpu_offload *call;

    pthread_mutex_lock(&lock);
    while (!self->call)
        pthread_cond_wait(&self->wanted, &lock);
    call = self->call;
    self->call = NULL;
    pthread_mutex_unlock(&lock);
    return call;
}

static void be_idle(struct helper *self)
{
    pthread_mutex_lock(&lock);
    self->next = idle;
    idle = self;
    pthread_mutex_unlock(&lock);
}

/* Reports a call that may wait for streams that wait for PEs. Once. */
static BASE_COLD void report_wait(const struct gpu_offload *call)
{
    static atomic_flag has_said = ATOMIC_FLAG_INIT;

    if (call->label && atomic_load(&gpu_streams_n_waiting) > 0 && !atomic_flag_test_and_set(&has_said))
        base_log("%s waits inside CUDA for streams that wait for messages: if a message depends on this "
                 "call, the job "
                 "hangs (CUDA_MODULE_LOADING=EAGER loads kernels before they are launched)",
                 call->label);
}

void gpu_offload_look(const struct gpu_pe *pe)
{
    uint64_t now_ns = ult_now_ns();

    for (const struct gpu_offload *i = pe->offloads; i; i = i->next)
        if (now_ns - i->since_ns > LONG_NS)
            report_wait(i);
}

/* Runs the call in its context. A context is closed only if ranks share it, because otherwise no other
 * rank is affected. */
static void run_call(struct gpu_offload *call)
{
    CUcontext drained = call->drained ? call->drained : call->context, before = NULL;
    struct gpu_drain drain;
    bool is_entered;
    int hold;

    if (call->drain_tries == 0 || !gpu_streams_are_private) {
        call->run(call);
        return;
    }
    is_entered = drained != call->context && !gpu_context_enter(drained, &before);
    hold = gpu_resident_hold(GPU_RESIDENT_CURRENT);
    gpu_drain_begin(&drain, is_entered ? drained : call->context, call->drain_tries);
    call->is_deferred = call->may_defer && !drain.is_closed;
    if (!drain.is_closed && !call->may_defer && call->drain_tries > 0)
        report_wait(call);
    if (!call->is_deferred || call->is_posted)
        call->run(call);
    gpu_drain_end(&drain);
    gpu_resident_release(hold);
    if (is_entered)
        gpu_context_leave(drained, before);
}

/* A thread's loop. A call is on the rank's stack, and must not be touched after the rank was woken; nor a
 * posted call after it has run. */
static void *help(void *arg)
{
    struct helper *self = arg;

    pthread_setname_np(pthread_self(), "heddle gpu");
    (void)gpu_capture_set_mode(CU_STREAM_CAPTURE_MODE_RELAXED); /* captures of the program go on */
    for (;;) {
        struct gpu_offload *call = wait_for_call(self);
        struct ult *u = call->u;
        CUcontext context = call->context;
        served = u && u->main ? u->main : u;
        if (context)
            call->result = gpu_driver.cuCtxSetCurrent(context);
        if (call->result == CUDA_SUCCESS || !u)
            run_call(call);
        if (context)
            gpu_driver.cuCtxSetCurrent(NULL);
        be_idle(self);
        if (u)
            ult_post_wakeup(u->pe, &call->wakeup);
    }
    return NULL;
}

/* Starts the thread with all signals blocked. */
static bool start(struct helper *helper)
{
    sigset_t all, before;
    pthread_t thread;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, NULL, help, helper);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        pthread_detach(thread);
    return !error;
}

/* Returns false if there is no idle thread and none can be started. */
static bool give_to_new(struct gpu_offload *call)
{
    struct helper *made = base_calloc(1, sizeof *made, "a thread for calls that wait for a GPU");

    pthread_cond_init(&made->wanted, NULL);
    made->call = call;
    if (start(made))
        return true;
    base_log_verbose(1, "cannot start a thread for calls that wait for a GPU: the PE waits itself");
    pthread_cond_destroy(&made->wanted);
    free(made);
    return false;
}

static bool give(struct gpu_offload *call)
{
    struct helper *helper;
    pid_t self = getpid(), nobody = 0;

    if (atomic_load(&home) != self && !atomic_compare_exchange_strong(&home, &nobody, self))
        return false;
    pthread_mutex_lock(&lock);
    helper = idle;
    if (helper) {
        idle = helper->next;
        helper->call = call;
        pthread_cond_signal(&helper->wanted);
    }
    pthread_mutex_unlock(&lock);
    return helper || give_to_new(call);
}

/* ---- The rank ---- */

CUresult gpu_offload_call(struct gpu_offload *offload, bool is_wanted)
{
    struct gpu_pe *pe;

    offload->result = CUDA_SUCCESS;
    offload->context = offload->is_of_no_context ? NULL : gpu_context_current();
    if (!is_wanted) {
        run_call(offload);
        return offload->result;
    }
    gpu_batch_start_now();
    offload->u = ult_self();
    offload->wakeup = (struct ult_wakeup){.handle = wake};
    pe = gpu_pe_self();
    enlist(pe, offload);
    if (!give(offload)) {
        delist(pe, offload);
        run_call(offload);
        return offload->result;
    }
    ult_suspend();
    return offload->result;
}

void gpu_offload_post(struct gpu_offload *offload, CUcontext context)
{
    offload->result = CUDA_SUCCESS;
    offload->context = context;
    offload->u = NULL;
    offload->is_posted = true;
    if (!give(offload))
        run_call(offload);
}
