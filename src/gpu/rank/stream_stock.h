/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream_stock.h: streams of primary contexts that are created in advance. For the files of src/gpu alone.
 *
 * cuStreamCreate waits for the whole GPU at times, and holds a lock of the driver meanwhile (seen on H200s
 * with 8 ranks). Each rank has a default stream of its own, which it needs while other ranks' kernels may
 * run. So some streams are created together with the context, when nothing runs there.
 */
#ifndef GPU_STREAM_STOCK_H
#define GPU_STREAM_STOCK_H

#include <cuda.h>

/* Creates streams for n_ranks ranks in a device's primary context, which has just been created. */
void gpu_stock_fill(int device, CUcontext context, int n_ranks);

/* A non-blocking stream of priority 0 in this context, which now belongs to the caller. NULL: none is left. Any thread. */
CUstream gpu_stock_take(CUcontext context);

/* Called when a primary context is reset: its streams are gone. */
void gpu_stock_forget(CUcontext context);

#endif
