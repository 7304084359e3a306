/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kernels.cu: the module of kernels. nvcc compiles it to the GPU code in the library (cuda.cmake), the C++
 * compiler to functions for the fake driver of the tests.
 */
#include "gpu/kernels/combine_kernels.h"
#include "gpu/kernels/exchange_kernel.h"
#include "gpu/kernels/job_kernels.h"
#include "gpu/kernels/odd_kernel.h"
#include "gpu/kernels/pack_kernels.h"
#include "gpu/kernels/resident_kernel.h"
#include "gpu/kernels/slot_kernel.h"
#include "gpu/kernels/swap_kernel.h"

GPU_KERNEL(heddle_copy, struct gpu_kernel_copy, copy_body)
GPU_KERNEL(heddle_copies, struct gpu_kernel_copies, copies_body)
GPU_KERNEL(heddle_pack_box, struct gpu_kernel_box, pack_box_body)
GPU_KERNEL(heddle_pack_program, struct gpu_kernel_pack, pack_program_body)
GPU_KERNEL(heddle_pack_odd, struct gpu_kernel_odd, pack_odd_body)
GPU_KERNEL(heddle_jobs, struct gpu_kernel_jobs, jobs_body)

GPU_KERNEL(heddle_swap, struct gpu_kernel_swap, swap_body)

GPU_EXCHANGE_KERNEL(heddle_exchange, struct gpu_kernel_exchange, exchange_body)
GPU_RESIDENT_KERNEL(heddle_hold, struct gpu_kernel_hold, hold_body)

GPU_RESIDENT_KERNEL(heddle_fill, struct gpu_kernel_fill, fill_body)
GPU_RESIDENT_KERNEL(heddle_empty, struct gpu_kernel_empty, empty_body)

GPU_RESIDENT_KERNEL(heddle_resident, struct gpu_kernel_resident, resident_body)

#define COMBINE_KERNEL(type, ...) GPU_KERNEL(heddle_combine_##type, struct gpu_kernel_combine, (__VA_ARGS__))

/* The second type is used for the computation: unsigned, so that integers wrap around, and at least an
 * int. */
COMBINE_KERNEL(INT8, combine_integer<int8_t, unsigned>)
COMBINE_KERNEL(INT16, combine_integer<int16_t, unsigned>)
COMBINE_KERNEL(INT32, combine_integer<int32_t, uint32_t>)
COMBINE_KERNEL(INT64, combine_integer<int64_t, uint64_t>)
COMBINE_KERNEL(UINT8, combine_integer<uint8_t, unsigned>)
COMBINE_KERNEL(UINT16, combine_integer<uint16_t, unsigned>)
COMBINE_KERNEL(UINT32, combine_integer<uint32_t, uint32_t>)
COMBINE_KERNEL(UINT64, combine_integer<uint64_t, uint64_t>)
COMBINE_KERNEL(FLOAT16, combine_half<struct float16, float>)
COMBINE_KERNEL(FLOAT, combine_real<float, float>)
COMBINE_KERNEL(DOUBLE, combine_real<double, double>)
COMBINE_KERNEL(COMPLEX_FLOAT16, combine_complex<struct float16, float>)
COMBINE_KERNEL(COMPLEX_FLOAT, combine_complex<float, float>)
COMBINE_KERNEL(COMPLEX_DOUBLE, combine_complex<double, double>)
COMBINE_KERNEL(BYTE, combine_bits<uint8_t, unsigned>)
COMBINE_KERNEL(BOOL, combine_bool<uint8_t, unsigned>)
COMBINE_KERNEL(LOGICAL8, combine_logical<uint8_t, unsigned>)
COMBINE_KERNEL(LOGICAL16, combine_logical<uint16_t, unsigned>)
COMBINE_KERNEL(LOGICAL32, combine_logical<uint32_t, unsigned>)
COMBINE_KERNEL(LOGICAL64, combine_logical<uint64_t, unsigned>)
COMBINE_KERNEL(FLOAT_INT, combine_pair<float, int>)
COMBINE_KERNEL(DOUBLE_INT, combine_pair<double, int>)
COMBINE_KERNEL(LONG_INT, combine_pair<long, int>)
COMBINE_KERNEL(2INT, combine_pair<int, int>)
COMBINE_KERNEL(SHORT_INT, combine_pair<short, int>)
COMBINE_KERNEL(2FLOAT, combine_pair<float, float>)
COMBINE_KERNEL(2DOUBLE, combine_pair<double, double>)
