/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For privileged_test.sh: prints its effective user id and the number of ranks.
 */
#include <mpi.h>

#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int size;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("euid %d, %d ranks\n", (int)geteuid(), size);
    MPI_Finalize();
    return 0;
}
