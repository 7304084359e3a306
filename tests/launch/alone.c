/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of alone_test.sh that can connect to other jobs. Words:
 *      pid N           prints whether N is the number of this process
 *      place           prints the variables of launchers that say the number of ranks
 *      end SIGNAL      ends itself by a signal
 *      connect PORT    connects
 *      lookup NAME     looks up a name
 */
#include <mpi.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void run(const char *op, const char *arg)
{
    char port[MPI_MAX_PORT_NAME];
    const char *size;
    MPI_Comm other;

    if (strcmp(op, "pid") == 0)
        puts(getpid() == atoi(arg) ? "the same process" : "another process");
    else if (strcmp(op, "place") == 0)
        puts((size = getenv("OMPI_COMM_WORLD_SIZE")) ? size : "none");
    else if (strcmp(op, "end") == 0)
        raise(atoi(arg));
    else if (strcmp(op, "connect") == 0)
        MPI_Comm_connect(arg, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
    else if (strcmp(op, "lookup") == 0)
        MPI_Lookup_name(arg, MPI_INFO_NULL, port);
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1)
        run(argv[1], argc > 2 ? argv[2] : "");
    if (rank == size - 1)
        printf("%d ranks\n", size);
    MPI_Finalize();
    return 0;
}
