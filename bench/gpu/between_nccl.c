/* SPDX-License-Identifier: BSD-3-Clause
 *
 * between_nccl: collectives between processes on device buffers beside the same ones of NCCL called directly,
 * each with a wait for the GPU, one rank per process and GPU. Heddle's use NCCL or not, depending on the
 * settings (+gpu nccl, HEDDLE_COLL). BYTES is the whole vector of bcast, reduce, allreduce and reduce_scatter, and all
 * data that a rank gets from allgather; the root advances by one rank per operation. The numbers are the last
 * rank's time.
 *
 * usage: between_nccl [-l libnccl.so.2] [-o op,op,...] [-s bytes,bytes,...] [-t seconds_per_point]
 * prints: OP BYTES ours_us bare_us (without -l: no bare ones), and the number of our operations that NCCL has done
 */
#include <cuda.h>
#include <dlfcn.h>

#include "../bench.h"

typedef struct {
    char internal[128];
} unique_id;

/* NCCL's functions, with enumerations as ints. */
static struct {
    int (*get_id)(unique_id *id);
    int (*init)(void **comm, int n, unique_id id, int rank);
    int (*destroy)(void *comm);
    int (*allreduce)(const void *from, void *to, size_t count, int type, int op, void *comm, CUstream stream);
    int (*reduce)(const void *from, void *to, size_t count, int type, int op, int root, void *comm,
                  CUstream stream);
    int (*bcast)(const void *from, void *to, size_t count, int type, int root, void *comm, CUstream stream);
    int (*allgather)(const void *from, void *to, size_t count, int type, void *comm, CUstream stream);
    int (*reduce_scatter)(const void *from, void *to, size_t count, int type, int op, void *comm,
                          CUstream stream);
} nccl;
#define NCCL_FLOAT 7
#define NCCL_SUM 0

struct work {
    int rank, size;
    size_t count; /* floats */
    float *send, *recv;
    CUstream stream;
    void *comm; /* NCCL's; NULL: none */
};

static void check_cuda(CUresult result, const char *what)
{
    const char *name = "?";
    if (result == CUDA_SUCCESS)
        return;
    cuGetErrorName(result, &name);
    fprintf(stderr, "%s: ", name);
    bench_fail(what);
}
#define CU(call) check_cuda(call, #call)

static void check_nccl(int result)
{
    if (result)
        bench_fail("NCCL has failed");
}

static void wait_for(const struct work *w)
{
    CU(cuStreamSynchronize(w->stream));
}

#define COUNT (int)w->count
#define EACH (int)(w->count / (size_t)w->size)
#define OURS(name) static void ours_##name(const struct work *w, int root)
#define BARE(name) static void bare_##name(const struct work *w, int root)

