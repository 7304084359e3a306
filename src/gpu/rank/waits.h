/* SPDX-License-Identifier: BSD-3-Clause
 *
 * waits.h: lets the other ranks of a PE run while a rank waits for its GPU. For the files of src/gpu alone.
 *
 * A wait suspends the rank only if the call comes from the rank's own code, which includes its copy of
 * CUDA's runtime: a library shared by all ranks may hold a lock while it waits, and the next rank that
 * enters it would block the PE on that lock. Such waits block the PE, as do all waits with +gpu
 * no-waits.
 */
#ifndef GPU_WAITS_H
#define GPU_WAITS_H

#include <cuda.h>
#include <stdatomic.h>

#include "gpu/driver/driver.h"

struct gpu_pe;
struct ult;

/* The return address of the enclosing function: the waiting code. */
#define GPU_CALLER __builtin_return_address(0)

/* Streams wait for operations that PEs carry out. From now on no PE stops for a wait: the stream that the GPU
 * has to finish may be that of another PE's rank, and wait for a message that this PE sends. In a process with
 * one rank, where CUDA's waits are CUDA's own, they let the PE make progress from now on. All code may wait so:
 * no other rank enters a library meanwhile. (streams.c) */
void gpu_waits_make_progress(void);
extern bool gpu_waits_are_of_all_code;
extern _Atomic bool gpu_streams_wait_for_pes;

/* True if a call from this code may suspend. */
bool gpu_wait_may_suspend(const void *caller);

/* True if other ranks of the PE may run while a call from this code waits by one of the functions below: as before, or on
 * a PE that several threads use, which these functions enter. */
bool gpu_wait_may_lend_pe(const void *caller);

/* The same within a call of MPI that may switch. */
bool gpu_wait_may_suspend_in_mpi(void);

/* The program's code on a shared PE enters the PE, as a call of MPI does; to be left by the result. Where
 * gpu_wait_may_lend_pe. */
struct ult *gpu_wait_enter(void);
void gpu_wait_leave(struct ult *entered);

/* True if the calling rank is the only one on its PE, has no pending messages, and no stream waits for a PE: the
 * driver's wait is as good. Only where it may suspend. */
bool gpu_wait_is_alone(void);

/* Waits until the stream's work is done, like cuStreamSynchronize and cuEventSynchronize; calls these if it
 * may not suspend. May switch. */
CUresult gpu_wait_for_stream(CUstream stream, const void *caller);
CUresult gpu_wait_for_event(CUevent event, const void *caller);

/* Suspends until an event is complete, or its work has failed. Does nothing if it may not suspend, or is
 * alone. May switch. */
void gpu_wait_for_mark(CUevent event, const void *caller);

/* Suspends until the current work of a default stream of the current context is done, where streams are the
 * driver's own: another rank may have another context when the driver is queried. Does nothing for the
 * per-thread stream (is_per_thread). May switch. */
void gpu_wait_for_special(CUstream stream, bool is_per_thread, const void *caller);

/* Called when the program was told that its work is not done: it will query again, so other ranks run
 * first. May switch. */
void gpu_wait_before_asking_again(const void *caller);

/* Called when the program was told that its work is done: the operations that its streams have come to are started now, before
 * those that the program calls next. Never switches. */
void gpu_wait_is_over(const void *caller);

/* Makes the PE repeat the query until the result is not "not ready". Its stream or event, and `answered`,
 * are set; its context is the calling thread's current one. Never switches. */
void gpu_wait_ask(struct gpu_question *question);

/* Makes the queries that are due on this PE; returns the number of results. */
int gpu_wait_poll(struct gpu_pe *pe);

#endif
