/* SPDX-License-Identifier: BSD-3-Clause
 *
 * job_memory.c: the memory layout of ranks' stacks and copies of the program.
 *
 * All ranks have regions of one size, contiguous, in a part of the address space that the kernel does not use
 * by itself (job_arena.c):
 *
 *      | guard (a hole, nothing mapped) | stack ......... | copy of the program | (up to the region's end)
 *      region                                     stack_hi^
 *
 * A hole costs no mapping, of which a process has few (vm.max_map_count); an overflowing stack runs into
 * it. Code that does not touch each page of a large frame in turn (-fstack-clash-protection, which mpicc
 * sets) may skip the guard and reach the rank below. So guards are as large as the address space permits.
 * The used end of the stack and the copy are adjacent, so that they share page tables. Stacks of different
 * ranks end at different cache lines of a page, or all would compete for the same cache sets.
 *
 *     ranks     up to 256   1,000   20,000    a million
 *     guard     4 GiB       1 GiB   32 MiB    1 MiB
 *
 * Guards took 1 MiB once: a function with 12 MB of local arrays on a stack of 8 MiB wrote into the globals
 * of the rank below. Large guards cost no time, and 4 KiB more of page tables per rank with 1,000 ranks,
 * 0.2 with 20,000.
 *
 * A page table covers 2 MiB, so a rank with a stack of 8 MiB has one for itself: 4.4 KiB of the 16.5 KiB that a rank of a small
 * program needs. Regions of a job of DENSE_RANKS or more have a small stack, a small guard and no room for opened libraries,
 * so that nine share a page table (0.45 KiB per rank). +stacksize with more than DENSE_STACK_BYTES gives such a job the regions
 * of others.
 */
#include "ampi/job/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/settings.h"
#include "base/log.h"
#include "image/image.h"
#include "ampi/procs/procs.h"

/* Address space for all regions. */
#define ARENA_BYTES ((size_t)44 << 40)

/* All guards together take at most GUARDS_BYTES. If that leaves less than GUARD_MIN_BYTES for each, stacks
 * take precedence. Frames larger than GUARD_MAX_BYTES do not occur in practice. */
#define GUARDS_BYTES ((size_t)1 << 40)
#define GUARD_MIN_BYTES ((size_t)1 << 20)
#define GUARD_MAX_BYTES ((size_t)4 << 30)
#define REGION_ALIGN ((size_t)2 << 20) /* size covered by one page table */
#define PAGE_BYTES ((size_t)4096)

/* Address space of a rank for libraries that it opens: as much as fits, with a total of LATE_BYTES for all ranks. Up to
 * FEW_RANKS, those that may be spawned included, have more: PyTorch with CUDA's libraries takes some 5 GiB. More would cost
 * each rank a page of page tables. */
#define LATE_BYTES ((size_t)2 << 40)
#define LATE_FEW_BYTES ((size_t)36 << 40)
#define FEW_RANKS 8192
#define LATE_MIN_BYTES ((size_t)16 << 20)
#define LATE_MAX_BYTES ((size_t)64 << 30)

/* Ranks that may be spawned are planned for as long as all regions, without guards, take at most this share of the address
 * space. */
#define SPAWN_SHARE 4

/* Used if `ulimit -s` is unlimited. */
#define STACK_DEFAULT_BYTES ((size_t)8 << 20)

/* Jobs of this many ranks, in all processes, have dense regions: the default and largest size of a stack there, and the guard. */
#define DENSE_RANKS 100000
#define DENSE_STACK_BYTES ((size_t)128 << 10)
#define DENSE_GUARD_BYTES ((size_t)64 << 10)

/* Mappings left to the C library, the program and its libraries. */
#define MAPPINGS_SPARE 1000

/* Offsets of stack tops (cache colouring): this many, this far apart, in a page of their own. More ranks do not fit into a cache
 * anyway; without an offset the stack of most fits into one page. */
#define COLOURS 16
#define COLOUR_BYTES 192
#define COLOURED_RANKS_MAX 4096
_Static_assert((COLOURS - 1) * COLOUR_BYTES <= PAGE_BYTES, "the offsets fit into a page");

static struct {
    char *arena;                  /* the first region */
    size_t stack_bytes;           /* with the page of offsets */
    size_t colours_bytes;         /* this page */
    _Atomic int stack_protection; /* PROT_EXEC: code on stacks may run */
    size_t region_bytes;
    size_t image_offset; /* offset of the copy in the region */
    bool is_dense;       /* several regions share a page table */
    int n_ranks;         /* at the start */
    int n_regions;       /* of these, and of ranks that may be spawned */
} memory;

