/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of a rank take part in collectives at the same time, each on a communicator of its own: blocking and
 * nonblocking ones, with a reduction function of the program's, and communicators made from communicators. */
#include "mtest_threads.h"

#define THREADS 4
#define ROUNDS 60

static MPI_Comm comms[THREADS];
static MPI_Op op;
static int in_function; /* a rank's own, as all its variables */

static void add(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void)type;
    in_function++;
    for (int i = 0; i < *len; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

static void make_others(int thread, MPI_Comm comm, int rank)
{
    MPI_Comm dup, half;
    int sum = 0, size;

    MPI_Comm_dup(comm, &dup);
    MPI_Comm_split(dup, rank % 2, rank, &half);
    MPI_Comm_size(half, &size);
    MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, half);
    mtest_thread_check(thread, sum == size);
    MPI_Comm_free(&half);
    MPI_Comm_free(&dup);
}

static void *run(void *arg)
{
    int thread = mtest_thread_number(arg), rank, size;
    MPI_Comm comm = comms[thread];

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < ROUNDS; i++) {
        int in = rank + i * thread, out = -1, sum = size * (size - 1) / 2 + size * i * thread;
        int many[600], sums[600];
        MPI_Request request;
        MPI_Allreduce(&in, &out, 1, MPI_INT, i % 2 ? op : MPI_SUM, comm);
        mtest_thread_check(thread, out == sum);
        for (int k = 0; k < 600; k++)
            many[k] = in + k;
        MPI_Iallreduce(many, sums, 600, MPI_INT, op, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        mtest_thread_check(thread, sums[599] == sum + 599 * size && sums[0] == sum);
        MPI_Barrier(comm);
        out = rank == i % size ? i : -1;
        MPI_Ibcast(&out, 1, MPI_INT, i % size, comm, &request);
        while (!(in = 0, MPI_Test(&request, &in, MPI_STATUS_IGNORE), in))
            ;
        mtest_thread_check(thread, out == i);
        if (i % 20 == 0)
            make_others(thread, comm, rank);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    mtest_init_threads(&argc, &argv, 1);
    MPI_Op_create(add, 1, &op);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    mtest_run_threads(1, THREADS, run);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
    MTEST_CHECK(mtest_size == 1 || in_function >= 0, "the function of another rank was called");
    MPI_Op_free(&op);
    return mtest_end();
}
