/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_handles.c: memory of communicators' handles. A program may keep a handle after it freed the
 * communicator, and use it: that has to be found by looking at the handle's magic word, so its memory must
 * stay readable. Small arrays come from the heap, which keeps its pages. Large ones are mappings; when such a
 * one is given back its pages go, but its addresses stay (they read as zero) until so many others have been
 * given back since. Called by comm_build.c.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "ampi/comm/comm.h"
#include "base/log.h"

/* From this size on an array is a mapping of its own. malloc does that from 128 KiB on, and unmaps it. */
#define MAPPED_BYTES ((size_t)64 << 10)

/* Address space of those that have been given back. Neighbours are one mapping to the kernel, which has a
 * limit of those. */
#define RETIRED_BYTES_MAX ((size_t)256 << 20)

/* One that has been given back. */
struct retired {
    struct retired *next; /* link of the list, the oldest one first */
    void *handles;
    size_t n_bytes;
};

static struct {
    atomic_flag lock;
    struct retired *first, **end; /* end: where the next one is linked; NULL: list never used */
    size_t n_bytes;               /* all together */
} retired = {.lock = ATOMIC_FLAG_INIT};

static size_t size_of(int n_ranks)
{
    return (size_t)n_ranks * sizeof(struct ampi_comm);
}

struct ampi_comm *ampi_comm_handles_create(int n_ranks)
{
    void *mapped;

    if (size_of(n_ranks) < MAPPED_BYTES)
        return base_calloc_aligned((size_t)n_ranks, sizeof(struct ampi_comm), "a communicator's handles");
    mapped = mmap(NULL, size_of(n_ranks), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
    if (mapped == MAP_FAILED)
        base_fatal(1, "out of memory: no %zu bytes for a communicator's handles", size_of(n_ranks));
    return mapped;
}

static void retire(struct retired *one)
{
    while (atomic_flag_test_and_set_explicit(&retired.lock, memory_order_acquire))
        ;
    if (!retired.end)
        retired.end = &retired.first;
    *retired.end = one;
    retired.end = &one->next;
    retired.n_bytes += one->n_bytes;
    while (retired.n_bytes > RETIRED_BYTES_MAX && retired.first != one) {
        struct retired *oldest = retired.first;
        retired.first = oldest->next;
        retired.n_bytes -= oldest->n_bytes;
        munmap(oldest->handles, oldest->n_bytes);
        free(oldest);
    }
    atomic_flag_clear_explicit(&retired.lock, memory_order_release);
}

void ampi_comm_handles_destroy(struct ampi_comm *handles, int n_ranks)
{
    struct retired *one;

    if (size_of(n_ranks) < MAPPED_BYTES) {
        free(handles);
        return;
    }
    madvise(handles, size_of(n_ranks), MADV_DONTNEED);
    one = base_malloc(sizeof *one, "a freed communicator");
    *one = (struct retired){.handles = handles, .n_bytes = size_of(n_ranks)};
    retire(one);
}
