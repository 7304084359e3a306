/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fakenccl.c: see fakenccl.h. A communicator is a piece of shared memory, which its identifier names: a chunk
 * for each participant and a count of its barriers. An operation processes the data chunk by chunk: each
 * participant writes its own, a barrier, each reads the chunks that it needs, a barrier.
 */
#include "fakenccl.h"

#include <cuda.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "fakecuda.h"
#include "gpu/nccl/nccl_abi.h"

#define EXPORT __attribute__((visibility("default")))
#define RANKS_MAX 16
#define CHUNK_BYTES 65536
#define WAIT_US 20
#define STACK_BYTES 100000
#define INVALID_ARGUMENT 4

struct shared {
    _Atomic uint64_t come[RANKS_MAX]; /* barriers that each has come to */
    _Atomic int pids[RANKS_MAX];
    _Atomic int are_gone[RANKS_MAX]; /* aborted */
    char bus[RANKS_MAX][16];
    unsigned char chunks[RANKS_MAX][CHUNK_BYTES];
};

struct comm {
    struct shared *shared;
    int n;
    int rank;
    CUcontext context;
    struct gpu_nccl_unique_id id;
    uint64_t n_barriers;
    bool is_connected; /* the first operation has been called */
    _Atomic int error; /* what ncclCommGetAsyncError says */
    _Atomic bool is_aborted;
    _Atomic int n_queued; /* operations that have not ended */
};

enum kind { ALLREDUCE, REDUCE, REDUCE_SCATTER, BROADCAST, ALLGATHER };

struct op {
    struct comm *comm;
    enum kind kind;
    const void *from;
    void *to;
    size_t count; /* as the caller gave it */
    int type;
    int op;
    int root;
    CUstream stream;
};

/* ---- Calls, and failures that the test has requested ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last_error[256];

static struct {
    char name[40];
    int n_calls;
} calls[32];

static int count_call(const char *name)
{
    int i = 0, n;

    pthread_mutex_lock(&lock);
    while (calls[i].name[0] && strcmp(calls[i].name, name) != 0)
        i++;
    snprintf(calls[i].name, sizeof calls[i].name, "%s", name);
    n = ++calls[i].n_calls;
    pthread_mutex_unlock(&lock);
    return n;
}

EXPORT int fakenccl_calls(const char *name)
{
    int n = 0;

    pthread_mutex_lock(&lock);
    for (int i = 0; calls[i].name[0]; i++)
        if (strcmp(calls[i].name, name) == 0)
            n = calls[i].n_calls;
    pthread_mutex_unlock(&lock);
    return n;
}

/* Uses as much stack as the real one might. */
static void use_stack(void)
{
    volatile char stack[STACK_BYTES];

    for (size_t i = 0; i < sizeof stack; i += 1024)
        stack[i] = 0;
}

/* Counts the call; returns its result. */
static int enter(const char *name, int rank)
{
    const char *text = getenv("FAKENCCL_FAIL");
    int n = count_call(name);

    use_stack();
    while (text && *text) {
        char function[40];
        int nth, result, only = -1, length = 0;
        if (sscanf(text, "%39[^:]:%d:%d%n", function, &nth, &result, &length) != 3)
            break;
        text += length;
        if (*text == ':')
            only = (int)strtol(text + 1, (char **)&text, 10);
        text += *text == ',';
        if (strcmp(function, name) == 0 && nth == n && (only < 0 || only == rank)) {
            snprintf(last_error, sizeof last_error, "fake NCCL (test double): %s was told to fail", name);
            return result;
        }
    }
    return GPU_NCCL_SUCCESS;
}

static long number_in(const char *variable, long otherwise)
{
    const char *text = getenv(variable);

    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

/* ---- Waiting for others ---- */

/* What the real one notices by a socket that was closed; in calls, not in streams. */
static bool is_gone(const struct comm *comm, int rank)
{
    int pid = atomic_load(&comm->shared->pids[rank]);

    return atomic_load(&comm->shared->are_gone[rank]) || (pid && kill(pid, 0) != 0);
}

static bool barrier(struct comm *comm, bool is_in_call)
{
    comm->n_barriers++;
    atomic_store(&comm->shared->come[comm->rank], comm->n_barriers);
    for (int i = 0; i < comm->n; i++)
        while (atomic_load(&comm->shared->come[i]) < comm->n_barriers) {
            if (atomic_load(&comm->is_aborted) || (is_in_call && is_gone(comm, i)))
                return false;
            usleep(WAIT_US);
        }
    return true;
}

/* ---- Communicators ---- */

EXPORT int ncclGetVersion(int *version)
{
    *version = (int)number_in("FAKENCCL_VERSION", 22800);
    return GPU_NCCL_SUCCESS;
}

EXPORT const char *ncclGetErrorString(int error)
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "in progress"};

    return error >= 0 && error < (int)(sizeof texts / sizeof *texts) ? texts[error] : "unknown result code";
}

