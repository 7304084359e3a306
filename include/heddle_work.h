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

/* ---- The kernel that stays on the GPU (AMPI_GPU_WORK_STAYS) ----
 *
 * n_requests is 0, n_blocks the launch's number, and `table` a HEDDLE_Work_stay in pinned memory. Block i does the orders of place i, one block of a request
 * each, and leaves when there was none for wait_ns at any place, after stay_ns, or when it is told to and has none. The next launch does orders that came
 * too late.
 */
#define HEDDLE_WORK_PLACES 16
#define HEDDLE_WORK_WORDS 64
#define HEDDLE_WORK_LEAVE (HEDDLE_WORK_WORDS - 1)

/* The number of the word of an order at which its arguments begin; the earlier ones: the block, n_blocks, and the word at which the buffers begin. */
#define HEDDLE_WORK_ARGS 4

/* The low half of each word is the order's data, the other half its number: an order is there when all words have it, in whatever sequence they come.
 * The word HEDDLE_WORK_LEAVE is not part of it: the block leaves if it is not 0. */
struct HEDDLE_Work_order {
    uint64_t words[HEDDLE_WORK_WORDS];
};

/* Written by the block. */
struct HEDDLE_Work_place {
    uint32_t done;  /* the number of the last order that is done; the next one has the next number */
    uint32_t state; /* HEDDLE_WORK_SAYS */
    uint32_t unused[14];
};

enum { HEDDLE_WORK_HERE, HEDDLE_WORK_LEFT };
#define HEDDLE_WORK_SAYS(launch, state) ((launch)*2 + (state))

struct HEDDLE_Work_stay {
    struct HEDDLE_Work_order orders[HEDDLE_WORK_PLACES];
    struct HEDDLE_Work_place places[HEDDLE_WORK_PLACES];
    uint64_t last_ns; /* the address of GPU memory with the time of the last order of all blocks */
    uint32_t wait_ns;
    uint32_t stay_ns;
};

#endif /* HEDDLE_WORK_H */
