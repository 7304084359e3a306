/* SPDX-License-Identifier: BSD-3-Clause
 *
 * queue.h: streams of a PE, and completion of their work: the building blocks of moves and reductions. For the
 * files of src/gpu alone; uses no CUDA type.
 *
 * All objects belong to the calling PE, and must be released on the same PE. A queue is a stream of highest
 * priority on a device's primary context. It keeps its order; different queues are unordered.
 *
 * Completion: after work with a waiting ticket, the GPU writes a number into pinned memory, and the PE's
 * source polls it (a load; a query of the driver takes 0.25 us). Errors are never written, so the driver is
 * also queried from time to time.
 *
 * Launches and numbers need the queue's context: it is made current for that time, and the program's is
 * restored. Copies between devices, and queries, work with the program's. Errors are CUDA's, 0 is success,
 * and are recorded for gpu_error_text.
 */
#ifndef GPU_QUEUE_H
#define GPU_QUEUE_H

#include "gpu/driver/pe_state.h"
#include "gpu/gpu.h"

struct gpu_queue;

/* The calling PE's queue on a device, created at first use. NULL: unavailable; *error_out is the reason. */
struct gpu_queue *gpu_queue_of(int device, enum gpu_stream_role role, int *error_out);

int gpu_queue_device(const struct gpu_queue *queue);

/* The stream of a queue (a CUstream), for other code that queues work there next. */
struct CUstream_st *gpu_queue_stream(struct gpu_queue *queue);

/* Queues a copy between any two addresses of the host or known to the driver. With pageable host memory the
 * driver may have copied when this returns; with other memory the caller must not touch either side until a
 * later ticket. */
int gpu_queue_copy(struct gpu_queue *queue, void *dst, const void *src, size_t n_bytes) BASE_MUST_CHECK;

/* The same from the queue's device to another. */
int gpu_queue_copy_peer(struct gpu_queue *queue, void *dst, const void *src, size_t n_bytes) BASE_MUST_CHECK;

/* The same between two addresses of the queue's device, if possible in a way that does not wait for the
 * program's kernels. Best in a separate queue (GPU_STREAM_LOCAL). */
int gpu_queue_copy_local(struct gpu_queue *queue, void *dst, const void *src, size_t n_bytes) BASE_MUST_CHECK;

/* Discards the pending timing of a copy, which would have shown whether the GPU is busy but was delayed by
 * other work. */
void gpu_queue_forget_time(struct gpu_queue *queue);

/* Records a copy that was made without gpu_queue_copy_local (resident.c), so that later copies are made as
 * if it had been made there. */
void gpu_queue_skip_local(struct gpu_queue *queue, uint64_t now_ns);

/* Queues a kernel of gpu_module by number; args is one struct, passed by value. The first launch on a
 * device loads the module. */
int gpu_queue_launch(struct gpu_queue *queue, int kernel, unsigned n_blocks, unsigned n_threads,
                     const void *args, size_t args_bytes) BASE_MUST_CHECK;

/* Adds a ticket. Its handle is called in the order of the tickets, never from within this call; error is 0
 * or why the queue failed. */
void gpu_queue_then(struct gpu_queue *queue, struct gpu_ticket *ticket);

/* Waits until all queued work is done; 0 or an error. gpu_queue_wait suspends the calling ULT: may switch.
 * gpu_queue_spin never switches and calls no handlers. */
int gpu_queue_wait(struct gpu_queue *queue) BASE_MUST_CHECK;
int gpu_queue_spin(struct gpu_queue *queue) BASE_MUST_CHECK;

/* Calls the handles of tickets whose work is done on the PE's queues; returns their number. Part of the PE's progress (gpu_connect.c). */
int gpu_queue_poll(struct gpu_pe *pe);

/* Queries the driver: 0: all queued work is done; GPU_QUEUE_BUSY: not yet; or an error. */
#define GPU_QUEUE_BUSY (-1)
int gpu_queue_ask(struct gpu_queue *queue) BASE_MUST_CHECK;

#endif
