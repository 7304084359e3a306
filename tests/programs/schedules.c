/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Small programs for mpirun --explore, three ranks each. The first five have an error that the usual order of ranks and messages
 * hides; the others are right in any order.
 *
 *   schedules WAY
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void check(int is_right, const char *what)
{
    if (is_right)
        return;
    printf("wrong: %s\n", what);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

/* ---- Wrong ---- */

/* Takes the first message for that of rank 1. */
static void first_source(void)
{
    int x = rank;

    for (int i = 1; rank == 0 && i < size; i++) {
        MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("result %d is %d\n", i, x);
    }
    if (rank > 0)
        MPI_Send(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
}

/* Nothing orders the put before the load; right: with a barrier between them. */
static void put_and_load(int has_barrier)
{
    int *word, seven = 7;
    MPI_Win window;

    MPI_Win_allocate(sizeof *word, sizeof *word, MPI_INFO_NULL, MPI_COMM_WORLD, &word, &window);
    *word = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, size - 1, 0, window);
        MPI_Put(&seven, 1, MPI_INT, size - 1, 0, 1, MPI_INT, window);
        MPI_Win_unlock(size - 1, window);
    }
    if (has_barrier)
        MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
        printf("the word is %d\n", *word);
        MPI_Win_unlock(rank, window);
    }
    MPI_Win_free(&window);
}

/* Receives another message than the probed one; right: from its source. */
static void probe(int is_right)
{
    int data[3] = {0}, count;
    MPI_Status status;

    if (rank > 0)
        MPI_Send(data, rank, MPI_INT, 0, 0, MPI_COMM_WORLD);
    for (int i = 1; rank == 0 && i < size; i++) {
        MPI_Probe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        MPI_Recv(data, count, MPI_INT, is_right ? status.MPI_SOURCE : MPI_ANY_SOURCE, 0, MPI_COMM_WORLD,
                 &status);
        printf("%d ints\n", count);
    }
}

/* Uses what the first request receives when the second one is complete. */
static void request_order(void)
{
    int data[2] = {-1, -1}, is_over = 0;
    MPI_Request requests[2];

    for (int i = 0; rank == 0 && i < 2; i++)
        MPI_Irecv(&data[i], 1, MPI_INT, i + 1, 0, MPI_COMM_WORLD, &requests[i]);
    if (rank > 0)
        MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    if (rank > 0)
        return;
    while (!is_over)
        MPI_Test(&requests[1], &is_over, MPI_STATUS_IGNORE);
    printf("%d %d\n", data[0], data[1]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

/* Relies on sends that do not wait for their receive; right: with MPI_Sendrecv. */
static void exchange(int is_right)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size, x;

    if (is_right) {
        MPI_Sendrecv(&rank, 1, MPI_INT, right, 0, &x, 1, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(&rank, 1, MPI_INT, right, 0, MPI_COMM_WORLD);
        MPI_Recv(&x, 1, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    printf("rank %d has %d\n", rank, x);
}

/* ---- Right ---- */

/* Many kinds of calls; messages of one source keep their order. */
static void mixture(void)
{
    int sum = 0, last[3] = {-1, -1, -1}, x, n_done = 0, index, n_next;
    MPI_Request requests[3];
    MPI_Comm half;

    for (int i = 0; rank > 0 && i < 5; i++)
        MPI_Send(&i, 1, MPI_INT, 0, i % 2, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < 5 * (size - 1); i++) {
        MPI_Status status;
        MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        check(x == last[status.MPI_SOURCE] + 1, "messages overtake each other");
        last[status.MPI_SOURCE] = x;
    }
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, half);
    MPI_Comm_free(&half);
    printf("the sum at rank %d is %d\n", rank, sum);
    MPI_Irecv(&x, 1, MPI_INT, (rank + size - 1) % size, 9, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 9, MPI_COMM_WORLD, &requests[1]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[2]);
    for (; n_done < 3; n_done += n_next != MPI_UNDEFINED) {
        MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE);
        n_next = index;
    }
    printf("rank %d has %d\n", rank, x);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(way, "first_source") == 0)
        first_source();
    else if (strncmp(way, "put", 3) == 0)
        put_and_load(strcmp(way, "put_right") == 0);
    else if (strncmp(way, "probe", 5) == 0)
        probe(strcmp(way, "probe_right") == 0);
    else if (strcmp(way, "request_order") == 0)
        request_order();
    else if (strncmp(way, "exchange", 8) == 0)
        exchange(strcmp(way, "exchange_right") == 0);
    else if (strcmp(way, "crash") == 0)
        abort();
    else
        mixture();
    MPI_Finalize();
    return 0;
}
