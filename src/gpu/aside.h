/* SPDX-License-Identifier: BSD-3-Clause
 *
 * aside.h: calls that wait inside CUDA's driver, made beside the PE. For the files of src/gpu alone.
 *
 * Some calls wait in the driver, and no question tells when they will be done (cuMemFree, loading of modules,
 * the first launch of a kernel). On the PE's thread they would keep all ranks of the PE from running, and a
 * kernel that waits for one of these would never end. So a thread of the library makes such a call, in the
 * rank's current context, while the rank is suspended and its PE runs others.
 *
 * Each call under way has a thread to itself: one call may wait for what another rank does after its own. The
 * threads are made when they are needed, and kept.
 */
#ifndef GPU_ASIDE_H
#define GPU_ASIDE_H

#include <cuda.h>

#include "ult/ult.h"

/* A call; on the stack of the rank that makes it, with its arguments behind it. */
struct gpu_aside {
    void (*run)(struct gpu_aside *aside); /* calls the driver and stores what it returns; any thread */
    CUresult result;
    CUcontext context; /* the rank's; private, as all that follows */
    struct ult *u;
    struct ult_note note;
};

/* Is a call from this code to be made aside? It is not if the rank may not be suspended there, if it has
 * nobody to make room for, or if it captures: then the driver is called as if there were no other ranks. */
bool gpu_aside_is_wanted(const void *caller);

/* Makes the call, aside or here, and returns its result. May switch if it is wanted aside. */
CUresult gpu_aside_call(struct gpu_aside *aside, bool is_wanted);

#endif
