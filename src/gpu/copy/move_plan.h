/* SPDX-License-Identifier: BSD-3-Clause
 *
 * move_plan.h: the plan that move_plan.c makes of a move, for gpu_move.c.
 */
#ifndef GPU_MOVE_PLAN_H
#define GPU_MOVE_PLAN_H

#include "gpu/gpu.h"

/* The kinds of an end of a move: a block known to the driver, a layout on a GPU, or memory that the CPU
 * fills and drains (gpu_move.c). */
enum gpu_side_kind { FLAT, DEVICE, HOST };

/* CUDA's code for errors that are detected here. */
enum { GPU_ERROR_INVALID_VALUE = 1 };

/* Fills in all fields of the move except the caller's, and allocates the memory that it needs; move->error
 * is set if that failed. */
void gpu_move_plan(struct gpu_move *move);

/* Frees that memory. */
void gpu_move_put_staging(struct gpu_move *move);

#endif
