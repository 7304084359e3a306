/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nccl.c: NCCL communicators and their operations. See nccl.h.
 *
 * Steps that may take long run on threads, one for each step; a PE polls `state`. NCCL also has nonblocking
 * communicators, but they create a thread for every operation: 45 us more for each (two H200s, NCCL 2.28).
 * With blocking ones, an operation takes some microseconds to get into the stream, except the first of its
 * kind and size, which may connect participants and therefore wait for them; so those run on threads, as do
 * operations that are started on a small stack.
 *
 * A step that was given up stays in its thread until NCCL returns; the thread then destroys the
 * communicator.
 *
 * Invariant: while a step's thread exists (is_running), no other code touches the communicator.
 */
#include "gpu/nccl/nccl.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "gpu/driver/driver.h"
#include "gpu/kernels/kernels.h"
#include "gpu/nccl/nccl_library.h"

struct gpu_nccl {
    struct gpu_nccl *next; /* link of `live` */
    int device;
    CUcontext context;
    void *comm; /* NCCL's; NULL: none */
    int n;      /* participants */
    int own;
    bool makes_id;
    struct gpu_nccl_unique_id id;
    struct gpu_nccl_card card;
    uint64_t started[GPU_NCCL_ALLGATHER + 1]; /* by kind: bit b is set once an operation of 2^b bytes or more
                                               * was started */
    struct gpu_nccl_call call;                /* of a start step */
    CUstream stream;
    /* Guarded by live_lock: */
    bool is_running;   /* a step's thread exists */
    bool is_starting;  /* the step waits for other participants */
    bool is_cancelled; /* the step was given up: the thread works on alone */
    bool is_unwanted;  /* the caller has destroyed it: freed when it has no thread */
    _Atomic int state; /* of the last step */
};

/* All communicators that have not been freed. */
static struct gpu_nccl *live;
static int n_threads; /* of all of them, except cancelled ones */
static int n_alive;   /* including cancelled ones */
static pthread_mutex_t live_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t live_changed = PTHREAD_COND_INITIALIZER;

/* ---- Threads ---- */

typedef int (*step_fn)(struct gpu_nccl *nccl);

struct step {
    struct gpu_nccl *nccl;
    step_fn run; /* returns the new state */
};

/* Destroys or aborts NCCL's communicator. */
static void end_comm(struct gpu_nccl *nccl, bool is_abort)
{
    CUcontext before;

    if (nccl->comm && gpu_context_enter(nccl->context, &before) == 0) {
        if (is_abort)
            gpu_nccl.ncclCommAbort(nccl->comm);
        else
            gpu_nccl.ncclCommDestroy(nccl->comm);
        gpu_context_leave(nccl->context, before);
    }
    nccl->comm = NULL;
}

static void forget(struct gpu_nccl *nccl)
{
    struct gpu_nccl **link = &live;

    while (*link != nccl)
        link = &(*link)->next;
    *link = nccl->next;
    free(nccl);
}

static void *run_step(void *arg)
{
    struct step step = *(struct step *)arg;
    struct gpu_nccl *nccl = step.nccl;
    int state;

    pthread_setname_np(pthread_self(), "heddle nccl");
    state = step.run(nccl);
    free(arg);
    pthread_mutex_lock(&live_lock);
    if ((nccl->is_unwanted || nccl->is_cancelled) && nccl->comm) {
        bool is_abort = nccl->is_cancelled;
        pthread_mutex_unlock(&live_lock);
        end_comm(nccl, is_abort);
        pthread_mutex_lock(&live_lock);
    }
    nccl->is_running = false;
    if (!nccl->is_cancelled) {
        atomic_store(&nccl->state, state);
        n_threads--;
    }
    if (nccl->is_unwanted)
        forget(nccl);
    n_alive--;
    pthread_cond_broadcast(&live_changed);
    pthread_mutex_unlock(&live_lock);
    return NULL;
}

