/* SPDX-License-Identifier: BSD-3-Clause
 *
 * embedded_kernels.c: the kernels in the library: nvcc's output for kernels.cu (cmake/Cuda.cmake), and
 * their names.
 */
#include "gpu/driver/module.h"
#include "gpu/kernels/kernels.h"

/* The file, in the library's read-only data. */
__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        ".hidden gpu_fatbin\n"
        ".globl gpu_fatbin\n"
        "gpu_fatbin:\n"
        ".incbin \"" GPU_FATBIN "\"\n"
        ".popsection\n");
extern const char gpu_fatbin[] __attribute__((visibility("hidden")));

#define KERNEL_NAME(kernel, name, type) #name,
static const char *const names[] = {GPU_KERNELS(KERNEL_NAME)};

const struct gpu_module gpu_module = {gpu_fatbin, names, BASE_COUNT(names)};
