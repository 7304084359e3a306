/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nccl.c: the reference for collectives on GPUs: NCCL in one process, one rank on each GPU, if libnccl.so.2
 * can be opened. It needs no NCCL header. Each operation is waited for, as in a blocking MPI call; "queued":
 * ten at a time.
 *
 *      nccl GPUS BYTES,BYTES,... [OP,OP,...]
 * prints: nccl.OP.GPUS.BYTES MICROSECONDS us (queued MICROSECONDS)
 *
 * BYTES is the whole vector: for allgather the received data of a rank, for reduce_scatter and alltoall the
 * sent data.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GPUS_MAX 16
#define REPEATS 21
#define QUEUED 10

static void check(int failed, const char *what)
{
    if (failed) {
        fprintf(stderr, "%s failed: %d\n", what, failed);
        exit(1);
    }
}
#define CHECK(call) check((int)(call), #call)

/* ---- NCCL ---- */

enum { NCCL_FLOAT64 = 8, NCCL_SUM = 0 };
static int (*comm_init_all)(void **comms, int n, const int *devices);
static int (*group_start)(void), (*group_end)(void), (*get_version)(int *version);
static int (*all_reduce)(const void *, void *, size_t, int type, int op, void *comm, CUstream);
static int (*reduce)(const void *, void *, size_t, int type, int op, int root, void *comm, CUstream);
static int (*broadcast)(const void *, void *, size_t, int type, int root, void *comm, CUstream);
static int (*all_gather)(const void *, void *, size_t, int type, void *comm, CUstream);
static int (*reduce_scatter)(const void *, void *, size_t, int type, int op, void *comm, CUstream);
static int (*nccl_send)(const void *, size_t, int type, int peer, void *comm, CUstream);
static int (*nccl_recv)(void *, size_t, int type, int peer, void *comm, CUstream);

static void open_nccl(void)
{
    static const struct {
        void *function;
        const char *name;
    } symbols[] = {
        {&comm_init_all, "ncclCommInitAll"},
        {&group_start, "ncclGroupStart"},
        {&group_end, "ncclGroupEnd"},
        {&get_version, "ncclGetVersion"},
        {&all_reduce, "ncclAllReduce"},
        {&reduce, "ncclReduce"},
        {&broadcast, "ncclBroadcast"},
        {&all_gather, "ncclAllGather"},
        {&nccl_send, "ncclSend"},
        {&reduce_scatter, "ncclReduceScatter"},
        {&nccl_recv, "ncclRecv"},
    };
    void *library = dlopen("libnccl.so.2", RTLD_NOW);

    if (!library) {
        printf("# no NCCL to compare with: %s\n", dlerror());
        exit(77);
    }
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        check(!symbol, symbols[i].name);
        memcpy(symbols[i].function, &symbol, sizeof symbol);
    }
}

/* ---- The operations ---- */

static int n_gpus;
static CUcontext contexts[GPUS_MAX];
static CUstream streams[GPUS_MAX];
static void *comms[GPUS_MAX];
static char *send[GPUS_MAX], *recv[GPUS_MAX];

/* One GPU's part; n doubles in the whole vector, a multiple of the GPUs. */
typedef void (*part_fn)(int gpu, size_t n);

static void allreduce_part(int g, size_t n)
{
    CHECK(all_reduce(send[g], recv[g], n, NCCL_FLOAT64, NCCL_SUM, comms[g], streams[g]));
}
static void reduce_part(int g, size_t n)
{
    CHECK(reduce(send[g], recv[g], n, NCCL_FLOAT64, NCCL_SUM, 0, comms[g], streams[g]));
}
static void bcast_part(int g, size_t n)
{
    CHECK(broadcast(send[g], g == 0 ? send[g] : recv[g], n, NCCL_FLOAT64, 0, comms[g], streams[g]));
}
static void allgather_part(int g, size_t n)
{
    CHECK(all_gather(send[g], recv[g], n / (size_t)n_gpus, NCCL_FLOAT64, comms[g], streams[g]));
}
static void reduce_scatter_part(int g, size_t n)
{
    CHECK(reduce_scatter(send[g], recv[g], n / (size_t)n_gpus, NCCL_FLOAT64, NCCL_SUM, comms[g], streams[g]));
}
static void alltoall_part(int g, size_t n)
{
    size_t block = n / (size_t)n_gpus;

    for (int peer = 0; peer < n_gpus; peer++) {
        size_t skip = (size_t)peer * block * sizeof(double);
        CHECK(nccl_send(send[g] + skip, block, NCCL_FLOAT64, peer, comms[g], streams[g]));
        CHECK(nccl_recv(recv[g] + skip, block, NCCL_FLOAT64, peer, comms[g], streams[g]));
    }
}

