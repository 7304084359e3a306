/* SPDX-License-Identifier: BSD-3-Clause
 *
 * choice.c: see choice.h.
 */
#include "ampi/work/choice.h"

#define LAUNCH_NS 10e3 /* to the end of an empty launch */
#define COPY_NS 10e3   /* of a copy between host and GPU, besides its bytes */

static double copy_ns(size_t n_bytes, double byte_ns)
{
    return n_bytes > 0 ? COPY_NS + byte_ns * (double)n_bytes : 0;
}

bool ampi_work_cpu_ends_first(const struct ampi_work_situation *situation)
{
    double gpu_ns =
        LAUNCH_NS + situation->gpu_queue_ns + copy_ns(situation->to_gpu_bytes, situation->in_byte_ns);
    double cpu_ns = situation->cpu_queue_ns + situation->cpu_ns +
                    copy_ns(situation->from_gpu_bytes, situation->out_byte_ns) +
                    copy_ns(situation->stale_bytes, situation->in_byte_ns);

    if (situation->cpu_ns <= 0 && (situation->is_tried || !situation->is_gpu_busy))
        return false;
    return cpu_ns < gpu_ns;
}
