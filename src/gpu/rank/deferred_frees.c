/* SPDX-License-Identifier: BSD-3-Clause
 *
 * deferred_frees.c: see deferred_frees.h. One thread at a time gives memory back, and only while there is deferred memory.
 */
#include "gpu/rank/deferred_frees.h"

#include <pthread.h>
#include <time.h>

#include "base/log.h"
#include "gpu/copy/resident.h"
#include "gpu/driver/driver.h"
#include "gpu/rank/drain.h"
#include "gpu/rank/free_gate.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/guard_calls.h"
#include "gpu/rank/loaded_modules.h"
#include "gpu/rank/offload.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/waits.h"
#include "gpu_detect.h"

/* Memory of the program that may be deferred in the process by calls of CUDA. A module, or a library, counts as so much. */
#define DEFERRED_MAX ((size_t)1 << 30)
#define MODULE_BYTES ((size_t)1 << 20)

/* The pause between two attempts to give memory back grows between these limits. */
#define PAUSE_MIN_NS 1000000
#define PAUSE_MAX_NS 64000000

/* If memory is short, a call gives memory back this often: other ranks may take it, and free it later again. */
#define ATTEMPTS_MAX 32

/* A call without anything to give back counts as so many. */
#define ATTEMPTS_WITHOUT 8

/* For so long it waits for contexts that are being destroyed, and for streams that wait for messages while none of them ends. */
#define CONTEXTS_NS 10000000000
#define WITHOUT_PROGRESS_NS 10000000000

struct deferred {
    struct deferred *next;
    CUcontext context;
    void *memory;   /* or a handle */
    size_t n_bytes; /* 0: the library's */
    enum gpu_deferred_kind kind;
    bool is_reusable; /* it came from cuMemAlloc */
};