/* Starts a thread with all signals blocked. */
static bool start_thread(struct step *step)
{
    sigset_t all, before;
    pthread_t thread;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&thread, NULL, run_step, step);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        pthread_detach(thread);
    return !error;
}

static int connect_comm(struct gpu_nccl *nccl);
static int start_first(struct gpu_nccl *nccl);

/* With the lock held. Failure to start a thread is an error of the step. */
static void begin(struct gpu_nccl *nccl, step_fn run)
{
    struct step *step = base_malloc(sizeof *step, "a communicator of NCCL");

    *step = (struct step){nccl, run};
    atomic_store(&nccl->state, GPU_NCCL_BUSY);
    nccl->is_running = true;
    nccl->is_starting = run == connect_comm || run == start_first;
    n_threads++;
    n_alive++;
    if (!start_thread(step)) {
        free(step);
        nccl->is_running = false;
        n_threads--;
        n_alive--;
        atomic_store(&nccl->state, CUDA_ERROR_OPERATING_SYSTEM);
    }
}

static void begin_step(struct gpu_nccl *nccl, step_fn run)
{
    pthread_mutex_lock(&live_lock);
    begin(nccl, run);
    pthread_mutex_unlock(&live_lock);
}

/* Gives up the step that runs on a thread. With the lock held. */
static void cancel(struct gpu_nccl *nccl)
{
    if (!nccl->is_running || nccl->is_cancelled)
        return;
    nccl->is_cancelled = true;
    atomic_store(&nccl->state, GPU_NCCL_CANCELLED);
    n_threads--;
}

/* ---- Connecting ---- */

