/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stay.h: a program's kernel that stays on a GPU and runs blocks of work requests without launches (heddle_work.h). Knows neither requests nor ranks.
 *
 * Its places take one order at a time. What a place is doing is the caller's to know. The caller makes sure that one thread at a time calls these
 * functions. None of them waits for the GPU, or switches.
 */
#ifndef GPU_STAY_H
#define GPU_STAY_H

#include "gpu/gpu.h"
#include "heddle_work.h"

struct gpu_stay;

/* Bytes of arguments and addresses that fit into an order. */
#define GPU_STAY_BYTES ((HEDDLE_WORK_LEAVE - HEDDLE_WORK_ARGS) * sizeof(uint32_t) / 8 * 8)

/* Creates the means for a device, whose context is current. last_ns: 8 bytes of its memory. *stay_out is NULL if kernels must not stay there. */
int gpu_stay_create(int device, uint64_t last_ns, struct gpu_stay **stay_out) BASE_MUST_CHECK;

/* Launches a kernel, behind the one before. The device's context is current. */
int gpu_stay_launch(struct gpu_stay *stay, void *kernel, unsigned n_threads) BASE_MUST_CHECK;

/* True until the last launch is known to have left. */
bool gpu_stay_is_launched(struct gpu_stay *stay);

/* True if calls that wait for the GPU keep kernels away. */
bool gpu_stay_is_held(const struct gpu_stay *stay);

/* True if the place is there, and takes orders. */
bool gpu_stay_is_here(const struct gpu_stay *stay, int place);

/* Orders a block of a request. args_bytes is rounded up to a multiple of 8, and addresses follow. */
void gpu_stay_order(struct gpu_stay *stay, int place, unsigned block, unsigned n_blocks, const void *args,
                    size_t args_bytes, const uint64_t *addresses, int n_addresses);

/* True if the place's last order is done. */
bool gpu_stay_is_done(const struct gpu_stay *stay, int place);

/* True if the place has left with an order that is not done: the next launch does it. */
bool gpu_stay_has_missed(const struct gpu_stay *stay, int place);

/* The GPU's error; 0: none. */
int gpu_stay_ask(const struct gpu_stay *stay) BASE_MUST_CHECK;

#endif
