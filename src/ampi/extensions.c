/* SPDX-License-Identifier: BSD-3-Clause
 *
 * extensions.c: the functions of mpi-ext.h.
 */
#include "ampi/rank.h"

#pragma GCC visibility push(default)
#include "mpi-ext.h"
#pragma GCC visibility pop

int AMPI_Yield(void)
{
    if (ampi_self())
        ult_yield();
    return MPI_SUCCESS;
}
