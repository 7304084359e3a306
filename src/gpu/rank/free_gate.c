/* SPDX-License-Identifier: BSD-3-Clause
 *
 * free_gate.c: see free_gate.h.
 */
#include "gpu/rank/free_gate.h"

#include <pthread.h>
#include <time.h>

#include "base/log.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/pe_state.h"
#include "gpu/rank/graph_launches.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/streams.h"
#include "gpu/rank/waits.h"

/* The pause of a thread that does not serve the PE; a closer's grows up to the second. */
#define PAUSE_MIN_NS 20000
#define PAUSE_MAX_NS 1000000

/* After this time a closer's wait is reported. */
#define LONG_NS 2000000000

/* So long the gate is closed at a time, at first and at most. */
#define CLOSED_MIN_NS 2000000
#define CLOSED_MAX_NS 256000000

/* So long a closer lets adders in that are kept out. */
#define ADDERS_NS 10000000

_Atomic int gpu_gate_n_captures;

/* One for each device. The last is of no device: closers for all devices close it, which closes all others. */
static struct gate {
    _Atomic int n_closed;                 /* closers that have closed it */
    _Atomic int n_adding;                 /* adders inside */
    _Atomic int n_kept_out;               /* adders that have come to it when it was closed */
    _Atomic unsigned n_tickets, n_served; /* of closers whose GPU was not quiet at once */
} gates[GPU_DEVICES_MAX + 1];

static _Atomic int n_recording; /* closers that look whether streams are captured, and record events */

/* A closer; on its stack. */
struct closer {
    CUcontext context; /* whose work may be behind other GPUs; NULL: unknown */
    const void *caller;
    int device;
    bool is_end;    /* of the context, which need not be current */
    bool may_lend;  /* the PE makes progress during its pauses */
    bool has_event; /* recorded when the gate was closed last */
    CUevent event;
};

static struct gate *gate_of(int device)
{
    return &gates[device < 0 ? GPU_DEVICES_MAX : device];
}

/* ---- Adders ---- */

static bool is_closed(const struct gate *gate)
{
    return atomic_load(&gate->n_closed) > 0 || atomic_load(&gates[GPU_DEVICES_MAX].n_closed) > 0;
}

bool gpu_gate_enter(int device, bool *is_kept_out)
{
    struct gate *gate = gate_of(device);

    if (gpu_streams_n_ranks != 1)
        return true;
    atomic_fetch_add(&gate->n_adding, 1);
    if (BASE_LIKELY(!is_closed(gate))) {
        if (BASE_UNLIKELY(*is_kept_out))
            atomic_fetch_sub(&gate->n_kept_out, 1);
        return true;
    }
    atomic_fetch_sub(&gate->n_adding, 1);
    if (!*is_kept_out)
        atomic_fetch_add(&gate->n_kept_out, 1);
    *is_kept_out = true;
    return false;
}

void gpu_gate_leave(int device)
{
    if (gpu_streams_n_ranks == 1)
        atomic_fetch_sub(&gate_of(device)->n_adding, 1);
}

/* The adders that the closer keeps out or waits for. */
static bool has_adders(const struct closer *closer, bool are_kept_out)
{
    int n = 0;

    for (int i = 0; i <= GPU_DEVICES_MAX; i++)
        if (closer->device < 0 || closer->device == i)
            n += atomic_load(are_kept_out ? &gates[i].n_kept_out : &gates[i].n_adding);
    return n > 0;
}

/* Not a point where the thread is cancelled: it would leave the gate closed. */
static void sleep_for(long ns)
{
    int before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
    pthread_setcancelstate(before, NULL);
}

void gpu_gate_pause(const void *caller)
{
    if (gpu_wait_may_lend_pe(caller))
        gpu_wait_before_asking_again(caller);
    else
        sleep_for(PAUSE_MIN_NS);
}

/* ---- What a GPU waits for ---- */

int gpu_gate_device_of(CUcontext context)
{
    CUcontext before = NULL;
    CUdevice device = GPU_DEVICES_ALL;
    bool is_entered = context && context != gpu_context_current();

    if (is_entered && gpu_context_enter(context, &before))
        return GPU_DEVICES_ALL;
    if (gpu_driver.cuCtxGetDevice(&device) != CUDA_SUCCESS || device >= GPU_DEVICES_MAX)
        device = GPU_DEVICES_ALL;
    if (is_entered)
        gpu_context_leave(context, before);
    return device;
}

