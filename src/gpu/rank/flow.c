/* SPDX-License-Identifier: BSD-3-Clause
 *
 * flow.c: see flow.h.
 */
#include "gpu/rank/flow.h"

#include <string.h>

#include "base/log.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/waits.h"

#define PLACES_AT_FIRST 16

static struct gpu_flow *place_of(const struct gpu_flows *flows, const void *key)
{
    unsigned mask = flows->n_places - 1, i = base_hash_address(key) & mask;

    while (flows->places[i].key && flows->places[i].key != key)
        i = (i + 1) & mask;
    return &flows->places[i];
}

/* Doubles the table. Streams without any record may have been destroyed: they are left out. */
static BASE_COLD void grow(struct gpu_flows *flows)
{
    struct gpu_flows old = *flows;

    flows->n_places = old.n_places ? 2 * old.n_places : PLACES_AT_FIRST;
    flows->places = base_calloc(flows->n_places, sizeof *flows->places, "a rank's streams");
    flows->n_used = 0;
    for (unsigned i = 0; i < old.n_places; i++) {
        const struct gpu_flow *flow = &old.places[i];
        if (!flow->key || (flow->n == 0 && !flow->marks[0]))
            continue;
        *place_of(flows, flow->key) = *flow;
        flows->n_used++;
    }
    free(old.places);
}

static BASE_COLD struct gpu_flow *add(struct gpu_flows *flows, void *key)
{
    struct gpu_flow *flow;

    if (2 * (flows->n_used + 1) > flows->n_places)
        grow(flows);
    flow = place_of(flows, key);
    flow->key = key;
    flows->n_used++;
    return flow;
}

static CUstream stream_of(const struct gpu_call *call)
{
    return BASE_UNLIKELY(call->is_of_thread) ? CU_STREAM_PER_THREAD : call->stream;
}

/* Default streams of a context that the program created are identified by the context's address. */
static void *key_of(const struct gpu_call *call)
{
    CUcontext context;

    if (BASE_LIKELY(call->stream > CU_STREAM_PER_THREAD))
        return call->stream;
    context = gpu_context_current();
    return context ? (char *)context + call->is_of_thread : NULL;
}

/* Records the event after the stream's current work, in the stream's context; creates it first if
 * necessary. */
static void record(CUevent *event, const struct gpu_call *call)
{
    CUstream stream = stream_of(call);
    CUcontext context = gpu_stream_context(stream), before;

    if (!context || gpu_context_enter(context, &before))
        return;
    if (*event || gpu_driver.cuEventCreate(event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS)
        (void)gpu_driver.cuEventRecord(*event, stream); /* an event that failed to record counts as
                                                         * complete */
    gpu_context_leave(context, before);
}

/* Ends a full span. While the rank waits, its errands may get here, too. */
static BASE_COLD void end_span(const struct gpu_call *call, void *key, const void *caller)
{
    struct gpu_flows *flows = &call->rank->flows;
    struct gpu_flow *flow = place_of(flows, key);
    CUevent oldest = flow->marks[flow->next];

    flow->n = 0;
    if (gpu_stream_is_captured(stream_of(call), NULL))
        return;
    if (oldest)
        gpu_wait_for_mark(oldest, caller);
    flow = place_of(flows, key);
    if (!flow->key)
        return;
    record(&flow->marks[flow->next], call);
    flow->next = (flow->next + 1) % GPU_FLOW_MARKS;
}

void gpu_flow_count(const struct gpu_call *call, const void *caller)
{
    struct gpu_flows *flows = &call->rank->flows;
    void *key = key_of(call);
    struct gpu_flow *flow;

    if (BASE_UNLIKELY(!key))
        return; /* the driver will report that there is no context */
    flow = BASE_LIKELY(flows->n_places > 0) ? place_of(flows, key) : NULL;
    if (BASE_UNLIKELY(!flow || !flow->key))
        flow = add(flows, key);
    if (BASE_UNLIKELY(++flow->n >= GPU_FLOW_SPAN))
        end_span(call, key, caller);
}

static struct gpu_flows *flows_of_self(void)
{
    struct gpu_rank_streams *rank = gpu_streams_of_main();

    return rank && rank->flows.n_places > 0 ? &rank->flows : NULL;
}

void gpu_flow_forget(CUstream stream)
{
    struct gpu_flows *flows = flows_of_self();
    struct gpu_flow *flow = flows ? place_of(flows, stream) : NULL;

    if (!flow || !flow->key)
        return;
    for (int i = 0; i < GPU_FLOW_MARKS; i++)
        if (flow->marks[i])
            gpu_driver.cuEventDestroy(flow->marks[i]);
    *flow = (struct gpu_flow){.key = flow->key};
}

void gpu_flow_forget_all(void)
{
    struct gpu_flows *flows = flows_of_self();

    if (flows) {
        free(flows->places);
        *flows = (struct gpu_flows){0};
    }
}
