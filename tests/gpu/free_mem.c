/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Free_mem of memory of a GPU does not wait for a stream that waits for a message, which depends on what the rank sends next, nor
 * for a host function that waits for the rank's next operations. The memory can be allocated again when no stream waits any more
 * (argument "room"). In a capture of CUDA's default mode it does not fail ("capture"). It does not free what is allocated after a
 * reset of the device ("reset"). The rank needs no current context ("none"). Nor does it
 * wait if much memory is freed meanwhile ("much"). Memory that a kernel still uses is not allocated again ("used").
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "enqueue.h"

#define N 3000
#define ROUNDS 10
#define LARGE ((size_t)40 << 20)

static struct etest test;
static CUdeviceptr to;
static atomic_int n_ended;
static bool has_no_context;

static void *allocate(size_t n_bytes, const char *kind)
{
    void *memory = NULL;
    MPI_Info info;

    MTEST_OK(MPI_Info_create(&info));
    MTEST_OK(MPI_Info_set(info, "mpi_memory_alloc_kinds", kind));
    MTEST_OK(MPI_Alloc_mem((MPI_Aint)n_bytes, info, &memory));
    MTEST_OK(MPI_Info_free(&info));
    return memory;
}

/* Each rank's stream waits for what the rank before it sends. */
static void free_behind_receive(size_t n_bytes, const char *kind)
{
    int left = (mtest_rank + mtest_size - 1) % mtest_size, right = (mtest_rank + 1) % mtest_size;
    void *memory = allocate(n_bytes, kind);
    unsigned data[N] = {0}, got = 1;
    MPI_Request request;

    MTEST_OK(MPIX_Recv_enqueue((void *)to, N, MPI_UNSIGNED, left, 0, test.comm, MPI_STATUS_IGNORE));
    if (has_no_context)
        GTEST_CU(cuCtxSetCurrent(NULL));
    MTEST_OK(MPI_Free_mem(memory));
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
    data[N - 1] = (unsigned)mtest_rank;
    MTEST_OK(MPI_Isend(data, N, MPI_UNSIGNED, right, 0, test.comm, &request));
    GTEST_CU(cuStreamSynchronize(test.cuda));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    GTEST_CU(cuMemcpyDtoH(&got, to + (N - 1) * sizeof got, sizeof got));
    MTEST_CHECK(got == (unsigned)left, "received %u", got);
}

static void free_all_kinds(void)
{
    static const char *const kinds[] = {"cuda:device", "cuda:host", "cuda:managed"};

    for (int i = 0; i < ROUNDS; i++)
        for (unsigned k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            void *memory = allocate(4096, kinds[k]);
            free_behind_receive(4096, kinds[k]);
            if (has_no_context)
                GTEST_CU(cuCtxSetCurrent(NULL));
            MTEST_OK(MPI_Free_mem(memory)); /* no stream of the rank waits */
            GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
        }
}

