/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream_stock.h: streams of primary contexts that are created in advance. For the files of src/gpu alone.
 *
 * cuStreamCreate waits for the whole GPU at times, and holds a lock of the driver meanwhile (seen on H200s
 * with 8 ranks). Each rank has a default stream of its own, which it needs while other ranks' kernels may
 * run. So some streams are created together with the context, when nothing runs there.
 *
 * Once streams wait for operations of PEs, such a wait might never end. So before the first one can wait, the
 * stock is filled with streams for all that ranks and PEs create later, and streams that the program destroys return to it.
 */
#ifndef GPU_STREAM_STOCK_H
#define GPU_STREAM_STOCK_H

#include <cuda.h>
#include <stdbool.h>

/* Creates streams for n_ranks ranks in a device's primary context, which has just been created. */
void gpu_stock_fill(int device, CUcontext context, int n_ranks);

/* Called once before a stream of this primary context, which is current, can wait for operations of PEs: creates streams
 * for all ranks and PEs of the process. */
void gpu_stock_prepare(int device, CUcontext context);

/* Adds a non-blocking stream of this context. is_used: the program has destroyed it, but its work may not be done: it is
 * given out after that. False: there is no room, or no stock for this context. Any thread. */
bool gpu_stock_put(CUcontext context, CUstream stream, int priority, bool is_used);

/* A non-blocking stream of this priority in this context, which now belongs to the caller. NULL: none is left. While streams
 * wait for PEs, it may be one that had another priority. Any thread. */
CUstream gpu_stock_take(CUcontext context, int priority);

/* A new stream in the current context, non-blocking for the driver: from the stock once streams wait for PEs. caller: the code
 * that makes the call; NULL: must not switch. May switch otherwise. */
CUresult gpu_stock_make(CUstream *stream_out, int priority, const void *caller);

/* Called when a primary context is reset: its streams are gone. */
void gpu_stock_forget(CUcontext context);

#endif
