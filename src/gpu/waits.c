/* SPDX-License-Identifier: BSD-3-Clause
 *
 * waits.c: see waits.h.
 *
 * The PE asks the driver about one stream or event per waiting rank. Questions take the driver's locks, which
 * the launches of other PEs need: the longer a rank has waited, the longer the pause between two questions, a
 * small part of the wait so far.
 */
#include "gpu/waits.h"

#include "gpu/batch.h"
#include "gpu/streams.h"

/* The pause between two questions is this part of the time waited so far, within these limits. */
#define PAUSE_PART 128
#define PAUSE_MIN_NS 200
#define PAUSE_MAX_NS 10000

/* Questions per turn of the PE. */
#define QUESTIONS_PER_POLL 4

bool gpu_waits_suspend;
bool (*gpu_is_code_of_rank)(const void *address);
bool (*gpu_has_no_messages)(void);

/* A rank that waits; on its stack. */
struct gpu_waiter {
    struct gpu_waiter *next;
    struct ult *u;
    CUstream stream;
    CUevent event;   /* NULL: for the stream */
    CUresult result; /* the driver's last answer */
    uint64_t since_ns;
    uint64_t ask_at_ns;
};

bool gpu_wait_may_suspend(const void *caller)
{
    const struct ult *self = ult_self();

    return gpu_waits_suspend && self && self->world_rank >= 0 && !self->n_exclusive && !self->is_called &&
           gpu_is_code_of_rank && gpu_is_code_of_rank(caller);
}

static CUresult ask(const struct gpu_waiter *waiter)
{
    return waiter->event ? gpu_driver.cuEventQuery(waiter->event) : gpu_driver.cuStreamQuery(waiter->stream);
}

static void set_pause(struct gpu_waiter *waiter, uint64_t now_ns)
{
    uint64_t pause_ns = (now_ns - waiter->since_ns) / PAUSE_PART;

    if (pause_ns < PAUSE_MIN_NS)
        pause_ns = PAUSE_MIN_NS;
    waiter->ask_at_ns = now_ns + (pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS);
}

/* What the driver says in the end: done, or an error. */
static CUresult suspend(struct gpu_waiter *waiter)
{
    struct gpu_pe *pe;

    waiter->result = ask(waiter);
    if (waiter->result != CUDA_ERROR_NOT_READY)
        return waiter->result;
    pe = gpu_pe_self();
    waiter->u = ult_self();
    waiter->since_ns = ult_now_ns();
    set_pause(waiter, waiter->since_ns);
    *pe->waiters_end = waiter;
    pe->waiters_end = &waiter->next;
    pe->source.pending++;
    ult_suspend();
    return waiter->result;
}

/* Nobody else is there to run, and the rank has no messages under way: the driver's wait is as good. */
static bool is_alone(void)
{
    const struct gpu_pe *pe = gpu_pe_of_thread;

    return ult_pe_live(ult_self()->pe) == 1 && !(pe && pe->source.pending) && gpu_has_no_messages &&
           gpu_has_no_messages();
}

/* The driver's own wait comes last: it prints what kernels have printed, which a question does not do (seen
 * on H200s). On an idle stream it takes 1.3 us, as does the answer that a stream is idle; the answer that it
 * is busy takes 0.1 us. An error is the driver's first answer: after a question, a wait for a stream that is
 * captured has another one. */
CUresult gpu_wait_for_stream(CUstream stream, const void *caller)
{
    struct gpu_waiter waiter = {.stream = stream};

    if (gpu_wait_may_suspend(caller) && !is_alone() && suspend(&waiter) != CUDA_SUCCESS)
        return waiter.result;
    return gpu_driver.cuStreamSynchronize(stream);
}

CUresult gpu_wait_for_event(CUevent event, const void *caller)
{
    struct gpu_waiter waiter = {.event = event};

    gpu_batch_start_now();
    if (gpu_wait_may_suspend(caller) && !is_alone() && suspend(&waiter) != CUDA_SUCCESS)
        return waiter.result;
    return gpu_driver.cuEventSynchronize(event);
}

void gpu_wait_for_special(CUstream stream, bool is_per_thread, const void *caller)
{
    struct gpu_waiter waiter = {.event = NULL};

    if (is_per_thread || !gpu_wait_may_suspend(caller) || is_alone() ||
        gpu_driver.cuEventCreate(&waiter.event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return;
    if (gpu_driver.cuEventRecord(waiter.event, stream) == CUDA_SUCCESS)
        (void)suspend(&waiter);
    gpu_driver.cuEventDestroy(waiter.event);
}

void gpu_wait_before_asking_again(const void *caller)
{
    if (gpu_wait_may_suspend(caller))
        ult_yield();
}

/* Those that were asked about go to the end: all have their turn. */
int gpu_wait_poll(struct gpu_pe *pe)
{
    uint64_t now_ns = ult_now_ns();
    struct gpu_waiter **link = &pe->waiters, *asked = NULL, **asked_end = &asked;
    int n_ready = 0;

    for (int n = 0; *link && n < QUESTIONS_PER_POLL;) {
        struct gpu_waiter *waiter = *link;
        if (waiter->ask_at_ns > now_ns) {
            link = &waiter->next;
            continue;
        }
        *link = waiter->next;
        n++;
        waiter->result = ask(waiter);
        if (waiter->result != CUDA_ERROR_NOT_READY) {
            pe->source.pending--;
            n_ready++;
            ult_ready(waiter->u);
            continue;
        }
        set_pause(waiter, now_ns);
        waiter->next = NULL;
        *asked_end = waiter;
        asked_end = &waiter->next;
    }
    while (*link)
        link = &(*link)->next;
    *link = asked;
    pe->waiters_end = asked ? asked_end : link;
    return n_ready;
}
