/* SPDX-License-Identifier: BSD-3-Clause
 *
 * no_kernels.c: replaces the kernels in a library that was built without a compiler for them.
 */
#include "gpu/driver/module.h"

const struct gpu_module gpu_module = {.image = NULL};
