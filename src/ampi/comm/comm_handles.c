/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_handles.c: memory of communicators' handles. A program may use a handle after it has freed the
 * communicator. The check of the magic word must detect that, so the memory of handles must stay readable.
 * Small arrays are on the heap, which keeps its pages. Large ones are mappings. When one is freed its pages
 * are released, but its addresses stay reserved (and read as zero) until RETIRED_BYTES_MAX of others have
 * been freed after it. Called by comm_build.c.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "ampi/comm/comm.h"
#include "base/log.h"

/* From this size on, an array is a separate mapping. malloc also does that from 128 KiB on, but unmaps it. */
#define MAPPED_BYTES ((size_t)64 << 10)

/* Limit of address space of freed arrays. Adjacent ones are one mapping to the kernel, which limits their
 * number. */
#define RETIRED_BYTES_MAX ((size_t)256 << 20)

/* A freed array. */
struct retired {
    struct retired *next; /* next in the list, oldest first */
    void *handles;
    size_t n_bytes;
};

static struct {
    atomic_flag lock;
    struct retired *first, **end; /* end: where the next one is linked; NULL: the list is unused */
    size_t n_bytes;               /* total size */
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
        base_fatal(1, "out of memory: cannot allocate %zu bytes for a communicator's handles",
                   size_of(n_ranks));
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
