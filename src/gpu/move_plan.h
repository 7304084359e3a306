/* SPDX-License-Identifier: BSD-3-Clause
 *
 * move_plan.h: what move_plan.c decides of a move, for gpu_move.c.
 */
#ifndef GPU_MOVE_PLAN_H
#define GPU_MOVE_PLAN_H

#include "gpu/gpu.h"

/* The kinds of an end of a move: a block that the driver knows, a layout on a GPU, or memory that the CPU
 * fills and drains (gpu_move.c). */
enum gpu_side_kind { FLAT, DEVICE, HOST };

/* CUDA's name for what is found wrong here. */
enum { GPU_ERROR_INVALID_VALUE = 1 };

/* Fills in all of the move but what its caller provides, and gets the memory that it needs; move->error says
 * what went wrong. */
void gpu_move_plan(struct gpu_move *move);

/* Gives that memory back. */
void gpu_move_put_staging(struct gpu_move *move);

#endif