static const struct {
    const char *name;
    part_fn part;
} operations[] = {
    {"bcast", bcast_part},         {"reduce", reduce_part},     {"allreduce", allreduce_part},
    {"allgather", allgather_part}, {"alltoall", alltoall_part}, {"reduce_scatter_block", reduce_scatter_part},
};

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static double run_us(part_fn part, size_t n, int times)
{
    double start = now_us();

    for (int i = 0; i < times; i++) {
        CHECK(group_start());
        for (int g = 0; g < n_gpus; g++)
            part(g, n);
        CHECK(group_end());
    }
    for (int g = 0; g < n_gpus; g++) {
        int result;
        CHECK(cuCtxSetCurrent(contexts[g]));
        while ((result = (int)cuStreamQuery(streams[g])) == CUDA_ERROR_NOT_READY)
            ;
        check(result, "cuStreamQuery");
    }
    return (now_us() - start) / times;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median_us(part_fn part, size_t n, int times)
{
    double all[REPEATS];

    for (int i = 0; i < 3; i++)
        run_us(part, n, times);
    for (int i = 0; i < REPEATS; i++)
        all[i] = run_us(part, n, times);
    qsort(all, REPEATS, sizeof all[0], ascending);
    return all[REPEATS / 2];
}

static int is_listed(const char *list, const char *name)
{
    for (const char *at = list; (at = strstr(at, name)); at++)
        if ((at == list || at[-1] == ',') && (at[strlen(name)] == ',' || !at[strlen(name)]))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    size_t most = 0;
    int devices[GPUS_MAX], version = 0;

    if (argc < 3 || (n_gpus = atoi(argv[1])) < 1 || n_gpus > GPUS_MAX) {
        fprintf(stderr, "usage: nccl GPUS BYTES,BYTES,... [OP,OP,...]\n");
        return 2;
    }
    open_nccl();
    for (const char *at = argv[2]; at; at = strchr(at, ',')) {
        size_t size = strtoul(at += *at == ',', NULL, 10);
        most = size > most ? size : most;
    }
    CHECK(cuInit(0));
    for (int g = 0; g < n_gpus; g++) {
        CUdevice device;
        CUdeviceptr memory[2];
        devices[g] = g;
        CHECK(cuDeviceGet(&device, g));
        CHECK(cuDevicePrimaryCtxRetain(&contexts[g], device));
        CHECK(cuCtxSetCurrent(contexts[g]));
        CHECK(cuStreamCreate(&streams[g], CU_STREAM_NON_BLOCKING));
        for (int i = 0; i < 2; i++) {
            CHECK(cuMemAlloc(&memory[i], most + 4096));
            CHECK(cuMemsetD8(memory[i], 0, most + 4096));
        }
        send[g] = (char *)(uintptr_t)memory[0];
        recv[g] = (char *)(uintptr_t)memory[1];
    }
    CHECK(comm_init_all(comms, n_gpus, devices));
    CHECK(get_version(&version));
    printf("# NCCL %d, %d GPUs, one process\n", version, n_gpus);
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        if (argc > 3 && !is_listed(argv[3], operations[i].name))
            continue;
        for (const char *at = argv[2]; at; at = strchr(at, ',')) {
            size_t size = strtoul(at += *at == ',', NULL, 10), n = size / sizeof(double);
            n = (n + (size_t)n_gpus - 1) / (size_t)n_gpus * (size_t)n_gpus;
            printf("nccl.%s.%d.%zu %.2f us (queued %.2f)\n", operations[i].name, n_gpus, size,
                   median_us(operations[i].part, n, 1), median_us(operations[i].part, n, QUEUED));
        }
    }
    return 0;
}
