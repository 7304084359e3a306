/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rank_context.c: each rank's view of CUDA's contexts. See rank_context.h.
 */
#include "gpu/rank/rank_context.h"

#include <pthread.h>

#include "base/log.h"
#include "gpu/copy/resident.h"
#include "gpu/driver/driver.h"
#include "gpu/rank/deferred_frees.h"
#include "gpu/rank/free_gate.h"
#include "gpu/rank/graph_launches.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/guard_calls.h"
#include "gpu/rank/launches.h"
#include "gpu/rank/offload.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/stream_stock.h"
#include "gpu/rank/visible.h"
#include "gpu/rank/waits.h"
#include "gpu_detect.h"

struct gpu_contexts_real gpu_contexts_real;
#define real gpu_contexts_real

/* The driver's number of a device that the calling code names. */
#define DEVICE(device) gpu_visible_to_driver(gpu_visible(GPU_CALLER), device)

/* ---- The rank's stack ---- */

/* The state of the calling rank; NULL: the thread is not a rank's own, or the driver is unavailable. */
static struct gpu_rank_context *own(void)
{
    gpu_guard_prepare();
    return gpu_rank_is_main() && gpu_driver.cuCtxGetCurrent ? gpu_rank_context_of(ult_self()) : NULL;
}

/* One below the top. */
struct gpu_context_below {
    CUcontext context;
    uint64_t since; /* as gpu_rank_context.since */
};

void gpu_rank_note_current(struct gpu_rank_context *rank, CUcontext context)
{
    rank->since = gpu_context_count_ends();
    rank->current = context;
    rank->has_begun = true;
}

/* Pushes the previously current context below the new one. */
static void keep_below(struct gpu_rank_context *rank, CUcontext context)
{
    if (!context)
        return; /* the stack was empty */
    if (rank->n_below == rank->room) {
        rank->room = rank->room ? 2 * rank->room : 4;
        rank->below =
            base_realloc(rank->below, (size_t)rank->room * sizeof rank->below[0], "a stack of contexts");
    }
    rank->below[rank->n_below++] = (struct gpu_context_below){
        context, context == rank->current ? rank->since : gpu_context_count_ends()};
}

/* The driver has no current context: the next one of the stack becomes current. */
static void come_up(struct gpu_rank_context *rank)
{
    const struct gpu_context_below *top;
    bool is_found = false;

    gpu_rank_note_current(rank, NULL);
    while (rank->n_below > 0 && !is_found) {
        top = &rank->below[--rank->n_below];
        is_found = !gpu_context_is_lost(top->context, top->since) &&
                   gpu_driver.cuCtxSetCurrent(top->context) == CUDA_SUCCESS;
        if (is_found) {
            rank->current = top->context;
            rank->since = top->since;
        }
    }
    gpu_launches_enter(gpu_context_current());
}

/* The driver's function, unless the context has been destroyed. */
static CUresult set_current(CUcontext context)
{
    return gpu_driver.cuCtxSetCurrent ? gpu_driver.cuCtxSetCurrent(context) : real.set_current(context);
}

CUresult CUDAAPI gpu_rank_set_current(CUcontext context)
{
    struct gpu_rank_context *rank = own();
    CUresult result = set_current(context);

    gpu_current_note_thread();
    if (rank && result == CUDA_SUCCESS) {
        gpu_rank_note_current(rank, context);
        gpu_launches_enter(context);
    }
    if (rank && !context && result == CUDA_SUCCESS)
        come_up(rank);
    return result;
}

CUresult CUDAAPI gpu_rank_push(CUcontext context)
{
    struct gpu_rank_context *rank = own();
    CUcontext before;
    CUresult result;

    if (!rank || !context)
        return real.push(context);
    before = gpu_context_current();
    result = set_current(context);
    if (result == CUDA_SUCCESS) {
        gpu_launches_enter(context);
        keep_below(rank, before);
        gpu_rank_note_current(rank, context);
    }
    return result;
}

CUresult CUDAAPI gpu_rank_pop(CUcontext *context_out)
{
    struct gpu_rank_context *rank = own();
    CUresult result;

    if (rank && rank->n_below > 0 && !gpu_context_current()) { /* another rank has destroyed it */
        if (context_out)
            *context_out = NULL;
        come_up(rank);
        return CUDA_SUCCESS;
    }
    result = real.pop(context_out);
    if (rank && result == CUDA_SUCCESS)
        come_up(rank);
    return result;
}

