/* SPDX-License-Identifier: BSD-3-Clause
 *
 * neighbor.h: between the functions of the neighborhood collectives and their plans.
 */
#ifndef AMPI_COLL_NEIGHBOR_H
#define AMPI_COLL_NEIGHBOR_H

#include "ampi/coll/engine/coll.h"

extern const struct ampi_coll_plan ampi_coll_neighbor_allgather_plan;
extern const struct ampi_coll_plan ampi_coll_neighbor_alltoall_plan;

/* All of them: checks the arguments and starts the operation. */
int ampi_coll_neighbor(const struct ampi_coll_call *call, MPI_Comm comm, const struct ampi_coll_plan *plan,
                       struct ampi_coll_args *args);

#endif
