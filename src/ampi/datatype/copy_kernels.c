/* SPDX-License-Identifier: BSD-3-Clause
 *
 * copy_kernels.c: the innermost loops: blocks at equal distances, and blocks at the displacements of a
 * table. Small sizes have specialised loops, in which the copy is one or a few instructions.
 */
#include "ampi/datatype/copy.h"

/* Units of a block: unaligned, and allowed to alias anything. */
typedef uint8_t unit1 __attribute__((may_alias));
typedef uint16_t unit2 __attribute__((aligned(1), may_alias));
typedef uint32_t unit4 __attribute__((aligned(1), may_alias));
typedef uint64_t unit8 __attribute__((aligned(1), may_alias));
typedef uint64_t unit16 __attribute__((vector_size(16), aligned(1), may_alias));

/* In each of these loops all loads of an iteration precede its stores: that is up to 1.4 times as fast as
 * alternating. */
#define BLOCKS_OF_1(name, unit)                                                                        \
    static void name(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, size_t n)     \
    {                                                                                                  \
        for (; n >= 4; n -= 4, dst += 4 * dst_stride, src += 4 * src_stride) {                         \
            unit a = *(const unit *)src, b = *(const unit *)(src + src_stride);                        \
            unit c = *(const unit *)(src + 2 * src_stride), d = *(const unit *)(src + 3 * src_stride); \
            *(unit *)dst = a;                                                                          \
            *(unit *)(dst + dst_stride) = b;                                                           \
            *(unit *)(dst + 2 * dst_stride) = c;                                                       \
            *(unit *)(dst + 3 * dst_stride) = d;                                                       \
        }                                                                                              \
        for (; n > 0; n--, dst += dst_stride, src += src_stride)                                       \
            *(unit *)dst = *(const unit *)src;                                                         \
    }

#define BLOCKS_OF_3(name, unit)                                                                      \
    static void name(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, size_t n)   \
    {                                                                                                \
        for (; n > 0; n--, dst += dst_stride, src += src_stride) {                                   \
            unit a = ((const unit *)src)[0], b = ((const unit *)src)[1], c = ((const unit *)src)[2]; \
            ((unit *)dst)[0] = a;                                                                    \
            ((unit *)dst)[1] = b;                                                                    \
            ((unit *)dst)[2] = c;                                                                    \
        }                                                                                            \
    }

BLOCKS_OF_1(blocks_1, unit1)
BLOCKS_OF_1(blocks_2, unit2)
BLOCKS_OF_1(blocks_4, unit4)
BLOCKS_OF_1(blocks_8, unit8)
BLOCKS_OF_1(blocks_16, unit16)
BLOCKS_OF_3(blocks_12, unit4)
BLOCKS_OF_3(blocks_24, unit8)
BLOCKS_OF_3(blocks_48, unit16)

static void blocks_32(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, size_t n)
{
    for (; n > 0; n--, dst += dst_stride, src += src_stride) {
        unit16 a = ((const unit16 *)src)[0], b = ((const unit16 *)src)[1];
        ((unit16 *)dst)[0] = a;
        ((unit16 *)dst)[1] = b;
    }
}

static inline void copy_64(char *dst, const char *src)
{
    unit16 a = ((const unit16 *)src)[0], b = ((const unit16 *)src)[1];
    unit16 c = ((const unit16 *)src)[2], d = ((const unit16 *)src)[3];

    ((unit16 *)dst)[0] = a;
    ((unit16 *)dst)[1] = b;
    ((unit16 *)dst)[2] = c;
    ((unit16 *)dst)[3] = d;
}

static void blocks_64(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, size_t n)
{
    for (; n > 0; n--, dst += dst_stride, src += src_stride)
        copy_64(dst, src);
}

/* Blocks of a multiple of 64 bytes, but too short for a memcpy call each. */
static void blocks_64s(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, size_t block,
                       size_t n)
{
    for (; n > 0; n--, dst += dst_stride, src += src_stride) {
        for (size_t i = 0; i < block; i += 64)
            copy_64(dst + i, src + i);
    }
}

/* Blocks of 32 bytes or multiples of 64, where the processor can move 32 bytes at once. */
#ifdef __x86_64__
#define WIDE __attribute__((target("avx")))
typedef uint64_t unit32 __attribute__((vector_size(32), aligned(1), may_alias));

static inline bool has_wide(void)
{
    return __builtin_cpu_supports("avx");
}

WIDE static void wide_blocks_32(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, size_t n)
{
    for (; n >= 2; n -= 2, dst += 2 * dst_stride, src += 2 * src_stride) {
        unit32 a = *(const unit32 *)src, b = *(const unit32 *)(src + src_stride);
        *(unit32 *)dst = a;
        *(unit32 *)(dst + dst_stride) = b;
    }
    if (n > 0)
        *(unit32 *)dst = *(const unit32 *)src;
}

WIDE static void wide_blocks_64(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, size_t n)
{
    for (; n >= 2; n -= 2, dst += 2 * dst_stride, src += 2 * src_stride) {
        unit32 a = ((const unit32 *)src)[0], b = ((const unit32 *)src)[1];
        unit32 c = ((const unit32 *)(src + src_stride))[0], d = ((const unit32 *)(src + src_stride))[1];
        ((unit32 *)dst)[0] = a;
        ((unit32 *)dst)[1] = b;
        ((unit32 *)(dst + dst_stride))[0] = c;
        ((unit32 *)(dst + dst_stride))[1] = d;
    }
    if (n > 0) {
        unit32 a = ((const unit32 *)src)[0], b = ((const unit32 *)src)[1];
        ((unit32 *)dst)[0] = a;
        ((unit32 *)dst)[1] = b;
    }
}