/* Further programs need the room for opened libraries. */
static bool wants_dense_regions(int n_ranks, int n_more)
{
    return (ampi_machine ? ampi_job.n_ranks : n_ranks) >= DENSE_RANKS &&
           base_settings.stack_bytes <= DENSE_STACK_BYTES && n_more == 0 && !ampi_programs_are_several();
}

static size_t stack_size(void)
{
    struct rlimit limit;
    size_t bytes;

    if (base_settings.stack_bytes)
        return base_round_up(base_settings.stack_bytes, PAGE_BYTES);
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        bytes = STACK_DEFAULT_BYTES;
    else
        bytes = base_round_up(limit.rlim_cur, PAGE_BYTES);
    return memory.is_dense && bytes > DENSE_STACK_BYTES ? DENSE_STACK_BYTES : bytes;
}

static long max_mappings(void)
{
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    long count = 65530;

    if (file) {
        if (fscanf(file, "%ld", &count) != 1)
            count = 65530;
        fclose(file);
    }
    return count;
}

/* Mappings of n_ranks ranks: stacks and copies. */
static long mappings_of(int n_ranks)
{
    return (long)n_ranks * (1 + image_mappings_per_copy());
}

/* Drops the write protection of relocated constants if that makes room for all ranks, then merges the
 * mappings of libraries; otherwise reports the limit. */
static void check_mappings(int n_ranks)
{
    long room = max_mappings() - MAPPINGS_SPARE;
    long wanted = mappings_of(n_ranks);

    if (wanted > room) {
        image_set_protect_relro(false);
        wanted = mappings_of(n_ranks);
        base_log_verbose(
            1, "relocated constants stay writable: otherwise %d ranks would need too many memory mappings",
            n_ranks);
    }
    if (wanted > room && image_join_libraries()) {
        base_log_verbose(1,
                         "the libraries of a rank are one mapping, writable and executable: otherwise %d "
                         "ranks would need too many memory mappings",
                         n_ranks);
        image_set_protect_relro(true);
        if (mappings_of(n_ranks) > room)
            image_set_protect_relro(false);
        wanted = mappings_of(n_ranks);
    }
    if (wanted > room)
        base_fatal(1,
                   "%d ranks need %ld memory mappings (%d each), but vm.max_map_count allows %ld: use at "
                   "most %ld ranks "
                   "(+vp), or as root: sysctl -w vm.max_map_count=%ld",
                   n_ranks, wanted, 1 + image_mappings_per_copy(), room + MAPPINGS_SPARE,
                   room / (1 + image_mappings_per_copy()), wanted + MAPPINGS_SPARE);
}

size_t ampi_memory_guard_bytes(size_t n_ranks, size_t room_bytes, size_t rest_bytes)
{
    size_t guard_bytes = GUARD_MAX_BYTES;

    while (guard_bytes > GUARD_MIN_BYTES &&
           (guard_bytes > GUARDS_BYTES / n_ranks || guard_bytes + rest_bytes > room_bytes / n_ranks))
        guard_bytes /= 2;
    return guard_bytes;
}

size_t ampi_memory_colour_bytes(int n_ranks, int region)
{
    return n_ranks > COLOURED_RANKS_MAX ? 0 : (size_t)(region % COLOURS) * COLOUR_BYTES;
}

/* Space for opened libraries: room_bytes for all ranks, of which each needs rest_bytes for other purposes.
 * 0: none. */
static size_t late_bytes(size_t n_ranks, size_t room_bytes, size_t rest_bytes)
{
    size_t bytes = LATE_MAX_BYTES, all_bytes = n_ranks <= FEW_RANKS ? LATE_FEW_BYTES : LATE_BYTES;

    while (bytes > 0 && (bytes > all_bytes / n_ranks || bytes + rest_bytes > room_bytes / n_ranks))
        bytes = bytes > LATE_MIN_BYTES ? bytes / 2 : 0;
    return bytes;
}

