/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A library that uses MPI for its callers, as a numerical library does.
 */
#include "library.h"

#include <mpi.h>
#include <stdlib.h>

static int is_constructed;
static int n_calls;

__attribute__((constructor)) static void construct(void)
{
    is_constructed++;
}

void library_begin(void)
{
    MPI_Init(NULL, NULL);
}

int library_sum(void)
{
    int rank, sum;

    n_calls++;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return is_constructed == 1 && n_calls == 1 && getenv("PATH") ? sum : -1;
}

void library_end(void)
{
    MPI_Finalize();
}