/* The driver may block in cuCtxCreate and cuCtxDestroy. */
struct context_call {
    struct gpu_offload offload;
    CUcontext *made; /* receives a new context */
    CUcontext ended;
    atomic_bool is_finished; /* run_finish_posted has ended */
    int hold;                /* of resident kernels, until it has ended */
    void *parameters;        /* of a new context: its affinities before version 4 */
    int n_affinities;
    unsigned flags;
    CUdevice device;
};

/* The driver pushes a new context on the stack of the thread that calls it. */
static void take_off(struct gpu_offload *offload)
{
    CUcontext made;

    if (offload->result == CUDA_SUCCESS)
        offload->result = real.pop(&made);
}

static void run_create_v2(struct gpu_offload *offload)
{
    struct context_call *call = BASE_CONTAINER(offload, struct context_call, offload);

    offload->result = real.create_v2(call->made, call->flags, call->device);
    take_off(offload);
}

static void run_create_v3(struct gpu_offload *offload)
{
    struct context_call *call = BASE_CONTAINER(offload, struct context_call, offload);

    offload->result =
        real.create_v3(call->made, call->parameters, call->n_affinities, call->flags, call->device);
    take_off(offload);
}

static void run_create_v4(struct gpu_offload *offload)
{
    struct context_call *call = BASE_CONTAINER(offload, struct context_call, offload);

    offload->result = real.create_v4(call->made, call->parameters, call->flags, call->device);
    take_off(offload);
}

static CUresult create_by(struct context_call call, const void *caller)
{
    bool is_wanted;
    CUresult result;
    int n_attempts = 0;

    own();
    call.offload.is_of_no_context = true;
    is_wanted = gpu_offload_is_wanted_later(caller);
    do
        result = gpu_offload_call(&call.offload, is_wanted);
    while (result == CUDA_ERROR_OUT_OF_MEMORY && gpu_deferred_give_back(&n_attempts, is_wanted));
    if (result != CUDA_SUCCESS)
        return result;
    gpu_context_begins(*call.made, false);
    return gpu_rank_push(*call.made);
}

CUresult CUDAAPI gpu_rank_create_v2(CUcontext *context_out, unsigned flags, CUdevice device)
{
    return create_by((struct context_call){.offload = {.label = "cuCtxCreate", .run = run_create_v2},
                                           .made = context_out,
                                           .flags = flags,
                                           .device = DEVICE(device)},
                     GPU_CALLER);
}

CUresult CUDAAPI gpu_rank_create_v3(CUcontext *context_out, CUexecAffinityParam *affinity, int n_affinity,
                                    unsigned flags, CUdevice device)
{
    return create_by((struct context_call){.offload = {.label = "cuCtxCreate", .run = run_create_v3},
                                           .made = context_out,
                                           .parameters = affinity,
                                           .n_affinities = n_affinity,
                                           .flags = flags,
                                           .device = DEVICE(device)},
                     GPU_CALLER);
}

CUresult CUDAAPI gpu_rank_create_v4(CUcontext *context_out, void *parameters, unsigned flags, CUdevice device)
{
    return create_by((struct context_call){.offload = {.label = "cuCtxCreate", .run = run_create_v4},
                                           .made = context_out,
                                           .parameters = parameters,
                                           .flags = flags,
                                           .device = DEVICE(device)},
                     GPU_CALLER);
}

static void run_destroy(struct gpu_offload *offload)
{
    offload->result = real.destroy(BASE_CONTAINER(offload, struct context_call, offload)->ended);
}

/* Waits for the work of the context. */
static void run_finish(struct gpu_offload *offload)
{
    CUcontext popped;

    offload->result = real.push(BASE_CONTAINER(offload, struct context_call, offload)->ended);
    if (offload->result != CUDA_SUCCESS)
        return;
    offload->result = gpu_guard_synchronize();
    real.pop(&popped);
}

