/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that the loss of one of two processes ends small collectives of its rank and the other one with
 * MPI_ERR_PROC_FAILED, on all communicators, blocking and pending ones.
 *
 *   survive_pair [wait | early | stream]
 *
 * Rank 1 is lost: before it arrives at the operations that rank 0 waits for (wait), after it has arrived at operations to
 * which rank 0 comes late (early), or at any time (stream).
 */
#include <mpi-ext.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "../mpi_conformance/mtest.h"

#define PENDING 9

static MPI_Comm second;

static int is_lost(int error)
{
    return mtest_class(error) == MPI_ERR_PROC_FAILED;
}

/* Starts one operation of each kind, and more than may be started at once. */
static void start_all(MPI_Request *requests, int values[PENDING][4])
{
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
    MPI_Ibcast(values[1], 1, MPI_INT, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Ibcast(values[2], 1, MPI_INT, 0, MPI_COMM_WORLD, &requests[2]);
    MPI_Iallreduce(MPI_IN_PLACE, values[3], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[3]);
    MPI_Iallgather(&mtest_rank, 1, MPI_INT, values[4], 1, MPI_INT, MPI_COMM_WORLD, &requests[4]);
    MPI_Ialltoall(values[5] + 2, 1, MPI_INT, values[5], 1, MPI_INT, second, &requests[5]);
    MPI_Ibarrier(second, &requests[6]);
    MPI_Ireduce(values[7] + 1, values[7], 1, MPI_INT, MPI_SUM, 0, second, &requests[7]);
    MPI_Ireduce(values[8] + 1, values[8], 1, MPI_INT, MPI_SUM, 1, second, &requests[8]);
}

/* Requests 2 and 8 are of the source of the data, which need not wait. */
static void wait_for_all(int may_succeed)
{
    MPI_Request requests[PENDING];
    int values[PENDING][4] = {{0}};

    start_all(requests, values);
    for (int i = 0; i < PENDING; i++) {
        int error = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        MTEST_CHECK(is_lost(error) || ((may_succeed || i == 2 || i == 8) && error == MPI_SUCCESS),
                    "request %d: error %d", i, error);
    }
}

static void *kill_later(void *arg)
{
    usleep(50000);
    kill(getpid(), SIGKILL);
    return arg;
}

static void stream(void)
{
    pthread_t thread;
    int error = MPI_SUCCESS, sum, both[2];

    if (mtest_rank == 1 && pthread_create(&thread, NULL, kill_later, NULL) != 0)
        abort();
    for (int round = 0; error == MPI_SUCCESS; round++) {
        MPI_Comm comm = round % 2 ? second : MPI_COMM_WORLD;
        if (round % 6 == 5)
            error = MPI_Reduce(&round, &sum, 1, MPI_INT, MPI_SUM, round / 6 % 2, comm);
        else if (round % 5 == 0)
            error = MPI_Barrier(comm);
        else if (round % 5 == 1)
            error = MPI_Bcast(&sum, 1, MPI_INT, round % 2, comm);
        else if (round % 5 == 2)
            error = MPI_Allreduce(&round, &sum, 1, MPI_INT, MPI_SUM, comm);
        else if (round % 5 == 3)
            error = MPI_Allgather(&round, 1, MPI_INT, both, 1, MPI_INT, comm);
        else
            error = MPI_Alltoall((int[]){round, round}, 1, MPI_INT, both, 1, MPI_INT, comm);
    }
    MTEST_CHECK(is_lost(error), "error %d", error);
}

/* Rank 1 returns once rank 0 has left the last collective operation, which would be an error there if rank 1 were killed
 * before. Whether the message is sent is not checked: rank 1 may be lost before the send returns. */
static void leave_apart(void)
{
    if (mtest_rank == 0)
        MPI_Send(NULL, 0, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    else
        MTEST_OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    char mode = argc > 1 ? argv[1][0] : 'w';
    int sum;

    mtest_init(&argc, &argv, 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_WORLD, &second);
    MTEST_OK(MPI_Allreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, second));
    leave_apart();
    if (mode == 's') {
        stream();
    } else {
        if (mtest_rank == 1 && mode == 'e') {
            MPI_Request requests[PENDING];
            static int values[PENDING][4];
            start_all(requests, values);
        }
        if (mtest_rank == 1)
            kill(getpid(), SIGKILL);
        if (mode == 'e')
            usleep(100000);
        wait_for_all(mode == 'e');
    }
    /* Rank 0 knows of the loss. */
    MTEST_CHECK(is_lost(MPI_Allreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, second)),
                "an operation after the loss");
    MTEST_CHECK(is_lost(MPI_Barrier(MPI_COMM_WORLD)), "a barrier after the loss");
    MTEST_OK(MPI_Comm_free(&second));
    MTEST_OK(MPI_Barrier(MPI_COMM_SELF));
    if (mtest_end() == 0)
        printf("survived\n");
    return 0;
}
