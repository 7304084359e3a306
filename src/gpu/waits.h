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

/* The calling rank has its PE to itself, and no messages under way: the driver's wait is as good. Only where
 * it may suspend. */
bool gpu_wait_is_alone(void);

/* Waits until the stream's work is done, as cuStreamSynchronize and cuEventSynchronize do: these if it may
 * not suspend. May switch. */
CUresult gpu_wait_for_stream(CUstream stream, const void *caller);
CUresult gpu_wait_for_event(CUevent event, const void *caller);

/* Suspends until an event is over, or its work has failed; not if it may not suspend, or is alone. May
 * switch.
 */
void gpu_wait_for_mark(CUevent event, const void *caller);

/* Suspends until what a default stream of the current context has now is done, in a context whose streams are
 * the driver's own: another rank may have another context when the driver is asked. Nothing for the
 * per-thread stream (is_per_thread). May switch. */
void gpu_wait_for_special(CUstream stream, bool is_per_thread, const void *caller);

/* The program has been told that something is not done: it will ask again, others run first. May switch. */
void gpu_wait_before_asking_again(const void *caller);

/* Has the PE ask the question, whose stream or event, and `answered`, are set, until the answer is not "not
 * ready"; the calling thread's current context is its context. Never switches. */
void gpu_wait_ask(struct gpu_question *question);

/* Asks what is to be asked on this PE; returns how many have been answered. */
int gpu_wait_poll(struct gpu_pe *pe);

#endif
