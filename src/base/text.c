/* SPDX-License-Identifier: BSD-3-Clause
 *
 * text.c: log lines for signal handlers.
 */
#include "base/text.h"

#include <errno.h>
#include <unistd.h>

void base_text_add(struct base_text *text, const char *more)
{
    while (*more && text->len + 1 < text->size_bytes)
        text->bytes[text->len++] = *more++;
    text->bytes[text->len] = '\0';
}

static void add_digits(struct base_text *text, unsigned long long number, unsigned base)
{
    char digits[24];
    size_t i = sizeof digits;

    digits[--i] = '\0';
    do {
        digits[--i] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number);
    base_text_add(text, digits + i);
}

void base_text_add_number(struct base_text *text, long long number)
{
    if (number < 0)
        base_text_add(text, "-");
    add_digits(text, number < 0 ? -(unsigned long long)number : (unsigned long long)number, 10);
}

void base_text_add_hex(struct base_text *text, uintptr_t number)
{
    base_text_add(text, "0x");
    add_digits(text, number, 16);
}

void base_text_write_line(struct base_text *text)
{
    if (text->len + 1 >= text->size_bytes)
        text->len = text->size_bytes - 2;
    base_text_add(text, "\n");
    for (size_t done = 0; done < text->len;) {
        ssize_t n = write(STDERR_FILENO, text->bytes + done, text->len - done);

        if (n < 0 && errno != EINTR)
            break;
        if (n > 0)
            done += (size_t)n;
    }
}
