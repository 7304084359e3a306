/* SPDX-License-Identifier: BSD-3-Clause
 *
 * connect.h: connections between all processes, before one of them fails.
 */
#ifndef CONNECT_H
#define CONNECT_H

#include "../mpi_conformance/mtest.h"

/* UCX 1.13 fails an assertion when a process fails to which it is connecting over TCP. */
static inline void connect_all(void)
{
    int got;
    for (int step = 1; step < mtest_size; step++)
        MPI_Sendrecv(&step, 1, MPI_INT, (mtest_rank + step) % mtest_size, 1, &got, 1, MPI_INT,
                     (mtest_rank + mtest_size - step) % mtest_size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
}

#endif
