/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ucx_calls.h: calls of the driver that UCX makes while streams of ranks wait.
 *
 * UCX creates a stream when it first copies between two kinds of memory, and closes a mapping of another process's memory
 * when that was freed. The driver then waits for the GPU, and so for a stream that waits for a message which only this PE
 * can deliver (both seen on an H200, UCX 1.22, MPIX_Send_enqueue between two processes). From the first such stream on, UCX
 * gets its streams from the stock (stream_stock.h), and mappings are closed when no stream waits.
 */
#ifndef GPU_UCX_CALLS_H
#define GPU_UCX_CALLS_H

/* Replaces these calls of UCX's CUDA module. Returns how many streams each PE may need per GPU: 0 without that
 * module. Before a stream can wait. Any thread. */
int gpu_ucx_calls_take_over(void);

#endif
