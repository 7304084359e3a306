/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tls.c: the program's thread_local blocks. They are at fixed offsets from the thread pointer, in code that
 * cannot be changed, so their bytes are swapped with the ULT, or the thread pointer is (lender.c).
 */
#include "ult/tls.h"

#include <string.h>

#include "ult/arch/ult_arch.h"
#include "ult/pe.h"

int ult_switch_extras;
static bool is_fast; /* ult_arch_set_thread_pointer makes no system call */
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

/* PEs call it at the same time. */
void ult_tls_init_own(struct ult *u, void *thread_pointer)
{
    const unsigned char *from = u->tls_save;

    for (int i = 0; from && i < tls_n_regions; i++) {
        memcpy((char *)thread_pointer + tls_regions[i].tp_offset, from, tls_regions[i].size_bytes);
        from += tls_regions[i].size_bytes;
    }
    free(u->tls_save);
    u->tls_save = NULL;
    u->thread_pointer = thread_pointer;
    __atomic_store_n(&is_fast, ult_arch_has_fast_thread_pointer(), __ATOMIC_RELAXED);
    __atomic_fetch_or(&ult_switch_extras, ULT_EXTRA_OWN, __ATOMIC_RELAXED);
    __atomic_fetch_and(&ult_switch_extras, ~ULT_EXTRA_TLS, __ATOMIC_RELAXED);
}

static void set_pointer(void *thread_pointer)
{
    struct ult *current = ult_current;
    bool has_lock = ult_has_lock;

    ult_arch_set_thread_pointer(thread_pointer, is_fast);
    ult_current = current;
    ult_has_lock = has_lock;
}

void ult_tls_switch(const struct ult *from, const struct ult *to)
{
    if (from->tls_save)
        ult_tls_swap(from->tls_save, NULL);
    set_pointer(to->thread_pointer ? to->thread_pointer : to->pe->carrier->thread_pointer);
    if (to->tls_save)
        ult_tls_swap(NULL, to->tls_save);
}

void ult_tls_reset_pointer(const struct ult_carrier *carrier)
{
    set_pointer(carrier->thread_pointer);
}
