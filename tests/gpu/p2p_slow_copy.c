/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A copy that takes seconds, behind kernels of the program, is not a deadlock, although every rank of every
 * process waits, directly or indirectly, for it. The fake driver delays the copy; a real GPU does not.
 */
#include <pthread.h>
#include <unistd.h>

#include "device.h"
#include "fakecuda.h"

#define HELD_US 2500000
#define N_BYTES 100000

static void *release_later(void *arg)
{
    (void)arg;
    usleep(HELD_US);
    fakecuda_hold(false);
    return NULL;
}

int main(int argc, char **argv)
{
    struct gtest_buffer buffer;
    pthread_t thread;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    buffer = gtest_alloc(GTEST_GPU0, N_BYTES, NULL);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0) {
        if (fakecuda_hold) {
            fakecuda_hold(true);
            MTEST_CHECK(pthread_create(&thread, NULL, release_later, NULL) == 0, "no thread");
        }
        MTEST_OK(MPI_Send(buffer.data, N_BYTES, MPI_BYTE, 1, 0, MPI_COMM_WORLD));
        if (fakecuda_hold)
            pthread_join(thread, NULL);
    } else if (mtest_rank == 1) {
        MTEST_OK(MPI_Recv(buffer.data, N_BYTES, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    gtest_free(&buffer);
    return mtest_end();
}