/* A destruction that the rank does not wait for. */
static void run_destroy_later(struct gpu_offload *offload)
{
    struct context_call *call = BASE_CONTAINER(offload, struct context_call, offload);

    run_destroy(offload);
    if (offload->result != CUDA_SUCCESS)
        base_log_verbose(1, "a context that was destroyed while streams waited for messages is not: %s",
                         gpu_error_text((int)offload->result));
    atomic_fetch_sub(&gpu_deferred_n_contexts, 1);
    gpu_resident_release(call->hold);
    gpu_count_change();
    free(call);
}

static void run_finish_posted(struct gpu_offload *offload)
{
    run_finish(offload);
    atomic_store(&BASE_CONTAINER(offload, struct context_call, offload)->is_finished, true);
}

bool gpu_rank_finish(CUcontext context, const void *caller, CUresult *result_out)
{
    struct context_call finish = {.offload = {.run = run_finish, .is_of_no_context = true}, .ended = context};

    if (gpu_offload_is_wanted_later(caller)) {
        *result_out = gpu_offload_call(&finish.offload, true);
        return true;
    }
    if (!gpu_streams_of_self() || gpu_streams_n_ranks == 1 || ult_polls_in_part ||
        !atomic_load_explicit(&gpu_streams_wait_for_pes, memory_order_relaxed))
        return false;
    finish.offload.run = run_finish_posted;
    gpu_offload_post(&finish.offload, NULL);
    while (!atomic_load(&finish.is_finished))
        gpu_gate_pause(caller);
    *result_out = finish.offload.result;
    return true;
}

/* Waits for the work of the context alone, and has it destroyed by a thread: the driver waits for streams of all contexts
 * (seen on an H200, driver 580), which may wait for this rank now or when the driver looks. Does nothing and returns false
 * if no stream has waited for a PE so far, or if the work failed. May switch. */
static bool destroy_later(CUcontext context, const void *caller)
{
    struct context_call *call;
    CUresult result;

    if (!context || !gpu_rank_finish(context, caller, &result) || result != CUDA_SUCCESS)
        return false;
    call = base_calloc(1, sizeof *call, "a context to destroy");
    *call = (struct context_call){
        .offload.run = run_destroy_later, .ended = context, .hold = gpu_resident_hold(GPU_RESIDENT_ALL)};
    atomic_fetch_add(&gpu_deferred_n_contexts, 1);
    gpu_offload_post(&call->offload, NULL);
    return true;
}

/* Destroys the context on any thread, so it must not be current on the rank's, which loses it even if that fails. May switch. */
static CUresult destroy_beside(CUcontext current, CUcontext context, const void *caller)
{
    struct context_call call = {
        .offload = {.label = "cuCtxDestroy", .run = run_destroy, .is_of_no_context = true}, .ended = context};
    CUcontext popped;

    if (context && current == context)
        real.pop(&popped);
    if (destroy_later(context, caller))
        return CUDA_SUCCESS;
    return gpu_offload_call(&call.offload, gpu_offload_is_wanted_later(caller));
}

/* Both functions pop the context if it is current; no resident kernel may be waiting. */
static CUresult destroy_by(bool is_detach, CUcontext context, const void *caller)
{
    struct gpu_rank_context *rank = own();
    CUcontext before = rank ? gpu_context_current() : NULL;
    bool may_end = gpu_driver.cuCtxGetCurrent && context && !gpu_rank_is_primary(context);
    CUresult result;
    int hold, closed;

    if (gpu_context_is_gone(context)) /* a thread may not have destroyed it yet */
        return CUDA_ERROR_INVALID_CONTEXT;
    closed = may_end ? gpu_gate_close_for_end(context, caller) : GPU_GATE_OPEN;
    hold = gpu_resident_hold(GPU_RESIDENT_ALL);
    if (may_end) {
        gpu_context_ends(context);
        gpu_graph_launches_forget(context);
        while (!gpu_deferred_forget(context))
            gpu_gate_pause(caller);
    }
    result = is_detach ? real.detach(context) : destroy_beside(before, context, caller);
    gpu_gate_open(closed);
    if (may_end && (result != CUDA_SUCCESS || (is_detach && gpu_context_current() == context)))
        gpu_context_begins(context, true);
    if (result != CUDA_SUCCESS && before && before == context)
        (void)set_current(context); /* after gpu_context_begins, which allows it */
    gpu_resident_release(hold);
    if (result == CUDA_SUCCESS) {
        gpu_launches_forget();
        gpu_flow_forget_all();
        gpu_count_change();
    }
    if (before && before == context && !gpu_context_current())
        come_up(rank);
    return result;
}

