/* SPDX-License-Identifier: BSD-3-Clause
 *
 * receives.c: for queues_test.sh: a rank that posts many receives, prints its process, and then waits until it is killed.
 */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

enum { RECEIVES = 5000 };

static MPI_Request requests[RECEIVES];
static int data[RECEIVES];

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    for (int i = 0; i < RECEIVES; i++)
        MPI_Irecv(&data[i], 1, MPI_INT, 0, i, MPI_COMM_WORLD, &requests[i]);
    printf("here %d\n", (int)getpid());
    fflush(stdout);
    for (;;)
        sleep(1);
}
