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

/* Called when streams begin to wait for operations of PEs. From then on no wait in CUDA stops a PE: the
 * stream of another PE's rank may wait for a message that this PE sends. In a process with one rank, whose
 * waits are CUDA's own otherwise, they let the PE make progress, also those of libraries, because there is
 * no other rank that could enter the library. Where waits are not intercepted, a progress thread is needed
 * (gpu_needs_progress). (streams.c) */
void gpu_waits_make_progress(void);
extern bool gpu_waits_are_of_all_code;
extern _Atomic bool gpu_streams_wait_for_pes;

/* The program has started a thread, whose waits do not let the PE make progress. */
extern _Atomic bool gpu_waits_have_threads;

/* Number of points and holds of this process's streams (gpu.h) that are not over: while it is 0, no stream waits for a PE,
 * except in graphs. */
extern _Atomic int gpu_streams_n_waiting;

/* Number of those that have been over so far. */
extern _Atomic unsigned gpu_streams_n_over;

/* gpu_streams_n_waiting on each device. */
extern _Atomic int gpu_streams_n_waiting_on[];

/* True if a call from this code may suspend. */
bool gpu_wait_may_suspend(const void *caller);

/* True if other ranks of the PE may run while a call from this code waits in one of the functions below: if
 * it may suspend, or on a PE that several threads use, which these functions enter. */
bool gpu_wait_may_lend_pe(const void *caller);

/* gpu_wait_may_suspend for a call of MPI that may switch. */
bool gpu_wait_may_suspend_in_mpi(void);

/* Enters a shared PE, as a call of MPI does; the result is for leaving it. Only if gpu_wait_may_lend_pe. */
struct ult *gpu_wait_enter(void);
void gpu_wait_leave(struct ult *entered);

/* True if the driver's own wait is as good as a suspension: the calling rank is the only one on its PE and
 * has no pending messages, no stream waits for a PE, and no host function may call MPI. Only if gpu_wait_may_suspend. */
bool gpu_wait_is_alone(void);

/* Wait until the stream's work is done, or the event is complete, as cuStreamSynchronize and
 * cuEventSynchronize do; call these if the caller may not suspend. May switch. */
CUresult gpu_wait_for_stream(CUstream stream, const void *caller);
CUresult gpu_wait_for_event(CUevent event, const void *caller);

/* Suspends until an event is complete, or its work has failed. Does nothing if the caller may not suspend,
 * or is alone on its PE. May switch. */
void gpu_wait_for_mark(CUevent event, const void *caller);

/* Suspends until the current work of a stream of the current context, and what it waits for by the rules of default
 * streams, is done, where streams are the driver's own: another rank may have another context when the driver is queried.
 * Does nothing for the per-thread stream (is_per_thread). May switch. */
void gpu_wait_for_special(CUstream stream, bool is_per_thread, const void *caller);

/* Called after a query of the program whose result was "not ready": lets other ranks run, because the
 * program will query again. May switch. */
void gpu_wait_before_asking_again(const void *caller);

/* Called before a call of the driver that waits for all work of a context (NULL: the current one): in a process with one
 * rank, lets the PE make progress until that is done, graphs included. Ends captures, as such a call does. May switch. */
void gpu_wait_for_all(CUcontext context, const void *caller);

/* Called after a wait or a query whose result was "done": starts the operations that the rank's streams have
 * reached, before those that the program calls next. Never switches. */
void gpu_wait_is_over(const void *caller);

/* Makes the PE repeat the query until the result is not "not ready". Its stream or event, and `answered`,
 * are set; its context is the calling thread's current one. Never switches. */
void gpu_wait_ask(struct gpu_question *question);

/* Makes the queries that are due on this PE; returns the number of results. */
int gpu_wait_poll(struct gpu_pe *pe);

#endif
