/* SPDX-License-Identifier: BSD-3-Clause
 *
 * detect_source.c: the functions by which the address cache (gpu_detect.h), a lower layer, queries the
 * driver. null.c has the same functions for a library that was built without CUDA's headers.
 */
#include "gpu/driver/driver_monitor.h"
#include "gpu/driver/query.h"
#include "gpu/rank/guard.h"
#include "gpu_detect.h"

static void connect(void) __attribute__((constructor(101)));
static void connect(void)
{
    static const struct gpu_detect_source source = {.watch = gpu_monitor_watch,
                                                    .begin = gpu_monitor_begin,
                                                    .owner = gpu_monitor_owner,
                                                    .query = gpu_query,
                                                    .query_buffer = gpu_query_buffer,
                                                    .notices_frees = gpu_guard_notices_frees};

    gpu_detect_source = &source;
}
