/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Programs in the shape of MPICH's tests of CUDA, on the driver's interface (mpich_shapes.cu has them on the runtime's): a
 * kernel between an enqueued receive and a copy; memory of MPI_Alloc_mem and of each kind of CUDA's as both ends of messages;
 * memory of a pool that one stream frees behind a receive, and another one allocates in front of the send.
 */
#include "enqueue.h"

#define N 10000

static unsigned host[N];

/* Rank 0 sends x to rank 1, whose kernel computes y = 5 y + x; with and without a stream of the program's own. */
static void saxpy(int is_default)
{
    struct etest test = etest_begin(is_default, 0);
    CUdeviceptr x = etest_alloc(N), y = etest_alloc(N);

    for (unsigned i = 0; i < N; i++)
        host[i] = mtest_rank == 0 ? i : 1;
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuMemcpyHtoDAsync(mtest_rank == 0 ? x : y, host, sizeof host, test.cuda));
    if (mtest_rank == 0) {
        MTEST_OK(MPIX_Send_enqueue((void *)x, N, MPI_UNSIGNED, 1, 0, test.comm));
        GTEST_CU(cuStreamSynchronize(test.cuda));
    } else if (mtest_rank == 1) {
        MTEST_OK(MPIX_Recv_enqueue((void *)x, N, MPI_UNSIGNED, 0, 0, test.comm, MPI_STATUS_IGNORE));
        gtest_launch_mix(y, x, N, test.cuda);
        GTEST_CU(cuMemcpyDtoHAsync(host, y, sizeof host, test.cuda));
        GTEST_CU(cuStreamSynchronize(test.cuda));
        MTEST_CHECK(host[0] == 5 && host[N - 1] == 5 + N - 1, "y is %u and %u", host[0], host[N - 1]);
    }
    GTEST_CU(cuMemFree(x));
    GTEST_CU(cuMemFree(y));
    etest_end(&test);
}

/* ---- Memory ---- */

enum kind { ALLOC_MEM, DEVICE, PINNED, MANAGED, KINDS };

static void *allocate(enum kind kind, size_t n_bytes)
{
    CUdeviceptr device = 0;
    void *memory = NULL;

    if (kind == ALLOC_MEM)
        MTEST_OK(MPI_Alloc_mem((MPI_Aint)n_bytes, MPI_INFO_NULL, &memory));
    else if (kind == DEVICE)
        GTEST_CU(cuMemAlloc(&device, n_bytes));
    else if (kind == PINNED)
        GTEST_CU(cuMemAllocHost(&memory, n_bytes));
    else
        GTEST_CU(cuMemAllocManaged(&device, n_bytes, CU_MEM_ATTACH_GLOBAL));
    return memory ? memory : (void *)device;
}

static void release(enum kind kind, void *memory)
{
    if (kind == ALLOC_MEM)
        MTEST_OK(MPI_Free_mem(memory));
    else if (kind == PINNED)
        GTEST_CU(cuMemFreeHost(memory));
    else
        GTEST_CU(cuMemFree((CUdeviceptr)memory));
}

static void exchange(enum kind from, enum kind to, int n)
{
    enum kind kind = mtest_rank == 0 ? from : to;
    unsigned *memory = allocate(kind, (size_t)n * sizeof *memory), first = 10 * from + to + 1;

    for (int i = 0; i < n; i++)
        host[i] = mtest_rank == 0 ? first + (unsigned)i : 0;
    GTEST_CU(cuMemcpy((CUdeviceptr)memory, (CUdeviceptr)host, (size_t)n * sizeof *host));
    GTEST_CU(cuCtxSynchronize());
    if (mtest_rank == 0) {
        MTEST_OK(MPI_Send(memory, n, MPI_UNSIGNED, 1, 0, MPI_COMM_WORLD));
    } else {
        MTEST_OK(MPI_Recv(memory, n, MPI_UNSIGNED, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        GTEST_CU(cuMemcpy((CUdeviceptr)host, (CUdeviceptr)memory, (size_t)n * sizeof *host));
        MTEST_CHECK(host[0] == first && host[n - 1] == first + (unsigned)n - 1, "%d to %d, %d: %u and %u",
                    from, to, n, host[0], host[n - 1]);
    }
    release(kind, memory);
}

/* ---- Pools ---- */

/* Both ranks use the GPU's default pool, which may let rank 1's allocation wait for rank 0's release. */
static void pool(void)
{
    struct etest test = etest_begin(0, 0);
    size_t n_bytes = (size_t)16 << 20;
    CUdeviceptr data = etest_alloc(N), memory;

    gtest_launch_update(data, N, 0, mtest_rank == 1 ? 42 : 0, test.cuda);
    GTEST_CU(cuMemAllocAsync(&memory, n_bytes, test.cuda));
    GTEST_CU(cuStreamSynchronize(test.cuda));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0) {
        MTEST_OK(MPIX_Recv_enqueue((void *)data, N, MPI_UNSIGNED, 1, 0, test.comm, MPI_STATUS_IGNORE));
        GTEST_CU(cuMemFreeAsync(memory, test.cuda));
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD));
    } else {
        GTEST_CU(cuMemFreeAsync(memory, test.cuda));
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        GTEST_CU(cuMemAllocAsync(&memory, 2 * n_bytes, test.cuda));
        GTEST_CU(cuMemsetD8Async(memory, 1, n_bytes, test.cuda));
        MTEST_OK(MPIX_Send_enqueue((void *)data, N, MPI_UNSIGNED, 0, 0, test.comm));
        GTEST_CU(cuMemFreeAsync(memory, test.cuda));
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
    etest_expect(data, N, 42, "a message beside a pool");
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_load_kernels();
    saxpy(0);
    saxpy(1);
    for (int from = 0; from < KINDS; from++)
        for (int to = 0; to < KINDS; to++) {
            exchange(from, to, 1);
            exchange(from, to, N);
        }
    pool();
    return mtest_end();
}
