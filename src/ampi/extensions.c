/* SPDX-License-Identifier: BSD-3-Clause
 *
 * extensions.c: the functions of mpi-ext.h.
 */
#include "ampi/rank.h"

#pragma GCC visibility push(default)
#include "mpi-ext.h"
#pragma GCC visibility pop

BASE_FLATTEN int AMPI_Yield(void)
{
    struct ampi_rank *self = ampi_self();

    if (self) {
        self->ult.resume_at = __builtin_return_address(0);
        ult_yield();
    }
    return MPI_SUCCESS;
}
