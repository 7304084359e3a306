/* SPDX-License-Identifier: BSD-3-Clause
 *
 * selection.c: the table of selection.h, its print-out and its option.
 */
#include "ampi/coll/selection.h"

#include <stdio.h>
#include <string.h>

struct ampi_coll_selection ampi_coll_selections[AMPI_COLL_KIND_COUNT] = {
    [AMPI_COLL_BCAST] = {"bcast", "the message times the ranks", 16384},
    [AMPI_COLL_GATHER] = {"gather", "all that the root receives", 65536},
    [AMPI_COLL_SCATTER] = {"scatter", "all that the root sends", 65536},
    [AMPI_COLL_ALLGATHER] = {"allgather", "all that all ranks receive", 16384},
    [AMPI_COLL_ALLTOALL] = {"alltoall", "all that all ranks receive", 8192},
    [AMPI_COLL_REDUCE] = {"reduce", "the vector times the ranks", 32768},
    [AMPI_COLL_ALLREDUCE] = {"allreduce", "the vector times the ranks", 16384},
    [AMPI_COLL_REDUCE_SCATTER] = {"reduce_scatter", "the vector times the ranks", 32768},
    [AMPI_COLL_SCAN] = {"scan", "the vector times the ranks", 32768},
    [AMPI_COLL_NEIGHBOR] = {"neighbor", "an estimate of all that is received", 16384},
};

void ampi_coll_print_selection(void)
{
    printf("Collectives inside a process: small ones are done by the rank that arrives last, large ones by all PEs.\n"
           "  %-16s %14s   %s\n",
           "operation", "shared from", "bytes counted");
    for (int i = 0; i < AMPI_COLL_KIND_COUNT; i++) {
        const struct ampi_coll_selection *entry = &ampi_coll_selections[i];
        if (entry->share_from == SIZE_MAX)
            printf("  %-16s %14s   %s\n", entry->name, "never", entry->counted);
        else
            printf("  %-16s %14zu   %s\n", entry->name, entry->share_from, entry->counted);
    }
    printf("Change an entry with +coll OPERATION:BYTES[,...]; BYTES may end in K, M or G, or be \"inf\".\n");
}

/* A number of bytes up to `end`. */
static bool parse_bytes(const char *text, const char *end, size_t *bytes_out)
{
    static const char suffixes[] = "KMG";
    size_t bytes = 0;
    const char *suffix;

    if (end - text == 3 && memcmp(text, "inf", 3) == 0) {
        *bytes_out = SIZE_MAX;
        return true;
    }
    if (text == end || *text < '0' || *text > '9')
        return false;
    for (; text < end && *text >= '0' && *text <= '9'; text++) {
        if (bytes > (SIZE_MAX >> 40))
            return false;
        bytes = bytes * 10 + (size_t)(*text - '0');
    }
    if (text < end && (suffix = memchr(suffixes, *text & ~0x20, 3))) {
        bytes <<= 10 * (suffix - suffixes + 1);
        text++;
    }
    *bytes_out = bytes;
    return text == end;
}

bool ampi_coll_override(const char *text)
{
    struct ampi_coll_selection changed[AMPI_COLL_KIND_COUNT];

    memcpy(changed, ampi_coll_selections, sizeof changed);
    while (*text) {
        const char *end = text + strcspn(text, ",");
        const char *colon = memchr(text, ':', (size_t)(end - text));
        int kind = 0;
        if (!colon)
            return false;
        while (kind < AMPI_COLL_KIND_COUNT && (strlen(changed[kind].name) != (size_t)(colon - text) ||
                                               memcmp(changed[kind].name, text, (size_t)(colon - text)) != 0))
            kind++;
        if (kind == AMPI_COLL_KIND_COUNT || !parse_bytes(colon + 1, end, &changed[kind].share_from))
            return false;
        text = *end ? end + 1 : end;
    }
    memcpy(ampi_coll_selections, changed, sizeof changed);
    return true;
}
