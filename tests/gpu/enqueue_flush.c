/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Work behind a receive in a stream sees data that a network card has written: on a device that does not order such writes,
 * each receive flushes them; on others none does.
 */
#include "enqueue.h"

#define N 20000
#define ROUNDS 3

int main(int argc, char **argv)
{
    CUdeviceptr memory;
    struct etest test;
    bool is_weak = getenv("FAKECUDA_RDMA_FLUSH") != NULL;
    int before = 0, n_flushes;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_load_kernels();
    memory = etest_alloc(N);
    test = etest_begin(0, 0);
    if (fakecuda_is_here())
        before = fakecuda_flushes();
    for (unsigned i = 1; i <= ROUNDS; i++) {
        if (mtest_rank == 0) {
            GTEST_CU(cuMemsetD32Async(memory, i, N, test.cuda));
            MTEST_OK(MPIX_Send_enqueue((void *)memory, N, MPI_UNSIGNED, 1, 0, test.comm));
        } else if (mtest_rank == 1) {
            MTEST_OK(MPIX_Recv_enqueue((void *)memory, N, MPI_UNSIGNED, 0, 0, test.comm, MPI_STATUS_IGNORE));
        }
        GTEST_CU(cuStreamSynchronize(test.cuda));
        if (mtest_rank < 2)
            etest_expect(memory, N, i, "received");
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    n_flushes = fakecuda_is_here() ? fakecuda_flushes() - before : is_weak;
    MTEST_CHECK(is_weak ? n_flushes > 0 : n_flushes == 0, "%d flushes", n_flushes);
    etest_end(&test);
    return mtest_end();
}
