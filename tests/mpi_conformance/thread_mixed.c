/* SPDX-License-Identifier: BSD-3-Clause */
/* More threads than cores, each on a communicator of its own, do collectives, exchanges with both neighbors and ping-pongs in turn, and wait for
 * their requests by different calls: in most rounds a thread blocks in another kind of call than the others. This is what threads of
 * mpi4py do. */
#include "mtest_threads.h"

#define THREADS 6
#define ROUNDS 60

static MPI_Comm comms[THREADS];

/* Sends to both neighbors and receives from them; waits as the round says. */
static void exchange(int thread, MPI_Comm comm, int round, int left, int right)
{
    int out[2] = {round, thread}, in[2] = {-1, -1}, index;
    MPI_Request requests[4];

    MPI_Irecv(&in[0], 1, MPI_INT, left, 1, comm, &requests[0]);
    MPI_Irecv(&in[1], 1, MPI_INT, right, 2, comm, &requests[1]);
    MPI_Isend(&out[0], 1, MPI_INT, right, 1, comm, &requests[2]);
    MPI_Isend(&out[1], 1, MPI_INT, left, 2, comm, &requests[3]);
    if (round % 3 == 0)
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    for (int i = 4; i-- > 0 && round % 3 == 1;)
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    for (int i = 0; i < 4 && round % 3 == 2; i++)
        MPI_Waitany(4, requests, &index, MPI_STATUS_IGNORE);
    mtest_thread_check(thread, in[0] == round && in[1] == thread);
}

/* As mpi4py does it: the receiver probes. */
static void receive(int thread, MPI_Comm comm, int source, int expected)
{
    MPI_Message message;
    int value = -1;

    MPI_Mprobe(source, 3, comm, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    mtest_thread_check(thread, value == expected);
}

static void *run(void *arg)
{
    int thread = mtest_thread_number(arg), rank, size;
    MPI_Comm comm = comms[thread];

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < ROUNDS; i++) {
        int left = (rank + size - 1) % size, right = (rank + 1) % size, in = rank + i, out = -1;
        MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, comm);
        mtest_thread_check(thread, out == size * (size - 1) / 2 + size * i);
        MPI_Sendrecv(&in, 1, MPI_INT, right, thread, &out, 1, MPI_INT, left, thread, comm, MPI_STATUS_IGNORE);
        mtest_thread_check(thread, out == left + i);
        MPI_Barrier(comm);
        exchange(thread, comm, i, left, right);
        if (rank == 0 && size > 1) {
            MPI_Send(&i, 1, MPI_INT, 1, 3, comm);
            receive(thread, comm, 1, i + 1);
        } else if (rank == 1) {
            receive(thread, comm, 0, i);
            MPI_Send(&(int){i + 1}, 1, MPI_INT, 0, 3, comm);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    mtest_init_threads(&argc, &argv, 1);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    mtest_run_threads(0, THREADS, run);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    return mtest_end();
}
