/* SPDX-License-Identifier: BSD-3-Clause
 *
 * misuse.c: calls and reports. See misuse.h.
 */
#include "ampi/misuse/misuse.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "base/text.h"

/* Return addresses that are known to be in the program. */
#define KNOWN_COUNT 4096

static _Atomic(const void *) known[KNOWN_COUNT];

struct ampi_misuse *ampi_misuse_of(struct ampi_rank *rank)
{
    if (BASE_UNLIKELY(!rank->misuse)) {
        rank->misuse = base_calloc(1, sizeof *rank->misuse, "+check usage");
        pthread_mutex_init(&rank->misuse->lock, NULL);
    }
    return rank->misuse;
}

/* The look-up of an address takes a while. */
const void *ampi_misuse_site(const void *from)
{
    const struct ampi_rank *rank = ampi_self();
    _Atomic(const void *) *entry = &known[((uintptr_t)from >> 2 ^ (uintptr_t)from >> 20) % KNOWN_COUNT];
    const void *found = from;
    char here = 0;

    if (!rank || atomic_load_explicit(entry, memory_order_relaxed) == from)
        return from;
    if (ult_self() == &rank->ult)
        found = ampi_upper.find_site(rank, from, &here);
    if (found == from)
        atomic_store_explicit(entry, from, memory_order_relaxed);
    return found;
}

struct ampi_misuse_call ampi_misuse_call(void)
{
    const struct ult *u = ult_self();

    return (struct ampi_misuse_call){u->call, ampi_misuse_site(u->called_from)};
}

void ampi_misuse_add_site(struct base_text *out, const void *from)
{
    char site[AMPI_CALL_SITE_BYTES];

    if (!from || !ampi_upper.describe_site(from, site))
        return;
    base_text_add(out, ", called at ");
    base_text_add(out, site);
}

void ampi_misuse_describe_call(struct ampi_rank *rank, const struct ampi_request *request, char *text,
                               size_t size_bytes)
{
    struct base_text out = base_text_in(text, size_bytes);
    const struct ult *u =
        ult_self() && ult_self()->owner == rank ? ult_self() : &rank->ult; /* perhaps a thread's */
    struct ampi_misuse_call call;

    if (!request || !ampi_misuse_find_call(rank, request, &call))
        call = (struct ampi_misuse_call){u->call, u->called_from};
    base_text_add(&out, call.name ? call.name : "a call of a thread");
    ampi_misuse_add_site(&out, call.from);
}

void ampi_misuse_end_job(const struct ampi_rank *rank, const struct ampi_misuse_call *call, const char *fmt,
                         ...)
{
    char bytes[2 * AMPI_CALL_SITE_BYTES], text[1500];
    struct base_text site = base_text_in(bytes, sizeof bytes);
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ampi_misuse_add_site(&site, call->from);
    ampi_report(rank, "wrong usage of %s%s: %s", call->name, bytes, text);
    ampi_job_abort(MPI_ERR_OTHER);
}
