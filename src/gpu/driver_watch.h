/* SPDX-License-Identifier: BSD-3-Clause
 *
 * driver_watch.h: notices when CUDA's driver comes into this process, and when it maps or unmaps address
 * space.
 *
 * Coming in: libraries are in the loader's list in the order in which they were loaded. An empty library of
 * ours (heddle/sentinel_0.so) stands at its end, and its link to the next is NULL until another one is
 * loaded. If that was not the driver, a second sentinel is loaded behind it, and so on in turn.
 *
 * Mapping: the driver calls mmap, munmap and mremap through slots of its global offset table, which we point
 * to functions of ours that count and go on to the C library's. Memory of a device comes into being, and
 * addresses go back to the host, in no other way (docs/decisions/0008).
 */
#ifndef GPU_WATCH_H
#define GPU_WATCH_H

#include "gpu_detect.h"

/* Called at each switch between ULTs while gpu_hint says so (src/gpu/current.c). */
struct ult;
void gpu_current_swap(struct ult *from, struct ult *to);

/* The calling rank's code has loaded the driver: it begins with the device of its PE (src/gpu/current.c). */
void gpu_current_begin(void) BASE_COLD;

/* Initializes the driver, which is here: ranks that begin from now on do so with the device of their PE. */
void gpu_current_prepare(void) BASE_COLD;

/* Notes whether the driver is in use already, and loads it for a CUDA runtime that the ranks share. Before a
 * rank runs. */
void gpu_watch_begin(void);

/* True if the driver was in use before that, by somebody who may have its functions. */
bool gpu_watch_is_late(void);

/* Looks for the driver, which is used from then on. Returns whether it is here. Any thread. */
bool gpu_watch(void) BASE_COLD;

/* True if the driver's mappings are watched; else nothing that the driver does not know may be remembered. */
bool gpu_watch_is_sound(void);

/* Owner of an address that the driver does not know. */
enum gpu_owner gpu_watch_owner(uintptr_t addr);

#endif
