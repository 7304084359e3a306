/* SPDX-License-Identifier: BSD-3-Clause
 *
 * segment.c: see segment.h.
 */
#include "ampi/procs/segment.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory_file.h"

static void *map_at(void *address, int fd, size_t n_bytes)
{
    void *memory = mmap(address, n_bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE | (address ? MAP_FIXED : 0), fd, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

/* Reserves addresses for the alignment, and returns those that are not needed. */
static void *map_aligned(int fd, size_t n_bytes, size_t alignment_bytes)
{
    size_t length = base_round_up(n_bytes, (size_t)sysconf(_SC_PAGESIZE));
    char *area =
        mmap(NULL, length + alignment_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *at, *memory;

    if (area == MAP_FAILED)
        return NULL;
    at = (char *)base_round_up((size_t)area, alignment_bytes);
    memory = map_at(at, fd, n_bytes);
    if (!memory) {
        munmap(area, length + alignment_bytes);
        return NULL;
    }
    if (at > area)
        munmap(area, (size_t)(at - area));
    if (at < area + alignment_bytes)
        munmap(at + length, (size_t)(area + alignment_bytes - at));
    return memory;
}

static void *map(int fd, size_t n_bytes, size_t alignment_bytes)
{
    if (alignment_bytes <= (size_t)sysconf(_SC_PAGESIZE))
        return map_at(NULL, fd, n_bytes);
    return map_aligned(fd, n_bytes, alignment_bytes);
}

void *ampi_segment_create(size_t n_bytes, size_t alignment_bytes, struct ampi_segment_place *place_out)
{
    int fd = base_memory_file_create("heddle segment", n_bytes);
    void *memory;

    if (fd < 0)
        return NULL;
    memory = map(fd, n_bytes, alignment_bytes);
    if (!memory) {
        close(fd);
        return NULL;
    }
    *place_out = (struct ampi_segment_place){getpid(), fd, n_bytes, alignment_bytes};
    return memory;
}

void ampi_segment_close(const struct ampi_segment_place *place)
{
    if (place->pid == getpid())
        close((int)place->fd);
}

/* True if this is the announced file, and not another one that reuses its number. */
static bool is_right(int fd, size_t n_bytes)
{
    struct stat status;

    return fstat(fd, &status) == 0 && (size_t)status.st_size == n_bytes && S_ISREG(status.st_mode) &&
           status.st_uid == geteuid();
}

void *ampi_segment_open(const struct ampi_segment_place *place)
{
    char path[64];
    void *memory = NULL;
    int fd;

    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)place->pid, (long long)place->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    if (is_right(fd, place->n_bytes))
        memory = map(fd, place->n_bytes, place->alignment_bytes);
    close(fd);
    return memory;
}

void ampi_segment_unmap(void *memory, size_t n_bytes)
{
    if (memory)
        munmap(memory, n_bytes);
}
