/* SPDX-License-Identifier: BSD-3-Clause */
/* For trace_test.py, which knows how many messages and collectives this is. Argument: how it ends; a number of rounds. */
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LARGE 100000 /* bytes: the sender waits for the receiver */

static char data[2][LARGE];

/* In each round: a message of 8 bytes and a large one to the next rank, in the reverse order of the receives, and one to rank 0. */
static void run_round(int rank, int n, int round)
{
    int next = (rank + 1) % n, last = (rank + n - 1) % n, sum;
    MPI_Request requests[4];

    MPI_Irecv(data[0], LARGE, MPI_BYTE, last, 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(data[1], 8, MPI_BYTE, next, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(data[1], LARGE, MPI_BYTE, next, 2, MPI_COMM_WORLD, &requests[2]);
    MPI_Irecv(data[0], 8, MPI_BYTE, last, 1, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    if (rank > 0)
        MPI_Send(&round, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    for (int i = 1; i < n && rank == 0; i++)
        MPI_Recv(&sum, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

/* Rank 0 sends a message that it cancels, one in partitions, and one that nobody receives; an ordinary one with the same tag follows
 * each of them. */
static void send_unmatched(int rank)
{
    MPI_Request request;
    MPI_Comm comm;

    if (rank == 0) {
        MPI_Issend(data[1], 8, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Send(data[1], 0, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
        MPI_Send(data[1], 16, MPI_BYTE, 1, 4, MPI_COMM_WORLD);
        MPI_Psend_init(data[1], 2, 4, MPI_BYTE, 1, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Pready_range(0, 1, request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
        MPI_Send(data[1], 16, MPI_BYTE, 1, 6, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(data[0], 8, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(data[0], 16, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Precv_init(data[0], 2, 4, MPI_BYTE, 0, 6, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
        MPI_Recv(data[0], 16, MPI_BYTE, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int round = 0; round < 2; round++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        if (rank == 0)
            MPI_Send(data[1], 8 + 16 * round, MPI_BYTE, 1, 7, comm);
        else if (rank == 1 && round == 1)
            MPI_Recv(data[0], 24, MPI_BYTE, 0, 7, comm, MPI_STATUS_IGNORE);
        MPI_Barrier(comm);
        MPI_Comm_free(&comm);
    }
}

/* Communicators of other ranks, one after another: their numbers in the library are the same. */
static void split(int rank)
{
    MPI_Comm comm;

    for (int first = 2; first > 0; first--) {
        MPI_Comm_split(MPI_COMM_WORLD, rank < first, 0, &comm);
        for (int i = 0; i < first; i++)
            MPI_Barrier(comm);
        MPI_Comm_free(&comm);
    }
}

/* In each round: a put to the next rank and a get from it in a fence epoch, an accumulate under a lock, an atomic operation on rank 0
 * under MPI_Win_lock_all, and a put to the next rank between start and complete. */
static void use_window(int rank, int n, int n_rounds)
{
    int next = (rank + 1) % n, last = (rank + n - 1) % n;
    long one = 1, old, got[4], *base;
    MPI_Group world, to, from;
    MPI_Win win;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &next, &to);
    MPI_Group_incl(world, 1, &last, &from);
    MPI_Win_allocate(8 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, (void *)&base, &win);
    for (int i = 0; i < n_rounds; i++) {
        MPI_Win_fence(0, win);
        MPI_Put(&one, 1, MPI_LONG, next, 0, 1, MPI_LONG, win);
        MPI_Get(got, 4, MPI_LONG, next, 4, 4, MPI_LONG, win);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next, 0, win);
        MPI_Accumulate(got, 2, MPI_LONG, next, 1, 2, MPI_LONG, MPI_SUM, win);
        MPI_Win_unlock(next, win);
        MPI_Win_lock_all(0, win);
        MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 3, MPI_SUM, win);
        MPI_Win_flush(0, win);
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_post(from, 0, win);
        MPI_Win_start(to, 0, win);
        MPI_Put(&one, 1, MPI_LONG, next, 0, 1, MPI_LONG, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_free(&win);
    MPI_Group_free(&world);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
}

static void *ask(void *arg)
{
    MPI_Info info;

    for (int i = 0; i < 50; i++) {
        MPI_Info_create(&info);
        MPI_Info_free(&info);
    }
    return arg;
}

/* The rank waits for threads of its own, not in MPI. */
static void wait_for_threads(void)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, ask, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

/* Rank 0 waits until the last rank has made the file. */
static void wait_for_last(const char *file)
{
    const char *number = getenv("OMPI_COMM_WORLD_RANK");

    while (number && strcmp(number, "0") == 0 && access(file, F_OK) != 0)
        sched_yield();
}

int main(int argc, char **argv)
{
    const char *end = argc > 1 ? argv[1] : "";
    int rank, n, provided, n_rounds = argc > 2 ? atoi(argv[2]) : 1;

    if (strcmp(end, "first_last") == 0)
        wait_for_last(argv[3]);
    MPI_Init_thread(&argc, &argv, strcmp(end, "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                    &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (strcmp(end, "first_last") == 0 && rank == n - 1)
        fclose(fopen(argv[3], "w"));
    for (int i = 0; i < n_rounds; i++)
        run_round(rank, n, i);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(end, "unmatched") == 0) {
        send_unmatched(rank);
        split(rank);
    }
    if (strcmp(end, "windows") == 0)
        use_window(rank, n, n_rounds);
    for (int i = 0; i < n_rounds && strcmp(end, "threads") == 0; i++)
        wait_for_threads();
    if (strcmp(end, "deadlock") == 0)
        MPI_Recv(data[0], 8, MPI_BYTE, (rank + 1) % n, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (strcmp(end, "abort") == 0 && rank == n - 1)
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (strcmp(end, "crash") == 0 && rank == n - 1)
        *(volatile int *)8 = 1;
    if (strcmp(end, "abort") == 0 || strcmp(end, "crash") == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    if (strcmp(end, "late") == 0)
        MPI_Barrier(MPI_COMM_WORLD); /* an error, of all ranks at once */
    return 0;
}
