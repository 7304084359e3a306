/* SPDX-License-Identifier: BSD-3-Clause
 *
 * queued.c: for queues_test.sh: ranks whose queues hold one entry of each kind. When all have come, each rank prints its process,
 * and then waits until it is killed.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int large[1 << 18];
static MPI_Comm halves; /* even and odd ranks */
static MPI_Comm wild;   /* without a name */
static MPI_Comm freed;  /* with a receive that rank 2 waits for */
static MPI_Request requests[4], partitioned;
static int parts[6];

static void post_0(void)
{
    static int wanted[4], any[2];

    MPI_Irecv(wanted, 4, MPI_INT, 1, 5, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(wanted, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(any, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, wild, &requests[2]);
    MPI_Precv_init(parts, 2, 3, MPI_INT, 1, 48, MPI_COMM_WORLD, MPI_INFO_NULL, &partitioned);
    MPI_Start(&partitioned);
    MPI_Probe(1, 42, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Probe(1, 43, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void post_1(void)
{
    static int eager[2] = {1042, 0}, sync[3] = {1043, 0, 0};

    large[0] = 1044;
    parts[0] = 1047;
    MPI_Psend_init(parts, 2, 3, MPI_INT, 0, 47, MPI_COMM_WORLD, MPI_INFO_NULL, &partitioned);
    MPI_Start(&partitioned);
    MPI_Pready(1, partitioned);
    MPI_Send(eager, 2, MPI_INT, 0, 42, MPI_COMM_WORLD);
    MPI_Issend(sync, 3, MPI_INT, 0, 43, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(large, 1 << 18, MPI_INT, 2, 44, MPI_COMM_WORLD, &requests[1]);
}

/* A persistent receive that knows its send after the first message, and is posted again. */
static void post_persistent(int rank)
{
    static int data;

    if (rank == 2)
        MPI_Send_init(&data, 1, MPI_INT, 3, 6, MPI_COMM_WORLD, &requests[0]);
    else
        MPI_Recv_init(&data, 1, MPI_INT, 2, 6, MPI_COMM_WORLD, &requests[0]);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
    if (rank == 3)
        MPI_Start(&requests[0]);
}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &wild);
    MPI_Comm_dup(MPI_COMM_WORLD, &freed);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &halves);
    MPI_Comm_set_name(halves, "halves");
    if (rank == 0)
        post_0();
    else if (rank == 1)
        post_1();
    else
        post_persistent(rank);
    if (rank == 2)
        MPI_Probe(1, 44, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 2)
        MPI_Irecv(&large[1], 1, MPI_INT, 3, 46, freed, &requests[1]);
    MPI_Comm_free(&freed);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Probe(0, 45, halves, MPI_STATUS_IGNORE); /* from rank 2 */
    printf("here %d\n", (int)getpid());
    fflush(stdout);
    if (rank == 2) {
        static int sync = 1045;
        MPI_Ssend(&sync, 1, MPI_INT, 1, 45, halves);
    }
    for (;;)
        sleep(1);
}
