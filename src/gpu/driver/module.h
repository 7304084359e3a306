/* SPDX-License-Identifier: BSD-3-Clause
 *
 * module.h: the kernels of gpu_module on the devices; for the files of src/gpu alone.
 */
#ifndef GPU_MODULE_H
#define GPU_MODULE_H

#include "gpu/driver/driver.h"

/* A kernel of gpu_module on a device, whose primary context is current. Loads the module at the first call
 * for a device. 0 or an error (recorded). Any thread. */
int gpu_module_function(int device, int kernel, CUfunction *function_out) BASE_MUST_CHECK;

#endif
