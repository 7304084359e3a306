/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that MPI_Abort ends a job while another rank waits for room in a pipe without a reader: rank 0 writes
 * to stdout for ever; rank 1, on another PE, ends the job when the pipe is full.
 */
#define _GNU_SOURCE /* F_GETPIPE_SZ */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, n_bytes = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        for (;;)
            printf("a line that nobody reads\n");
    while (n_bytes < fcntl(1, F_GETPIPE_SZ) - 4096)
        ioctl(1, FIONREAD, &n_bytes);
    MPI_Abort(MPI_COMM_WORLD, 3);
}
