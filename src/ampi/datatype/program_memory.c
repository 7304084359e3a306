/* SPDX-License-Identifier: BSD-3-Clause
 *
 * program_memory.c: see program_memory.h. Memory of CUDA is kept in a list, because MPI_Free_mem gets no kind of
 * memory, and host memory may have been registered with CUDA since (cuMemHostRegister).
 */
#include "ampi/datatype/program_memory.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/launched.h"
#include "base/log.h"

/* ---- The hint ---- */

#define KINDS_KEY "mpi_memory_alloc_kinds"

static const struct {
    const char *name;
    enum gpu_memory kind;
} kinds[] = {
    {"system", GPU_MEMORY_HOST},      {"mpi", GPU_MEMORY_HOST},
    {"cuda", GPU_MEMORY_DEVICE},      {"cuda:device", GPU_MEMORY_DEVICE},
    {"cuda:host", GPU_MEMORY_PINNED}, {"cuda:managed", GPU_MEMORY_MANAGED},
};

static bool find_kind(const char *name, size_t length, enum gpu_memory *kind_out)
{
    for (size_t i = 0; i < BASE_COUNT(kinds); i++)
        if (strlen(kinds[i].name) == length && strncmp(kinds[i].name, name, length) == 0) {
            *kind_out = kinds[i].kind;
            return true;
        }
    if (length < 4 || strncmp(name, "mpi:", 4) != 0)
        return false;
    *kind_out = GPU_MEMORY_HOST; /* with restrictors: "mpi:alloc_mem" */
    return true;
}

bool ampi_program_memory_kind(const struct ampi_info *info, enum gpu_memory *kind_out)
{
    const char *at = ampi_info_get(info, KINDS_KEY);
    bool is_missed = false;

    for (size_t length; at && *at; at += length + (at[length] == ',')) {
        length = strcspn(at, ",");
        if (!find_kind(at, length, kind_out))
            continue;
        if (*kind_out == GPU_MEMORY_HOST || gpu_is_used())
            return true;
        is_missed = true;
    }
    *kind_out = GPU_MEMORY_HOST;
    return !is_missed;
}

bool ampi_program_memory_are_kinds(const char *value)
{
    enum gpu_memory kind;
    size_t length;

    do {
        length = strcspn(value, ",");
        if (!find_kind(value, length, &kind) || (kind != GPU_MEMORY_HOST && !gpu_is_possible()))
            return false;
        value += length + 1;
    } while (value[-1]);
    return true;
}

/* True if the list, whose parts are separated by commas, has this part. */
static bool has_part(const char *list, const char *part, size_t length)
{
    for (size_t n; *list; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        if (n == length && strncmp(list, part, n) == 0)
            return true;
    }
    return false;
}

/* Appends those parts of `from` that name supported kinds and are not in the list yet. */
static void add_supported(char list[MPI_MAX_INFO_VAL], const char *from)
{
    bool has_cuda = gpu_is_possible();
    enum gpu_memory kind;

    for (size_t n; from && *from; from += n + (from[n] == ',')) {
        size_t length = strlen(list);
        n = strcspn(from, ",");
        if (!find_kind(from, n, &kind) || (kind != GPU_MEMORY_HOST && !has_cuda) || has_part(list, from, n) ||
            length + n + 2 > MPI_MAX_INFO_VAL)
            continue;
        snprintf(list + length, MPI_MAX_INFO_VAL - length, "%s%.*s", length ? "," : "", (int)n, from);
    }
}

void ampi_program_memory_add_kinds(struct ampi_info *info)
{
    char list[MPI_MAX_INFO_VAL] = "";

    add_supported(list, ampi_info_get(info, KINDS_KEY));
    add_supported(list, secure_getenv(BASE_MEMORY_KINDS_ENV));
    add_supported(list, "mpi,system,cuda,cuda:device,cuda:host,cuda:managed");
    ampi_info_set(info, KINDS_KEY, list);
}

/* ---- Memory of CUDA ---- */

struct allocation {
    struct allocation *next;
    void *memory;
    enum gpu_memory kind;
};

static struct {
    pthread_mutex_t lock;
    struct allocation *_Atomic first; /* read without the lock to see whether there is any */
} allocations = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void add_allocation(void *memory, enum gpu_memory kind)
{
    struct allocation *allocation = base_malloc(sizeof *allocation, "memory of a GPU");

    pthread_mutex_lock(&allocations.lock);
    *allocation = (struct allocation){allocations.first, memory, kind};
    allocations.first = allocation;
    pthread_mutex_unlock(&allocations.lock);
}

/* Takes it out of the list; false: it is not there. */
static bool take_allocation(const void *memory, enum gpu_memory *kind_out)
{
    struct allocation *found, *before = NULL;

    if (!allocations.first)
        return false;
    pthread_mutex_lock(&allocations.lock);
    for (found = allocations.first; found && found->memory != memory; found = found->next)
        before = found;
    if (found && before)
        before->next = found->next;
    else if (found)
        allocations.first = found->next;
    pthread_mutex_unlock(&allocations.lock);
    if (!found)
        return false;
    *kind_out = found->kind;
    free(found);
    return true;
}

void *ampi_program_memory_alloc(enum gpu_memory kind, size_t alignment_bytes, size_t n_bytes)
{
    void *memory = NULL;

    if (kind == GPU_MEMORY_HOST)
        return posix_memalign(&memory, alignment_bytes, n_bytes) ? NULL : memory;
    if (gpu_memory_alloc(kind, n_bytes, &memory))
        return NULL;
    add_allocation(memory, kind);
    return memory;
}

size_t ampi_program_memory_bytes(void *memory)
{
    const struct allocation *at;

    pthread_mutex_lock(&allocations.lock);
    at = allocations.first;
    while (at && at->memory != memory)
        at = at->next;
    pthread_mutex_unlock(&allocations.lock);
    return at || !memory ? 0 : malloc_usable_size(memory);
}

void ampi_program_memory_free(void *memory)
{
    enum gpu_memory kind;

    if (!take_allocation(memory, &kind))
        free(memory);
    else if (gpu_memory_free(kind, memory))
        base_log("memory of a GPU cannot be freed");
}
