/* SPDX-License-Identifier: BSD-3-Clause
 *
 * text.h: puts a line together in a buffer without the C library: safe in a signal handler, which may have
 * interrupted malloc, ld.so or printf, with their locks held.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/base.h"

/* A text that grows in memory of the caller's; always terminated. What does not fit is left out. */
struct base_text {
    char *bytes;
    size_t size_bytes;
    size_t len;
};

/* Begins an empty text; size_bytes > 0. */
static inline struct base_text base_text_in(char *bytes, size_t size_bytes)
{
    bytes[0] = '\0';
    return (struct base_text){.bytes = bytes, .size_bytes = size_bytes};
}

void base_text_add(struct base_text *text, const char *more);
void base_text_add_number(struct base_text *text, long long number);
void base_text_add_hex(struct base_text *text, uintptr_t number); /* with 0x */

/* Writes the text as a line to stderr, with one call if that writes all of it. */
void base_text_write_line(struct base_text *text);

#endif
