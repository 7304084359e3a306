/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks send messages, throw exceptions in deep calls and keep memory in globals, without an error; or the
 * last rank makes the error that the first argument names.
 */
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

static char table[16];
static std::vector<int> numbers;
static int *kept; /* never freed, and no leak: a global leads to it */

static int recurse(int depth)
{
    volatile char room[200];

    room[depth % 200] = 1;
    if (depth == 0)
        throw std::runtime_error("deep");
    return recurse(depth - 1) + room[depth % 200];
}

static void exchange(int rank, int n_ranks)
{
    int from = (rank + n_ranks - 1) % n_ranks, got = -1;

    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % n_ranks, 0, &got, 1, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (got != from)
        MPI_Abort(MPI_COMM_WORLD, 3);
}

/* Receives into memory without a value, and sends such memory in the gaps of a structure. */
static void receive_early(int rank, int n_ranks)
{
    struct Pair {
        char c;
        double d;
    } *pairs = new Pair[2];
    MPI_Request requests[2];
    int to = (rank + 1) % n_ranks, from = (rank + n_ranks - 1) % n_ranks;

    pairs[1].c = 'a';
    pairs[1].d = rank;
    MPI_Irecv(&pairs[0], (int)sizeof(Pair), MPI_BYTE, from, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Isend(&pairs[1], (int)sizeof(Pair), MPI_BYTE, to, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (pairs[0].d != from)
        MPI_Abort(MPI_COMM_WORLD, 3);
    delete[] pairs;
}

__attribute__((noinline)) static int make_fault(const std::string &how, volatile int sixteen)
{
    volatile char room[16] = {0};
    volatile int *gone = new int[4];

    if (how == "heap")
        gone[sixteen / 4] = 1;
    if (how == "global")
        table[sixteen] = 1;
    if (how == "stack")
        room[sixteen] = 1;
    if (how == "overflow")
        return recurse(100000000);
    if (how == "undefined")
        return 2147483632 + sixteen;
    if (how == "uninitialized" && gone[1])
        std::printf("not zero\n");
    if (how == "leak")
        gone = nullptr;
    delete[] gone;
    return 0;
}

int main(int argc, char **argv)
{
    int rank, n_ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    kept = new int[4];
    numbers.assign(100, rank);
    for (int i = 0; i < 20; i++) {
        try {
            recurse(20);
        } catch (std::runtime_error &) {
            exchange(rank, n_ranks); /* other ranks throw meanwhile */
        }
        exchange(rank, n_ranks);
    }
    receive_early(rank, n_ranks);
    if (argc > 1 && rank == n_ranks - 1)
        make_fault(argv[1], 16);
    MPI_Finalize();
    if (rank == 0)
        std::printf("%d ranks are done\n", n_ranks);
    return 0;
}
