/* SPDX-License-Identifier: BSD-3-Clause
 *
 * queue.h: streams of a PE, completion of what is in them, and pools of memory: what moving and combining
 * are made of. For the files of src/gpu alone; knows no CUDA type.
 *
 * Everything here belongs to the calling PE, and must be given back on the same PE. A queue is a stream of
 * highest priority on a device's primary context. Its order is kept; between queues there is none.
 *
 * Completion: behind the work that somebody waits for, the GPU is asked to write a number into pinned memory,
 * and the PE's source looks whether it is there (a load; asking the driver takes 0.25 us a time). Errors
 * never get written, so now and then the driver is asked as well.
 *
 * Launches and numbers need the queue's context: it is made current for as long as that takes, and the
 * program's restored. Copies between devices, and questions, are content with the program's. Errors are
 * CUDA's, 0 is success, and are noted for gpu_error_text.
 */
#ifndef GPU_QUEUE_H
#define GPU_QUEUE_H

#include "base/base.h"

struct gpu_queue;

/* The purpose of a queue: kinds of work that would delay each other have queues of their own. */
enum gpu_lane {
    GPU_LANE_OUT,
    GPU_LANE_IN,
    GPU_LANE_KERNELS,
    GPU_LANE_ASIDE,
    GPU_LANE_LOCAL,
    GPU_LANE_SERVICE,
    GPU_LANE_NCCL,
    GPU_LANES
};

/* The calling PE's queue on a device, made at first use. NULL: it cannot be had; *error_out says why. */
struct gpu_queue *gpu_queue_of(int device, enum gpu_lane lane, int *error_out);

int gpu_queue_device(const struct gpu_queue *queue);

/* Queues a copy between any two addresses that the driver knows, or of the host's. With pageable host memory
 * the driver may have copied when this returns; with others the caller leaves both alone until a later
 * ticket. */
int gpu_queue_copy(struct gpu_queue *queue, void *dst, const void *src, size_t n_bytes) BASE_MUST_CHECK;

/* The same from the queue's device to another. */
int gpu_queue_copy_peer(struct gpu_queue *queue, void *dst, const void *src, size_t n_bytes) BASE_MUST_CHECK;

/* The same between two addresses of the queue's device, in a way that does not wait for the program's kernels
 * where there is one. Best in a queue of its own (GPU_LANE_LOCAL). */
int gpu_queue_copy_local(struct gpu_queue *queue, void *dst, const void *src, size_t n_bytes) BASE_MUST_CHECK;

/* The copy of the last one that is being timed, to see whether the GPU is busy, was held up by something
 * else. */
void gpu_queue_forget_time(struct gpu_queue *queue);

/* A copy that could have been gpu_queue_copy_local's was done in another way (service.c): those that follow
 * go the way that they would have gone after it. */
void gpu_queue_skip_local(struct gpu_queue *queue, uint64_t now_ns);

/* Queues a kernel of gpu_module by its number; args is one struct, passed by value. The module is loaded at
 * the first launch on a device. */
int gpu_queue_launch(struct gpu_queue *queue, int kernel, unsigned n_blocks, unsigned n_threads,
                     const void *args, size_t args_bytes) BASE_MUST_CHECK;

/* Told when all that was queued before is done. The caller's memory, left alone until handle is called. */
struct gpu_ticket {
    void (*handle)(struct gpu_ticket *ticket, int error); /* on this PE, from its progress; may not switch */
    struct gpu_ticket *next;                              /* link of the queue's list of those that wait */
    uint32_t number;                                      /* what the GPU writes when it has come here */
};

/* handle is called, in the order of the tickets, never from within this call; the error is 0 or why the queue
 * failed. */
void gpu_queue_then(struct gpu_queue *queue, struct gpu_ticket *ticket);

/* Waits until all that was queued is done; 0 or an error. gpu_queue_wait suspends the calling ULT: may
 * switch. gpu_queue_spin never switches and calls no ticket's handle. */
int gpu_queue_wait(struct gpu_queue *queue) BASE_MUST_CHECK;
int gpu_queue_spin(struct gpu_queue *queue) BASE_MUST_CHECK;

/* Asks the driver: 0: all that was queued is done; GPU_QUEUE_BUSY: not yet; or an error. */
#define GPU_QUEUE_BUSY (-1)
int gpu_queue_ask(struct gpu_queue *queue) BASE_MUST_CHECK;

/* ---- Kernels (module.c) ---- */

/* The kernels that this library was built with. */
struct gpu_module {
    const void *image;        /* a fatbin; NULL: built without a compiler for them */
    const char *const *names; /* by number */
    int n_kernels;
};
extern const struct gpu_module gpu_module;

/* ---- Between devices (device.c) ---- */

/* Lets kernels and copies of one device reach the memory of another; asked of the driver once per pair.
 * false: the hardware cannot (copies go through the host, kernels may not). */
bool gpu_peer_enable(int from_device, int to_device);

/* ---- Memory (pool.c) ---- */

/* A pinned block, for copies of any device: at least min(n_bytes, 1 MiB) large; *size_out says how large.
 * NULL: out of memory; *error_out. */
#define GPU_PINNED_SMALL ((size_t)64 << 10)
#define GPU_PINNED_LARGE ((size_t)1 << 20)
void *gpu_pinned_get(size_t n_bytes, size_t *size_out, int *error_out);
void gpu_pinned_put(void *block);

/* Pinned memory of any size, which is kept. NULL: so much is not to be had, or this PE has STAGING_MAX of it
 * already; take other memory. */
void *gpu_staging_get(size_t n_bytes);
void gpu_staging_put(void *block, size_t n_bytes);

/* Memory of a device, aligned as the driver's. NULL: out of memory; *error_out. Given back when no queued
 * work uses it any more. */
void *gpu_scratch_get(int device, size_t n_bytes, int *error_out);
void gpu_scratch_put(int device, void *block, size_t n_bytes);

#endif
