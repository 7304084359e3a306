/* SPDX-License-Identifier: BSD-3-Clause
 *
 * swap_kernel.h: compares and swaps one element. Its caller excludes all others that change it.
 */
#ifndef GPU_KERNELS_SWAP_KERNEL_H
#define GPU_KERNELS_SWAP_KERNEL_H

#include "gpu/kernels/portable.h"

template <typename U>
GPU_FN void swap_units(const struct gpu_kernel_swap &a)
{
    bool is_equal = true;

    for (uint64_t at = 0; at < a.n * sizeof(U); at += sizeof(U)) {
        U old = *GPU_AT(const U, a.target + at);
        *GPU_AT(U, a.old + at) = old;
        is_equal &= old == *GPU_AT(const U, a.expected + at);
    }
    for (uint64_t at = 0; is_equal && at < a.n * sizeof(U); at += sizeof(U))
        *GPU_AT(U, a.target + at) = *GPU_AT(const U, a.desired + at);
}

/* One thread does it. */
GPU_FN void swap_body(const struct gpu_kernel_swap &a, uint64_t thread, uint64_t n_threads)
{
    (void)n_threads;
    if (thread != 0)
        return;
    switch (a.unit) {
    case 8:
        return swap_units<uint64_t>(a);
    case 4:
        return swap_units<uint32_t>(a);
    case 2:
        return swap_units<uint16_t>(a);
    default:
        return swap_units<uint8_t>(a);
    }
}

#endif
