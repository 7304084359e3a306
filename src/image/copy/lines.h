/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lines.h: source lines of addresses, from an ELF file's DWARF line tables. Private to src/image.
 */
#ifndef IMAGE_LINES_H
#define IMAGE_LINES_H

#include "base/base.h"

/* Bytes of a section of the mapped file. */
struct image_section {
    const unsigned char *bytes; /* NULL: no such section */
    size_t len_bytes;
};

/* A file whose line tables are open. */
struct image_lines {
    const unsigned char *file; /* the mapped file; NULL: not open */
    size_t file_bytes;
    struct image_section line, line_str, str; /* .debug_line, .debug_line_str, .debug_str */
    bool is_elsewhere;                        /* addr2line may know lines that cannot be read here */
};

/* The source line of an address. */
struct image_line {
    unsigned line;             /* 0: not known */
    uint64_t file_number;      /* of the source file in its unit */
    const unsigned char *unit; /* the unit's header in .debug_line */
};

/* Maps the file and finds its line tables. Returns false if it has none that are readable; image_lines_close is needed in any
 * case. Safe in signal handlers, as are the next functions. Never switches. */
bool image_lines_open(int fd, struct image_lines *lines_out);
void image_lines_close(struct image_lines *lines);

/* Finds the lines of n addresses as they are in the file (vaddr). Reads the whole tables once: some 100 MB/s. */
void image_lines_find(const struct image_lines *lines, const size_t *vaddrs, int n,
                      struct image_line *lines_out);

/* The name of the source file of a known line, and its folder: NULL if that is the folder of the compilation. Both point into the
 * mapped file. Returns NULL if the tables are damaged. */
const char *image_lines_source(const struct image_lines *lines, const struct image_line *line,
                               const char **folder_out);

#endif
