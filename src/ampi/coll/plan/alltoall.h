/* SPDX-License-Identifier: BSD-3-Clause
 *
 * alltoall.h: between the functions of the alltoall family and their plan.
 */
#ifndef AMPI_COLL_ALLTOALL_H
#define AMPI_COLL_ALLTOALL_H

#include "ampi/coll/engine/coll.h"

/* All forms of MPI_Alltoall, v and w: checks the arguments and starts the operation. */
int ampi_coll_alltoall(const struct ampi_coll_call *call, MPI_Comm comm, struct ampi_coll_args *args);

#endif
