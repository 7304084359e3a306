/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_upper.h: what the rooms driver/ and copy/ need of rooms above them, and rank/ of streams/. gpu_connect.c fills the table,
 * which is constant: dlsym needs it before any constructor has run.
 */
#ifndef GPU_UPPER_H
#define GPU_UPPER_H

#include <cuda.h>

#include "ult/ult.h"

struct gpu_upper {
    /* The poll of a PE's source: all of a PE's progress on its GPUs (gpu_connect.c). */
    int (*poll)(struct ult_source *source);
    /* The replacement of a function that dlsym has found by this name, for ranks and for the library (guard.h). */
    void *(*replacement)(const char *name, void *function);
    void *(*replacement_for_library)(const char *name, void *function);
    /* The current context is the rank's: at a switch, before ranks begin, and when a rank loads the driver (rank_context.h). */
    void (*swap_context)(struct ult *from, struct ult *to);
    void (*prepare_context)(void);
    void (*begin_context)(void);
    /* Lets no call return before its work on this device memory is done, and waits for earlier ones (streams.h). */
    void (*make_synchronous)(CUdeviceptr address, uintptr_t from, uintptr_t to);
    /* Frees memory of the library while the GPU works (guard_calls.h). */
    void (*free_later)(CUcontext context, void *memory, bool is_pinned);
    /* A stream of this priority that was created in advance; NULL: there is none (stream_stock.h). */
    CUstream (*take_stream)(CUcontext context, int priority);
    /* The text of an error that is not CUDA's (nccl.h); false: it is CUDA's. */
    bool (*other_error_text)(int error, char *text, size_t text_bytes);
    /* Starts what the streams of the calling PE have come to (gpu.h). */
    void (*catch_up)(void);
};
extern const struct gpu_upper gpu_upper;

#endif
