/* SPDX-License-Identifier: BSD-3-Clause
 *
 * call_watch.h: a function that sees the program's calls of CUDA that give work to a GPU, except launches (gpu_launch_watcher).
 */
#ifndef GPU_CALL_WATCH_H
#define GPU_CALL_WATCH_H

#include "base/base.h"

/* Called for each of them, on any thread of a rank; may be NULL. May not switch. */
extern void (*gpu_call_watcher)(const char *name);

static inline void gpu_watch_call(const char *name)
{
    if (BASE_UNLIKELY(gpu_call_watcher != NULL))
        gpu_call_watcher(name);
}

#endif
