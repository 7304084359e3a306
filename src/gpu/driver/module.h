/* SPDX-License-Identifier: BSD-3-Clause
 *
 * module.h: the kernels of this library, and how they get to the devices; for the files of src/gpu alone.
 */
#ifndef GPU_MODULE_H
#define GPU_MODULE_H

#include "gpu/driver/driver.h"

/* The kernels that this library was built with. */
struct gpu_module {
    const void *image;        /* a fatbin; NULL: built without a compiler for them */
    const char *const *names; /* by number */
    int n_kernels;
};
extern const struct gpu_module gpu_module;

/* A kernel of gpu_module on a device, whose primary context is current. Loads the module at the first call
 * for a device. 0 or an error (recorded). Any thread. */
int gpu_module_function(int device, int kernel, CUfunction *function_out) BASE_MUST_CHECK;

/* True if the function is this kernel of gpu_module on any device. Any thread. */
bool gpu_module_is_kernel(CUfunction function, int kernel);

/* False: the driver has to compile the kernels for the device (src/CMakeLists.txt), which takes seconds the first time: too
 * much for a program that may never need them. Any thread. */
bool gpu_module_has_machine_code(int device);

#endif
