/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzzes the reader of DWARF line tables, which crash reports use: the input is the file. The tables are read again from
 * memory of exactly their size, where AddressSanitizer sees a read past their end.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "image/copy/lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void find(const struct image_lines *lines)
{
    static const size_t vaddrs[] = {0, 0x1000, 0x1004, 0x1005, SIZE_MAX};
    struct image_line found[BASE_COUNT(vaddrs)];

    image_lines_find(lines, vaddrs, BASE_COUNT(vaddrs), found);
    for (size_t i = 0; i < BASE_COUNT(vaddrs); i++) {
        const char *folder;
        const char *name = image_lines_source(lines, &found[i], &folder);

        if ((name && strlen(name) > lines->file_bytes) || (folder && strlen(folder) > lines->file_bytes))
            abort();
    }
}

static void copy(struct image_section *section)
{
    unsigned char *bytes = malloc(section->len_bytes);

    if (section->len_bytes)
        memcpy(bytes, section->bytes, section->len_bytes);
    section->bytes = bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("lines", MFD_CLOEXEC);
    struct image_lines lines;

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    if (image_lines_open(fd, &lines)) {
        struct image_lines exact = lines;

        find(&lines);
        copy(&exact.line);
        copy(&exact.line_str);
        copy(&exact.str);
        find(&exact);
        free((void *)exact.line.bytes);
        free((void *)exact.line_str.bytes);
        free((void *)exact.str.bytes);
    }
    image_lines_close(&lines);
    close(fd);
    return 0;
}
