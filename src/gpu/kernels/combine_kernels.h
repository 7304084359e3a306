/* SPDX-License-Identifier: BSD-3-Clause
 *
 * combine_kernels.h: the predefined operations on any number of inputs, with the same expressions in the
 * same order as ampi/op/op_kernels.c, so that results are bitwise equal. Compiled without fused
 * multiply-add.
 *
 * Aligned data is read and written in vectors of 16 bytes.
 */
#ifndef GPU_KERNELS_COMBINE_KERNELS_H
#define GPU_KERNELS_COMBINE_KERNELS_H

#include "gpu/kernels/float16.h"
#include "gpu/kernels/portable.h"

/* ---- Loops ---- */

/* Loads in flight per thread: one vector of each of several inputs, or more of fewer inputs. More would
 * only compete for the links between GPUs. */
#define COMBINE_LOADS 4
#define COMBINE_FEW_INPUTS 2 /* the upper limit of "few" */

/* n elements that are read and written at once; their address is a multiple of `align`. */
template <typename T, int n, int align>
struct alignas(align) vector {
    T elems[n];
};

/* Vectors i, i + step, ... (`flight` of them) of all inputs, starting `at` bytes after their addresses;
 * `loads` are read at once. All are read before one is written: an output may be an input. The addresses
 * are equal for all threads. */
template <typename Op, typename V, int flight, int loads>
GPU_FN void combine_vectors(const struct gpu_kernel_combine &a, uint64_t at, uint64_t step)
{
    const int n = sizeof(V) / sizeof(V::elems[0]), n_at_once = loads / flight;
    V result[flight];

    for (int k = 0; k < a.n_inputs; k += n_at_once) {
        V next[n_at_once][flight];
        GPU_UNROLL
        for (int m = 0; m < n_at_once; m++) {
            GPU_UNROLL
            for (int f = 0; f < flight; f++)
                if (k + m < a.n_inputs)
                    next[m][f] = *GPU_AT(const V, a.addrs[k + m] + at + f * step * sizeof(V));
        }
        GPU_UNROLL
        for (int f = 0; k == 0 && a.old && f < flight; f++)
            *GPU_AT(V, a.old + at + f * step * sizeof(V)) = next[0][f];
        GPU_UNROLL
        for (int m = 0; m < n_at_once; m++) {
            GPU_UNROLL
            for (int f = 0; f < flight; f++) {
                GPU_UNROLL
                for (int j = 0; j < n; j++)
                    if (k + m == 0)
                        result[f].elems[j] = next[m][f].elems[j];
                    else if (k + m < a.n_inputs)
                        result[f].elems[j] = Op::apply(next[m][f].elems[j], result[f].elems[j]);
            }
        }
    }
    for (int k = a.n_inputs; k < a.n_inputs + a.n_outs; k++) {
        GPU_UNROLL
        for (int f = 0; f < flight; f++)
            *GPU_AT(V, a.addrs[k] + at + f * step * sizeof(V)) = result[f];
    }
}

/* The first n_vectors vectors, from `at` on. */
template <typename Op, typename V>
GPU_FN void combine_row(const struct gpu_kernel_combine &a, uint64_t at, uint64_t n_vectors, uint64_t thread,
                        uint64_t n_threads)
{
    const int flight = COMBINE_LOADS / COMBINE_FEW_INPUTS;
    uint64_t i = thread;

    for (; a.n_inputs <= COMBINE_FEW_INPUTS && i + (flight - 1) * n_threads < n_vectors;
         i += flight * n_threads)
        combine_vectors<Op, V, flight, COMBINE_LOADS>(a, at + i * sizeof(V), n_threads);
    for (; i < n_vectors; i += n_threads)
        combine_vectors<Op, V, 1, COMBINE_LOADS>(a, at + i * sizeof(V), n_threads);
}

template <typename Op, typename T>
GPU_FN void combine(const struct gpu_kernel_combine &a, uint64_t thread, uint64_t n_threads)
{
    const int n = 16 / sizeof(T);
    uint64_t n_vectors = a.is_aligned ? (uint64_t)a.count / n : 0;

    combine_row<Op, struct vector<T, n, 16>>(a, 0, n_vectors, thread, n_threads);
    combine_row<Op, struct vector<T, 1, alignof(T)>>(a, n_vectors * 16, (uint64_t)a.count - n_vectors * n,
                                                     thread, n_threads);
}

/* ---- Operations: a is the left operand ---- */

#define OPERATION(name, expr)           \
    template <typename T, typename U>   \
    struct name {                       \
        GPU_FN_MEMBER T apply(T a, T b) \
        {                               \
            return (expr);              \
        }                               \
    };

OPERATION(op_sum, (T)((U)a + (U)b))
OPERATION(op_prod, (T)((U)a *(U)b))
OPERATION(op_min, a < b ? a : b)
OPERATION(op_max, a > b ? a : b)
OPERATION(op_band, (T)(a &b))
OPERATION(op_bor, (T)(a | b))
OPERATION(op_bxor, (T)(a ^ b))
OPERATION(op_land, (T)((a != 0) & (b != 0)))
OPERATION(op_lor, (T)((a != 0) | (b != 0)))
OPERATION(op_lxor, (T)((a != 0) ^ (b != 0)))

/* Fortran's logicals: any nonzero value is true, and is kept. */
OPERATION(op_logical_and, (T)(a ? b : 0))
OPERATION(op_logical_or, (T)(a ? a : b))
OPERATION(op_logical_xor, (T)(a ? (b ? 0 : a) : b))