/* A call that gives memory of a context back; on its stack. */
struct giver {
    struct giver *next;
    CUcontext context;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the variables below */
static struct giver *givers;
static struct deferred *list;
static _Atomic size_t n_deferred_bytes; /* also read without the lock */
static atomic_bool has_deferred;        /* memory was deferred once */
static bool is_served;                  /* a thread gives memory back */

/* ---- Giving memory back ---- */

/* The context is not destroyed before leave. False: it has no memory on the list, and may have been destroyed. */
static bool enter(struct giver *giver, CUcontext context)
{
    const struct deferred *found;

    pthread_mutex_lock(&lock);
    found = list;
    while (found && found->context != context)
        found = found->next;
    if (found) {
        *giver = (struct giver){givers, context};
        givers = giver;
    }
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

static void leave(struct giver *giver)
{
    struct giver **link = &givers;

    pthread_mutex_lock(&lock);
    while (*link != giver)
        link = &(*link)->next;
    *link = giver->next;
    pthread_mutex_unlock(&lock);
}

static bool is_entered(CUcontext context)
{
    const struct giver *found;

    pthread_mutex_lock(&lock);
    found = givers;
    while (found && found->context != context)
        found = found->next;
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

/* Takes the memory of a context off the list. It counts until it is freed. */
static struct deferred *take(CUcontext context)
{
    struct deferred *taken = NULL, **link = &list, *found;

    pthread_mutex_lock(&lock);
    while ((found = *link)) {
        if (found->context != context) {
            link = &found->next;
            continue;
        }
        *link = found->next;
        found->next = taken;
        taken = found;
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

/* Memory of a context. */
static void give_back(CUcontext context)
{
    static pthread_mutex_t giving =
        PTHREAD_MUTEX_INITIALIZER; /* an allocation waits for what another thread gives back */
    struct deferred *taken, *next;
    CUresult result;

    pthread_mutex_lock(&giving);
    taken = take(context);
    if (!taken) {
        pthread_mutex_unlock(&giving);
        return;
    }
    for (; taken; taken = next) {
        next = taken->next;
        result = gpu_guard_free_now(taken->memory, taken->kind);
        if (result != CUDA_SUCCESS)
            base_log_verbose(1, "what was freed while streams waited for messages is not given back: %s",
                             gpu_error_text((int)result));
        n_deferred_bytes -= taken->n_bytes;
        free(taken);
    }
    gpu_count_change();
    pthread_mutex_unlock(&giving);
}

/* Both give back all memory of the context, which is current, if its work is done. False: not yet. */

static bool try_by_gate(CUcontext context, bool is_for_idle)
{
    int closed = gpu_gate_try(context, is_for_idle);

    if (closed != GPU_GATE_OPEN)
        give_back(context);
    gpu_gate_open(closed);
    return closed != GPU_GATE_OPEN;
}

static bool try_by_drain(CUcontext context, int n_tries)
{
    bool is_done;
    struct gpu_drain drain;

    if (!gpu_streams_are_private || !gpu_stream_real.r_cuCtxRecordEvent) {
        is_done = atomic_load(&gpu_streams_n_waiting) == 0;
        if (is_done)
            give_back(context);
        return is_done;
    }
    gpu_drain_begin(&drain, context, n_tries);
    is_done = drain.is_closed;
    if (is_done)
        give_back(context);
    gpu_drain_end(&drain);
    return is_done;
}

/* False: not yet. */
static bool try_context(CUcontext context)
{
    struct giver giver;
    bool is_given = false;
    CUcontext before;

    if (!enter(&giver, context))
        return true;
    if (!gpu_context_enter(context, &before)) {
        if (gpu_streams_n_ranks == 1)
            is_given = try_by_gate(context, true);
        else if (atomic_load(&gpu_streams_n_waiting) == 0)
            is_given = try_by_drain(context, 1);
        gpu_context_leave(context, before);
    }
    leave(&giver);
    return is_given;
}

/* The context of the first memory on the list; NULL: there is none, and nobody serves the list any more. */
static CUcontext next_context(void)
{
    CUcontext context;

    pthread_mutex_lock(&lock);
    context = list ? list->context : NULL;
    is_served = context != NULL;
    pthread_mutex_unlock(&lock);
    return context;
}

static void serve(struct gpu_offload *offload)
{
    long pause_ns = PAUSE_MIN_NS;
    CUcontext context;

    while ((context = next_context())) {
        nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        if (!try_context(context) && pause_ns < PAUSE_MAX_NS)
            pause_ns *= 2;
    }
    free(offload);
}

/* ---- Deferring ---- */

static void add(struct deferred what)
{
    struct deferred *made = base_malloc(sizeof *made, "memory to give back");
    struct gpu_offload *offload;
    bool was_served;

    *made = what;
    pthread_mutex_lock(&lock);
    made->next = list;
    list = made;
    n_deferred_bytes += what.n_bytes;
    atomic_store_explicit(&has_deferred, true, memory_order_relaxed);
    was_served = is_served;
    is_served = true;
    pthread_mutex_unlock(&lock);
    if (was_served)
        return;
    offload = base_calloc(1, sizeof *offload, "memory to give back");
    offload->run = serve;
    gpu_offload_post(offload, NULL); /* it enters contexts itself: they may end before */
}

void gpu_deferred_add(CUcontext context, void *memory, bool is_pinned)
{
    add((struct deferred){
        .context = context, .memory = memory, .kind = is_pinned ? GPU_DEFERRED_PINNED : GPU_DEFERRED_DEVICE});
}

static inline bool is_module(enum gpu_deferred_kind kind)
{
    return kind == GPU_DEFERRED_MODULE || kind == GPU_DEFERRED_LIBRARY;
}

/* Finds the allocation of the program at this address, or takes the module off the list of those that are loaded. */
static bool find(enum gpu_deferred_kind kind, uintptr_t address, struct deferred *found)
{
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_CONTEXT};
    CUdeviceptr start = 0;
    void *values[] = {&start, &found->n_bytes, &found->context};

    *found = (struct deferred){.memory = (void *)address, .kind = kind};
    if (is_module(kind)) {
        found->n_bytes = MODULE_BYTES;
        return gpu_module_take(found->memory, &found->context);
    }
    if (gpu_driver.cuPointerGetAttributes(BASE_COUNT(values), attributes, values, address) != CUDA_SUCCESS ||
        start != address || found->n_bytes == 0)
        return false;
    found->is_reusable = found->context && gpu_memory_type(address) == GPU_MEMORY_DEVICE; /* not of a pool */
    if (!found->context)
        found->context = gpu_context_current();
    return found->context != NULL;
}

static bool is_deferred(const void *memory)
{
    const struct deferred *found;

    if (n_deferred_bytes == 0)
        return false;
    pthread_mutex_lock(&lock);
    found = list;
    while (found && found->memory != memory)
        found = found->next;
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

/* Waits for the rank's own work as the call would. *result_out: its result if the free may be deferred (true). */
static bool wait_for_own(const struct deferred *what, const void *caller, CUresult *result_out)
{
    const struct gpu_rank_streams *rank = gpu_streams_of_self();

    return rank && rank->n_captures == 0 && n_deferred_bytes + what->n_bytes <= DEFERRED_MAX &&
           (gpu_streams_synchronize(what->context, caller, result_out) ||
            gpu_rank_finish(what->context, caller, result_out));
}

/* True if the rank captures, so that the driver must not wait: another rank may at any time launch what waits for this one. */
static bool is_beside_capture(const struct deferred *what)
{
    const struct gpu_rank_streams *rank = gpu_streams_of_self();

    return rank && rank->n_captures > 0 && n_deferred_bytes + what->n_bytes <= DEFERRED_MAX;
}

/* The gate is used in a process with one rank only, whose calls are not offloaded. */
static CUresult call_driver(struct gpu_offload *offload, CUcontext context, const void *caller)
{
    int closed = gpu_gate_close(context, caller);
    CUresult result = gpu_offload_call(offload, gpu_offload_is_wanted(caller));

    gpu_gate_open(closed);
    return result;
}

static CUresult free_or_defer(struct gpu_offload *offload, struct deferred *what, const void *caller)
{
    CUresult result = CUDA_SUCCESS;

    if (is_beside_capture(what)) {
        (void)gpu_streams_synchronize_uncaptured(what->context, caller, &result);
        what->is_reusable = false;
        if (result == CUDA_SUCCESS)
            add(*what);
        return result;
    }
    if (!wait_for_own(what, caller, &result))
        return call_driver(offload, what->context, caller);
    if (result != CUDA_SUCCESS)
        return result;
    if (atomic_load(&gpu_streams_n_waiting) == 0) {
        offload->may_defer = true;
        offload->drain_tries = GPU_DRAIN_BRIEFLY;
        result = gpu_offload_call(offload, gpu_offload_is_wanted(caller));
        if (!offload->is_deferred)
            return result;
    }
    add(*what);
    return CUDA_SUCCESS;
}

CUresult gpu_deferred_call(struct gpu_offload *offload, enum gpu_deferred_kind kind, uintptr_t address,
                           const void *caller)
{
    bool may_wait = atomic_load_explicit(&gpu_streams_wait_for_pes, memory_order_relaxed);
    struct deferred what;
    bool is_found;

    if (is_deferred((void *)address)) /* it has been freed */
        return is_module(kind) ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    is_found = (may_wait || is_module(kind)) && find(kind, address, &what);
    if (BASE_LIKELY(!may_wait) || !is_found) /* without a wait: it is NULL, or refused */
        return gpu_offload_call(offload, gpu_offload_is_wanted(caller));
    if (gpu_memory_is_of_pool(address)) {
        offload->drain_tries = 0;
        return gpu_offload_call(offload, gpu_offload_is_wanted(caller));
    }
    offload->drained = what.context;
    return free_or_defer(offload, &what, caller);
}

/* In a process with one rank. False: not yet. */
static bool free_if_idle(struct gpu_offload *offload, CUcontext context)
{
    int closed = gpu_gate_try(context, true);

    if (closed != GPU_GATE_OPEN)
        (void)gpu_offload_call(offload, false);
    gpu_gate_open(closed);
    return closed != GPU_GATE_OPEN;
}

CUresult gpu_deferred_call_in_mpi(struct gpu_offload *offload, enum gpu_deferred_kind kind, uintptr_t address)
{
    bool is_wanted = gpu_offload_is_wanted_in_mpi();
    struct deferred what;

    if (BASE_LIKELY(!atomic_load_explicit(&gpu_streams_wait_for_pes, memory_order_relaxed)) ||
        !find(kind, address, &what))
        return gpu_offload_call(offload, is_wanted);
    offload->drained = what.context;
    if (gpu_streams_n_ranks == 1) {
        if (free_if_idle(offload, what.context))
            return offload->result;
    } else if (atomic_load(&gpu_streams_n_waiting) == 0) {
        offload->may_defer = true;
        offload->drain_tries = GPU_DRAIN_BRIEFLY;
        (void)gpu_offload_call(offload, is_wanted);
        if (!offload->is_deferred)
            return offload->result;
    }
    what.is_reusable =
        what.is_reusable && gpu_streams_are_idle(what.context); /* else a kernel may still use it */
    add(what);
    return CUDA_SUCCESS;
}

void *gpu_deferred_check(void *handle)
{
    return is_deferred(handle) ? NULL : handle;
}

bool gpu_deferred_forget(CUcontext context)
{
    struct deferred *taken = take(context), *next;

    gpu_modules_forget(context);
    for (; taken; taken = next) {
        next = taken->next;
        n_deferred_bytes -= taken->n_bytes;
        free(taken);
    }
    return !is_entered(context);
}

/* ---- Allocations ---- */

/* Device memory of exactly this size; NULL: there is none. */
static void *reuse(CUcontext context, size_t n_bytes)
{
    struct deferred **link = &list, *found;
    void *memory = NULL;

    pthread_mutex_lock(&lock);
    while ((found = *link) && (found->context != context || found->n_bytes != n_bytes || !found->is_reusable))
        link = &found->next;
    if (found) {
        *link = found->next;
        n_deferred_bytes -= n_bytes;
    }
    pthread_mutex_unlock(&lock);
    if (found)
        memory = found->memory;
    free(found);
    return memory;
}

struct call_give_back {
    struct gpu_offload offload;
    bool has_failed;
};

static BASE_COLD void report_failure(void)
{
    static atomic_flag has_said = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&has_said))
        base_log("a call finds no memory: memory that was freed is not there before streams that wait for "
                 "messages end, and none has ended for %d s",
                 (int)(WITHOUT_PROGRESS_NS / 1000000000));
}

/* Waits while streams wait for PEs, as long as they get on: they may depend on the caller. Any thread; blocks it. */
static void run_give_back(struct gpu_offload *offload)
{
    uint64_t since_ns = ult_now_ns();
    unsigned n_over, n_before = atomic_load(&gpu_streams_n_over);
    int n_tries = GPU_DRAIN_OFTEN, hold = gpu_resident_hold(GPU_RESIDENT_CURRENT);

    while (!try_by_drain(offload->context, n_tries)) {
        if (atomic_load(&gpu_streams_n_waiting) == 0) { /* the driver waits for the GPU */
            give_back(offload->context);
            break;
        }
        n_over = atomic_load(&gpu_streams_n_over);
        if (n_over != n_before)
            since_ns = ult_now_ns();
        n_before = n_over;
        if (n_tries < GPU_DRAIN_LONG)
            n_tries++;
        if (ult_now_ns() - since_ns > WITHOUT_PROGRESS_NS) {
            report_failure();
            BASE_CONTAINER(offload, struct call_give_back, offload)->has_failed = true;
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MIN_NS}, NULL);
    }
    gpu_resident_release(hold);
}

_Atomic int gpu_deferred_n_contexts;

/* Waits for contexts that threads destroy. Not for ever: the streams that the driver waits for may depend on the caller. */
static void run_wait(struct gpu_offload *offload)
{
    uint64_t since_ns = ult_now_ns();

    (void)offload;
    while (atomic_load(&gpu_deferred_n_contexts) > 0 && ult_now_ns() - since_ns < CONTEXTS_NS)
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MIN_NS}, NULL);
}

