/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Mapped memory refuses CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, and on memory of pools it has no effect: a message has the bytes of
 * the synchronous copy or fill before it all the same, not only the first time. "stream": there is a stream of MPI.
 */
#include <pthread.h>

#include "enqueue.h"

#define N 16384
#define ROUNDS 4
#define COPIES 30

static volatile unsigned *flag;

static CUdeviceptr map_memory(void)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    size_t n_bytes;

    GTEST_CU(cuCtxGetDevice(&properties.location.id));
    access.location = properties.location;
    GTEST_CU(cuMemGetAllocationGranularity(&n_bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    GTEST_CU(cuMemCreate(&handle, n_bytes, &properties, 0));
    GTEST_CU(cuMemAddressReserve(&address, n_bytes, 0, 0, 0));
    GTEST_CU(cuMemMap(address, n_bytes, 0, handle, 0));
    GTEST_CU(cuMemSetAccess(address, n_bytes, &access, 1));
    return address;
}

static CUdeviceptr pool_memory(void)
{
    CUdeviceptr address;

    GTEST_CU(cuMemAllocAsync(&address, N * sizeof(unsigned), NULL));
    GTEST_CU(cuStreamSynchronize(NULL));
    return address;
}

static void *let_go(void *arg)
{
    (void)arg;
    usleep(2000);
    *flag = 1;
    return NULL;
}

/* A fill behind a kernel returns at once, unless the driver makes it wait. */
static void fill_behind_kernel(CUdeviceptr memory, unsigned value)
{
    pthread_t thread;

    *flag = 0;
    gtest_launch_spin((CUdeviceptr)flag, NULL);
    MTEST_CHECK(pthread_create(&thread, NULL, let_go, NULL) == 0, "no thread");
    GTEST_CU(cuMemsetD32(memory, value, N));
    MTEST_OK(MPI_Send((void *)memory, N, MPI_UNSIGNED, 1, 0, MPI_COMM_WORLD));
    pthread_join(thread, NULL);
}

static void copy_in(CUdeviceptr memory, unsigned *numbers, unsigned value)
{
    for (int i = 0; i < N; i++)
        numbers[i] = value;
    GTEST_CU(cuMemcpyHtoD(memory, numbers, N * sizeof *numbers));
    MTEST_OK(MPI_Send((void *)memory, N, MPI_UNSIGNED, 1, 0, MPI_COMM_WORLD));
}

static void receive(unsigned *numbers, unsigned value, const char *what)
{
    MTEST_OK(MPI_Recv(numbers, N, MPI_UNSIGNED, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MTEST_CHECK(numbers[0] == value && numbers[N - 1] == value, "%s: received %u and %u instead of %u", what,
                numbers[0], numbers[N - 1], value);
}

static void test(CUdeviceptr memory, const char *what)
{
    unsigned *numbers = mtest_alloc(N * sizeof *numbers);

    GTEST_CU(cuMemsetD32(memory, 99, N));
    GTEST_CU(cuStreamSynchronize(NULL));
    for (unsigned i = 0; i < ROUNDS + COPIES; i++) {
        if (mtest_rank == 0 && i < ROUNDS)
            fill_behind_kernel(memory, i);
        else if (mtest_rank == 0)
            copy_in(memory, numbers, i);
        else if (mtest_rank == 1)
            receive(numbers, i, what);
    }
    free(numbers);
}

int main(int argc, char **argv)
{
    struct etest beside = {0};

    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_load_kernels();
    flag = gtest_flag();
    if (argc > 1)
        beside = etest_begin(0, 0);
    if (argc > 1)
        test(map_memory(), "mapped memory, the first that MPI gets");
    test(pool_memory(), "memory of a pool");
    test(map_memory(), "mapped memory");
    if (argc > 1)
        etest_end(&beside);
    return mtest_end();
}
