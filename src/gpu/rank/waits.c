/* SPDX-License-Identifier: BSD-3-Clause
 *
 * waits.c: see waits.h.
 *
 * The PE queries the driver about one stream or event per waiting rank. Queries take the driver's locks,
 * which launches of other PEs need. So the pause between two queries grows with the wait: it is a small
 * fraction of the time waited so far.
 */
#include "gpu/rank/waits.h"

#include "gpu/copy/batch.h"
#include "gpu/driver/gpu_upper.h"
#include "gpu/rank/free_gate.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/streams.h"

/* The pause between two queries is this fraction of the time waited so far, within these limits. */
#define PAUSE_PART 128
#define PAUSE_MIN_NS 200
#define PAUSE_MAX_NS 10000

/* Queries per turn of the PE. */
#define QUESTIONS_PER_POLL 4

bool gpu_waits_suspend;
bool gpu_waits_are_of_all_code;
_Atomic bool gpu_streams_wait_for_pes, gpu_waits_have_threads;
_Atomic int gpu_streams_n_waiting, gpu_streams_n_waiting_on[GPU_DEVICES_MAX];
_Atomic unsigned gpu_streams_n_over;
bool (*gpu_is_code_of_rank)(const void *address);
void (*gpu_expect_thread)(void);
bool (*gpu_has_no_messages)(void);

/* A waiting rank; on its stack. */
struct gpu_waiter {
    struct gpu_question question;
    struct ult *u;
};

/* True if the running ULT may be switched out, if need be after entering its PE. */
static bool may_switch(void)
{
    const struct ult *self = ult_self();

    return gpu_waits_suspend && self && self->world_rank >= 0 && !(self->detours & ~ULT_SHUFFLED) &&
           !self->is_called;
}

bool gpu_thread_begins(void)
{
    atomic_store(&gpu_waits_have_threads, true);
    if (gpu_streams_n_ranks != 1 || !atomic_load(&gpu_streams_wait_for_pes))
        return false;
    __atomic_store_n(&gpu_needs_progress, true, __ATOMIC_RELAXED);
    return true;
}

bool gpu_wait_may_suspend_in_mpi(void)
{
    return may_switch() && ult_has_pe(ult_self());
}

bool gpu_wait_may_lend_pe(const void *caller)
{
    return may_switch() &&
           (gpu_waits_are_of_all_code || (gpu_is_code_of_rank && gpu_is_code_of_rank(caller)));
}

bool gpu_wait_may_suspend(const void *caller)
{
    return gpu_wait_may_lend_pe(caller) && ult_has_pe(ult_self());
}

struct ult *gpu_wait_enter(void)
{
    struct ult *self = ult_self();

    if (BASE_LIKELY(ult_has_pe(self)))
        return NULL;
    ult_enter(self);
    return self;
}

void gpu_wait_leave(struct ult *entered)
{
    if (BASE_UNLIKELY(entered != NULL))
        ult_leave(entered);
}

/* ---- Queries ---- */

static CUresult ask_here(const struct gpu_question *question)
{
    return question->event ? gpu_driver.cuEventQuery(question->event)
                           : gpu_driver.cuStreamQuery(question->stream);
}

/* Any context of the thread works for a query, and the current one is that of the running rank. But if it
 * is NULL, or broken, the error is not the result (see queue.c). */
static CUresult ask(const struct gpu_question *question)
{
    CUresult result = ask_here(question);
    CUcontext before;

    if (BASE_LIKELY(result == CUDA_ERROR_NOT_READY || result == CUDA_SUCCESS) || !question->context ||
        gpu_context_current() == question->context || gpu_context_enter(question->context, &before))
        return result;
    result = ask_here(question);
    gpu_context_leave(question->context, before);
    return result;
}

static void set_pause(struct gpu_question *question, uint64_t now_ns)
{
    uint64_t pause_ns = (now_ns - question->since_ns) / PAUSE_PART;

    if (pause_ns < PAUSE_MIN_NS)
        pause_ns = PAUSE_MIN_NS;
    question->ask_at_ns = now_ns + (pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS);
}

void gpu_wait_ask(struct gpu_question *question)
{
    struct gpu_pe *pe = gpu_pe_self();

    question->next = NULL;
    question->context = gpu_context_current();
    question->since_ns = ult_now_ns();
    set_pause(question, question->since_ns);
    *pe->questions_end = question;
    pe->questions_end = &question->next;
    pe->source.pending++;
}

/* Queries without a result go to the end of the list: all get their turn. A handler may add queries. */
int gpu_wait_poll(struct gpu_pe *pe)
{
    uint64_t now_ns = ult_now_ns();
    struct gpu_question **link = &pe->questions, *asked = NULL, **asked_end = &asked, *question;
    struct gpu_question *answered = NULL, **answered_end = &answered;
    int n_answered = 0;

    for (int n = 0; *link && n < QUESTIONS_PER_POLL;) {
        struct gpu_question ***end;
        question = *link;
        if (question->ask_at_ns > now_ns) {
            link = &question->next;
            continue;
        }
        *link = question->next;
        n++;
        question->result = (int)ask(question);
        set_pause(question, now_ns);
        end = question->result == CUDA_ERROR_NOT_READY ? &asked_end : &answered_end;
        question->next = NULL;
        **end = question;
        *end = &question->next;
    }
    while (*link)
        link = &(*link)->next;
    *link = asked;
    pe->questions_end = asked ? asked_end : link;
    for (; (question = answered); n_answered++) {
        answered = question->next;
        pe->source.pending--;
        question->answered(question);
    }
    return n_answered;
}

