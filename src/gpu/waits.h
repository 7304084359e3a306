/* SPDX-License-Identifier: BSD-3-Clause
 *
 * waits.h: a rank that waits for its GPU lets the other ranks of its PE run. For the files of src/gpu alone.
 *
 * A wait suspends the rank only if the call comes from the rank's own code, which its copy of CUDA's runtime
 * is part of: a library that all ranks share may hold a lock while it waits, and the next rank that enters it
 * would block the PE on that lock. Such waits block the PE, as all do with +gpu-waits block.
 */
#ifndef GPU_WAITS_H
#define GPU_WAITS_H

#include <cuda.h>

#include "gpu/driver.h"

struct gpu_pe;

/* The return address of the function that contains this: the code that waits. */
#define GPU_CALLER __builtin_return_address(0)

/* May a call from this code suspend? */
bool gpu_wait_may_suspend(const void *caller);

/* Waits until the stream's work is done, as cuStreamSynchronize and cuEventSynchronize do: these if it may
 * not suspend. May switch. */
CUresult gpu_wait_for_stream(CUstream stream, const void *caller);
CUresult gpu_wait_for_event(CUevent event, const void *caller);

/* Suspends until what a default stream of the current context has now is done, in a context whose streams are
 * the driver's own: another rank may have another context when the driver is asked. Nothing for the
 * per-thread stream (is_per_thread). May switch. */
void gpu_wait_for_special(CUstream stream, bool is_per_thread, const void *caller);

/* The program has been told that something is not done: it will ask again, others run first. May switch. */
void gpu_wait_before_asking_again(const void *caller);

/* Looks after gpu_work on this PE; returns how many are done. (works.c) */
int gpu_works_poll(struct gpu_pe *pe);

/* Looks after those that wait on this PE; returns how many have been readied. */
int gpu_wait_poll(struct gpu_pe *pe);

#endif
