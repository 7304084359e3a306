/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tls.c: the program's thread_local blocks. They are at fixed offsets from the thread pointer, in code that
 * cannot be changed, so their bytes are swapped with the ULT.
 */
#include "ult/tls.h"

#include <string.h>

int ult_switch_extras;
static int tls_n_regions;
static struct ult_tls_region tls_regions[ULT_TLS_REGIONS_MAX];
static size_t tls_total_bytes;

void ult_tls_set_regions(const struct ult_tls_region *regions, int n_regions)
{
    BASE_ASSERT(n_regions <= ULT_TLS_REGIONS_MAX);
    tls_total_bytes = 0;
    for (int i = 0; i < n_regions; i++) {
        tls_regions[i] = regions[i];
        tls_total_bytes += regions[i].size_bytes;
    }
    tls_n_regions = n_regions;
    ult_switch_extras = (ult_switch_extras & ~ULT_EXTRA_TLS) | (n_regions ? ULT_EXTRA_TLS : 0);
}

size_t ult_tls_total_bytes(void)
{
    return tls_total_bytes;
}

void ult_tls_swap(unsigned char *from, const unsigned char *to)
{
    char *thread_pointer = __builtin_thread_pointer();
    size_t done_bytes = 0;

    for (int i = 0; i < tls_n_regions; i++) {
        char *live = thread_pointer + tls_regions[i].tp_offset;
        if (from)
            memcpy(from + done_bytes, live, tls_regions[i].size_bytes);
        if (to)
            memcpy(live, to + done_bytes, tls_regions[i].size_bytes);
        done_bytes += tls_regions[i].size_bytes;
    }
}
