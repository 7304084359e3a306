/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_calls.h: the functions behind the entry points of one-sided communication (rma.bindings). All raise their errors and
 * return them.
 */
#ifndef AMPI_RMA_CALLS_H
#define AMPI_RMA_CALLS_H

#include "ampi/rma/rma.h"

/* ---- MPI_Put and MPI_Get with a request, or (request is NULL) in all but the usual case (put_get.c) ---- */

int ampi_rma_put(const void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                 int target_rank, MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype,
                 MPI_Win win, MPI_Request *request);
int ampi_rma_get(void *origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int target_rank,
                 MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win,
                 MPI_Request *request);

/* The same for MPI_Accumulate and MPI_Get_accumulate; rma has the program's arguments (accumulate.c). */
int ampi_rma_accumulate(struct ampi_rma *rma, MPI_Win win, bool is_fetching);

/* ---- Creating windows: collective, may switch (win_create.c) ---- */

int ampi_win_create(struct ampi_rank *self, void *base, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info,
                    MPI_Comm comm, MPI_Win *win);
int ampi_win_allocate(struct ampi_rank *self, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                      void *baseptr, MPI_Win *win);
int ampi_win_allocate_shared(struct ampi_rank *self, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info,
                             MPI_Comm comm, void *baseptr, MPI_Win *win);

#endif