WIDE static void wide_blocks_64s(char *dst, int64_t dst_stride, const char *src, int64_t src_stride,
                                 size_t block, size_t n)
{
    for (; n > 0; n--, dst += dst_stride, src += src_stride) {
        for (size_t i = 0; i < block; i += 64) {
            unit32 a = ((const unit32 *)(src + i))[0], b = ((const unit32 *)(src + i))[1];
            ((unit32 *)(dst + i))[0] = a;
            ((unit32 *)(dst + i))[1] = b;
        }
    }
}

/* Returns true if it has copied the blocks. */
static bool try_wide(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, size_t block,
                     size_t n)
{
    if (!has_wide())
        return false;
    if (block == 32)
        wide_blocks_32(dst, dst_stride, src, src_stride, n);
    else if (block == 64)
        wide_blocks_64(dst, dst_stride, src, src_stride, n);
    else
        wide_blocks_64s(dst, dst_stride, src, src_stride, block, n);
    return true;
}
#else
static bool try_wide(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, size_t block,
                     size_t n)
{
    return false;
}
#endif

/* Blocks of any other size. */
static void blocks_any(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, size_t block,
                       size_t n)
{
    for (; n > 0; n--, dst += dst_stride, src += src_stride)
        memcpy(dst, src, block);
}

void ampi_copy_blocks(uintptr_t to, int64_t dst_stride, uintptr_t from, int64_t src_stride, size_t block,
                      size_t n)
{
    char *dst = (char *)to;
    const char *src = (const char *)from;

    if (n == 1) {
        memcpy(dst, src, block);
        return;
    }
    if (block >= 32 && block <= 256 && (block == 32 || block % 64 == 0) &&
        try_wide(dst, dst_stride, src, src_stride, block, n))
        return;
    switch (block) {
#define FIXED(bytes)                                         \
    case bytes:                                              \
        blocks_##bytes(dst, dst_stride, src, src_stride, n); \
        break;
        FIXED(1)
        FIXED(2)
        FIXED(4)
        FIXED(8)
        FIXED(12)
        FIXED(16)
        FIXED(24)
        FIXED(32)
        FIXED(48)
        FIXED(64)
#undef FIXED
    case 128:
    case 192:
    case 256:
        blocks_64s(dst, dst_stride, src, src_stride, block, n);
        break;
    default:
        blocks_any(dst, dst_stride, src, src_stride, block, n);
    }
}

/* Copies n blocks between the displacements of a table and consecutive memory. */
static inline __attribute__((always_inline)) void
table_fixed(uintptr_t base, const int64_t *disps, char *flat, size_t block, size_t n, bool is_pack)
{
    for (size_t i = 0; i < n; i++) {
        char *place = (char *)(base + (uintptr_t)disps[i]);
        if (is_pack)
            memcpy(flat + i * block, place, block);
        else
            memcpy(place, flat + i * block, block);
    }
}

static inline __attribute__((always_inline)) void table_any(uintptr_t base, const int64_t *disps, char *flat,
                                                            size_t block, size_t n, bool is_pack)
{
    switch (block) {
#define FIXED(bytes)                                       \
    case bytes:                                            \
        table_fixed(base, disps, flat, bytes, n, is_pack); \
        break;
        FIXED(1)
        FIXED(2)
        FIXED(4)
        FIXED(8)
        FIXED(12)
        FIXED(16)
        FIXED(24)
        FIXED(32)
        FIXED(64)
#undef FIXED
    default:
        table_fixed(base, disps, flat, block, n, is_pack);
    }
}

void ampi_copy_offsets(uintptr_t base, const int64_t *disps, uintptr_t flat, size_t block, size_t n,
                       bool is_pack)
{
    if (is_pack)
        table_any(base, disps, (char *)flat, block, n, true);
    else
        table_any(base, disps, (char *)flat, block, n, false);
}

static inline void copy_small(char *dst, const char *src, size_t n_bytes)
{
    switch (n_bytes) {
    case 1:
        memcpy(dst, src, 1);
        break;
    case 2:
        memcpy(dst, src, 2);
        break;
    case 4:
        memcpy(dst, src, 4);
        break;
    case 8:
        memcpy(dst, src, 8);
        break;
    case 16:
        memcpy(dst, src, 16);
        break;
    default:
        memcpy(dst, src, n_bytes);
    }
}

size_t ampi_copy_entries(uintptr_t base, const struct base_node_entry *entries, int64_t n, uintptr_t flat,
                         size_t room, bool is_pack, int64_t *n_out)
{
    size_t done = 0;
    int64_t i;

    for (i = 0; i < n && (size_t)entries[i].unit <= room - done; i++) {
        char *place = (char *)(base + (uintptr_t)entries[i].disp), *packed = (char *)flat + done;
        if (is_pack)
            copy_small(packed, place, (size_t)entries[i].unit);
        else
            copy_small(place, packed, (size_t)entries[i].unit);
        done += (size_t)entries[i].unit;
    }
    *n_out = i;
    return done;
}
