/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Prints the order in which constructors of libraries have run in a rank.
 */
#include <mpi.h>
#include <stdio.h>

extern char trace[];

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    printf("%s\n", trace);
    MPI_Finalize();
    return 0;
}
