/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A process fails while large device messages to and from it are in transit: both fail with
 * MPI_ERR_PROC_FAILED, and device messages between other processes still work.
 */
#include <mpi-ext.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device.h"

#define N_BYTES 6000000

static void *kill_later(void *arg)
{
    (void)arg;
    usleep(60000);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* Exchanges messages with the partner until one fails. */
static int exchange_until_failure(struct gtest_buffer *out, struct gtest_buffer *in, int partner)
{
    MPI_Request requests[4];
    int error = MPI_SUCCESS;

    while (error == MPI_SUCCESS) {
        for (int i = 0; i < 2; i++) {
            MPI_Irecv(in[i].data, N_BYTES, MPI_BYTE, partner, i, MPI_COMM_WORLD, &requests[i]);
            MPI_Isend(out[i].data, N_BYTES, MPI_BYTE, partner, i, MPI_COMM_WORLD, &requests[2 + i]);
        }
        for (int i = 0; i < 4; i++) {
            int result = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            error = result == MPI_SUCCESS ? error : result;
        }
    }
    return error;
}

/* Returns once each other rank has left the barrier: a rank that is still in it when the last process is killed would
 * get an error. Whether a message to the last rank is an error is not checked: it may be lost before the send returns. */
static void await_all_at_last(void)
{
    if (mtest_rank < mtest_size - 1) {
        MPI_Send(NULL, 0, MPI_BYTE, mtest_size - 1, 9, MPI_COMM_WORLD);
        return;
    }
    for (int i = 0; i < mtest_size - 1; i++)
        MTEST_OK(MPI_Recv(NULL, 0, MPI_BYTE, i, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    struct gtest_buffer out[2], in[2];
    int pids[64], pid = (int)syscall(SYS_getpid), partner, error;
    char *image;
    MPI_Comm near;
    pthread_t thread;

    mtest_init(&argc, &argv, 4);
    gtest_init();
    image = mtest_alloc(N_BYTES);
    MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MTEST_OK(MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD));
    if (pids[0] == pids[mtest_size - 1])
        mtest_skip("all ranks are in one process");
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, pid == pids[mtest_size - 1], mtest_rank, &near));
    partner = mtest_size - 1 - mtest_rank;
    for (int i = 0; i < 2; i++) {
        out[i] = gtest_alloc(i ? GTEST_GPU1 : GTEST_GPU0, N_BYTES, NULL);
        in[i] = gtest_alloc(GTEST_GPU0, N_BYTES, NULL);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    await_all_at_last();
    if (mtest_rank == mtest_size - 1 && pthread_create(&thread, NULL, kill_later, NULL) != 0)
        abort();
    if (pids[partner] == pids[mtest_size - 1] || pid == pids[mtest_size - 1]) {
        error = exchange_until_failure(out, in, partner);
        MTEST_CHECK(mtest_class(error) == MPI_ERR_PROC_FAILED, "class %d after the failure",
                    mtest_class(error));
        error = MPI_Send(out[0].data, N_BYTES, MPI_BYTE, partner, 0, MPI_COMM_WORLD);
        MTEST_CHECK(mtest_class(error) == MPI_ERR_PROC_FAILED, "class %d of a later send",
                    mtest_class(error));
    }
    mtest_fill(image, N_BYTES, 5);
    gtest_set(&in[0], mtest_rank == 0 ? image : NULL);
    MTEST_OK(MPI_Bcast(in[0].data, N_BYTES, MPI_BYTE, 0, near));
    MTEST_CHECK(gtest_differs(&in[0], image) == -1, "a bcast among survivors is wrong");
    MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, &mtest_errors, 1, MPI_INT, MPI_SUM, near));
    if (mtest_errors == 0)
        printf("survived\n");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