EXPORT const char *ncclGetLastError(void *comm)
{
    (void)comm;
    return last_error;
}

EXPORT int ncclGetUniqueId(struct gpu_nccl_unique_id *id)
{
    static _Atomic int n_made;
    int result = enter(__func__, 0);
    struct timespec now; /* a killed process of the same number may have left its memory */

    clock_gettime(CLOCK_REALTIME, &now);
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "/fakenccl.%d.%d.%lld.%09ld", (int)getpid(),
             atomic_fetch_add(&n_made, 1), (long long)now.tv_sec, now.tv_nsec);
    return result;
}

static int attach(struct comm *comm)
{
    int fd = shm_open(comm->id.internal, O_RDWR | O_CREAT, 0600);
    void *memory;

    if (fd < 0 || ftruncate(fd, sizeof(struct shared)) != 0)
        return 2;
    memory = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (memory == MAP_FAILED)
        return 2;
    comm->shared = memory;
    return GPU_NCCL_SUCCESS;
}

static int make(struct comm *comm)
{
    CUdevice device;
    int result = enter("init", comm->rank);

    usleep((useconds_t)number_in("FAKENCCL_INIT_MS", 0) * 1000);
    if (!result && cuCtxSetCurrent(comm->context) != CUDA_SUCCESS)
        result = GPU_NCCL_UNHANDLED_CUDA_ERROR;
    if (!result)
        result = attach(comm);
    if (result)
        return result;
    if (cuCtxGetDevice(&device) != CUDA_SUCCESS ||
        cuDeviceGetPCIBusId(comm->shared->bus[comm->rank], 16, device) != CUDA_SUCCESS)
        return GPU_NCCL_UNHANDLED_CUDA_ERROR;
    atomic_store(&comm->shared->pids[comm->rank], (int)getpid());
    if (!barrier(comm, true))
        return GPU_NCCL_REMOTE_ERROR;
    shm_unlink(comm->id.internal);
    for (int i = 0; i < comm->n; i++)
        if (i != comm->rank && strcmp(comm->shared->bus[i], comm->shared->bus[comm->rank]) == 0) {
            snprintf(last_error, sizeof last_error, "Duplicate GPU detected: %s", comm->shared->bus[i]);
            return GPU_NCCL_INVALID_USAGE;
        }
    return GPU_NCCL_SUCCESS;
}

/* Calls that wait. */
static _Atomic int n_inside;

static void check_calls(void)
{
    if (number_in("FAKENCCL_STRICT", 0) && atomic_load(&n_inside) > 0)
        raise(SIGSEGV);
}

/* As the driver ends before what was registered earlier. */
__attribute__((constructor)) static void register_check(void)
{
    atexit(check_calls);
}

static void end(struct comm *comm)
{
    while (atomic_load(&comm->n_queued) > 0)
        usleep(WAIT_US);
    if (comm->shared && atomic_load(&comm->is_aborted))
        atomic_store(&comm->shared->are_gone[comm->rank], 1);
    if (comm->shared)
        munmap(comm->shared, sizeof(struct shared));
    if (atomic_load(&comm->is_aborted))
        shm_unlink(comm->id.internal);
    free(comm);
}

static int init_rank(void **comm_out, int n_ranks, struct gpu_nccl_unique_id id, int rank)
{
    int result = enter("ncclCommInitRank", rank);
    struct comm *comm;

    if (result)
        return result;
    if (n_ranks < 1 || n_ranks > RANKS_MAX || rank < 0 || rank >= n_ranks)
        return INVALID_ARGUMENT;
    comm = calloc(1, sizeof *comm);
    comm->n = n_ranks;
    comm->rank = rank;
    comm->id = id;
    if (cuCtxGetCurrent(&comm->context) != CUDA_SUCCESS || !comm->context)
        result = GPU_NCCL_UNHANDLED_CUDA_ERROR;
    else
        result = make(comm);
    if (result) {
        end(comm);
        return result;
    }
    *comm_out = comm;
    return GPU_NCCL_SUCCESS;
}

EXPORT int ncclCommInitRank(void **comm_out, int n_ranks, struct gpu_nccl_unique_id id, int rank)
{
    int result;

    atomic_fetch_add(&n_inside, 1);
    result = init_rank(comm_out, n_ranks, id, rank);
    atomic_fetch_sub(&n_inside, 1);
    return result;
}

EXPORT int ncclCommGetAsyncError(void *handle, int *error)
{
    struct comm *comm = handle;

    *error = atomic_load(&comm->error);
    return GPU_NCCL_SUCCESS;
}

