/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream.h: copying past the caches, for results that are larger than all of them: an ordinary store first
 * reads the line that it overwrites.
 */
#ifndef AMPI_COLL_STREAM_H
#define AMPI_COLL_STREAM_H

#include <string.h>

#include "base/base.h"

#if defined(__x86_64__)

#include <emmintrin.h>

/* Like memcpy, for some kilobytes and more. Other cores see the data after ampi_coll_stream_end. */
static inline void ampi_coll_stream(char *to, const char *from, size_t n_bytes)
{
    size_t head = -(uintptr_t)to & 63;

    if (head > n_bytes)
        head = n_bytes;
    memcpy(to, from, head);
    to += head;
    from += head;
    n_bytes -= head;
    for (; n_bytes >= 64; n_bytes -= 64, to += 64, from += 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)from);
        __m128i b = _mm_loadu_si128((const __m128i *)(from + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(from + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(from + 48));
        _mm_stream_si128((__m128i *)to, a);
        _mm_stream_si128((__m128i *)(to + 16), b);
        _mm_stream_si128((__m128i *)(to + 32), c);
        _mm_stream_si128((__m128i *)(to + 48), d);
    }
    memcpy(to, from, n_bytes);
}

static inline void ampi_coll_stream_end(void)
{
    _mm_sfence();
}

#else

static inline void ampi_coll_stream(char *to, const char *from, size_t n_bytes)
{
    memcpy(to, from, n_bytes);
}

static inline void ampi_coll_stream_end(void) {}

#endif

#endif
