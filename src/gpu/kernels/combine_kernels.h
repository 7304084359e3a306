/* SPDX-License-Identifier: BSD-3-Clause
 *
 * combine_kernels.h: the predefined operations on any number of inputs, the same expressions in the same
 * order as ampi/op_kernels.c, so that the results are the same bits. Compiled without fused
 * multiply-add.
 *
 * A type is a struct of traits: T, what an element is in memory; a function per operation that it allows.
 * Inputs that are all aligned are read in vectors of 16 bytes.
 */
#ifndef GPU_KERNELS_COMBINE_KERNELS_H
#define GPU_KERNELS_COMBINE_KERNELS_H

#include "gpu/kernels/float16.h"
#include "gpu/kernels/portable.h"

/* ---- Loops ---- */

template <typename T, int n>
struct alignas(n * sizeof(T)) vector {
    T elems[n];
};

/* One element after the other. a.inputs is the same for all threads. */
template <typename Op, typename T>
GPU_FN void combine_elements(const struct gpu_kernel_combine &a, uint64_t thread, uint64_t n_threads)
{
    for (uint64_t i = thread; i < (uint64_t)a.count; i += n_threads) {
        T result = *GPU_AT(const T, a.inputs[0] + i * sizeof(T));
        for (int k = 1; k < a.n_inputs; k++)
            result = Op::apply(*GPU_AT(const T, a.inputs[k] + i * sizeof(T)), result);
        *GPU_AT(T, a.out + i * sizeof(T)) = result;
    }
}

template <typename Op, typename T, int n>
GPU_FN void combine_vectors(const struct gpu_kernel_combine &a, uint64_t thread, uint64_t n_threads)
{
    typedef struct vector<T, n> V;

    for (uint64_t i = thread; i < (uint64_t)a.count / n; i += n_threads) {
        V result = *GPU_AT(const V, a.inputs[0] + i * sizeof(V));
        GPU_UNROLL
        for (int k = 1; k < a.n_inputs; k++) {
            V next = *GPU_AT(const V, a.inputs[k] + i * sizeof(V));
            GPU_UNROLL
            for (int j = 0; j < n; j++)
                result.elems[j] = Op::apply(next.elems[j], result.elems[j]);
        }
        *GPU_AT(V, a.out + i * sizeof(V)) = result;
    }
    for (uint64_t i = (uint64_t)a.count / n * n + thread; i < (uint64_t)a.count; i += n_threads) {
        T result = *GPU_AT(const T, a.inputs[0] + i * sizeof(T));
        for (int k = 1; k < a.n_inputs; k++)
            result = Op::apply(*GPU_AT(const T, a.inputs[k] + i * sizeof(T)), result);
        *GPU_AT(T, a.out + i * sizeof(T)) = result;
    }
}

template <typename Op, typename T>
GPU_FN void combine(const struct gpu_kernel_combine &a, uint64_t thread, uint64_t n_threads)
{
    if (sizeof(T) < 16 && a.is_aligned)
        combine_vectors<Op, T, (sizeof(T) < 16 ? 16 / sizeof(T) : 1)>(a, thread, n_threads);
    else
        combine_elements<Op, T>(a, thread, n_threads);
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

/* Fortran's: any value that is not 0 is true, and stays what it is. */
OPERATION(op_logical_and, (T)(a ? b : 0))
OPERATION(op_logical_or, (T)(a ? a : b))
OPERATION(op_logical_xor, (T)(a ? (b ? 0 : a) : b))

/* Numbers whose arithmetic is another type's: float16 calculates as float. */
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

/* Of equal values the smaller index wins. The bytes between pairs stay as they are. */
template <typename V, typename I>
GPU_FN void combine_pair(const struct gpu_kernel_combine &a, uint64_t thread, uint64_t n_threads)
{
    struct pair {
        V value;
        I index;
    };
    bool is_min = a.op == GPU_OP_MINLOC;

    for (uint64_t i = thread; i < (uint64_t)a.count; i += n_threads) {
        struct pair *out = GPU_AT(struct pair, a.out + i * sizeof(struct pair));
        struct pair result = *GPU_AT(const struct pair, a.inputs[0] + i * sizeof(struct pair));
        for (int k = 1; k < a.n_inputs; k++) {
            struct pair next = *GPU_AT(const struct pair, a.inputs[k] + i * sizeof(struct pair));
            if (is_min ? next.value < result.value : next.value > result.value) {
                result.value = next.value;
                result.index = next.index;
            } else if (next.value == result.value && next.index < result.index) {
                result.index = next.index;
            }
        }
        out->value = result.value;
        out->index = result.index;
    }
}

#endif