CUresult CUDAAPI gpu_rank_destroy(CUcontext context)
{
    gpu_guard_prepare();
    return destroy_by(false, context, GPU_CALLER);
}

CUresult CUDAAPI gpu_rank_detach(CUcontext context)
{
    gpu_guard_prepare();
    return destroy_by(true, context, GPU_CALLER);
}

/* ---- Primary contexts ---- */

/* Guards the counters, and calls that are passed on to the driver. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned retained_elsewhere[GPU_DEVICES_MAX]; /* by threads of no rank */
static CUcontext primaries[GPU_DEVICES_MAX];         /* those retained so far */
static atomic_int n_ranks;                           /* that have used CUDA */

struct gpu_rank_context *gpu_rank_context_of(struct ult *u)
{
    void *state = __atomic_load_n(&u->hook_state, __ATOMIC_ACQUIRE), *other = NULL;

    if (BASE_LIKELY(state != NULL))
        return state;
    state = base_calloc(1, sizeof(struct gpu_rank_context), "a rank's CUDA contexts");
    if (!__atomic_compare_exchange_n(&u->hook_state, &other, state, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        free(state);
        return other;
    }
    atomic_fetch_add(&n_ranks, 1);
    return state;
}

static bool is_device(CUdevice device)
{
    CUdevice handle;

    return device >= 0 && device < GPU_DEVICES_MAX && gpu_driver.cuDeviceGet &&
           gpu_driver.cuDeviceGet(&handle, device) == CUDA_SUCCESS;
}

/* True if only the caller uses the device's context. Lock held. */
static bool is_alone(CUdevice device)
{
    return atomic_load(&n_ranks) <= 1 && !gpu_context_is_held(device);
}

CUresult CUDAAPI gpu_rank_retain(CUcontext *context_out, CUdevice device)
{
    struct gpu_rank_context *rank = own();
    struct gpu_rank_streams *streams = gpu_streams_of_self();
    CUresult result;

    device = DEVICE(device);
    pthread_mutex_lock(&lock);
    result = gpu_guard_retain(context_out, device);
    if (result == CUDA_SUCCESS && is_device(device)) {
        if (streams)
            atomic_fetch_or(&streams->devices, (uint64_t)1 << device);
        primaries[device] = *context_out;
        (rank ? rank->n_retained : retained_elsewhere)[device]++;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* The counter to decrement: a rank's runtime may have been initialised on one of its threads. NULL: all are
 * 0. */
static unsigned *find_retained(struct gpu_rank_context *rank, CUdevice device)
{
    if (rank && rank->n_retained[device] > 0)
        return &rank->n_retained[device];
    return retained_elsewhere[device] > 0 ? &retained_elsewhere[device] : NULL;
}

/* Calls a function that may destroy the context, while no resident kernel is on the device. */
static CUresult call_alone(CUresult(CUDAAPI *function)(CUdevice), CUdevice device)
{
    int hold = gpu_resident_hold(device);
    CUresult result = function(device);

    gpu_resident_release(hold);
    gpu_count_change();
    return result;
}

CUresult CUDAAPI gpu_rank_release(CUdevice device)
{
    struct gpu_rank_context *rank = own();
    CUresult result = CUDA_SUCCESS;
    unsigned *n_retained;

    device = DEVICE(device);
    if (!is_device(device))
        return real.release(device); /* the driver returns the error */
    pthread_mutex_lock(&lock);
    n_retained = find_retained(rank, device);
    if (!n_retained) /* a runtime initialised in a rank may end on another thread, or after all ranks */
        result = rank ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
    else if (is_alone(device))
        result = call_alone(real.release, device);
    if (n_retained && result == CUDA_SUCCESS)
        --*n_retained;
    pthread_mutex_unlock(&lock);
    return result;
}

/* Waits for the rank's work in a device's primary context or, if ranks share their streams, for all work;
 * this also flushes the output of kernels. */
static CUresult wait_for_device(CUdevice device, const void *caller)
{
    CUcontext context = gpu_context_of(device), before;
    CUresult result;

    if (!context)
        return (CUresult)gpu_driver_last();
    if (gpu_streams_synchronize(context, caller, &result))
        return result;
    if (gpu_context_enter(context, &before))
        return (CUresult)gpu_driver_last();
    result = gpu_driver.cuCtxSynchronize();
    gpu_context_leave(context, before);
    return result;
}

CUresult CUDAAPI gpu_rank_reset(CUdevice device)
{
    CUresult result = CUDA_SUCCESS;
    CUcontext context;
    unsigned flags;
    int is_there = 0;
    bool is_passed_on;

    device = DEVICE(device);
    own();
    if (!is_device(device))
        return real.reset(device);
    pthread_mutex_lock(&lock);
    while ((is_passed_on = is_alone(device)) && !gpu_deferred_forget(primaries[device])) {
        pthread_mutex_unlock(&lock);
        gpu_gate_pause(GPU_CALLER);
        pthread_mutex_lock(&lock);
    }
    context = primaries[device];
    if (is_passed_on)
        result = call_alone(real.reset, device);
    pthread_mutex_unlock(&lock);
    if (is_passed_on) {
        gpu_streams_forget(context);
        gpu_stock_forget(context);
        return result;
    }
    if (gpu_driver.cuDevicePrimaryCtxGetState(device, &flags, &is_there) != CUDA_SUCCESS || !is_there)
        return CUDA_SUCCESS; /* nothing to reset */
    return wait_for_device(device, GPU_CALLER);
}

/* ---- The list ---- */

const struct gpu_guarded gpu_context_functions[] = {
#define ROW(member, parameters, name, version, ours, why) \
    {name, (void *)ours, version, why, (void **)&gpu_contexts_real.member},
    GPU_RANK_CONTEXT_FUNCTIONS(ROW)
#undef ROW
};
const size_t gpu_n_context_functions = BASE_COUNT(gpu_context_functions);

/* ---- Flags of contexts ---- */

CUresult CUDAAPI gpu_rank_set_device_flags(CUdevice device, unsigned flags)
{
    device = DEVICE(device);
    own();
    return is_device(device) && !is_alone(device) ? CUDA_SUCCESS : real.set_device_flags(device, flags);
}

CUresult CUDAAPI gpu_rank_set_flags(unsigned flags)
{
    CUdevice device;

    if (own() && gpu_driver.cuCtxGetDevice(&device) == CUDA_SUCCESS && is_device(device) && !is_alone(device))
        return CUDA_SUCCESS;
    return real.set_flags(flags);
}

/* ---- Peers ---- */

/* The device of a primary context; -1: another kind of context. */
static int device_of_primary(CUcontext context)
{
    int device = 0;

    pthread_mutex_lock(&lock);
    while (device < GPU_DEVICES_MAX && (!context || primaries[device] != context))
        device++;
    pthread_mutex_unlock(&lock);
    return device < GPU_DEVICES_MAX ? device : -1;
}

bool gpu_rank_is_primary(CUcontext context)
{
    return gpu_context_is_kept(context) || device_of_primary(context) >= 0;
}

CUresult CUDAAPI gpu_rank_enable_peer(CUcontext peer, unsigned flags)
{
    struct gpu_rank_context *rank = own();
    int from = rank ? device_of_primary(gpu_context_current()) : -1, to = device_of_primary(peer);
    CUresult result = real.enable_peer(peer, flags);

    if (from < 0 || to < 0 || (result != CUDA_SUCCESS && result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED))
        return result;
    if (rank->peers[from] >> to & 1)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    rank->peers[from] |= (uint64_t)1 << to;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI gpu_rank_disable_peer(CUcontext peer)
{
    struct gpu_rank_context *rank = own();
    int from = rank ? device_of_primary(gpu_context_current()) : -1, to = device_of_primary(peer);

    if (from < 0 || to < 0)
        return real.disable_peer(peer);
    if (!(rank->peers[from] >> to & 1))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    rank->peers[from] &= ~((uint64_t)1 << to);
    return is_alone(from) ? real.disable_peer(peer) : CUDA_SUCCESS;
}
