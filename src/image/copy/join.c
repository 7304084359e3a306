/* SPDX-License-Identifier: BSD-3-Clause
 *
 * join.c: merges all private libraries of a copy into one mapping, for jobs that would otherwise exceed the
 * limit on mappings.
 *
 * A library's code and data are at fixed distances, so code and data of several libraries alternate in a
 * copy, and each change of protection costs a mapping: 2 per library, 3 with RELRO. With 25 libraries,
 * vm.max_map_count (65,530) allows 1,200 ranks. When merged, the libraries' code, constants and initial
 * data are in one memfd, laid out as in a copy at address 0, and each copy maps it privately, once. The
 * cost: the mapping is writable and executable, and perf cannot attribute samples to the libraries' files.
 * The program's own mappings stay as they are.
 *
 * Pages without relocations that are never written stay shared physical pages of all ranks.
 */
#include "image/copy/program.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* Creates an executable memfd. -1: errno is set. */
static int create_file(size_t len_bytes)
{
    int fd = memfd_create("heddle private libraries", MFD_CLOEXEC | MFD_EXEC);

    if (fd < 0) /* before Linux 6.3 */
        fd = memfd_create("heddle private libraries", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)len_bytes) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Writes the contents of the mappings and fills from offset lo on into the file. */
static bool write_contents(const struct image_program *program, size_t lo, char *contents)
{
    for (size_t i = 0; i < program->n_mappings; i++) {
        const struct image_mapping *m = &program->mappings[i];

        for (size_t done = 0; m->offset >= lo && m->fd >= 0 && done < m->len_bytes;) {
            ssize_t n = pread(m->fd, contents + m->offset - lo + done, m->len_bytes - done,
                              m->file_offset + (off_t)done);

            if (n < 0)
                return false;
            if (n == 0) /* the last page of the file */
                break;
            done += (size_t)n;
        }
    }
    for (size_t i = 0; i < program->n_fills; i++)
        if (program->fills[i].offset >= lo)
            memcpy(contents + program->fills[i].offset - lo, program->fills[i].bytes,
                   program->fills[i].len_bytes);
    return true;
}

/* Removes mappings and fills at offset lo or above from the plan. */
static void drop_from(struct image_program *program, size_t lo)
{
    size_t n = 0;

    for (size_t i = 0; i < program->n_mappings; i++)
        if (program->mappings[i].offset < lo)
            program->mappings[n++] = program->mappings[i];
    program->n_mappings = n;
    n = 0;
    for (size_t i = 0; i < program->n_fills; i++)
        if (program->fills[i].offset < lo)
            program->fills[n++] = program->fills[i];
    program->n_fills = n;
    n = 0;
    for (size_t i = 0; i < program->n_populated; i++)
        if (program->populated[i].offset < lo)
            program->populated[n++] = program->populated[i];
    program->n_populated = n;
    n = 0;
    for (size_t i = 0; i < program->n_relros; i++)
        if (program->relros[i].offset < lo)
            program->relros[n++] = program->relros[i];
    program->n_relros = n;
}

bool image_join_libraries(void)
{
    struct image_program *program = &image_program;
    size_t lo = program->n_modules > 1 ? program->modules[1].copy_offset : program->span_bytes;
    size_t len_bytes = program->span_bytes - lo;
    struct image_mapping joined = {
        .offset = lo,
        .len_bytes = len_bytes,
        .prot = PROT_READ | PROT_WRITE | PROT_EXEC,
        .flags = MAP_PRIVATE | MAP_NORESERVE,
    };
    char *contents;
    void *probe;
    bool is_good;

    BASE_ASSERT(program->is_open);
    if (len_bytes == 0)
        return false;
    joined.fd = create_file(len_bytes);
    if (joined.fd < 0)
        return false;
    contents = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, joined.fd, 0);
    is_good = contents != MAP_FAILED && write_contents(program, lo, contents);
    if (contents != MAP_FAILED)
        munmap(contents, len_bytes);
    /* A system may forbid mappings that are writable and executable. */
    probe = is_good ? mmap(NULL, IMAGE_ARCH_PAGE_BYTES, joined.prot, joined.flags, joined.fd, 0) : MAP_FAILED;
    if (probe == MAP_FAILED) {
        close(joined.fd);
        return false;
    }
    munmap(probe, IMAGE_ARCH_PAGE_BYTES);
    drop_from(program, lo);
    image_array_push(&program->mappings, &program->n_mappings, sizeof joined, &joined);
    return true;
}
