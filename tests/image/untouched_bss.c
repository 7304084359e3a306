/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: zero-initialized memory that a rank has not touched takes no memory, also behind large initial
 * contents that relocations change (their pages are populated at once).
 */
#include "image_test.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define N_ENTRIES 40000
#define BSS_BYTES ((size_t)200 << 10)

static const char *table[N_ENTRIES] = {[0 ... N_ENTRIES - 1] = "an address, different in each rank"};
static char untouched[BSS_BYTES];

/* How many of the pages that lie in the memory as a whole take memory. */
static size_t resident_pages(const char *memory, size_t len_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 0;
    uintptr_t lo = ((uintptr_t)memory + page - 1) & ~(page - 1),
              hi = ((uintptr_t)memory + len_bytes) & ~(page - 1);
    unsigned char in_core;

    for (uintptr_t at = lo; at < hi; at += page) {
        CHECK(mincore((void *)at, page, &in_core) == 0);
        n += in_core & 1;
    }
    return n;
}

int main(void)
{
    CHECK(resident_pages(untouched, BSS_BYTES) == 0);
    CHECK(resident_pages((const char *)table, sizeof table) == sizeof table / (size_t)sysconf(_SC_PAGESIZE) ||
          resident_pages((const char *)table, sizeof table) + 1 ==
              sizeof table / (size_t)sysconf(_SC_PAGESIZE));
    untouched[BSS_BYTES / 2] = 1;
    CHECK(resident_pages(untouched, BSS_BYTES) == 1);
    for (int i = 0; i < N_ENTRIES; i++)
        CHECK(table[i] == table[0]);
    puts("ok");
    return 0;
}
