/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nccl_library.h: NCCL's functions as a table that is filled at run time; for nccl*.c alone.
 */
#ifndef GPU_NCCL_LIBRARY_H
#define GPU_NCCL_LIBRARY_H

#include "gpu/nccl/nccl.h"
#include "gpu/nccl/nccl_abi.h"

struct gpu_nccl_functions {
#define GPU_NCCL_MEMBER(type, name, parameters) type(*name) parameters;
    GPU_NCCL_SYMBOLS(GPU_NCCL_MEMBER)
#undef GPU_NCCL_MEMBER
};
extern struct gpu_nccl_functions gpu_nccl;

/* Opens the library, once; takes a while. Returns 0 or the reason why it cannot be used, which was logged.
 * Any thread. */
int gpu_nccl_open(void) BASE_MUST_CHECK;

/* NCCL's version number, once it is open. */
int gpu_nccl_version(void);

/* Records NCCL's text about a result of `function` that is neither success nor in progress, for
 * gpu_error_text. Returns the error. Any thread. */
int gpu_nccl_record(int result, const char *function) BASE_COLD;

#endif
