/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Device memory that was allocated before MPI_Init, when MPI could not observe it, is sent and received like
 * any other: in the first message between two ranks and in messages of all sizes.
 */
#include "device.h"

#define MAX_BYTES (1 << 20)

int main(int argc, char **argv)
{
    static const int sizes[] = {8, 1, 92, 304, 305, 4096, 8248, 16385, MAX_BYTES};
    CUdevice device;
    CUcontext context;
    CUdeviceptr memory[2] = {0, 0};
    static char image[MAX_BYTES], came[MAX_BYTES];
    int peer, has_gpu = cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS &&
                        cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS &&
                        cuCtxSetCurrent(context) == CUDA_SUCCESS;

    for (int i = 0; i < 2 && has_gpu; i++)
        has_gpu = cuMemAlloc(&memory[i], MAX_BYTES) == CUDA_SUCCESS;
    mtest_init(&argc, &argv, 2);
    if (!has_gpu)
        mtest_skip("there is no GPU here");
    peer = mtest_rank ^ 1;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n_bytes = (size_t)sizes[i];
        MPI_Request request;
        mtest_fill(image, n_bytes, (unsigned)(100 * mtest_rank) + (unsigned)i);
        GTEST_CU(cuMemcpyHtoD(memory[0], image, n_bytes));
        GTEST_CU(cuMemsetD8(memory[1], 0, n_bytes));
        GTEST_CU(cuCtxSynchronize());
        if (peer < mtest_size) {
            MTEST_OK(MPI_Isend((void *)memory[0], sizes[i], MPI_BYTE, peer, 0, MPI_COMM_WORLD, &request));
            MTEST_OK(
                MPI_Recv((void *)memory[1], sizes[i], MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            GTEST_CU(cuMemcpyDtoH(came, memory[1], n_bytes));
            mtest_fill(image, n_bytes, (unsigned)(100 * peer) + (unsigned)i);
            MTEST_CHECK(memcmp(came, image, n_bytes) == 0, "%d bytes came wrong", sizes[i]);
        }
    }
    return mtest_end();
}