/* The context is current. */
static bool record(CUcontext context, CUevent *event_out)
{
    CUstreamCaptureMode mode;
    CUresult result;

    if (gpu_driver.cuEventCreate(event_out, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return false;
    mode = gpu_capture_set_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    result = gpu_stream_real.r_cuCtxRecordEvent(context, *event_out);
    (void)gpu_capture_set_mode(mode);
    if (result != CUDA_SUCCESS)
        gpu_driver.cuEventDestroy(*event_out);
    return result == CUDA_SUCCESS;
}

bool gpu_gate_record_all(CUcontext context, CUevent *event_out)
{
    CUcontext before;
    bool is_recorded;

    if (!context || !gpu_stream_real.r_cuCtxRecordEvent || gpu_context_enter(context, &before))
        return false;
    is_recorded = record(context, event_out);
    gpu_context_leave(context, before);
    return is_recorded;
}

static bool is_waited_for(int device)
{
    const _Atomic int *n_waiting = device < 0 ? &gpu_streams_n_waiting : &gpu_streams_n_waiting_on[device];

    return atomic_load(n_waiting) > 0 || gpu_graph_launches_are_pending(device);
}

void gpu_gate_capture_begins(void)
{
    atomic_fetch_add(&gpu_gate_n_captures, 1);
    while (atomic_load(&n_recording) > 0)
        sleep_for(PAUSE_MIN_NS);
}

/* In the context, because a query in a broken one does not tell. */
static bool is_over(CUcontext context, CUevent event)
{
    CUcontext before;
    CUresult result;

    if (gpu_context_enter(context, &before))
        return true;
    result = gpu_driver.cuEventQuery(event);
    gpu_context_leave(context, before);
    return result != CUDA_ERROR_NOT_READY;
}

/* True if the GPU's work is not done, as far as can be told. The gate is closed. Only where captures are counted. */
static bool is_busy(struct closer *closer)
{
    if (!closer->has_event) {
        atomic_fetch_add(&n_recording, 1);
        closer->has_event =
            atomic_load(&gpu_gate_n_captures) == 0 && gpu_gate_record_all(closer->context, &closer->event);
        atomic_fetch_sub(&n_recording, 1);
    }
    return closer->has_event && !is_over(closer->context, closer->event);
}

/* No stream of the closer's GPU waits for the PE, and the gate is closed. Other GPUs' streams may. */
static bool is_behind_others(struct closer *closer)
{
    return closer->context && closer->device >= 0 && is_waited_for(GPU_DEVICES_ALL) && is_busy(closer);
}

static bool is_quiet(struct closer *closer)
{
    return !has_adders(closer, false) && !is_waited_for(closer->device) && !is_behind_others(closer);
}

/* ---- Closers ---- */

static void close_gate(const struct closer *closer)
{
    atomic_fetch_add(&gate_of(closer->device)->n_closed, 1);
}

static void open_gate(const struct closer *closer)
{
    atomic_fetch_sub(&gate_of(closer->device)->n_closed, 1);
}

static void drop_event(struct closer *closer)
{
    if (closer->has_event && !gpu_context_is_gone(closer->context))
        gpu_driver.cuEventDestroy(closer->event);
    closer->has_event = false;
}

/* Keeps the gate closed if the look finds the GPU to be in the right state. */
static bool try_once(struct closer *closer, bool (*is_right)(struct closer *closer))
{
    bool is_so;

    close_gate(closer);
    is_so = is_right(closer);
    drop_event(closer);
    if (!is_so)
        open_gate(closer);
    return is_so;
}

/* Reports a wait that CUDA's call would not end, either, if the messages depend on it. Once. */
static BASE_COLD void report_wait(void)
{
    static atomic_flag has_said = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&has_said))
        base_log("a call that frees memory waits for streams that wait for messages: if a message depends on "
                 "this call, the job hangs");
}

