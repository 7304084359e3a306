/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Prints the same lines, in any order, under every launcher and with any number of processes. For
 * launchers_test.sh. `same fail CODE`: the last rank exits with that code.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int num_calls; /* each rank has its own */

static int count_call(void)
{
    return ++num_calls;
}

int main(int argc, char **argv)
{
    enum { LEN = 100000 };
    static int out[LEN], in[LEN];
    int rank, size, sum, node_size, got = -1, num_right = 0;
    MPI_Comm node, half;
    char words[256] = "";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 1; i < argc; i++) /* options of the library's have been taken out */
        snprintf(words + strlen(words), sizeof words - strlen(words), " %s", argv[i]);
    for (int i = 0; i <= rank; i++)
        count_call();
    MPI_Allreduce(&num_calls, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < LEN; i++)
        out[i] = rank + i;
    MPI_Sendrecv(out, LEN, MPI_INT, (rank + 1) % size, 3, in, LEN, MPI_INT, (rank + size - 1) % size, 3,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < LEN; i++)
        num_right += in[i] == (rank + size - 1) % size + i;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &node_size);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    if (rank >= size - 2) /* the first one of each half */
        got = 0;
    MPI_Bcast(&got, 1, MPI_INT, 0, half);
    printf("rank %d of %d: %d calls, %d in all; %d right; node of %d; got %d; arguments%s\n", rank, size,
           num_calls, sum, num_right, node_size, got, words);
    MPI_Comm_free(&node);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return argc > 2 && strcmp(argv[1], "fail") == 0 && rank == size - 1 ? atoi(argv[2]) : 0;
}
