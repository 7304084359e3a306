/* SPDX-License-Identifier: BSD-3-Clause
 *
 * launches.h: kernel launches, the first of which may load the kernel. For the files of src/gpu alone.
 *
 * CUDA loads a kernel when it is first launched, and gives it memory for its stacks; both wait in the
 * driver for all that runs on the GPU. So the first launch of a kernel by a rank in a context is offloaded
 * (offload.h). A hash table per rank records launched kernels: one look-up per launch.
 */
#ifndef GPU_LAUNCHES_H
#define GPU_LAUNCHES_H

#include <cuda.h>
#include <stdbool.h>

#include "base/base.h"

/* The kernels that a rank has launched. Initially all 0. */
struct gpu_launched {
    uintptr_t *keys;   /* hash of a kernel in a context; 0: a free entry */
    unsigned n_places; /* a power of 2, or 0 */
    unsigned n_used;   /* at most half of them */
    CUcontext context; /* the rank's current context, if the rank has set it */
};

/* The running rank has made this context current. */
void gpu_launches_enter(CUcontext context);

/* True if the running rank has used this kernel (a CUfunction or CUkernel) in its context before; records
 * the use. */
bool gpu_launches_know(const void *kernel);
void gpu_launches_note(const void *kernel);

/* Kernels of the running rank were unloaded: handles may be reused. */
void gpu_launches_forget(void);

/* ---- The program's functions ---- */

#endif
