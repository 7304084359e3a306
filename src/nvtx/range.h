/* SPDX-License-Identifier: BSD-3-Clause
 *
 * range.h: ranges of NVTX for calls of MPI, in the domain "MPI". Called by the functions that tools/gen_nvtx.py writes. None
 * of these switches. They run on the caller's stack, as the profiler's code does.
 */
#ifndef NVTX_RANGE_H
#define NVTX_RANGE_H

#include <stdint.h>

/* Begins a range with the name of the call; its category and payload are the caller's rank. Returns its ID, for range_end.
 * If no profiler is there, returns 0. */
uint64_t range_begin(const char *call);
void range_end(uint64_t range);

/* Names the category of the caller's rank. */
void range_name_rank(void);

#endif
