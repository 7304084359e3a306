/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpi-ext.h: what Heddle offers beyond the standard. Programs that include it can test for it with
 * `#if __has_include(<mpi-ext.h>)` and `#ifdef HEDDLE`.
 */
#ifndef HEDDLE_MPI_EXT_H
#define HEDDLE_MPI_EXT_H

#define HEDDLE 1

#include "mpi.h"
#include "heddle_mpi_gpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The class of errors of calls that involve ranks of a lost process (docs/guide.md, "When a process is
 * lost"). The name that the fault tolerance proposal gives it is not in MPI 5.0, which has a class of the
 * same meaning. */
#define MPI_ERR_PROC_FAILED MPI_ERR_PROC_ABORTED
#define MPIX_ERR_PROC_FAILED MPI_ERR_PROC_ABORTED

/* Lets the other ranks that are ready on this rank's PE run first. Never fails. May switch. */
int AMPI_Yield(void);

#ifdef __cplusplus
}
#endif

#endif /* HEDDLE_MPI_EXT_H */
