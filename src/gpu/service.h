/* SPDX-License-Identifier: BSD-3-Clause
 *
 * service.h: small copies by a kernel that stays on the GPU (gpu_service_us). For the files of
 * src/gpu alone.
 */
#ifndef GPU_SERVICE_H
#define GPU_SERVICE_H

#include "gpu/driver.h"
#include "gpu/gpu.h"
#include "gpu/pe_state.h"

/* The kernel left before it came to this order: nothing was copied, go another way. */
#define GPU_SERVICE_NOT_DONE (-1)

/* Orders a copy between two blocks of devices' memory, one device or two, by the kernel on the source's.
 * false: that is not there, or cannot reach the memory; go another way. Else ticket->handle is called later,
 * on this PE, with 0, GPU_SERVICE_NOT_DONE or an error. */
bool gpu_service_copy(const struct gpu_move_side *from, const struct gpu_move_side *to, size_t n_bytes,
                      struct gpu_ticket *ticket);

/* The kernel of a device, after gpu_service_copy said false and the copy has been started another way: if
 * copies come so soon after one another that it would be of use, it is launched. */
void gpu_service_call(int device);

/* Handles what is done. Returns how many it were. */
int gpu_service_poll(struct gpu_pe *pe);

/* How many copies it has done for this PE. */
uint64_t gpu_service_count(void);

/* ---- Contexts and waits of the program: any thread (gpu/guard.h) ---- */

/* Loads the kernel on a device whose primary context has just been made: loading waits for what runs there.
 * load: cuFuncLoad; NULL: the driver has none. */
void gpu_service_load(int device, CUcontext context, CUresult (*load)(CUfunction));

#define GPU_SERVICE_ALL (-1)     /* devices */
#define GPU_SERVICE_NONE (-2)    /* no device */
#define GPU_SERVICE_CURRENT (-3) /* that of the thread's current context; for gpu_service_hold alone */

/* Sends the kernels of all PEs on this device away, and keeps them away until as many calls of
 * gpu_service_release: they leave within some microseconds, without the help of any PE. Nothing if there was
 * no kernel yet. Returns the argument of gpu_service_release. */
int gpu_service_hold(int device);
void gpu_service_release(int device);

#endif
