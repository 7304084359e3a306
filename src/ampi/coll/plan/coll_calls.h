/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_calls.h: the functions behind the entry points of the collectives (coll.bindings). Each checks the arguments
 * of all forms of its collectives, starts the operation in the form of the call, and raises and returns its errors.
 * Those of blocking calls may switch.
 */
#ifndef AMPI_COLL_CALLS_H
#define AMPI_COLL_CALLS_H

#include "ampi/coll/engine/coll.h"

/* The blocking barrier: ampi_coll_barrier, and raises its error. May switch. */
int ampi_coll_call_barrier(struct ampi_comm *comm);

/* Nonblocking and persistent. */
int ampi_coll_start_barrier(const struct ampi_coll_call *call, MPI_Comm comm);

/* args: the buffers are set; this fills in the rest. */
int ampi_coll_bcast(const struct ampi_coll_call *call, MPI_Comm comm, int root, struct ampi_coll_args *args);
int ampi_coll_gather(const struct ampi_coll_call *call, MPI_Comm comm, int root, struct ampi_coll_args *args);
int ampi_coll_scatter(const struct ampi_coll_call *call, MPI_Comm comm, int root,
                      struct ampi_coll_args *args);
int ampi_coll_allgather(const struct ampi_coll_call *call, MPI_Comm comm, struct ampi_coll_args *args);
int ampi_coll_alltoall(const struct ampi_coll_call *call, MPI_Comm comm, struct ampi_coll_args *args);

/* Reductions of one buffer per rank. */
int ampi_coll_reduce(const struct ampi_coll_call *call, MPI_Comm comm, int root, const void *send, void *recv,
                     MPI_Count count, MPI_Datatype type, MPI_Op op);
int ampi_coll_allreduce(const struct ampi_coll_call *call, MPI_Comm comm, const void *send, void *recv,
                        MPI_Count count, MPI_Datatype type, MPI_Op op);

extern const struct ampi_coll_plan ampi_coll_scan_plan;
extern const struct ampi_coll_plan ampi_coll_exscan_plan;

int ampi_coll_scan(const struct ampi_coll_call *call, MPI_Comm comm, const struct ampi_coll_plan *plan,
                   const void *send, void *recv, MPI_Count count, MPI_Datatype type, MPI_Op op);

/* args: the receive buffer is set, with the counts of all receivers (no displacements). */
int ampi_coll_reduce_scatter(const struct ampi_coll_call *call, MPI_Comm comm, const void *send, MPI_Op op,
                             struct ampi_coll_args *args);

extern const struct ampi_coll_plan ampi_coll_neighbor_allgather_plan;
extern const struct ampi_coll_plan ampi_coll_neighbor_alltoall_plan;

int ampi_coll_neighbor(const struct ampi_coll_call *call, MPI_Comm comm, const struct ampi_coll_plan *plan,
                       struct ampi_coll_args *args);

#endif
