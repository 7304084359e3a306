/* SPDX-License-Identifier: BSD-3-Clause
 *
 * resident.h: small copies by a kernel that stays on the GPU (gpu_resident_us), and the eviction of all kernels that stay. For the files of
 * src/gpu alone.
 */
#ifndef GPU_RESIDENT_H
#define GPU_RESIDENT_H

#include "gpu/driver/driver.h"
#include "gpu/driver/pe_state.h"
#include "gpu/gpu.h"

/* The kernel left before this order: nothing was copied, use another way. */
#define GPU_RESIDENT_NOT_DONE (-1)

/* Orders a copy between two blocks of device memory, of one device or two, from the resident kernel on the
 * source's device. Returns false if it is not there, or cannot access the memory; use another way.
 * Otherwise ticket->handle is called later, on this PE, with 0, GPU_RESIDENT_NOT_DONE or an error. */
bool gpu_resident_copy(const struct gpu_move_side *from, const struct gpu_move_side *to, size_t n_bytes,
                       struct gpu_ticket *ticket);

/* Called after gpu_resident_copy returned false and the copy was started another way, alone: launches the device's
 * kernel if copies come often enough to make it worthwhile. */
void gpu_resident_call(int device);

/* True if a kernel of this PE is there, on any device. */
bool gpu_resident_is_near(void);

/* Handles completed orders. Returns their number. */
int gpu_resident_poll(struct gpu_pe *pe);

/* True if a launch of a kernel returns when the kernel has ended (CUDA_LAUNCH_BLOCKING). */
bool gpu_launches_block(void);

/* The number of copies it has made for this PE. */
uint64_t gpu_resident_count(void);

/* The reason why no kernel of the library may stay on a GPU; NULL: none. */
const char *gpu_resident_obstacle(void);

/* ---- Contexts and waiting calls of the program: any thread (gpu/rank/guard.h) ---- */

/* Loads the kernel, if it is wanted, on a device whose primary context has just been created: loading waits for work that
 * runs there. load: cuFuncLoad; NULL: the driver has none. */
void gpu_resident_load(int device, CUcontext context, CUresult (*load)(CUfunction));

/* ---- Eviction (evict.c) ---- */

/* A kernel that stays on a GPU, never freed. */
struct gpu_evictable {
    struct gpu_evictable *next; /* in the list of all */
    int device;
    void (*set_leave)(struct gpu_evictable *evictable,
                      bool is_on); /* tells the kernel to leave, or not to. Any thread */
    atomic_bool is_launched;       /* it is not known to have left */
    atomic_int n_holds;            /* callers that keep it away; changes under the list's lock */
};

/* Adds a kernel whose device and set_leave are filled. */
void gpu_evictable_add(struct gpu_evictable *evictable);

/* True if it must not be launched without need. */
bool gpu_evictable_is_held(const struct gpu_evictable *evictable);

#define GPU_RESIDENT_ALL (-1)     /* devices */
#define GPU_RESIDENT_NONE (-2)    /* no device */
#define GPU_RESIDENT_CURRENT (-3) /* device of the thread's current context; for gpu_resident_hold alone */

/* Evicts all kernels from this device, and keeps them away until the matching
 * gpu_resident_release; calls nest. They leave within some microseconds, without the help of any PE. Does
 * nothing if there was no kernel yet. Returns the argument for gpu_resident_release. */
int gpu_resident_hold(int device);
void gpu_resident_release(int device);

#endif
