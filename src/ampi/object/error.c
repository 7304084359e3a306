/* SPDX-License-Identifier: BSD-3-Clause
 *
 * error.c: calls the error handler for a detected error. error_text.c has the texts of the classes.
 */
#include "ampi/object/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ampi/object/errhandler.h"
#include "ampi/object/rank.h"
#include "base/log.h"
#include "base/settings.h"

/* Longest error text. */
#define TEXT_MAX 1024

/* The line that every report of a rank begins with; empty where there is no rank. */
static void format_origin(char *out, size_t size_bytes, const struct ampi_rank *rank, const char *call)
{
    const char *host = ampi_job.host ? ampi_job.host : "this host";
    char spawned[32] = "";

    if (rank && ampi_rank_spawn(rank) > 0)
        snprintf(spawned, sizeof spawned, "spawn %d, ", ampi_rank_spawn(rank));
    if (rank)
        snprintf(out, size_bytes, "%srank %d of %d on host %s (PE %d): %s%s", spawned, ampi_rank_number(rank),
                 ampi_rank_world_size(rank), host, rank->pe_id, call ? call : "", call ? ": " : "");
    else
        snprintf(out, size_bytes, "host %s: ", host);
}

static void report(const struct ampi_rank *rank, const char *call, const char *fmt, va_list args)
{
    char origin[256];
    char text[TEXT_MAX];

    format_origin(origin, sizeof origin, rank, call);
    vsnprintf(text, sizeof text, fmt, args);
    base_log_plain("%s%s", origin, text);
}

void ampi_report(const struct ampi_rank *rank, const char *fmt, ...)
{
    const struct ult *u = rank && ampi_self() == rank ? ult_self() : rank ? &rank->ult : NULL;
    va_list args;

    va_start(args, fmt);
    report(rank, u ? u->call : NULL, fmt, args);
    va_end(args);
}

void ampi_report_on(const struct ult *u, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    report(u->owner, u->call, fmt, args);
    va_end(args);
}

/* What was wrong when the rank's last error was raised, for MPI_Error_string. Threads of the rank exchange the pointer: who has
 * taken it owns it. */
struct ampi_error_detail {
    int error_code;
    char text[];
};

static void keep_detail(struct ampi_rank *rank, int error_code, const char *text)
{
    size_t size_bytes = strlen(text) + 1;
    struct ampi_error_detail *detail = rank ? malloc(sizeof *detail + size_bytes) : NULL;

    if (!detail)
        return;
    detail->error_code = error_code;
    memcpy(detail->text, text, size_bytes);
    free(__atomic_exchange_n(&rank->error_detail, detail, __ATOMIC_ACQ_REL));
}

bool ampi_error_detail_get(struct ampi_rank *rank, int error_code, char *text_out, size_t size_bytes)
{
    struct ampi_error_detail *detail, *newer = NULL;
    bool is_it;

    detail = rank ? __atomic_exchange_n(&rank->error_detail, NULL, __ATOMIC_ACQ_REL) : NULL;
    if (!detail)
        return false;
    is_it = detail->error_code == error_code;
    if (is_it)
        snprintf(text_out, size_bytes, "%s", detail->text);
    if (!__atomic_compare_exchange_n(&rank->error_detail, &newer, detail, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        free(detail);
    return is_it;
}

void ampi_error_detail_fini(struct ampi_rank *rank)
{
    free(rank->error_detail);
    rank->error_detail = NULL;
}

/* Calls a user's handler with the address of its object's handle. */
static void call_user(const struct ampi_errhandler *errhandler, void *handle_address, int *error_code)
{
    switch (errhandler->kind) {
    case AMPI_ERRHANDLER_COMM:
        errhandler->fn.comm(handle_address, error_code);
        break;
    case AMPI_ERRHANDLER_WIN:
        errhandler->fn.win(handle_address, error_code);
        break;
    case AMPI_ERRHANDLER_FILE:
        errhandler->fn.file(handle_address, error_code);
        break;
    case AMPI_ERRHANDLER_SESSION:
        errhandler->fn.session(handle_address, error_code);
        break;
    }
}

/* +check usage: also names the place of the call. */
static BASE_COLD void report_fatal(int error_code, const char *text)
{
    const struct ult *u = ult_self();
    const struct ampi_rank *self = ampi_self();
    char site[AMPI_CALL_SITE_BYTES], here = 0;
    const void *from = self && u && base_settings.check_usage ? u->called_from : NULL;

    if (from && u == &self->ult)
        from = ampi_upper.find_site(self, from, &here);
    if (from && ampi_upper.describe_site(from, site))
        ampi_report(self, "%s: %s; called at %s", ampi_error_name(error_code), text, site);
    else
        ampi_report(self, "%s: %s", ampi_error_name(error_code), text);
}

int ampi_error_handle(struct ampi_errhandler *errhandler, void *handle_address, int error_code,
                      const char *text)
{
    int code = error_code;

    if (!errhandler || errhandler == &ampi_errors_are_fatal || errhandler == &ampi_errors_abort) {
        report_fatal(error_code, text);
        ampi_job_abort(ampi_error_class(error_code));
    }
    keep_detail(ampi_self(), error_code, text);
    if (errhandler != &ampi_errors_return)
        call_user(errhandler, handle_address, &code);
    return code ? code : error_code; /* the caller must not continue */
}

int ampi_raise(struct ampi_comm *comm, int error_code, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return ampi_upper.raise(comm, error_code, text);
}

int ampi_raise_self(int error_code, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return ampi_upper.raise(NULL, error_code, text);
}

int ampi_raise_on_comm(struct ampi_comm *comm, int error_code, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return ampi_upper.raise(comm, error_code, text);
}

int ampi_raise_on(struct ampi_errhandler *errhandler, void *handle_address, int error_code, const char *fmt,
                  ...)
{
    char text[TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return ampi_error_handle(errhandler, handle_address, error_code, text);
}