/* Equal in all processes of a host, including those in containers on it, and unique otherwise. */
static uint64_t host_number(void)
{
    char text[128] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    uint64_t hash = 14695981039346656037u;

    if (!file || !fgets(text, sizeof text, file))
        gethostname(text, sizeof text - 1);
    if (file)
        fclose(file);
    for (const char *at = text; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    return hash;
}

static int prepare(struct gpu_nccl *nccl)
{
    CUdevice handle;
    CUcontext before;
    int error = gpu_nccl_open(), result;

    nccl->card.host = host_number();
    if (!error)
        error = gpu_call(cuDeviceGet, (&handle, nccl->device));
    if (!error)
        error = gpu_call(cuDeviceGetPCIBusId, (nccl->card.bus, (int)sizeof nccl->card.bus, handle));
    if (!error) {
        nccl->context = gpu_context_of(nccl->device);
        error = nccl->context ? 0 : gpu_driver_last();
        nccl->card.version = gpu_nccl_version();
    }
    if (!error && nccl->makes_id) {
        error = gpu_context_enter(nccl->context, &before);
        if (!error) {
            result = gpu_nccl.ncclGetUniqueId(&nccl->id);
            error = result ? gpu_nccl_record(result, "ncclGetUniqueId") : 0;
            gpu_context_leave(nccl->context, before);
        }
        memcpy(nccl->card.id, nccl->id.internal, sizeof nccl->card.id);
    }
    nccl->card.error = error;
    return error;
}

struct gpu_nccl *gpu_nccl_create(int device, bool makes_id)
{
    struct gpu_nccl *made = base_calloc(1, sizeof *made, "a communicator of NCCL");

    made->device = device;
    made->makes_id = makes_id;
    pthread_mutex_lock(&live_lock);
    made->next = live;
    live = made;
    begin(made, prepare);
    pthread_mutex_unlock(&live_lock);
    return made;
}

int gpu_nccl_state(struct gpu_nccl *nccl)
{
    return atomic_load(&nccl->state);
}

void gpu_nccl_get_card(const struct gpu_nccl *nccl, struct gpu_nccl_card *card_out)
{
    int state = atomic_load(&nccl->state);

    *card_out = nccl->card;
    if (state) /* its thread may not exist */
        card_out->error = state;
}

const char *gpu_nccl_compare(const struct gpu_nccl_card *cards, int n)
{
    for (int i = 0; i < n; i++)
        if (cards[i].error)
            return "not every process can use it";
    for (int i = 1; i < n; i++)
        if (cards[i].version != cards[0].version)
            return "processes have different versions of it";
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (cards[i].host == cards[j].host &&
                memcmp(cards[i].bus, cards[j].bus, sizeof cards[i].bus) == 0)
                return "it needs one GPU per process, but processes share a GPU";
    return NULL;
}

static int connect_comm(struct gpu_nccl *nccl)
{
    CUcontext before;
    int error = gpu_context_enter(nccl->context, &before);
    int result;

    if (error)
        return error;
    result = gpu_nccl.ncclCommInitRank(&nccl->comm, nccl->n, nccl->id, nccl->own);
    if (result) {
        error = gpu_nccl_record(result, "ncclCommInitRank");
        nccl->comm = NULL;
    }
    gpu_context_leave(nccl->context, before);
    return error;
}

void gpu_nccl_connect(struct gpu_nccl *nccl, const char *id, int n, int own)
{
    memcpy(nccl->id.internal, id, sizeof nccl->id.internal);
    nccl->n = n;
    nccl->own = own;
    begin_step(nccl, connect_comm);
}

void gpu_nccl_cancel(struct gpu_nccl *nccl)
{
    pthread_mutex_lock(&live_lock);
    cancel(nccl);
    pthread_mutex_unlock(&live_lock);
}

/* ---- Its end ---- */

static int abort_comm(struct gpu_nccl *nccl)
{
    end_comm(nccl, true);
    return GPU_NCCL_CANCELLED;
}

static int close_comm(struct gpu_nccl *nccl)
{
    end_comm(nccl, false);
    return GPU_NCCL_CANCELLED;
}

void gpu_nccl_abort(struct gpu_nccl *nccl)
{
    pthread_mutex_lock(&live_lock);
    if (nccl->is_running && nccl->is_starting)
        cancel(nccl);
    else if (!nccl->is_running && nccl->comm)
        begin(nccl, abort_comm);
    pthread_mutex_unlock(&live_lock);
}

void gpu_nccl_destroy(struct gpu_nccl *nccl)
{
    pthread_mutex_lock(&live_lock);
    nccl->is_unwanted = true;
    if (!nccl->is_running && nccl->comm)
        begin(nccl, close_comm);
    if (!nccl->is_running)
        forget(nccl);
    pthread_mutex_unlock(&live_lock);
}

/* Gives up operations that wait for other participants; waits for the other threads. With the lock held. */
static void await_threads(double limit_s)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)limit_s;
    for (struct gpu_nccl *nccl = live; nccl; nccl = nccl->next)
        if (nccl->is_running && nccl->is_starting)
            cancel(nccl);
    while (n_threads > 0 && pthread_cond_timedwait(&live_changed, &live_lock, &until) == 0)
        ;
}

void gpu_nccl_settle(double limit_s)
{
    pthread_mutex_lock(&live_lock);
    for (struct gpu_nccl *nccl = live; nccl; nccl = nccl->next)
        if (!nccl->is_running && nccl->comm)
            begin(nccl, close_comm);
    await_threads(limit_s);
    pthread_mutex_unlock(&live_lock);
}

void gpu_nccl_leave(int exit_code, double limit_s)
{
    pthread_mutex_lock(&live_lock);
    await_threads(limit_s);
    if (n_alive > 0) {
        fflush(NULL);
        _exit(exit_code & 0xff);
    }
    pthread_mutex_unlock(&live_lock);
}

/* ---- Operations ---- */

