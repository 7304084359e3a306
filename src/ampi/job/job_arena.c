/* SPDX-License-Identifier: BSD-3-Clause
 *
 * job_arena.c: chooses the address of the ranks' regions.
 *
 * The address is random in each run (a multiple of 2 MiB between 17 and 80 TiB, some 23 bits), like the
 * kernel's for programs, libraries and stacks, so an observer of one run cannot predict the next. It is fixed where the kernel's are fixed (setarch -R, gdb),
 * and under sanitizers and valgrind, whose own areas are laid out around it. The addresses do not affect
 * the schedule: with one PE all ranks act the same in every run, wherever they are.
 */
#include "ampi/job/job.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/random.h>

#include "ampi/object/sanitizer.h"
#include "base/settings.h"

/* The kernel's own choices are above and below: libraries and stacks from 0x7ff.. down, programs and heaps
 * around 0x55.., fixed ones and some drivers' areas below 16 TiB. */
#define FIXED_BASE ((uintptr_t)0x200000000000)
#define LOWEST ((uintptr_t)0x110000000000)
#define HIGHEST ((uintptr_t)0x500000000000)

/* Random attempts before the fixed base is used. */
#define DRAWS 64

/* ---- Address space randomisation of the kernel ---- */

static bool is_kernel_fixed(void)
{
    FILE *file = fopen("/proc/sys/kernel/randomize_va_space", "re");
    int level = 2, persona = personality(0xffffffff);

    if (file) {
        if (fscanf(file, "%d", &level) != 1)
            level = 2;
        fclose(file);
    }
    return level == 0 || (persona != -1 && (persona & ADDR_NO_RANDOMIZE));
}

static bool has_sanitizer(void)
{
    static const char *const functions[] = {"__asan_init", "__tsan_init", "__msan_init", "__hwasan_init"};

    for (size_t i = 0; i < BASE_COUNT(functions); i++)
        if (dlsym(RTLD_DEFAULT, functions[i]))
            return true;
    return false;
}

/* ---- Existing mappings ---- */

/* Calls visit(from, to, name, arg) for each mapping of the process until it returns true, and returns
 * that. */
static bool any_mapping(bool (*visit)(uintptr_t from, uintptr_t to, const char *line, void *arg), void *arg)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512], *end;
    bool is_found = false;

    while (maps && !is_found && fgets(line, sizeof line, maps)) {
        uintptr_t from = strtoul(line, &end, 16), to = *end ? strtoul(end + 1, NULL, 16) : 0;

        is_found = to > from && visit(from, to, line, arg);
    }
    if (maps)
        fclose(maps);
    return is_found;
}

struct range {
    uintptr_t from, to;
};

static bool overlaps(uintptr_t from, uintptr_t to, const char *line, void *arg)
{
    const struct range *range = arg;

    (void)line;
    return from < range->to && range->from < to;
}

/* ---- The choice ---- */

static bool wants_random(void)
{
    if (base_settings.aslr)
        return strcmp(base_settings.aslr, "off") != 0;
    return !is_kernel_fixed() && !has_sanitizer() && !ampi_sanitizer_is_valgrind();
}

char *ampi_memory_arena(size_t len_bytes, size_t align_bytes)
{
    uint64_t n_places = len_bytes < HIGHEST - LOWEST ? (HIGHEST - LOWEST - len_bytes) / align_bytes : 0;
    uint64_t random;

    for (int i = 0; i < DRAWS && n_places > 1 && wants_random(); i++) {
        struct range range;

        if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
            break;
        range.from = base_round_up(LOWEST, align_bytes) + random % n_places * align_bytes;
        range.to = range.from + len_bytes;
        if (range.to <= HIGHEST && !any_mapping(overlaps, &range))
            return (char *)range.from;
    }
    return (char *)base_round_up(FIXED_BASE, align_bytes);
}
