/* SPDX-License-Identifier: BSD-3-Clause
 *
 * trace_file.c: the file of +trace: all processes of a job add their records to it.
 *
 * Each process has a lock on the file while it replaces the end of the file by its records and the end. A process that crashes does the
 * same in its signal handler. PEs that still run then stop recording; the record that one of them may be writing is left out.
 */
#include "ampi/tool/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "ampi/tool/json.h"
#include "base/log.h"
#include "base/settings.h"
#include "base/text.h"

#define END "\n]}\n"
#define END_BYTES 4
#define DONE (-1)
#define BASE_DIGITS 20
#define HEAD "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"heddle\":\"1\",\"base_ns\":\""

static struct ampi_json out;

static void write_head(void)
{
    char digits[BASE_DIGITS + 1] = "";
    uint64_t base_ns = ampi_trace.base_ns;

    for (int i = BASE_DIGITS - 1; i >= 0; i--, base_ns /= 10)
        digits[i] = (char)('0' + base_ns % 10);
    ampi_json_text(&out, HEAD);
    ampi_json_text(&out, digits);
    ampi_json_text(&out, "\"},\"traceEvents\":[\n"
                         "{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"ts\":0,\"name\":\"heddle\",\"args\":{}}" END);
}

/* The base of the file, or 0: it is not a trace of this library. */
static uint64_t read_base(int fd)
{
    char head[sizeof HEAD + BASE_DIGITS] = "";
    uint64_t base_ns = 0;

    if (pread(fd, head, sizeof head - 1, 0) != (ssize_t)sizeof head - 1 ||
        memcmp(head, HEAD, sizeof HEAD - 1) != 0)
        return 0;
    for (const char *c = head + sizeof HEAD - 1; *c >= '0' && *c <= '9'; c++)
        base_ns = 10 * base_ns + (uint64_t)(*c - '0');
    return base_ns;
}

static void complain(int error)
{
    char bytes[512];
    struct base_text text = base_text_in(bytes, sizeof bytes);

    base_text_add(&text, "+trace ");
    base_text_add(&text, base_settings.trace);
    base_text_add(&text, ": cannot be written: ");
    base_text_add(&text, strerrordesc_np(error));
    base_text_write_line(&text);
}

static void say_dropped(int64_t n_dropped)
{
    char bytes[512];
    struct base_text text = base_text_in(bytes, sizeof bytes);

    base_text_add(&text, "+trace: ");
    base_text_add_number(&text, n_dropped);
    base_text_add(&text, " early events did not fit and are missing (+trace FILE,SIZE)");
    base_text_write_line(&text);
}

/* Opens the file, locked. Without records if it is new, or of another job. */
static bool open_file(bool is_new)
{
    uint64_t base_ns;

    out.fd = open(base_settings.trace, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (out.fd < 0) {
        complain(errno);
        return false;
    }
    while (flock(out.fd, LOCK_EX) != 0 && errno == EINTR)
        ;
    base_ns = is_new ? 0 : read_base(out.fd);
    if (ampi_trace.base_ns == 0)
        ampi_trace.base_ns = base_ns ? base_ns : ult_now_ns();
    if (base_ns != ampi_trace.base_ns) {
        if (ftruncate(out.fd, 0) != 0)
            out.has_failed = true, out.error = errno;
        write_head();
        ampi_json_flush(&out);
    }
    return true;
}

static void close_file(void)
{
    ampi_json_flush(&out);
    if (out.has_failed)
        complain(out.error);
    close(out.fd);
}

void ampi_trace_create_file(void)
{
    if (open_file(true))
        close_file();
}

static void write_all(int64_t end_ns)
{
    off_t end = lseek(out.fd, -END_BYTES, SEEK_END);
    int64_t n_dropped = ampi_trace_write_records(&out, end_ns);

    ampi_json_text(&out, END);
    ampi_json_flush(&out);
    if (out.has_failed && end > 0 && ftruncate(out.fd, end) == 0 && lseek(out.fd, end, SEEK_SET) == end &&
        write(out.fd, END, END_BYTES) != END_BYTES)
        complain(errno); /* as it was before */
    if (n_dropped > 0)
        say_dropped(n_dropped);
}

static void write_file(void)
{
    int64_t end_ns = (int64_t)ult_now_ns();

    if (!open_file(false))
        return;
    write_all(end_ns);
    close_file();
}

/* A signal that ends the process waits until the file is complete. */
static void write_undisturbed(void)
{
    sigset_t signals, before;

    sigemptyset(&signals);
    for (size_t i = 0; i < BASE_COUNT(ampi_trace_signals); i++)
        sigaddset(&signals, ampi_trace_signals[i]);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    write_file();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void ampi_trace_write(void)
{
    static _Atomic int writer; /* the thread that writes; 0: none yet; DONE */
    const struct timespec ms = {.tv_nsec = 1000000};
    int self = gettid(), before = 0;

    if (BASE_LIKELY(!ampi_trace.rings) || ampi_job.is_forked)
        return;
    atomic_store(&ampi_trace.is_ended, true);
    if (atomic_compare_exchange_strong(&writer, &before, self)) {
        write_undisturbed();
        atomic_store(&writer, DONE);
        return;
    }
    while (before != self && atomic_load(&writer) != DONE) /* else it crashed while it wrote */
        nanosleep(&ms, NULL);
}
