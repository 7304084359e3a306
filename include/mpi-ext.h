/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpi-ext.h: Heddle's functions beyond the standard. Programs that include it can test for it with
 * `#if __has_include(<mpi-ext.h>)` and `#ifdef HEDDLE`.
 */
#ifndef HEDDLE_MPI_EXT_H
#define HEDDLE_MPI_EXT_H

#define HEDDLE 1

#include "mpi.h"
#include "heddle_mpi_gpu.h"
#include "heddle_mpi_handlers.h"
#include "heddle_mpi_prequest.h"
#include "heddle_mpi_stream.h"
#include "heddle_mpi_work.h"

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

/* The rank of the caller in MPI_COMM_WORLD, for tools: at any time, on any thread, also before MPI_Init. -1: it is not known
 * (a thread that belongs to no rank; before MPI_Init in a process that runs one rank). Never fails, never switches. */
int AMPI_World_rank(void);

/* Work of a GPU as an operation of MPI. The types are CUDA's: a cudaStream_t or CUstream (NULL: the calling
 * rank's default stream), a cudaEvent_t or CUevent.
 *
 * AMPI_GPU_Iinvoke: the request completes when the work that the stream has now is done. AMPI_GPU_Ievent:
 * when the event is, as cudaEventQuery has it. Such requests may be waited for together with others
 * (MPI_Waitany); they cannot be cancelled, and have an empty status. AMPI_GPU_Invoke waits for the stream's
 * work, while other ranks run. Between MPI_Init and MPI_Finalize, on a rank's main thread.
 *
 * Errors: MPI_ERR_ARG, request is NULL; MPI_ERR_OTHER with CUDA's words, of the call, or, from the call that
 * completes the request, of the work. The first two never switch; AMPI_GPU_Invoke may. */
struct CUstream_st;
struct CUevent_st;
int AMPI_GPU_Iinvoke(struct CUstream_st *stream, MPI_Request *request);
int AMPI_GPU_Ievent(struct CUevent_st *event, MPI_Request *request);
int AMPI_GPU_Invoke(struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif /* HEDDLE_MPI_EXT_H */
