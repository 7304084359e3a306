/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that threads with 32 KiB of stack can send and receive in every mode, of every size, with and without gaps in the data,
 * by blocking and nonblocking calls.
 */
#include "mtest_threads.h"

#define N_THREADS 3
#define MAX_INTS 100000
#define STACK_BYTES (32 << 10)

/* Sizes of all routes: within a message, eager, by rendezvous. */
static const int sizes[] = {1, 2, 10, 100, 1000, 10000, MAX_INTS};
static int out[N_THREADS][2 * MAX_INTS], in[N_THREADS][2 * MAX_INTS];

static int value(int rank, int thread, int i)
{
    return rank * 1000003 + thread * 10007 + i;
}

static void check_data(int thread, int from, int n, int stride)
{
    for (int i = 0; i < n; i++) {
        mtest_thread_check(thread, in[thread][i * stride] == value(from, thread, i));
        in[thread][i * stride] = -1;
    }
}

/* One exchange around the ring of ranks. */
static void exchange(int thread, int mode, int n, MPI_Datatype type, int stride)
{
    int to = (mtest_rank + 1) % mtest_size, from = (mtest_rank + mtest_size - 1) % mtest_size;
    int count = type == MPI_INT ? n : 1;
    MPI_Request request[2];
    MPI_Status status;

    if (mode == 0) {
        MPI_Irecv(in[thread], count, type, from, thread, MPI_COMM_WORLD, &request[0]);
        MPI_Send(out[thread], count, type, to, thread, MPI_COMM_WORLD);
        MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    } else if (mode == 1) {
        MPI_Irecv(in[thread], count, type, from, thread, MPI_COMM_WORLD, &request[0]);
        MPI_Issend(out[thread], count, type, to, thread, MPI_COMM_WORLD, &request[1]);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    } else if (mode == 2) {
        MPI_Isend(out[thread], count, type, to, thread, MPI_COMM_WORLD, &request[0]);
        MPI_Probe(from, thread, MPI_COMM_WORLD, &status);
        MPI_Recv(in[thread], count, type, from, thread, MPI_COMM_WORLD, &status);
        MPI_Wait(&request[0], MPI_STATUS_IGNORE);
    } else {
        MPI_Sendrecv(out[thread], count, type, to, thread, in[thread], count, type, from, thread,
                     MPI_COMM_WORLD, &status);
    }
    check_data(thread, from, n, stride);
}

static void *run(void *arg)
{
    int thread = mtest_thread_number(arg);

    for (int stride = 1; stride <= 2; stride++) {
        for (int i = 0; i < MAX_INTS; i++)
            out[thread][i * stride] = value(mtest_rank, thread, i);
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            MPI_Datatype type = MPI_INT;
            if (stride > 1) {
                MPI_Type_vector(sizes[s], 1, stride, MPI_INT, &type);
                MPI_Type_commit(&type);
            }
            for (int mode = 0; mode < 4; mode++)
                exchange(thread, mode, sizes[s], type, stride);
            if (stride > 1)
                MPI_Type_free(&type);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[N_THREADS];
    pthread_attr_t attr;

    mtest_init_threads(&argc, &argv, 1);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    for (int i = 0; i < N_THREADS; i++)
        if (pthread_create(&threads[i], &attr, run, (void *)(intptr_t)i) != 0) {
            fprintf(stderr, "rank %d cannot start a thread\n", mtest_rank);
            mtest_give_up();
        }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < N_THREADS; i++)
        MTEST_CHECK(mtest_n_wrong[i] == 0, "thread %d: %d wrong results", i, mtest_n_wrong[i]);
    return mtest_end();
}
