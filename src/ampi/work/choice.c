/* SPDX-License-Identifier: BSD-3-Clause
 *
 * choice.c: see choice.h.
 */
#include "ampi/work/choice.h"

#define LAUNCH_NS 10e3 /* to the end of an empty launch */
#define COPY_NS 10e3   /* of a copy between host and GPU, besides its bytes */
#define BYTE_NS 0.1    /* through pinned memory */

static double copy_ns(size_t n_bytes)
{
    return n_bytes > 0 ? COPY_NS + BYTE_NS * (double)n_bytes : 0;
}

bool ampi_work_cpu_ends_first(const struct ampi_work_situation *situation)
{
    double gpu_ns = LAUNCH_NS + situation->gpu_queue_ns + copy_ns(situation->to_gpu_bytes);
    double cpu_ns = situation->cpu_queue_ns + situation->cpu_ns + copy_ns(situation->from_gpu_bytes) +
                    copy_ns(situation->stale_bytes);

    if (situation->cpu_ns <= 0 && (situation->is_tried || !situation->is_gpu_busy))
        return false;
    return cpu_ns < gpu_ns;
}
