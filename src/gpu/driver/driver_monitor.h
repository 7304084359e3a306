/* SPDX-License-Identifier: BSD-3-Clause
 *
 * driver_monitor.h: detects when CUDA's driver is loaded into this process, and when it maps or unmaps
 * address space.
 *
 * Loading: the loader's list has libraries in the order in which they were loaded. An empty library of
 * Heddle (heddle/sentinel_0.so) is at its end, and its next pointer is NULL until another one is loaded. If
 * that was not the driver, a second sentinel is loaded after it, and so on alternately.
 *
 * Mapping: the driver calls mmap, munmap and mremap through its global offset table. The monitor redirects
 * these entries to functions that count and then call the C library's. Device memory appears, and addresses
 * return to the host, in no other way: logged on an H100, all addresses of cuMemAlloc, cuMemAllocManaged,
 * cuMemAllocAsync, pools, cuMemAddressReserve and cuMemHostAlloc were in ranges mapped through these entries
 * (driver 580, which has no system call instruction of its own).
 */
#ifndef GPU_DRIVER_MONITOR_H
#define GPU_DRIVER_MONITOR_H

#include "gpu_detect.h"

/* Records whether the driver is in use already, and loads it for a CUDA runtime that the ranks share.
 * Before a rank runs. */
void gpu_monitor_begin(void);

/* True if the driver was in use before gpu_monitor_begin, by code that may already have its functions. */
bool gpu_monitor_is_late(void);

/* Searches for the driver and uses it from then on. Returns whether it is present. Any thread. */
bool gpu_monitor_watch(void) BASE_COLD;

/* True if the driver's mappings are monitored; otherwise addresses unknown to the driver must not be
 * cached. */
bool gpu_monitor_is_sound(void);

/* Owner of an address unknown to the driver. */
enum gpu_owner gpu_monitor_owner(uintptr_t addr);

#endif
