/* SPDX-License-Identifier: BSD-3-Clause
 *
 * scheduler.h: launches a kernel of the program that stays on a GPU while there are messages for it
 * (heddle_handlers.h), and the kernels that send it messages of the host. Each rank has one scheduler per
 * set of handlers. All functions are called on the PE that created it.
 *
 * The kernel is part of the program's source file (a template of mpi-ext-handlers.cuh), because a device
 * function can be called from its own module only. So a kernel for all ranks of a GPU was rejected, and so
 * were cooperative launches, whose guarantee is for one kernel: instead all blocks of all sets on a GPU are
 * at most two per multiprocessor, of 512 threads of 64 registers, so that each finds room and a barrier of
 * a grid ends. The host sends by a small kernel with the message as its parameter, so that the resident
 * kernel need not poll pinned memory (1 us). A send takes two atomic additions and no compare-and-swap
 * loop, so senders of many blocks do not repeat. No block is a master: a hop by way of one would be another
 * trip to memory.
 *
 * A message between handlers takes 2.6 us on an H200, 5.5 between two H100s (6.4 before senders looked at
 * their slot while the reservation is under way).
 */
#ifndef GPU_SCHEDULER_H
#define GPU_SCHEDULER_H

#include "gpu/gpu.h"
#include "heddle_handlers.h"

struct gpu_scheduler {
    struct gpu_watch watch; /* polls the doorbell */
    struct HEDDLE_Handlers_page *page;
    void *memory; /* of the GPU: what the kernel uses */
    void *kernel; /* a CUfunction, like the next field; the caller sets both before the start */
    void *post_kernel;
    unsigned n_blocks;  /* of the kernel */
    unsigned n_threads; /* of a block */
    /* Private: */
    void *streams[2]; /* of the kernel, and of those that send */
    uint64_t n_launches;
    uint64_t n_posts;
    struct gpu_scheduler_waiter *waiters;
    bool is_watched;
    bool is_ending;
    int error; /* of CUDA: nothing will run any more; 0: none */
};

/* The multiprocessors of the current device, and its number. All schedulers together have at most
 * HEDDLE_HANDLERS_BLOCKS_MAX blocks per multiprocessor, which all fit there at the same time. */
int gpu_scheduler_blocks(int *n_multiprocessors_out, int *device_out) BASE_MUST_CHECK;

/* Creates a scheduler whose n_blocks and n_threads are set. Allocates memory_bytes on the current device,
 * whose context must be the primary one. Returns CUDA's error, or GPU_SCHEDULER_FULL if all schedulers
 * together would have too many blocks. May wait for the GPU. */
#define GPU_SCHEDULER_FULL (-1)
int gpu_scheduler_create(struct gpu_scheduler *scheduler, size_t memory_bytes) BASE_MUST_CHECK;

/* Destroys a scheduler whose kernel is away, or has failed (its error is set). May wait for the GPU. */
void gpu_scheduler_destroy(struct gpu_scheduler *scheduler);

/* Loads the kernels. From then on the doorbell launches the kernel. Also after gpu_scheduler_stop. May
 * switch. */
int gpu_scheduler_start(struct gpu_scheduler *scheduler) BASE_MUST_CHECK;

/* Sends a message; `number` is set by this function. May switch. */
int gpu_scheduler_post(struct gpu_scheduler *scheduler, struct HEDDLE_Handlers_post *post) BASE_MUST_CHECK;

/* Wait until all messages of the host are in their queues; until the kernel is away after that. Return
 * CUDA's error. May switch. */
int gpu_scheduler_drain(struct gpu_scheduler *scheduler) BASE_MUST_CHECK;
int gpu_scheduler_rest(struct gpu_scheduler *scheduler) BASE_MUST_CHECK;

/* Makes the kernel leave, even if it has messages, and waits until it has left. It is not launched again
 * before the next start. May switch. */
void gpu_scheduler_stop(struct gpu_scheduler *scheduler);

#endif
