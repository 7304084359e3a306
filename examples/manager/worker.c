/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker: a program of its own for the workers of manager.c, which asks for blocks of numbers and counts the steps from each to
 * 1. It remembers the lengths of small numbers in a global array: each worker has its own.
 */
#include <mpi.h>

enum { TAG_RESULT = 1, TAG_BLOCK = 2, N_KNOWN = 1 << 16 };

static int known[N_KNOWN]; /* lengths of small numbers; 0: not known */

static long long length_of(long long n)
{
    long long start = n, length = 0;

    for (; n != 1 && (n >= N_KNOWN || !known[n]); length++)
        n = n % 2 ? 3 * n + 1 : n / 2;
    length += n != 1 ? known[n] : 0;
    if (start < N_KNOWN)
        known[start] = (int)length;
    return length;
}

int main(int argc, char **argv)
{
    long long block[2] = {0, 1}, sum = 0;
    MPI_Comm manager;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&manager);
    while (manager != MPI_COMM_NULL && block[0] < block[1]) {
        MPI_Send(&sum, 1, MPI_LONG_LONG, 0, TAG_RESULT, manager);
        MPI_Recv(block, 2, MPI_LONG_LONG, 0, TAG_BLOCK, manager, MPI_STATUS_IGNORE);
        sum = 0;
        for (long long n = block[0]; n < block[1]; n++)
            sum += length_of(n);
    }
    if (manager != MPI_COMM_NULL)
        MPI_Comm_disconnect(&manager);
    MPI_Finalize();
    return 0;
}