/* NCCL's number of a type + 1, and its elements per element of the type; 0: unsupported. */
static const struct {
    signed char number;
    signed char n;
} types[GPU_TYPE_COUNT] = {
    [GPU_TYPE_INT8] = {GPU_NCCL_INT8 + 1, 1},
    [GPU_TYPE_UINT8] = {GPU_NCCL_UINT8 + 1, 1},
    [GPU_TYPE_INT32] = {GPU_NCCL_INT32 + 1, 1},
    [GPU_TYPE_UINT32] = {GPU_NCCL_UINT32 + 1, 1},
    [GPU_TYPE_INT64] = {GPU_NCCL_INT64 + 1, 1},
    [GPU_TYPE_UINT64] = {GPU_NCCL_UINT64 + 1, 1},
    [GPU_TYPE_FLOAT16] = {GPU_NCCL_FLOAT16 + 1, 1},
    [GPU_TYPE_FLOAT] = {GPU_NCCL_FLOAT32 + 1, 1},
    [GPU_TYPE_DOUBLE] = {GPU_NCCL_FLOAT64 + 1, 1},
    [GPU_TYPE_COMPLEX_FLOAT16] = {GPU_NCCL_FLOAT16 + 1, 2},
    [GPU_TYPE_COMPLEX_FLOAT] = {GPU_NCCL_FLOAT32 + 1, 2},
    [GPU_TYPE_COMPLEX_DOUBLE] = {GPU_NCCL_FLOAT64 + 1, 2},
};

/* By NCCL's number. */
static const unsigned char type_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8};

static const signed char ops[GPU_OP_COUNT] = {
    [GPU_OP_SUM] = GPU_NCCL_SUM + 1,
    [GPU_OP_PROD] = GPU_NCCL_PROD + 1,
    [GPU_OP_MIN] = GPU_NCCL_MIN + 1,
    [GPU_OP_MAX] = GPU_NCCL_MAX + 1,
};

bool gpu_nccl_can(int op, int type)
{
    if (op < 0 || op >= GPU_OP_COUNT || type < 0 || type >= GPU_TYPE_COUNT)
        return false;
    return ops[op] && types[type].number && (types[type].n == 1 || op == GPU_OP_SUM);
}

bool gpu_nccl_can_use(int device, const void *address)
{
    const struct gpu_range *range = gpu_resolve(address);

    return range->memory == GPU_MEMORY_DEVICE && range->device == device &&
           gpu_peer_access_by_kernel(device, address, range);
}

struct gpu_queue *gpu_nccl_queue(const struct gpu_nccl *nccl, int *error_out)
{
    return gpu_queue_of(nccl->device, GPU_STREAM_NCCL, error_out);
}

static bool are_equal(const size_t *counts, int n)
{
    for (int i = 1; i < n; i++)
        if (counts[i] != counts[0])
            return false;
    return true;
}

/* Blocks of different sizes: one operation each, grouped by NCCL. */
static int start_each(const struct gpu_nccl *nccl, const struct gpu_nccl_call *call, CUstream stream)
{
    bool is_bytes = call->kind == GPU_NCCL_ALLGATHER;
    int type = is_bytes ? GPU_NCCL_UINT8 : types[call->type].number - 1;
    int op = is_bytes ? 0 : ops[call->op] - 1;
    size_t each = is_bytes ? 1 : (size_t)types[call->type].n;
    size_t width = each * type_bytes[type];
    size_t from = 0;
    int result = gpu_nccl.ncclGroupStart(), end_result;

    if (result)
        return result;
    for (int i = 0; i < nccl->n && !result; i++) {
        size_t n = call->counts[i] * each;
        if (n && is_bytes)
            result = gpu_nccl.ncclBroadcast(i == nccl->own ? call->send : (char *)call->recv + from,
                                            (char *)call->recv + from, n, type, i, nccl->comm, stream);
        else if (n)
            result = gpu_nccl.ncclReduce((const char *)call->send + from * width, call->recv, n, type, op, i,
                                         nccl->comm, stream);
        from += call->counts[i];
    }
    end_result = gpu_nccl.ncclGroupEnd();
    return result ? result : end_result;
}