OURS(allreduce)
{
    (void)root;
    MPI_Allreduce(w->send, w->recv, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
OURS(reduce)
{
    MPI_Reduce(w->send, w->recv, COUNT, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
}
OURS(bcast)
{
    MPI_Bcast(w->recv, COUNT, MPI_FLOAT, root, MPI_COMM_WORLD);
}
OURS(allgather)
{
    (void)root;
    MPI_Allgather(w->send, EACH, MPI_FLOAT, w->recv, EACH, MPI_FLOAT, MPI_COMM_WORLD);
}
OURS(reduce_scatter)
{
    (void)root;
    MPI_Reduce_scatter_block(w->send, w->recv, EACH, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
BARE(allreduce)
{
    (void)root;
    check_nccl(nccl.allreduce(w->send, w->recv, w->count, NCCL_FLOAT, NCCL_SUM, w->comm, w->stream));
}
BARE(reduce)
{
    check_nccl(nccl.reduce(w->send, w->recv, w->count, NCCL_FLOAT, NCCL_SUM, root, w->comm, w->stream));
}
BARE(bcast)
{
    check_nccl(nccl.bcast(w->recv, w->recv, w->count, NCCL_FLOAT, root, w->comm, w->stream));
}
BARE(allgather)
{
    (void)root;
    check_nccl(nccl.allgather(w->send, w->recv, (size_t)EACH, NCCL_FLOAT, w->comm, w->stream));
}
BARE(reduce_scatter)
{
    (void)root;
    check_nccl(nccl.reduce_scatter(w->send, w->recv, (size_t)EACH, NCCL_FLOAT, NCCL_SUM, w->comm, w->stream));
}

static const struct operation {
    const char *name;
    void (*ours)(const struct work *w, int root);
    void (*bare)(const struct work *w, int root);
} operations[] = {{"allreduce", ours_allreduce, bare_allreduce},
                  {"bcast", ours_bcast, bare_bcast},
                  {"allgather", ours_allgather, bare_allgather},
                  {"reduce_scatter", ours_reduce_scatter, bare_reduce_scatter},
                  {"reduce", ours_reduce, bare_reduce}};

struct point {
    const struct work *work;
    const struct operation *operation;
};

static double run_ours(void *ctx, long iterations)
{
    const struct point *point = ctx;
    double began = bench_now();

    for (long i = 0; i < iterations; i++)
        point->operation->ours(point->work, (int)(i % point->work->size));
    return bench_now() - began;
}

static double run_bare(void *ctx, long iterations)
{
    const struct point *point = ctx;
    double began = bench_now();

    for (long i = 0; i < iterations; i++) {
        point->operation->bare(point->work, (int)(i % point->work->size));
        wait_for(point->work);
    }
    return bench_now() - began;
}

static void open_nccl(struct work *w, const char *path)
{
    static const char *const names[] = {"ncclGetUniqueId", "ncclCommInitRank", "ncclCommDestroy",
                                        "ncclAllReduce",   "ncclReduce",       "ncclBroadcast",
                                        "ncclAllGather",   "ncclReduceScatter"};
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unique_id id = {{0}};

    if (!library)
        bench_fail(dlerror());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *symbol = dlsym(library, names[i]);
        if (!symbol)
            bench_fail(names[i]);
        memcpy((char *)&nccl + i * sizeof(void *), &symbol, sizeof symbol);
    }
    if (w->rank == 0)
        check_nccl(nccl.get_id(&id));
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    check_nccl(nccl.init(&w->comm, w->size, id, w->rank));
}

/* Is the last result of an allreduce right? Every rank sends its number + 1. */
static void check_sum(const struct work *w)
{
    float expected = (float)(w->size * (w->size + 1)) / 2, last = 0;

    ours_allreduce(w, 0);
    CU(cuMemcpyDtoH(&last, (CUdeviceptr)&w->recv[w->count - 1], sizeof last));
    if (last != expected)
        bench_fail("a sum is wrong");
}

static void measure(struct work *w, const struct operation *operation, size_t n_bytes, double seconds)
{
    struct point point = {w, operation};
    struct bench_stats ours, bare = {0};

    w->count = n_bytes / sizeof(float);
    ours = bench_sample(run_ours, &point, seconds, BENCH_MAX);
    if (w->comm)
        bare = bench_sample(run_bare, &point, seconds, BENCH_MAX);
    check_sum(w);
    if (w->rank == 0) {
        printf("%-14s %10zu %9.1f %9.1f\n", operation->name, n_bytes, ours.median * 1e6, bare.median * 1e6);
        fflush(stdout);
    }
}

static int is_wanted(const char *list, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = list; (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
            return 1;
    return 0;
}

/* How many collectives of this process NCCL has done for the library; -1: another library. */
static long long count_ours(void)
{
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    unsigned long long value;
    int index, n, provided;

    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS ||
        MPI_T_pvar_get_index("heddle_nccl_collectives", MPI_T_PVAR_CLASS_COUNTER, &index) != MPI_SUCCESS ||
        MPI_T_pvar_session_create(&session) != MPI_SUCCESS ||
        MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &n) != MPI_SUCCESS ||
        MPI_T_pvar_read(session, handle, &value) != MPI_SUCCESS)
        return -1;
    return (long long)value;
}

int main(int argc, char **argv)
{
    struct work w = {0};
    const char *path, *sizes, *wanted;
    double seconds;
    int n_devices = 0;
    size_t most = 0;
    CUdevice device;
    CUcontext context;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &w.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &w.size);
    path = bench_option(argc, argv, "-l", "");
    wanted = bench_option(argc, argv, "-o", "allreduce,bcast,allgather,reduce_scatter,reduce");
    sizes = bench_option(argc, argv, "-s", "65536,262144,1048576,4194304,16777216,67108864,268435456");
    seconds = atof(bench_option(argc, argv, "-t", "0.1"));
    CU(cuInit(0));
    CU(cuDeviceGetCount(&n_devices));
    CU(cuDeviceGet(&device, w.rank % n_devices));
    CU(cuDevicePrimaryCtxRetain(&context, device));
    CU(cuCtxSetCurrent(context));
    CU(cuStreamCreate(&w.stream, CU_STREAM_NON_BLOCKING));
    for (const char *at = sizes; *at; at += strcspn(at, ","), at += *at == ',')
        most = strtoul(at, NULL, 10) > most ? strtoul(at, NULL, 10) : most;
    CU(cuMemAlloc((CUdeviceptr *)&w.send, most));
    CU(cuMemAlloc((CUdeviceptr *)&w.recv, most));
    {
        float value = (float)(w.rank + 1);
        unsigned bits;
        memcpy(&bits, &value, sizeof bits);
        CU(cuMemsetD32((CUdeviceptr)w.send, bits, most / sizeof(float)));
    }
    if (*path)
        open_nccl(&w, path);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        for (const char *at = sizes; *at; at += strcspn(at, ","), at += *at == ',')
            if (is_wanted(wanted, operations[i].name))
                measure(&w, &operations[i], strtoul(at, NULL, 10), seconds);
    if (w.rank == 0)
        printf("# %lld collectives through NCCL\n", count_ours());
    if (w.comm)
        check_nccl(nccl.destroy(w.comm));
    MPI_Finalize();
    return 0;
}