/* GPUs have not got room for both allocations. */
static void allocate_again(void)
{
    CUdeviceptr memory;

    for (int i = 0; i < ROUNDS; i++) {
        free_behind_receive(LARGE, "cuda:device");
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        GTEST_CU(cuMemAlloc(&memory, LARGE + LARGE / 4));
        GTEST_CU(cuMemFree(memory));
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
}

/* While a stream of rank 1 waits for a message. */
static void allocate_behind_kernel(void)
{
    volatile unsigned *flag = gtest_flag();
    void *freed = allocate(N * sizeof(unsigned), "cuda:device"), *memory;
    unsigned values[N] = {0};
    CUstream busy;

    gtest_load_kernels();
    GTEST_CU(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    if (mtest_rank == 1)
        MTEST_OK(MPIX_Recv_enqueue((void *)to, 1, MPI_UNSIGNED, 0, 1, test.comm, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0) {
        gtest_launch_spin((CUdeviceptr)flag, busy);
        gtest_launch_update((CUdeviceptr)freed, N, 0, 7, busy);
        MTEST_OK(MPI_Free_mem(freed));
        memory = allocate(N * sizeof(unsigned), "cuda:device");
        GTEST_CU(cuMemsetD32Async((CUdeviceptr)memory, 5, N, test.cuda));
        GTEST_CU(cuStreamSynchronize(test.cuda));
        *flag = 1;
        GTEST_CU(cuStreamSynchronize(busy));
        GTEST_CU(cuMemcpyDtoHAsync(values, (CUdeviceptr)memory, sizeof values, test.cuda));
        GTEST_CU(cuStreamSynchronize(test.cuda));
        MTEST_CHECK(values[0] == 5 && values[N - 1] == 5, "%u and %u instead of 5", values[0], values[N - 1]);
        MTEST_OK(MPI_Send(&mtest_rank, 1, MPI_UNSIGNED, 1, 1, test.comm));
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
}

static void free_much(void)
{
    void *memory[6];

    for (int i = 0; i < 6; i++)
        memory[i] = allocate((size_t)512 << 20, "cuda:host");
    MTEST_OK(MPIX_Recv_enqueue((void *)to, 1, MPI_UNSIGNED, mtest_rank, 0, test.comm, MPI_STATUS_IGNORE));
    for (int i = 0; i < 6; i++)
        MTEST_OK(MPI_Free_mem(memory[i]));
    MTEST_OK(MPI_Send(&mtest_rank, 1, MPI_UNSIGNED, mtest_rank, 0, test.comm));
    GTEST_CU(cuStreamSynchronize(test.cuda));
}

static void CUDA_CB await_operations(void *unused)
{
    (void)unused;
    while (n_ended < ROUNDS)
        sched_yield();
}

static void free_behind_function(void)
{
    CUstream busy;

    GTEST_CU(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    GTEST_CU(cuLaunchHostFunc(busy, await_operations, NULL));
    while (n_ended < ROUNDS) {
        free_behind_receive(4096, "cuda:device");
        n_ended++;
    }
    GTEST_CU(cuStreamDestroy(busy));
}

static void free_in_capture(void)
{
    void *memory = allocate(4096, "cuda:device");
    CUgraph graph;
    CUstream captured;

    GTEST_CU(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
    GTEST_CU(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MTEST_OK(MPI_Free_mem(memory));
    GTEST_CU(cuStreamEndCapture(captured, &graph));
    GTEST_CU(cuGraphDestroy(graph));
    GTEST_CU(cuStreamDestroy(captured));
}

/* The address is the same as before. */
static void reset_device(void)
{
    CUdeviceptr memory, other, found = 0;
    void *before = allocate(LARGE, "cuda:device");

    MTEST_OK(MPIX_Recv_enqueue((void *)to, 1, MPI_UNSIGNED, 0, 0, test.comm, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Free_mem(before));
    MTEST_OK(MPI_Send(&mtest_rank, 1, MPI_UNSIGNED, 0, 0, test.comm));
    GTEST_CU(cuStreamSynchronize(test.cuda));
    GTEST_CU(cuDevicePrimaryCtxReset(0));
    GTEST_CU(cuDevicePrimaryCtxRetain(&gtest_contexts[0], 0));
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
    GTEST_CU(cuMemAlloc(&memory, LARGE));
    for (int i = 0; i < 20000 && memory == (CUdeviceptr)before; i++) {
        GTEST_CU(cuMemAlloc(&other, 4096));
        GTEST_CU(cuMemFree(other));
        if (cuMemGetAddressRange(&found, NULL, memory) != CUDA_SUCCESS)
            break;
    }
    MTEST_CHECK(memory != (CUdeviceptr)before || found == memory, "the memory has been freed");
    exit(mtest_end());
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    mtest_init(&argc, &argv, 1);
    gtest_init();
    test = etest_begin(0, 0);
    GTEST_CU(cuMemAlloc(&to, N * sizeof(unsigned)));
    free_behind_receive(4096, "cuda:device");
    if (strcmp(what, "room") == 0)
        allocate_again();
    else if (strcmp(what, "used") == 0)
        allocate_behind_kernel();
    else if (strcmp(what, "function") == 0)
        free_behind_function();
    else if (strcmp(what, "capture") == 0)
        free_in_capture();
    else if (strcmp(what, "much") == 0)
        free_much();
    else if (strcmp(what, "reset") == 0)
        reset_device();
    else {
        has_no_context = strcmp(what, "none") == 0;
        free_all_kinds();
    }
    GTEST_CU(cuMemFree(to));
    etest_end(&test);
    return mtest_end();
}
