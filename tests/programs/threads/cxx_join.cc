/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows that other ranks of the PE run while a rank waits in std::thread::join, which calls pthread_join in the C++ library. */
#include <mpi.h>

#include <cstdio>
#include <thread>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, pipes[2] = {-1, -1};
    char byte = 'x';
    ssize_t n = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && pipe(pipes) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Bcast(pipes, 2, MPI_INT, 0, MPI_COMM_WORLD); /* the ranks are in one process */
    if (rank == 0)
        std::thread([&] { n = read(pipes[0], &byte, 1); }).join();
    else if (rank == 1)
        n = write(pipes[1], &byte, 1);
    if (rank == 0)
        std::puts(n == 1 ? "ok" : "the thread has read nothing");
    MPI_Finalize();
    return n != 1;
}
