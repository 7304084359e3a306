/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a child process can open libraries, whatever ranks on other PEs did when it was forked: half of the
 * ranks open and close a library without end, the others fork children that do so. Arguments: the library, the
 * number of children of each rank.
 */
#include <mpi.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* 0: the library was opened and closed. */
static int open_and_close(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW);

    return handle ? dlclose(handle) : 1;
}

/* The number of children that failed, or were still at it after 10 seconds. */
static int fork_children(const char *path, int n_children)
{
    int n_failed = 0, status;

    for (int i = 0; i < n_children; i++) {
        pid_t child = fork();

        if (child == 0) {
            alarm(10);
            _exit(open_and_close(path));
        }
        n_failed += waitpid(child, &status, 0) != child || status != 0;
    }
    return n_failed;
}

int main(int argc, char **argv)
{
    int rank, n_failed = 0, is_over = 0;
    MPI_Request over;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank % 2)
        n_failed = fork_children(argv[1], atoi(argv[2]));
    MPI_Ibarrier(MPI_COMM_WORLD, &over);
    while (!is_over) {
        if (rank % 2 == 0)
            n_failed += open_and_close(argv[1]);
        MPI_Test(&over, &is_over, MPI_STATUS_IGNORE);
    }
    MPI_Allreduce(MPI_IN_PLACE, &n_failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf(n_failed ? "%d failed\n" : "all is well\n", n_failed);
    MPI_Finalize();
    return n_failed != 0;
}
