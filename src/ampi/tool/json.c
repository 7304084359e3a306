/* SPDX-License-Identifier: BSD-3-Clause
 *
 * json.c: see json.h.
 */
#include "ampi/tool/json.h"

#include <errno.h>
#include <unistd.h>

#define DIGITS_MAX 24

void ampi_json_flush(struct ampi_json *json)
{
    for (size_t at = 0; at < json->len && !json->has_failed;) {
        ssize_t n = write(json->fd, json->bytes + at, json->len - at);
        if (n >= 0) {
            at += (size_t)n;
        } else if (errno != EINTR) {
            json->has_failed = true;
            json->error = errno;
        }
    }
    json->len = 0;
}

static inline void put(struct ampi_json *json, char c)
{
    if (json->len == AMPI_JSON_BYTES)
        ampi_json_flush(json);
    json->bytes[json->len++] = c;
}

void ampi_json_text(struct ampi_json *json, const char *text)
{
    for (; *text; text++)
        put(json, *text);
}

void ampi_json_escaped(struct ampi_json *json, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            put(json, '\\');
        put(json, (unsigned char)*text < ' ' ? ' ' : *text);
    }
}

/* At least n_min digits. */
static void put_digits(struct ampi_json *json, uint64_t number, int n_min)
{
    char digits[DIGITS_MAX];
    int n = 0;

    for (; number > 0 || n < n_min; number /= 10)
        digits[n++] = (char)('0' + number % 10);
    while (n > 0)
        put(json, digits[--n]);
}

void ampi_json_number(struct ampi_json *json, int64_t number)
{
    if (number < 0)
        put(json, '-');
    put_digits(json, number < 0 ? -(uint64_t)number : (uint64_t)number, 1);
}

void ampi_json_us(struct ampi_json *json, int64_t ns)
{
    uint64_t size = ns < 0 ? -(uint64_t)ns : (uint64_t)ns;

    if (ns < 0)
        put(json, '-');
    put_digits(json, size / 1000, 1);
    if (size % 1000) {
        put(json, '.');
        put_digits(json, size % 1000, 3);
    }
}