EXPORT int ncclCommDestroy(void *comm)
{
    count_call(__func__);
    atomic_fetch_add(&n_inside, 1);
    usleep((useconds_t)number_in("FAKENCCL_END_MS", 0) * 1000);
    end(comm);
    atomic_fetch_sub(&n_inside, 1);
    return GPU_NCCL_SUCCESS;
}

EXPORT int ncclCommAbort(void *handle)
{
    struct comm *comm = handle;

    count_call(__func__);
    atomic_store(&comm->is_aborted, true);
    end(comm);
    return GPU_NCCL_SUCCESS;
}

/* ---- Arithmetic ---- */

static const size_t type_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8};

#define COMBINE(T)                                          \
    for (size_t i = 0; i < n; i++) {                        \
        T a = ((const T *)in)[i], *b = &((T *)inout)[i];    \
        *b = (T)(op == GPU_NCCL_SUM    ? *b + a             \
                 : op == GPU_NCCL_PROD ? *b * a             \
                 : op == GPU_NCCL_MAX  ? (a > *b ? a : *b)  \
                                       : (a < *b ? a : *b)); \
    }                                                       \
    break

static void combine(const void *in, void *inout, size_t n, int type, int op)
{
    switch (type) {
    case GPU_NCCL_INT8:
        COMBINE(int8_t);
    case GPU_NCCL_UINT8:
        COMBINE(uint8_t);
    case GPU_NCCL_INT32:
        COMBINE(int32_t);
    case GPU_NCCL_UINT32:
        COMBINE(uint32_t);
    case GPU_NCCL_INT64:
        COMBINE(int64_t);
    case GPU_NCCL_UINT64:
        COMBINE(uint64_t);
    case GPU_NCCL_FLOAT16:
        COMBINE(_Float16);
    case GPU_NCCL_FLOAT32:
        COMBINE(float);
    case GPU_NCCL_FLOAT64:
        COMBINE(double);
    default:
        break;
    }
}

/* ---- Operations ---- */

/* The bytes n_bytes from `at` on of a buffer, for the CPU; NULL: it is not a GPU's. */
static unsigned char *bytes_at(const void *buffer, size_t at, size_t n_bytes)
{
    CUmemorytype type = 0;

    if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)buffer) != CUDA_SUCCESS ||
        type != CU_MEMORYTYPE_DEVICE)
        return NULL;
    return fakecuda_alias((uintptr_t)buffer + at, n_bytes);
}

/* Takes what this participant gets of elements from .. from + n - 1 of the vectors in the chunks. */
static bool take_reduced(const struct op *op, size_t from, size_t n)
{
    const struct comm *comm = op->comm;
    size_t width = type_bytes[op->type];
    size_t first = op->kind == REDUCE_SCATTER ? op->count * (size_t)comm->rank : 0;
    size_t last = op->kind == REDUCE_SCATTER ? first + op->count : op->count;
    size_t begin = from > first ? from : first, stop = from + n < last ? from + n : last;
    unsigned char *to;

    if ((op->kind == REDUCE && comm->rank != op->root) || begin >= stop)
        return true;
    to = bytes_at(op->to, (begin - first) * width, (stop - begin) * width);
    if (!to)
        return false;
    memcpy(to, comm->shared->chunks[0] + (begin - from) * width, (stop - begin) * width);
    for (int i = 1; i < comm->n; i++)
        combine(comm->shared->chunks[i] + (begin - from) * width, to, stop - begin, op->type, op->op);
    return true;
}

/* The same where nothing is combined. */
static bool take_moved(const struct op *op, size_t from, size_t n)
{
    const struct comm *comm = op->comm;
    size_t width = type_bytes[op->type];

    for (int i = 0; i < comm->n; i++) {
        size_t at = op->kind == ALLGATHER ? op->count * (size_t)i : 0;
        unsigned char *to;
        if (op->kind == BROADCAST && i != op->root)
            continue;
        to = bytes_at(op->to, (at + from) * width, n * width);
        if (!to)
            return false;
        memcpy(to, comm->shared->chunks[i], n * width);
    }
    return true;
}

/* False: aborted, or a wrong address. */
static bool run_chunk(const struct op *op, size_t from, size_t n)
{
    struct comm *comm = op->comm;
    size_t width = type_bytes[op->type];
    bool has_part = op->kind != BROADCAST || comm->rank == op->root;
    const unsigned char *own = has_part ? bytes_at(op->from, from * width, n * width) : NULL;

    if (has_part && !own) {
        atomic_store(&comm->error, GPU_NCCL_UNHANDLED_CUDA_ERROR);
        return false;
    }
    if (has_part)
        memcpy(comm->shared->chunks[comm->rank], own, n * width);
    if (!barrier(comm, false))
        return false;
    if (!(op->kind <= REDUCE_SCATTER ? take_reduced(op, from, n) : take_moved(op, from, n))) {
        atomic_store(&comm->error, GPU_NCCL_UNHANDLED_CUDA_ERROR);
        return false;
    }
    return barrier(comm, false);
}

