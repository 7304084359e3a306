/* SPDX-License-Identifier: BSD-3-Clause
 *
 * combine.cuh: the library's method to combine vectors, with `flight` vectors of 16 bytes per thread and
 * input in flight.
 */
#ifndef COMBINE_CUH
#define COMBINE_CUH

#include "gpu/kernels/combine_kernels.h"

typedef struct vector<float, 4, 16> float4s;
typedef struct op_sum<float, float> sum;

template <int flight, int most_threads>
__global__ void __launch_bounds__(most_threads) combine_kernel(const __grid_constant__ struct gpu_kernel_combine a)
{
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x, n_threads = (uint64_t)gridDim.x * blockDim.x;
    uint64_t n_vectors = (uint64_t)a.count / 4;

    for (; i + (flight - 1) * n_threads < n_vectors; i += flight * n_threads)
        combine_vectors<sum, float4s, flight, 4 * flight>(a, i * 16, n_threads);
    for (; i < n_vectors; i += n_threads)
        combine_vectors<sum, float4s, 1, 4>(a, i * 16, n_threads);
}

#endif
