/* SPDX-License-Identifier: BSD-3-Clause
 *
 * float16.h: IEEE binary16, which computes in float and rounds to nearest, ties to even.
 */
#ifndef GPU_KERNELS_FLOAT16_H
#define GPU_KERNELS_FLOAT16_H

#include "gpu/kernels/portable.h"

#ifdef __CUDACC__
#define GPU_FN_METHOD __device__ __forceinline__
#define GPU_FN_MEMBER static __device__ __forceinline__
#else
#define GPU_FN_METHOD inline
#define GPU_FN_MEMBER static inline
#endif

struct float16 {
    uint16_t bits;

    GPU_FN_METHOD explicit operator float() const;
    GPU_FN_MEMBER struct float16 from(float value);
};

#ifdef __CUDACC__

GPU_FN_METHOD float16::operator float() const
{
    float value;

    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

GPU_FN_METHOD struct float16 float16::from(float value)
{
    struct float16 result;

    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
    return result;
}

#else

static inline float float_of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

inline float16::operator float() const
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;

    if (exponent == 0x1f)
        return float_of_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) { /* zero or subnormal: fraction * 2^-24 */
        float value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

inline struct float16 float16::from(float value)
{
    uint32_t in, sign, magnitude, rest, half, shift = 13;
    uint16_t out;

    memcpy(&in, &value, sizeof in);
    sign = in >> 16 & 0x8000;
    magnitude = in & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return {(uint16_t)(sign | 0x7e00)};
    if (magnitude >= 0x47800000) /* 65536 or more */
        return {(uint16_t)(sign | 0x7c00)};
    if (magnitude < 0x33000000) /* less than half of the smallest subnormal */
        return {(uint16_t)sign};
    if (magnitude < 0x38800000) { /* subnormal: the fraction's unit is 2^-24 */
        shift = 126 - (magnitude >> 23);
        magnitude = (magnitude & 0x7fffff) | 0x800000;
    } else {
        magnitude -= 112u << 23;
    }
    out = (uint16_t)(magnitude >> shift);
    rest = magnitude & ((1u << shift) - 1);
    half = 1u << (shift - 1);
    if (rest > half || (rest == half && (out & 1)))
        out++; /* may carry into the exponent, up to infinity: as intended */
    return {(uint16_t)(sign | out)};
}

#endif

/* Converts a result to the type that it is stored in. */
GPU_FN struct float16 round_to(float value, struct float16 *)
{
    return float16::from(value);
}
GPU_FN float round_to(float value, float *)
{
    return value;
}
GPU_FN double round_to(double value, double *)
{
    return value;
}

#endif