/* True: some have been destroyed, or the time is over. */
static bool wait_for_contexts(int *n_attempts, bool is_wanted)
{
    struct gpu_offload offload = {.run = run_wait, .is_of_no_context = true};

    if (atomic_load(&gpu_deferred_n_contexts) == 0 || (!is_wanted && ult_self() && ult_has_pe(ult_self())))
        return false;
    (void)gpu_offload_call(&offload, is_wanted);
    *n_attempts = atomic_load(&gpu_deferred_n_contexts) > 0 ? ATTEMPTS_MAX : *n_attempts + ATTEMPTS_WITHOUT;
    return true;
}

/* A context with deferred memory: this one if it has some. NULL: none has. */
static CUcontext find_context(CUcontext preferred)
{
    CUcontext context;

    pthread_mutex_lock(&lock);
    context = list ? list->context : NULL;
    for (const struct deferred *i = list; i && context != preferred; i = i->next)
        context = i->context == preferred ? preferred : context;
    pthread_mutex_unlock(&lock);
    return context;
}

/* The context is current. False: the memory is not there, and the call must not be made again. */
static bool call_give_back(CUcontext context, bool is_wanted)
{
    struct call_give_back call = {.offload = {.run = run_give_back}};

    if (gpu_streams_n_ranks != 1)
        (void)gpu_offload_call(&call.offload, is_wanted);
    else if (!try_by_gate(context, false))
        gpu_gate_pause(NULL); /* the call is made again, a number of times */
    return !call.has_failed;
}