/* In the stream. */
static void run(void *arg)
{
    struct op *op = arg;
    struct comm *comm = op->comm;
    size_t each = CHUNK_BYTES / type_bytes[op->type];
    size_t count = op->kind == REDUCE_SCATTER ? op->count * (size_t)comm->n : op->count;
    int result = enter("stream", comm->rank);

    if (result)
        atomic_store(&comm->error, result);
    for (size_t from = 0; from < count; from += each)
        if (result || atomic_load(&comm->is_aborted) ||
            !run_chunk(op, from, count - from < each ? count - from : each)) {
            while (!atomic_load(&comm->is_aborted)) /* as the real one: the stream is stuck */
                usleep(WAIT_US);
            break;
        }
    free(op);
    atomic_fetch_sub(&comm->n_queued, 1);
}

/* Operations that a call, or a group of them, has given. */
struct batch {
    struct op *ops[4 * RANKS_MAX];
    int n;
};

/* The operations of the group that the thread is in. */
static __thread struct batch group;
static __thread int group_depth;

static int queue_batch(const struct batch *batch)
{
    int result = GPU_NCCL_SUCCESS;

    for (int i = 0; i < batch->n; i++) {
        if (!result && fakecuda_launch(batch->ops[i]->stream, run, batch->ops[i]) == CUDA_SUCCESS)
            continue;
        result = GPU_NCCL_UNHANDLED_CUDA_ERROR;
        atomic_fetch_sub(&batch->ops[i]->comm->n_queued, 1);
        free(batch->ops[i]);
    }
    return result;
}

/* The first call connects the participants, and so waits for all of them. */
static int hand_over(const struct batch *batch)
{
    struct comm *comm = batch->n ? batch->ops[0]->comm : NULL;

    if (comm && !comm->is_connected) {
        usleep((useconds_t)number_in("FAKENCCL_CONNECT_MS", 0) * 1000);
        comm->is_connected = true;
        if (!barrier(comm, true)) {
            for (int i = 0; i < batch->n; i++)
                free(batch->ops[i]);
            atomic_fetch_sub(&comm->n_queued, batch->n);
            return GPU_NCCL_REMOTE_ERROR;
        }
    }
    return queue_batch(batch);
}

static int queue(const char *function, struct op *given)
{
    struct comm *comm = given->comm;
    struct batch one = {.n = 0}, *batch = group_depth ? &group : &one;
    int result = enter(function, comm->rank);
    CUcontext context = NULL;
    struct op *op;

    if (result)
        return result;
    if (atomic_load(&comm->error) || given->type < 0 || given->type > GPU_NCCL_FLOAT64 ||
        given->root >= comm->n || batch->n == 4 * RANKS_MAX)
        return INVALID_ARGUMENT;
    if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || context != comm->context)
        return GPU_NCCL_INVALID_USAGE;
    op = malloc(sizeof *op);
    *op = *given;
    atomic_fetch_add(&comm->n_queued, 1);
    batch->ops[batch->n++] = op;
    return group_depth ? GPU_NCCL_SUCCESS : hand_over(batch);
}

EXPORT int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream)
{
    return queue(__func__, &(struct op){comm, ALLREDUCE, from, to, count, type, op, 0, stream});
}

EXPORT int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root, void *comm,
                      void *stream)
{
    return queue(__func__, &(struct op){comm, REDUCE, from, to, count, type, op, root, stream});
}

EXPORT int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, void *comm,
                             void *stream)
{
    return queue(__func__, &(struct op){comm, REDUCE_SCATTER, from, to, count, type, op, 0, stream});
}

EXPORT int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *comm,
                         void *stream)
{
    return queue(__func__, &(struct op){comm, BROADCAST, from, to, count, type, 0, root, stream});
}

EXPORT int ncclAllGather(const void *from, void *to, size_t count, int type, void *comm, void *stream)
{
    return queue(__func__, &(struct op){comm, ALLGATHER, from, to, count, type, 0, 0, stream});
}

EXPORT int ncclGroupStart(void)
{
    int result = enter(__func__, -1);

    if (!result && group_depth++ == 0)
        group.n = 0;
    return result;
}

EXPORT int ncclGroupEnd(void)
{
    int result = enter(__func__, -1);

    if (--group_depth > 0)
        return result;
    return result ? result : hand_over(&group);
}