/* Types that compute in another type: float16 computes in float. */
OPERATION(op_half_sum, T::from((float)a + (float)b))
OPERATION(op_half_prod, T::from((float)a *(float)b))
OPERATION(op_half_min, (float)a < (float)b ? a : b)
OPERATION(op_half_max, (float)a > (float)b ? a : b)

template <typename T>
struct complex_of {
    T re, im;
};

template <typename T, typename U>
struct op_complex_sum {
    GPU_FN_MEMBER struct complex_of<T> apply(struct complex_of<T> a, struct complex_of<T> b) {
        struct complex_of<T> result;
        result.re = round_to((U)a.re + (U)b.re, (T *)nullptr);
        result.im = round_to((U)a.im + (U)b.im, (T *)nullptr);
        return result;
    }
};

template <typename T, typename U>
struct op_complex_prod {
    GPU_FN_MEMBER struct complex_of<T> apply(struct complex_of<T> a, struct complex_of<T> b) {
        struct complex_of<T> result;
        result.re = round_to((U)a.re * (U)b.re - (U)a.im * (U)b.im, (T *)nullptr);
        result.im = round_to((U)a.re * (U)b.im + (U)a.im * (U)b.re, (T *)nullptr);
        return result;
    }
};

/* ---- Bodies: one per class of types ---- */

#define CASE(op, operation, T, U) \
    case GPU_OP_##op:             \
        return combine<operation<T, U>, T>(a, thread, n_threads)

template <typename T, typename U>
GPU_FN void combine_bits(const struct gpu_kernel_combine &a, uint64_t thread, uint64_t n_threads)
{
    switch (a.op) {
        CASE(BAND, op_band, T, U);
        CASE(BOR, op_bor, T, U);
        CASE(BXOR, op_bxor, T, U);
    }
}

template <typename T, typename U>
GPU_FN void combine_real(const struct gpu_kernel_combine &a, uint64_t thread, uint64_t n_threads)
{
    switch (a.op) {
        CASE(SUM, op_sum, T, U);
        CASE(PROD, op_prod, T, U);
        CASE(MIN, op_min, T, U);
        CASE(MAX, op_max, T, U);
    }
}

template <typename T, typename U>
GPU_FN void combine_bool(const struct gpu_kernel_combine &a, uint64_t thread, uint64_t n_threads)
{
    switch (a.op) {
        CASE(LAND, op_land, T, U);
        CASE(LOR, op_lor, T, U);
        CASE(LXOR, op_lxor, T, U);
    }
}

template <typename T, typename U>
GPU_FN void combine_integer(const struct gpu_kernel_combine &a, uint64_t thread, uint64_t n_threads)
{
    switch (a.op) {
    case GPU_OP_SUM:
    case GPU_OP_PROD:
    case GPU_OP_MIN:
    case GPU_OP_MAX:
        return combine_real<T, U>(a, thread, n_threads);
    case GPU_OP_BAND:
    case GPU_OP_BOR:
    case GPU_OP_BXOR:
        return combine_bits<T, U>(a, thread, n_threads);
    default:
        return combine_bool<T, U>(a, thread, n_threads);
    }
}

template <typename T, typename U>
GPU_FN void combine_logical(const struct gpu_kernel_combine &a, uint64_t thread, uint64_t n_threads)
{
    switch (a.op) {
        CASE(LAND, op_logical_and, T, U);
        CASE(LOR, op_logical_or, T, U);
        CASE(LXOR, op_logical_xor, T, U);
    }
}

template <typename T, typename U>
GPU_FN void combine_half(const struct gpu_kernel_combine &a, uint64_t thread, uint64_t n_threads)
{
    switch (a.op) {
        CASE(SUM, op_half_sum, T, U);
        CASE(PROD, op_half_prod, T, U);
        CASE(MIN, op_half_min, T, U);
        CASE(MAX, op_half_max, T, U);
    }
}

template <typename T, typename U>
GPU_FN void combine_complex(const struct gpu_kernel_combine &a, uint64_t thread, uint64_t n_threads)
{
    if (a.op == GPU_OP_SUM)
        return combine<op_complex_sum<T, U>, struct complex_of<T>>(a, thread, n_threads);
    if (a.op == GPU_OP_PROD)
        return combine<op_complex_prod<T, U>, struct complex_of<T>>(a, thread, n_threads);
}

/* Of equal values the smaller index wins. Padding between pairs is unchanged. */
template <typename V, typename I>
GPU_FN void combine_pair(const struct gpu_kernel_combine &a, uint64_t thread, uint64_t n_threads)
{
    struct pair {
        V value;
        I index;
    };
    bool is_min = a.op == GPU_OP_MINLOC;

    for (uint64_t i = thread; i < (uint64_t)a.count; i += n_threads) {
        struct pair result = *GPU_AT(const struct pair, a.addrs[0] + i * sizeof(struct pair));
        if (a.old) {
            struct pair *old = GPU_AT(struct pair, a.old + i * sizeof(struct pair));
            old->value = result.value;
            old->index = result.index;
        }
        for (int k = 1; k < a.n_inputs; k++) {
            struct pair next = *GPU_AT(const struct pair, a.addrs[k] + i * sizeof(struct pair));
            if (is_min ? next.value < result.value : next.value > result.value) {
                result.value = next.value;
                result.index = next.index;
            } else if (next.value == result.value && next.index < result.index) {
                result.index = next.index;
            }
        }
        for (int k = a.n_inputs; k < a.n_inputs + a.n_outs; k++) {
            struct pair *out = GPU_AT(struct pair, a.addrs[k] + i * sizeof(struct pair));
            out->value = result.value;
            out->index = result.index;
        }
    }
}

#endif
