/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heddle_work.h: the memory that the library and the kernels of work requests share (heddle_mpi_work.h). C and CUDA C++.
 *
 * One launch runs many requests. Its table lies in GPU memory: an entry per request, in the order of their blocks, and behind the entries each
 * request's arguments and the addresses of its buffers.
 */
#ifndef HEDDLE_WORK_H
#define HEDDLE_WORK_H

#include <stdint.h>

/* An entry of the table. The places are bytes from the table's start. */
struct HEDDLE_Work_entry {
    uint32_t first_block; /* of the launch's blocks */
    uint32_t n_blocks;
    uint32_t args_at;    /* a multiple of 16 */
    uint32_t buffers_at; /* a multiple of 8: 64-bit addresses */
};

/* The kernel's parameter. */
struct HEDDLE_Work_launch {
    uint64_t table;
    uint32_t n_requests;
    uint32_t n_blocks;
};

#endif /* HEDDLE_WORK_H */