int ampi_memory_plan(int n_ranks, int n_more)
{
    size_t n_regions, image_bytes,
        guard_bytes = DENSE_GUARD_BYTES,
        image_align = image_align_bytes() > PAGE_BYTES ? image_align_bytes() : PAGE_BYTES;
    size_t region_align = image_align > REGION_ALIGN ? image_align : REGION_ALIGN;
    size_t rest_bytes;

    memory.n_ranks = n_ranks;
    memory.is_dense = wants_dense_regions(n_ranks, n_more);
    if (memory.is_dense)
        region_align = image_align;
    memory.colours_bytes = n_ranks > COLOURED_RANKS_MAX ? 0 : PAGE_BYTES;
    memory.stack_bytes = stack_size() + memory.colours_bytes;
    memory.stack_protection = PROT_READ | PROT_WRITE | (image_wants_executable_stacks() ? PROT_EXEC : 0);
    check_mappings(n_ranks);
    rest_bytes = memory.stack_bytes + image_span_bytes() + image_align;
    while (n_more > 0 && rest_bytes > ARENA_BYTES / SPAWN_SHARE / (size_t)(n_ranks + n_more))
        n_more /= 2;
    n_regions = (size_t)n_ranks + (size_t)n_more;
    memory.n_regions = (int)n_regions;
    if (memory.is_dense)
        image_set_late_bytes(0, "less than 100,000 ranks or +stacksize 512K");
    else
        image_set_late_bytes(late_bytes(n_regions, ARENA_BYTES, rest_bytes + GUARD_MIN_BYTES + region_align),
                             "fewer ranks or smaller stacks (+stacksize)");
    image_bytes = base_round_up(image_span_bytes(), PAGE_BYTES);
    rest_bytes = memory.stack_bytes + image_bytes + image_align;
    if (!memory.is_dense)
        guard_bytes = ampi_memory_guard_bytes(n_regions, ARENA_BYTES, rest_bytes + region_align);
    memory.region_bytes = base_round_up(guard_bytes + rest_bytes, region_align);
    memory.image_offset = (memory.region_bytes - image_bytes) / image_align * image_align;
    if (memory.region_bytes > ARENA_BYTES / n_regions)
        base_fatal(
            1, "%d ranks with stacks of %zu MiB do not fit into the address space; use +stacksize with less",
            n_ranks, memory.stack_bytes >> 20);
    memory.arena = ampi_memory_arena(n_regions * memory.region_bytes, region_align);
    return n_more;
}

char *ampi_memory_image_base(int region)
{
    return memory.arena + (size_t)region * memory.region_bytes + memory.image_offset;
}

static void make_executable(int region)
{
    char *end = ampi_memory_image_base(region);

    /* ENOMEM: it is not mapped yet. */
    if (mprotect(end - memory.stack_bytes, memory.stack_bytes, memory.stack_protection) != 0 &&
        errno != ENOMEM)
        base_log("cannot make the stack of rank %d executable, which a library needs: %s", region,
                 strerror(errno));
}

bool ampi_memory_map_stack(int region, char **stack_lo_out, char **stack_hi_out)
{
    char *end = ampi_memory_image_base(region);
    char *lo = end - memory.stack_bytes;
    int protection = memory.stack_protection;
    /* MAP_STACK also prevents huge pages, of which a rank would touch one for a few words. */
    char *got = mmap(lo, memory.stack_bytes, protection,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK | MAP_FIXED_NOREPLACE, -1, 0);

    if (got == MAP_FAILED)
        return false;
    if (got != lo) { /* kernels before 4.17 treat the address as a hint */
        munmap(got, memory.stack_bytes);
        errno = EEXIST;
        return false;
    }
    if (protection != memory.stack_protection) /* changed since: this stack may have been missed */
        make_executable(region);
    *stack_lo_out = lo;
    *stack_hi_out = end - ampi_memory_colour_bytes(memory.n_ranks, region);
    return true;
}

void ampi_memory_unmap_stack(int region)
{
    munmap(ampi_memory_image_base(region) - memory.stack_bytes, memory.stack_bytes);
}

void ampi_memory_make_stacks_executable(void)
{
    if (memory.stack_protection & PROT_EXEC)
        return;
    memory.stack_protection |= PROT_EXEC;
    for (int i = 0; i < memory.n_regions; i++)
        make_executable(i);
}

int ampi_memory_region_of(const void *addr)
{
    uintptr_t offset = (uintptr_t)addr - (uintptr_t)memory.arena;

    if (!memory.region_bytes || (const char *)addr < memory.arena ||
        offset / memory.region_bytes >= (size_t)memory.n_regions)
        return -1;
    return (int)(offset / memory.region_bytes);
}

int ampi_memory_guard_of(const void *addr)
{
    int region = ampi_memory_region_of(addr);

    return region >= 0 && (const char *)addr < ampi_memory_image_base(region) - memory.stack_bytes ? region
                                                                                                   : -1;
}

size_t ampi_memory_stack_bytes(void)
{
    return memory.stack_bytes - memory.colours_bytes;
}
