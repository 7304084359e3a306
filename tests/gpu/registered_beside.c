/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank registers memory while another's cuMemHostUnregister waits for a kernel: the PE goes on, and a third rank ends the
 * kernel. Needs the fake driver, which tells when the call is inside.
 */
#include "kernels.h"

static char memory[3 * 4096];

static void *page_of(char *within)
{
    return within + 4095 - ((uintptr_t)within + 4095) % 4096;
}

int main(int argc, char **argv)
{
    volatile unsigned *flag = NULL;
    int token = 0, n_calls;
    CUstream stream;

    mtest_init(&argc, &argv, 3);
    gtest_init();
    if (!fakecuda_is_here())
        mtest_skip("the fake driver is needed");
    gtest_load_kernels();
    flag = gtest_flag();
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (mtest_rank == 0)
        GTEST_CU(cuMemHostRegister(page_of(memory), 4096, 0));
    n_calls = fakecuda_calls("cuMemHostUnregister");
    if (mtest_rank == 2)
        gtest_launch_spin((CUdeviceptr)flag, stream);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0) {
        GTEST_CU(cuMemHostUnregister(page_of(memory)));
    } else if (mtest_rank == 1) {
        while (fakecuda_calls("cuMemHostUnregister") == n_calls)
            MTEST_OK(MPI_Iprobe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &token, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Send(&token, 1, MPI_INT, 2, 0, MPI_COMM_WORLD));
        GTEST_CU(cuMemHostRegister(page_of(memory), 4096, 0));
        GTEST_CU(cuMemHostUnregister(page_of(memory)));
    } else {
        MTEST_OK(MPI_Recv(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        *flag = 1;
        GTEST_CU(cuStreamSynchronize(stream));
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuStreamDestroy(stream));
    return mtest_end();
}
