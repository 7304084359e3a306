/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a line of the log is one write of at most BASE_LOG_LINE_MAX bytes, whatever its text, and that
 * the allocators which cannot fail end the process with a message that names the missing amount and its
 * purpose.
 */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "ult_job.h"

static char text[3 * BASE_LOG_LINE_MAX];
static int saved_stderr, pipe_ends[2];

/* What follows is written to a pipe in place of stderr. */
static void catch_stderr(void)
{
    ck_assert_int_eq(pipe(pipe_ends), 0);
    saved_stderr = dup(STDERR_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
    close(pipe_ends[1]);
}

static const char *caught(void)
{
    size_t len = 0;
    ssize_t n;

    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    while ((n = read(pipe_ends[0], text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    close(pipe_ends[0]);
    text[len] = '\0';
    return text;
}

START_TEST(lines)
{
    catch_stderr();
    errno = 17;
    base_log("%d ranks", 3);
    base_log_plain("plain %s", "text");
    ck_assert_int_eq(errno, 17);
    ck_assert_str_eq(caught(), "heddle: 3 ranks\nplain text\n");
}
END_TEST

START_TEST(long_lines_are_cut)
{
    static char longer[2 * BASE_LOG_LINE_MAX];

    memset(longer, 'x', sizeof longer - 1);
    for (int len = BASE_LOG_LINE_MAX - 20; len < BASE_LOG_LINE_MAX + 20; len++) {
        size_t n;
        catch_stderr();
        base_log("%.*s", len, longer);
        n = strlen(caught());
        ck_assert_uint_eq(n, base_min_u64((uint64_t)len + strlen("heddle: ") + 1, BASE_LOG_LINE_MAX));
        ck_assert_int_eq(text[n - 1], '\n');
        ck_assert_int_eq(text[n - 2], 'x');
    }
    catch_stderr();
    base_log("%s", longer);
    ck_assert_uint_eq(strlen(caught()), BASE_LOG_LINE_MAX);
}
END_TEST

START_TEST(once_and_verbose)
{
    static atomic_bool done, other;

    catch_stderr();
    for (int i = 0; i < 3; i++)
        base_log_once(&done, "a");
    base_log_once(&other, "b");
    base_log_verbose(1, "no");
    base_log_set_verbosity(1);
    base_log_verbose(1, "one");
    base_log_verbose(2, "two");
    base_log_set_verbosity(0);
    ck_assert_str_eq(caught(), "heddle: a\nheddle: b\nheddle: one\n");
}
END_TEST

/* Runs what in a process of its own; returns its exit code, and what it said is in text. */
static int run_apart(void (*what)(void))
{
    int status;
    pid_t child;

    catch_stderr();
    child = fork();
    if (child == 0) {
        what();
        _exit(0);
    }
    caught();
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static volatile size_t too_much = SIZE_MAX / 4;

static void fatal(void)
{
    base_fatal(3, "no %s", "way");
}
static void fail_malloc(void)
{
    base_malloc(too_much, "something");
}
static void fail_calloc(void)
{
    base_calloc(too_much / 16, 16, "something");
}
static void fail_calloc_aligned(void)
{
    base_calloc_aligned(too_much / 16, 16, "something");
}
static void fail_realloc(void)
{
    base_realloc(NULL, too_much, "something");
}
static void fail_assertion(void)
{
    base_assert_failed("a == b", "file.c", 7);
}

START_TEST(fatal_errors)
{
    static void (*const failing[])(void) = {fail_malloc, fail_calloc, fail_calloc_aligned, fail_realloc};

    ck_assert_int_eq(run_apart(fatal), 3);
    ck_assert_str_eq(text, "heddle: no way\n");
    ck_assert_int_eq(run_apart(fail_assertion), 128 + 6);
    ck_assert_ptr_nonnull(strstr(text, "assertion a == b failed at file.c:7"));
    for (size_t i = 0; i < BASE_COUNT(failing); i++) {
        ck_assert_int_eq(run_apart(failing[i]), 1);
        ck_assert_ptr_nonnull(strstr(text, "heddle: out of memory: cannot allocate 46116860184273"));
        ck_assert_ptr_nonnull(strstr(text, " bytes for something; use fewer ranks"));
    }
}
END_TEST

START_TEST(allocators)
{
    unsigned char *p = base_calloc_aligned(3, 50, "p");

    ck_assert_uint_eq((uintptr_t)p % BASE_CACHE_LINE, 0);
    for (int i = 0; i < 150; i++)
        ck_assert_uint_eq(p[i], 0);
    free(p);
    free(base_calloc_aligned(0, 50, "nothing"));
    free(base_malloc(0, "nothing"));
    free(base_calloc(0, 8, "nothing"));
    p = base_realloc(NULL, 0, "nothing");
    p = base_realloc(p, 100, "more");
    p[99] = 1;
    free(p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tcase = tcase_create("log");

    tcase_add_test(tcase, lines);
    tcase_add_test(tcase, long_lines_are_cut);
    tcase_add_test(tcase, once_and_verbose);
    tcase_add_test(tcase, fatal_errors);
    tcase_add_test(tcase, allocators);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
