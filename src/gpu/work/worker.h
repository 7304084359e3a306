/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker.h: a GPU that runs work requests: its streams, its memory for their data, and the pinned memory through which data comes and goes. Knows
 * neither requests nor ranks.
 *
 * A worker belongs to no PE: its caller (ampi/work/engine.c) makes sure that one thread at a time calls these functions. Functions between
 * gpu_worker_begin and gpu_worker_leave need the GPU's context. None of them waits for the GPU, except where noted; none switches, except
 * gpu_worker_load.
 *
 * Work goes to streams in steps: what is queued in a stream since the last step becomes its next step. Steps of a stream end in order.
 */
#ifndef GPU_WORKER_H
#define GPU_WORKER_H

#include "gpu/gpu.h"
#include "heddle_work.h"

enum {
    GPU_WORKER_KERNELS = 4,             /* streams 0 .. 3: launches */
    GPU_WORKER_IN = GPU_WORKER_KERNELS, /* data to the GPU */
    GPU_WORKER_OUT = GPU_WORKER_IN + 1, /* data from it */
    GPU_WORKER_STREAMS = GPU_WORKER_OUT + 1,
};

/* Numbers of steps, by stream; 0: none. */
struct gpu_worker_steps {
    uint64_t of[GPU_WORKER_STREAMS];
};

struct gpu_worker;

/* The device of the current context; -1: there is none, or it is not the primary one. */
int gpu_worker_device(void);

/* Creates the worker of a device. budget_bytes limits its memory; 0: what is free, less a tenth of the GPU's. Takes milliseconds. */
int gpu_worker_create(int device, size_t budget_bytes, struct gpu_worker **worker_out) BASE_MUST_CHECK;

/* The number of threads that the GPU runs at a time. */
unsigned gpu_worker_threads(const struct gpu_worker *worker);

/* Loads a kernel (a CUfunction) of the caller, and the worker's own, which may wait for the GPU. May switch. Any thread. */
void gpu_worker_load(struct gpu_worker *worker, void *kernel);

/* Makes the GPU's context current, and restores the former one. */
int gpu_worker_begin(struct gpu_worker *worker) BASE_MUST_CHECK;
void gpu_worker_leave(struct gpu_worker *worker);

/* ---- Memory ---- */

/* CUDA_ERROR_OUT_OF_MEMORY */
#define GPU_WORK_NO_MEMORY 2

#define GPU_WORKER_UNIT ((size_t)256)

/* Memory of the GPU, aligned to GPU_WORKER_UNIT; blocks that are taken in a row are neighbours if possible. False: there is no room. */
bool gpu_worker_take(struct gpu_worker *worker, size_t n_bytes, uint64_t *address_out) BASE_MUST_CHECK;
void gpu_worker_give(struct gpu_worker *worker, uint64_t address, size_t n_bytes);

/* Gives pieces of memory that are all free back to the driver, so that a larger one may take their place. Waits for the GPU. */
void gpu_worker_trim(struct gpu_worker *worker);

/* The largest block that could be taken if all were free. */
size_t gpu_worker_capacity(const struct gpu_worker *worker);

/* Pinned memory that belongs to the next step that ends, in any stream, and is free when gpu_worker_poll finds that step done. NULL: there
 * is no room now. */
#define GPU_WORKER_STAGE_MAX ((size_t)2 << 20)
void *gpu_worker_stage(struct gpu_worker *worker, size_t n_bytes);

/* ---- Streams ---- */

/* The next step of the stream begins after these steps. */
int gpu_worker_wait(struct gpu_worker *worker, int stream,
                    const struct gpu_worker_steps *after) BASE_MUST_CHECK;

/* A copy in the stream GPU_WORKER_IN or GPU_WORKER_OUT, from or to memory of gpu_worker_stage. Small ones are queued together, when the step ends. */
int gpu_worker_copy(struct gpu_worker *worker, int stream, uint64_t to, uint64_t from,
                    size_t n_bytes) BASE_MUST_CHECK;

/* Queues a copy in GPU_WORKER_IN from memory of the program: the driver may wait for the GPU. */
int gpu_worker_copy_pageable(struct gpu_worker *worker, uint64_t to, const void *from,
                             size_t n_bytes) BASE_MUST_CHECK;

int gpu_worker_launch(struct gpu_worker *worker, int stream, void *kernel, unsigned n_threads,
                      const struct HEDDLE_Work_launch *launch) BASE_MUST_CHECK;

/* Ends a step; its number. has_room: false if so many are under way that the caller must not begin one. */
int gpu_worker_end(struct gpu_worker *worker, int stream, uint64_t *step_out) BASE_MUST_CHECK;
/* The number that the next step will have. */
uint64_t gpu_worker_next(const struct gpu_worker *worker, int stream);

bool gpu_worker_has_room(const struct gpu_worker *worker, int stream);

/* The number of steps that are not done. */
unsigned gpu_worker_load_of(const struct gpu_worker *worker, int stream);

/* Finds out which steps are done; the GPU's error, after which none will be. */
int gpu_worker_poll(struct gpu_worker *worker);

/* True if the step is done; true if all steps are. */
bool gpu_worker_is_done(const struct gpu_worker *worker, int stream, uint64_t step);
bool gpu_worker_is_idle(const struct gpu_worker *worker, int stream);
bool gpu_worker_are_done(const struct gpu_worker *worker, const struct gpu_worker_steps *steps);

#endif
