/* SPDX-License-Identifier: BSD-3-Clause
 *
 * loaded_modules.h: modules and libraries that the ranks have loaded and may unload later than they say (deferred_frees.h). For the
 * files of src/gpu alone.
 *
 * Not on the list, and unloaded at once: libraries with options (the program may unmap an image with CU_LIBRARY_BINARY_IS_PRESERVED
 * after the call), modules of libraries, which CUDA does not unload, and contexts that are not primary ones.
 */
#ifndef GPU_LOADED_MODULES_H
#define GPU_LOADED_MODULES_H

#include <cuda.h>

#include "base/base.h"

/* After a call that loads something in the current context, with its result. Any thread; the locks of contexts may be held. */
void gpu_module_note(void *const *handle, CUresult result);

/* Takes the handle off the list. False: it must be unloaded at once. *context_out: the one that was current when it was loaded. Any
 * thread. */
bool gpu_module_take(void *handle, CUcontext *context_out) BASE_MUST_CHECK;

/* Takes those of a context that ends off the list. Any thread. */
void gpu_modules_forget(CUcontext context);

#endif
