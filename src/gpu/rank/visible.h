/* SPDX-License-Identifier: BSD-3-Clause
 *
 * visible.h: the numbers of a rank that sets CUDA_VISIBLE_DEVICES by itself. For the files of src/gpu alone.
 *
 * CUDA's driver reads the variable in cuInit, from the environment of the process, of which ranks have copies. A rank whose
 * value is another one when its code first calls CUDA sees only the devices of its list, numbered from 0, as a process
 * does: all ordinals and handles of devices (CUdevice, which CUDA's programs take for ordinals) that its code passes to the
 * driver or gets are translated (visible_calls.c). The library and libraries that ranks share use the driver's numbers.
 */
#ifndef GPU_VISIBLE_H
#define GPU_VISIBLE_H

#include <cuda.h>

#include "gpu/driver/pe_state.h"
#include "gpu/rank/rank_context.h"

struct gpu_visible {
    int n;                                /* devices that the rank sees */
    CUresult error;                       /* of cuInit if there are none */
    signed char devices[GPU_DEVICES_MAX]; /* the driver's number of each; -1 behind the last */
};

/* The devices of the calling rank, NULL: all. The first call of a rank reads the variable. Any thread. */
const struct gpu_visible *gpu_visible_of_self(void);

/* The same for a call by this code, NULL if that is not the rank's own. */
const struct gpu_visible *gpu_visible(const void *caller);

/* The rank's first device, `device` if it sees all or has not read the variable; -1: none. */
int gpu_visible_first(const struct gpu_rank_context *rank, int device);

/* The driver's number of a rank's device, GPU_DEVICES_MAX if there is none; the rank's number of a device of the driver,
 * CU_DEVICE_INVALID if the rank does not see it. Negative numbers (the CPU) stay. visible NULL: all do. */
int gpu_visible_to_driver(const struct gpu_visible *visible, int device);
int gpu_visible_to_rank(const struct gpu_visible *visible, int device);

/* A place of memory with the driver's number. */
CUmemLocation gpu_visible_place(const struct gpu_visible *visible, CUmemLocation location);

#endif
