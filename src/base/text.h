/* SPDX-License-Identifier: BSD-3-Clause
 *
 * text.h: builds a line in a buffer without the C library. Safe in a signal handler, which may have
 * interrupted malloc, ld.so or printf while they held their locks.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/base.h"

/* A text that grows in the caller's memory; always terminated. Text that does not fit is dropped. */
struct base_text {
    char *bytes;
    size_t size_bytes;
    size_t len;
};

/* Initialises an empty text; size_bytes > 0. */
static inline struct base_text base_text_in(char *bytes, size_t size_bytes)
{
    bytes[0] = '\0';
    return (struct base_text){.bytes = bytes, .size_bytes = size_bytes};
}

void base_text_add(struct base_text *text, const char *more);
void base_text_add_number(struct base_text *text, long long number);
void base_text_add_hex(struct base_text *text, uintptr_t number); /* with 0x */

/* Writes the text as a line to stderr, with one system call unless a write is partial. */
void base_text_write_line(struct base_text *text);

#endif
