/* SPDX-License-Identifier: BSD-3-Clause
 *
 * free_gate.h: keeps calls of the driver that wait for a GPU and operations for which a stream waits apart, in processes with one
 * rank. For the files of src/gpu alone.
 *
 * A free waits inside the driver for all work of its GPU, and keeps launches of other threads out meanwhile (seen on an H200,
 * driver 580). If a stream of the GPU waits for the PE, which may need a launch, neither ends. Processes with several ranks
 * close contexts instead (drain.h), and defer frees (deferred_frees.h).
 *
 * The rule, for the gate of each GPU:
 * 1. An adder makes a stream wait for the PE: an operation of MPI, a launch of a graph that may have some, or a wait for an event,
 *    which may be behind a stream of another GPU that waits. It enters the gate of the stream's GPU before, and leaves it when
 *    the work is in the stream. It never switches, nor waits for another adder, in between.
 * 2. A closer calls the driver. It closes the gate, which no adder enters then, and keeps it closed for the call only if its GPU
 *    is quiet: no adder is inside, no stream of the GPU waits for the PE, all launches there are over, and none of the GPU's
 *    work is behind a stream of another GPU that waits. So the driver's call ends without the PE. It never switches in between.
 * 3. Adders do not starve: a closer lets those in first that are kept out, for ADDERS_NS at most. A GPU that does not become
 *    quiet is left open as long as it was closed, because a message may depend on the next operation.
 * 4. Closers for a GPU take turns, in order, and each time the gate is closed for twice as long, within limits.
 * 5. Whoever waits lets the PE make progress if it may (waits.h), and sleeps otherwise. It holds no lock then.
 */
#ifndef GPU_FREE_GATE_H
#define GPU_FREE_GATE_H

#include <cuda.h>
#include <stdatomic.h>

#include "base/base.h"

/* Enters the gate of a device. False: it is closed, and the adder waits (gpu_gate_pause) before it tries again. is_kept_out: the
 * adder's own, false at first. Never switches. */
bool gpu_gate_enter(int device, bool *is_kept_out) BASE_MUST_CHECK;
void gpu_gate_leave(int device);

/* Waits a while. caller: the code that waits. May switch. */
void gpu_gate_pause(const void *caller);

/* Closes the gate for a call that waits for the GPU of a context (NULL: the current one), when that is quiet. Does nothing in
 * calls of MPI where another thread serves the PE, and if CUDA refuses the call. Returns the argument of gpu_gate_open. May
 * switch. */
int gpu_gate_close(CUcontext context, const void *caller) BASE_MUST_CHECK;

/* The same before this context is destroyed, which waits for its GPU. */
int gpu_gate_close_for_end(CUcontext context, const void *caller) BASE_MUST_CHECK;

/* The same for a device (GPU_DEVICES_ALL: for all), where the work that is behind other GPUs is not known. Never switches. */
int gpu_gate_close_device(int device) BASE_MUST_CHECK;

/* The same for the GPU of a context if no stream of the process waits for the PE now and, if is_for_idle, the GPU's work is done,
 * as far as can be told. GPU_GATE_OPEN: it is not so. Never switches. */
int gpu_gate_try(CUcontext context, bool is_for_idle) BASE_MUST_CHECK;

#define GPU_GATE_OPEN (-3) /* nothing has been closed */
void gpu_gate_open(int closed);

/* The device of a context, NULL: the current one; GPU_DEVICES_ALL: unknown. */
int gpu_gate_device_of(CUcontext context);

/* Records an event of a context, which is created, after all its current work, also graphs whose nodes wait for a PE. False: the
 * driver cannot. Invalidates captures. */
bool gpu_gate_record_all(CUcontext context, CUevent *event_out) BASE_MUST_CHECK;

/* Captures of streams that are in progress, in a process with one rank that finds the calls by dlsym; or more. */
extern _Atomic int gpu_gate_n_captures;

/* Counts a capture that is about to begin; waits for closers that record events, for microseconds. Any thread. */
void gpu_gate_capture_begins(void);

#endif
