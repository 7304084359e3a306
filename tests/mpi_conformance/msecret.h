/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the kernel does not copy for other processes, although the program can access it. */
#ifndef MSECRET_H
#define MSECRET_H

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mtest.h"

/* NULL: this kernel has none. */
static char *msecret_map(size_t n_bytes)
{
    char *memory = MAP_FAILED;
    int fd = -1;

#ifdef SYS_memfd_secret
    fd = (int)syscall(SYS_memfd_secret, 0);
#endif
    if (fd >= 0 && ftruncate(fd, (off_t)n_bytes) == 0)
        memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

#endif
