// SPDX-License-Identifier: BSD-3-Clause
//
// Shows: thread_local data of a library is the rank's and the thread's while ranks of several PEs pass messages and
// their threads, too, so that a PE's ranks go on on another OS thread.
#include "library.h"

#include <cstdio>
#include <mpi.h>
#include <thread>
#include <vector>

enum { THREADS = 3, ROUNDS = 20 };

static int rank, size;

/* Sends to the next rank, receives from the previous one, for this thread; returns the number of errors. */
static int exchange(int thread)
{
    int id = rank * 10 + thread + 100, wrong = library_set(id) != 7;

    for (int round = 0; round < ROUNDS; round++) {
        int sent = round, received = -1;

        MPI_Sendrecv(&sent, 1, MPI_INT, (rank + 1) % size, thread, &received, 1, MPI_INT, (rank + size - 1) % size, thread,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        wrong += received != round || !library_has(id);
    }
    return wrong;
}

int main(int argc, char **argv)
{
    int provided, wrong = 0, wrongs[THREADS] = {}, all;
    std::vector<std::thread> threads;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    wrong += exchange(0);
    for (int i = 0; i < THREADS; i++)
        threads.emplace_back([i, &wrongs] { wrongs[i] = exchange(i + 1); });
    for (int i = 0; i < THREADS; i++) {
        threads[i].join(); /* the PE's OS thread waits here: the other ranks get another one */
        wrong += wrongs[i];
    }
    wrong += !library_has(rank * 10 + 100) || library_destroyed() != THREADS;
    MPI_Barrier(MPI_COMM_WORLD);
    wrong += !library_has(rank * 10 + 100);
    MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        std::printf(all ? "%d wrong\n" : "ok\n", all);
    MPI_Finalize();
    return 0;
}