/* Waits for another thread that gives back the memory of the current context, too. */
static bool give_back_of(CUcontext context, bool is_wanted)
{
    CUcontext before;
    struct giver giver;
    bool is_entered_here = enter(&giver, context), may_retry = true;

    if ((is_entered_here || context == gpu_context_current()) && !gpu_context_enter(context, &before)) {
        may_retry = call_give_back(context, is_wanted);
        gpu_context_leave(context, before);
    }
    if (is_entered_here)
        leave(&giver);
    return may_retry;
}

bool gpu_deferred_give_back(int *n_attempts, bool is_wanted)
{
    CUcontext current = gpu_context_current(), context;

    if (*n_attempts >= ATTEMPTS_MAX)
        return false;
    context = find_context(current);
    if ((!context || context != current) && wait_for_contexts(n_attempts, is_wanted))
        return true;
    if (n_deferred_bytes > 0) {
        ++*n_attempts;
        return give_back_of(context ? context : current, is_wanted);
    }
    *n_attempts += ATTEMPTS_WITHOUT; /* another thread may have given it back since the call failed */
    return atomic_load_explicit(&has_deferred, memory_order_relaxed);
}

CUresult CUDAAPI gpu_deferred_alloc(CUdeviceptr *memory_out, size_t n_bytes)
{
    void *memory;

    if (BASE_LIKELY(n_deferred_bytes == 0))
        return gpu_driver.cuMemAlloc(memory_out, n_bytes);
    memory = n_bytes > 0 && memory_out ? reuse(gpu_context_current(), n_bytes) : NULL;
    if (!memory)
        return gpu_driver.cuMemAlloc(memory_out, n_bytes);
    *memory_out = (CUdeviceptr)memory;
    return CUDA_SUCCESS;
}