/* CUDA refuses the call, and does not wait: on a thread that runs a host function, or after an error of the GPU. */
static bool is_refused(void)
{
    CUevent event;

    if (gpu_driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return true;
    gpu_driver.cuEventDestroy(event);
    return false;
}

static void pause_closer(const struct closer *closer, long *pause_ns)
{
    if (closer->may_lend) {
        gpu_wait_before_asking_again(closer->caller);
        return;
    }
    sleep_for(*pause_ns);
    if (*pause_ns < PAUSE_MAX_NS)
        *pause_ns *= 2;
}

static void let_adders_in(const struct closer *closer)
{
    long pause_ns = PAUSE_MIN_NS;
    uint64_t since_ns;

    if (BASE_LIKELY(!has_adders(closer, true)))
        return;
    since_ns = ult_now_ns();
    while (has_adders(closer, true) && ult_now_ns() - since_ns < ADDERS_NS)
        pause_closer(closer, &pause_ns);
}

/* True while the gate is open if it may be closed again before its time: the GPU has become quiet, with what was behind other
 * GPUs. */
static bool is_early(const struct closer *closer)
{
    return !has_adders(closer, true) && !has_adders(closer, false) && !is_waited_for(closer->device) &&
           (!closer->has_event || is_over(closer->context, closer->event));
}

/* It is the closer's turn. */
static void close_by_turns(struct closer *closer)
{
    uint64_t since_ns = ult_now_ns(), now_ns = since_ns, span_ns = CLOSED_MIN_NS, until_ns = now_ns + span_ns;
    long pause_ns = PAUSE_MIN_NS;
    bool is_closed = true;

    close_gate(closer);
    while (!is_closed || !is_quiet(closer)) {
        pause_closer(closer, &pause_ns);
        now_ns = ult_now_ns();
        if (!closer->may_lend && now_ns - since_ns > LONG_NS)
            report_wait();
        if (now_ns < until_ns && (is_closed || !is_early(closer)))
            continue;
        if (is_closed) {
            open_gate(closer);
        } else {
            drop_event(closer); /* work was added since */
            close_gate(closer);
            span_ns = now_ns >= until_ns && span_ns < CLOSED_MAX_NS ? 2 * span_ns : span_ns;
            pause_ns = PAUSE_MIN_NS;
        }
        is_closed = !is_closed;
        until_ns = now_ns + span_ns;
    }
    drop_event(closer);
}

static bool close_for(struct closer *closer)
{
    struct gate *gate = gate_of(closer->device);
    long pause_ns = PAUSE_MIN_NS;
    unsigned ticket;

    let_adders_in(closer);
    if (try_once(closer, is_quiet))
        return true;
    if (!closer->is_end && is_refused())
        return false;
    ticket = atomic_fetch_add(&gate->n_tickets, 1);
    while (atomic_load(&gate->n_served) != ticket) {
        pause_closer(closer, &pause_ns);
        if (pause_ns > PAUSE_MAX_NS / 8)
            pause_ns = PAUSE_MIN_NS;
    }
    close_by_turns(closer);
    atomic_fetch_add(&gate->n_served, 1);
    return true;
}

static bool is_of_use(void)
{
    return gpu_streams_n_ranks == 1 && atomic_load_explicit(&gpu_streams_wait_for_pes, memory_order_relaxed);
}

/* In a call of MPI that may not switch, the progress thread waits for the PE. */
static bool is_in_mpi(void)
{
    const struct ult *self = ult_self();

    return self && ult_has_pe(self);
}

static int close_of_context(CUcontext context, bool is_end, const void *caller)
{
    struct closer closer = {.is_end = is_end, .caller = caller};

    if (BASE_LIKELY(!is_of_use()))
        return GPU_GATE_OPEN;
    closer.may_lend = gpu_wait_may_lend_pe(caller);
    if (!closer.may_lend && is_in_mpi())
        return GPU_GATE_OPEN;
    closer.device = gpu_gate_device_of(context);
    closer.context = context ? context : gpu_context_current();
    return close_for(&closer) ? closer.device : GPU_GATE_OPEN;
}

int gpu_gate_close(CUcontext context, const void *caller)
{
    return close_of_context(context, false, caller);
}

int gpu_gate_close_for_end(CUcontext context, const void *caller)
{
    return close_of_context(context, true, caller);
}

int gpu_gate_close_device(int device)
{
    return is_of_use() && !is_in_mpi() && close_for(&(struct closer){.device = device}) ? device
                                                                                        : GPU_GATE_OPEN;
}

/* An event is not recorded while streams wait, because the driver may wait for room in them. */
static bool is_calm(struct closer *closer)
{
    return !has_adders(closer, false) && !is_waited_for(GPU_DEVICES_ALL);
}

static bool is_idle(struct closer *closer)
{
    return is_calm(closer) && !(gpu_waits_are_of_all_code && is_busy(closer));
}

int gpu_gate_try(CUcontext context, bool is_for_idle)
{
    struct closer closer = {.context = context, .device = gpu_gate_device_of(context)};

    return try_once(&closer, is_for_idle ? is_idle : is_calm) ? closer.device : GPU_GATE_OPEN;
}

void gpu_gate_open(int closed)
{
    if (closed != GPU_GATE_OPEN)
        atomic_fetch_sub(&gate_of(closed)->n_closed, 1);
}