/* ---- Waits ---- */

/* Where other ranks of the PE may run meanwhile. */
static void notice_points(void)
{
    struct ult *entered = gpu_wait_enter();

    gpu_upper.catch_up();
    gpu_wait_leave(entered);
}

void gpu_wait_is_over(const void *caller)
{
    if (BASE_UNLIKELY(atomic_load_explicit(&gpu_streams_wait_for_pes, memory_order_relaxed)) &&
        gpu_wait_may_lend_pe(caller))
        notice_points();
}

static void ready(struct gpu_question *question)
{
    ult_ready(BASE_CONTAINER(question, struct gpu_waiter, question)->u);
}

/* Where other ranks of the PE may run meanwhile. The driver's final result: done, or an error. */
static CUresult suspend(CUstream stream, CUevent event)
{
    struct gpu_waiter waiter = {{.answered = ready, .stream = stream, .event = event}, ult_self()};
    CUresult result = ask_here(&waiter.question);
    struct ult *entered;

    if (result != CUDA_ERROR_NOT_READY) {
        notice_points(); /* as the poll does that finds the wait to be over */
        return result;
    }
    entered = gpu_wait_enter();
    gpu_wait_ask(&waiter.question);
    waiter.u->waits_for = "the GPU";
    ult_suspend();
    waiter.u->waits_for = NULL;
    gpu_wait_leave(entered);
    return (CUresult)waiter.question.result;
}

bool gpu_wait_is_alone(void)
{
    const struct gpu_pe *pe = gpu_pe_here();

    return ult_pe_live(ult_self()->pe) == 1 && !(pe && pe->source.pending) &&
           !atomic_load_explicit(&gpu_streams_wait_for_pes, memory_order_relaxed) &&
           atomic_load_explicit(&gpu_n_callbacks, memory_order_relaxed) == 0 && gpu_has_no_messages &&
           gpu_has_no_messages();
}

/* On a shared PE, another thread may see to what the rank alone would leave undone: it is not worth a look. */
static bool is_alone(void)
{
    return ult_has_pe(ult_self()) && gpu_wait_is_alone();
}

/* The driver's own wait comes last: it flushes the output of kernels, which a query does not (seen on
 * H200s). On an idle stream it takes 1.3 us, as does a query whose result is "idle"; "busy" takes 0.1 us.
 * The driver's first error is returned: after a query, waiting for a stream that is being captured returns
 * a different one. */
CUresult gpu_wait_for_stream(CUstream stream, const void *caller)
{
    CUresult result = CUDA_SUCCESS;

    if (gpu_wait_may_lend_pe(caller) && !is_alone())
        result = suspend(stream, NULL);
    return result == CUDA_SUCCESS ? gpu_stream_real.r_cuStreamSynchronize(stream) : result;
}

CUresult gpu_wait_for_event(CUevent event, const void *caller)
{
    CUresult result = CUDA_SUCCESS;

    gpu_batch_start_now();
    if (gpu_wait_may_lend_pe(caller) && !is_alone())
        result = suspend(NULL, event);
    return result == CUDA_SUCCESS ? gpu_stream_real.r_cuEventSynchronize(event) : result;
}

void gpu_wait_for_mark(CUevent event, const void *caller)
{
    if (gpu_wait_may_lend_pe(caller) && !is_alone())
        (void)suspend(NULL, event);
}

void gpu_wait_for_special(CUstream stream, bool is_per_thread, const void *caller)
{
    CUevent event;

    if (is_per_thread || !gpu_wait_may_lend_pe(caller) || is_alone() ||
        gpu_driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return;
    if (gpu_driver.cuEventRecord(event, stream) == CUDA_SUCCESS)
        (void)suspend(NULL, event);
    gpu_driver.cuEventDestroy(event);
}

void gpu_wait_before_asking_again(const void *caller)
{
    struct ult *entered;

    if (!gpu_wait_may_lend_pe(caller))
        return;
    entered = gpu_wait_enter();
    ult_yield();
    gpu_wait_leave(entered);
}

void gpu_wait_for_all(CUcontext context, const void *caller)
{
    CUevent event;

    if (BASE_LIKELY(!gpu_waits_are_of_all_code) || !gpu_wait_may_lend_pe(caller))
        return;
    if (gpu_gate_record_all(context ? context : gpu_context_current(), &event)) {
        gpu_wait_for_mark(event, caller);
        gpu_driver.cuEventDestroy(event);
    }
    gpu_gate_open(gpu_gate_close(context, caller));
}