static int start(const struct gpu_nccl *nccl, const struct gpu_nccl_call *call, CUstream stream)
{
    bool is_each = call->counts && !are_equal(call->counts, nccl->n);
    bool is_bytes = call->kind >= GPU_NCCL_BCAST;
    int type = is_bytes ? GPU_NCCL_UINT8 : types[call->type].number - 1;
    int op = is_bytes ? 0 : ops[call->op] - 1;
    size_t n = call->count * (is_bytes ? 1 : (size_t)types[call->type].n);

    if (is_each)
        return start_each(nccl, call, stream);
    switch (call->kind) {
    case GPU_NCCL_ALLREDUCE:
        return gpu_nccl.ncclAllReduce(call->send, call->recv, n, type, op, nccl->comm, stream);
    case GPU_NCCL_REDUCE:
        return gpu_nccl.ncclReduce(call->send, call->recv, n, type, op, call->root, nccl->comm, stream);
    case GPU_NCCL_REDUCE_SCATTER:
        return gpu_nccl.ncclReduceScatter(call->send, call->recv, n / (size_t)nccl->n, type, op, nccl->comm,
                                          stream);
    case GPU_NCCL_BCAST:
        return gpu_nccl.ncclBroadcast(call->send, call->recv, n, type, call->root, nccl->comm, stream);
    case GPU_NCCL_ALLGATHER:
        return gpu_nccl.ncclAllGather(call->send, call->recv, n / (size_t)nccl->n, type, nccl->comm, stream);
    }
    return GPU_NCCL_INVALID_USAGE;
}

static int start_in_context(struct gpu_nccl *nccl, const struct gpu_nccl_call *call, CUstream stream)
{
    static const char *const names[] = {"ncclAllReduce", "ncclReduce", "ncclReduceScatter", "ncclBroadcast",
                                        "ncclAllGather"};
    CUcontext before;
    int error = gpu_context_enter(nccl->context, &before);
    int result;

    if (error)
        return error;
    result = start(nccl, call, stream);
    gpu_context_leave(nccl->context, before);
    return result ? gpu_nccl_record(result, names[call->kind]) : 0;
}

static int start_first(struct gpu_nccl *nccl)
{
    return start_in_context(nccl, &nccl->call, nccl->stream);
}

/* Minimum stack to call NCCL on the caller's stack; ranks may have smaller ones. */
#define STACK_BYTES_LEAST ((size_t)256 << 10)

static bool has_room(void)
{
    const struct ult *self = ult_self();

    return !self || !self->stack_lo ||
           (size_t)((char *)__builtin_frame_address(0) - self->stack_lo) >= STACK_BYTES_LEAST;
}

int gpu_nccl_start(struct gpu_nccl *nccl, struct gpu_queue *queue, const struct gpu_nccl_call *call)
{
    uint64_t class = (uint64_t)1 << (63 - __builtin_clzll(call->count | 1));
    CUstream stream = gpu_queue_stream(queue);

    if (gpu_nccl_state(nccl) || !nccl->comm)
        return GPU_NCCL_CANCELLED;
    if ((nccl->started[call->kind] & class) && has_room())
        return start_in_context(nccl, call, stream);
    nccl->started[call->kind] |= class;
    nccl->call = *call;
    nccl->stream = stream;
    begin_step(nccl, start_first);
    return GPU_NCCL_BUSY;
}

int gpu_nccl_ask(struct gpu_nccl *nccl)
{
    int state = gpu_nccl_state(nccl), error = GPU_NCCL_SUCCESS, result;

    if (state)
        return state;
    if (!nccl->comm)
        return GPU_NCCL_CANCELLED;
    result = gpu_nccl.ncclCommGetAsyncError(nccl->comm, &error);
    if (result)
        return gpu_nccl_record(result, "ncclCommGetAsyncError");
    if (error == GPU_NCCL_IN_PROGRESS)
        return GPU_NCCL_BUSY;
    return error ? gpu_nccl_record(error, "NCCL") : 0;
}
