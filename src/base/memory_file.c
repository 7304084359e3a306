/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memory_file.c: see memory_file.h.
 */
#include "base/memory_file.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Writing beyond the user's limit of file sizes (ulimit -f) ends the process by SIGXFSZ, even in a file in
 * memory. */
static bool is_permitted(size_t n_bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= n_bytes;
}

int base_memory_file_create(const char *name, size_t n_bytes)
{
    int fd = is_permitted(n_bytes) ? memfd_create(name, MFD_CLOEXEC) : -1;

    if (fd >= 0 && ftruncate(fd, (off_t)n_bytes) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}
