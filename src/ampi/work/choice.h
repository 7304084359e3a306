/* SPDX-License-Identifier: BSD-3-Clause
 *
 * choice.h: the choice between CPU and GPU for a request (+work both): it goes where it ends first. Estimates in, a decision out; no state.
 */
#ifndef AMPI_WORK_CHOICE_H
#define AMPI_WORK_CHOICE_H

#include "base/base.h"

struct ampi_work_situation {
    double gpu_queue_ns;   /* of the GPU: launches under way, and all that is pending, with this request */
    double cpu_queue_ns;   /* of the PE */
    double cpu_ns;         /* of this request on the CPU; 0: no request of the kind has been measured */
    size_t to_gpu_bytes;   /* that the request reads, and the GPU does not have */
    size_t from_gpu_bytes; /* that it reads, and only the GPU has */
    size_t stale_bytes;    /* copies on the GPU of what it writes: the CPU would make them useless */
    double in_byte_ns;     /* time for a byte to the GPU, */
    double out_byte_ns;    /* and from it */
    bool is_gpu_busy;
    bool is_tried; /* the CPU does the first request of the kind: it is being measured */
};

/* True if the CPU is done with the request before the GPU would be. The first request of a kind goes to the CPU as an experiment, when the GPU is busy
 * for longer than the copies would take. */
bool ampi_work_cpu_ends_first(const struct ampi_work_situation *situation);

#endif
