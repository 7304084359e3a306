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

/* A rank that waits; on its stack. */
struct gpu_waiter {
    struct gpu_waiter *next;
    struct ult *u;
    CUstream stream;
    CUevent event; /* NULL: for the stream */
    uint64_t since_ns;
    uint64_t ask_at_ns;
};

bool gpu_wait_may_suspend(const void *caller)
{
    const struct ult *self = ult_self();

    return gpu_waits_suspend && self && self->world_rank >= 0 && !self->n_exclusive && !self->is_called &&
           gpu_is_code_of_rank && gpu_is_code_of_rank(caller);
}

static bool is_done(const struct gpu_waiter *waiter)
{
    CUresult result =
        waiter->event ? gpu_driver.cuEventQuery(waiter->event) : gpu_driver.cuStreamQuery(waiter->stream);

    return result != CUDA_ERROR_NOT_READY;
}

static void set_pause(struct gpu_waiter *waiter, uint64_t now_ns)
{
    uint64_t pause_ns = (now_ns - waiter->since_ns) / PAUSE_PART;

    if (pause_ns < PAUSE_MIN_NS)
        pause_ns = PAUSE_MIN_NS;
    waiter->ask_at_ns = now_ns + (pause_ns < PAUSE_MAX_NS ? pause_ns : PAUSE_MAX_NS);
}

static void suspend(struct gpu_waiter *waiter)
{
    struct gpu_pe *pe;

    if (is_done(waiter))
        return;
    pe = gpu_pe_self();
    waiter->u = ult_self();
    waiter->since_ns = ult_now_ns();
    set_pause(waiter, waiter->since_ns);
    *pe->waiters_end = waiter;
    pe->waiters_end = &waiter->next;
    pe->source.pending++;
    ult_suspend();
}

void gpu_wait_for_stream(CUstream stream, const void *caller)
{
    struct gpu_waiter waiter = {.stream = stream};

    if (gpu_wait_may_suspend(caller))
        suspend(&waiter);
}

void gpu_wait_for_event(CUevent event, const void *caller)
{
    struct gpu_waiter waiter = {.event = event};

    gpu_batch_start_now();
    if (gpu_wait_may_suspend(caller))
        suspend(&waiter);
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
        if (is_done(waiter)) {
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
