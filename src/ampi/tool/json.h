/* SPDX-License-Identifier: BSD-3-Clause
 *
 * json.h: writes JSON to a descriptor, without locks, memory or functions of the C library: also in a signal handler.
 */
#ifndef AMPI_TOOL_JSON_H
#define AMPI_TOOL_JSON_H

#include "base/base.h"

#define AMPI_JSON_BYTES 65536

struct ampi_json {
    int fd;
    bool has_failed; /* a write failed: nothing more is written */
    int error;       /* errno of that */
    size_t len;      /* of bytes, not written yet */
    char bytes[AMPI_JSON_BYTES];
};

/* Text as it is. */
void ampi_json_text(struct ampi_json *json, const char *text);

/* Text inside of a string: quotes, backslashes and control characters are escaped. */
void ampi_json_escaped(struct ampi_json *json, const char *text);

void ampi_json_number(struct ampi_json *json, int64_t number);

/* A time in ns as microseconds with three digits behind the point. */
void ampi_json_us(struct ampi_json *json, int64_t ns);

/* The text before it, and the number. */
static inline void ampi_json_field(struct ampi_json *json, const char *text, int64_t number)
{
    ampi_json_text(json, text);
    ampi_json_number(json, number);
}

/* Writes what is left. */
void ampi_json_flush(struct ampi_json *json);

#endif
