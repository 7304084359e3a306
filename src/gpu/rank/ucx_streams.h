/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ucx_streams.h: streams that UCX creates while streams of ranks wait.
 *
 * UCX creates a stream when it first copies between two kinds of memory. cuStreamCreate then waits for the GPU, and so for a
 * stream that waits for a message which only this PE can deliver (seen on an H200, UCX 1.22, MPIX_Send_enqueue between two
 * processes). From the first such stream on, UCX gets its streams from the stock (stream_stock.h).
 */
#ifndef GPU_UCX_STREAMS_H
#define GPU_UCX_STREAMS_H

/* Replaces the creation of streams in UCX's CUDA module. Returns how many of them each PE may need per GPU: 0 without that
 * module. Before a stream can wait. Any thread. */
int gpu_ucx_streams_take_over(void);

#endif
