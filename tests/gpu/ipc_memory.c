/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks open each other's device memory by cudaIpc handles, also in the same process: they see and change the same bytes.
 * A rank cannot open its own handle, nor close memory that it has not opened. The same for events: a rank waits for the work
 * of another one, and the event outlives the destruction of what others have opened.
 */
#include "kernels.h"

#define N 1000

static void expect(CUdeviceptr memory, unsigned value, const char *what)
{
    unsigned numbers[N];

    GTEST_CU(cuMemcpyDtoH(numbers, memory, sizeof numbers));
    MTEST_CHECK(numbers[0] == value && numbers[N - 1] == value, "%s: %u and %u instead of %u", what,
                numbers[0], numbers[N - 1], value);
}

/* Each rank changes the memory of the next one. */
static void share(size_t n_bytes)
{
    int next = (mtest_rank + 1) % mtest_size, before = (mtest_rank + mtest_size - 1) % mtest_size;
    CUipcMemHandle handle, received;
    CUdeviceptr memory, other = 0, again = 0;

    GTEST_CU(cuMemAlloc(&memory, n_bytes));
    GTEST_CU(cuMemsetD32(memory, (unsigned)mtest_rank, N));
    GTEST_CU(cuCtxSynchronize());
    GTEST_CU(cuIpcGetMemHandle(&handle, memory));
    MTEST_OK(MPI_Sendrecv(&handle, sizeof handle, MPI_BYTE, before, 0, &received, sizeof received, MPI_BYTE,
                          next, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    GTEST_CU(cuIpcOpenMemHandle(&other, received, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    GTEST_CU(cuIpcOpenMemHandle(&again, received, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    MTEST_CHECK(again == other, "opened twice at different addresses");
    expect(other, (unsigned)next, "opened memory");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuMemsetD32(other, 100, N));
    GTEST_CU(cuCtxSynchronize());
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    expect(memory, 100, "memory changed by another rank");
    GTEST_CU(cuIpcCloseMemHandle(other));
    GTEST_CU(cuIpcCloseMemHandle(again));
    MTEST_CHECK(cuIpcOpenMemHandle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS,
                "a rank has opened its own memory");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuMemFree(memory));
    MTEST_CHECK(cuIpcCloseMemHandle(other) != CUDA_SUCCESS, "closed once more than opened");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void share_events(void)
{
    int next = (mtest_rank + 1) % mtest_size, before = (mtest_rank + mtest_size - 1) % mtest_size;
    CUipcEventHandle handle, received;
    CUevent event, other, again;
    CUdeviceptr memory;
    CUstream stream;

    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    GTEST_CU(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    GTEST_CU(cuMemAlloc(&memory, N * sizeof(unsigned)));
    GTEST_CU(cuIpcGetEventHandle(&handle, event));
    MTEST_OK(MPI_Sendrecv(&handle, sizeof handle, MPI_BYTE, before, 0, &received, sizeof received, MPI_BYTE,
                          next, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    GTEST_CU(cuIpcOpenEventHandle(&other, received));
    MTEST_CHECK(cuIpcOpenEventHandle(&again, handle) != CUDA_SUCCESS, "a rank has opened its own event");
    GTEST_CU(cuMemsetD32Async(memory, 7, N, stream));
    GTEST_CU(cuEventRecord(event, stream));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuStreamWaitEvent(stream, other, 0));
    GTEST_CU(cuEventSynchronize(other));
    GTEST_CU(cuEventDestroy(other));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuEventRecord(event, stream));
    GTEST_CU(cuEventSynchronize(event));
    expect(memory, 7, "memory behind an event");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuEventDestroy(event));
    GTEST_CU(cuStreamDestroy(stream));
    GTEST_CU(cuMemFree(memory));
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    gtest_init();
    for (int i = 0; i < 3; i++) { /* addresses are used again */
        share(N * sizeof(unsigned));
        share(3 << 20);
        share_events();
    }
    return mtest_end();
}
