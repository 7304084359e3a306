/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzzes mpirun's ELF reader: the input is the file.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launch/launch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct launch_elf elf;
    char path[64];
    int fd = memfd_create("elf", MFD_CLOEXEC);

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!launch_elf_read(path, &elf) || elf.kind > LAUNCH_ELF_PIE ||
        strnlen(elf.interpreter, sizeof elf.interpreter) == sizeof elf.interpreter)
        abort();
    close(fd);
    return 0;
}
