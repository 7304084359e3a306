/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0 forks children while the other ranks use functions of the C library that have locks: a child is not in the middle of a
 * call of another rank, so it may use them, too. A fork in such a function is not delayed for ever. */
#define _GNU_SOURCE
#include "mtest.h"
#include <dlfcn.h>
#include <errno.h>
#include <iconv.h>
#include <link.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 8, CALLS = 20 };

static int count_module(struct dl_phdr_info *info, size_t size, void *count)
{
    (void)info;
    (void)size;
    ++*(int *)count;
    return 0;
}

/* Each returns 1 if the call was right. */
static int change_locale(void)
{
    return setlocale(LC_CTYPE, "C.UTF-8") && setlocale(LC_CTYPE, "C");
}

static int make_locale(void)
{
    locale_t made = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0), copy = made ? duplocale(made) : made;

    if (!copy)
        return 0;
    freelocale(copy);
    freelocale(made);
    return 1;
}

static int name_error(void)
{
    char text[100];

    return strcmp(strerror_r(ENOENT, text, sizeof text), strerror(ENOENT)) == 0 &&
           strstr(strsignal(SIGTERM), "erm") != NULL;
}

static int convert(void)
{
    iconv_t made = iconv_open("UTF-16", "UTF-8");

    return made != (iconv_t)-1 && iconv_close(made) == 0;
}

static int list_modules(void)
{
    int n_modules = 0;

    return dl_iterate_phdr(count_module, &n_modules) == 0 && n_modules > 1;
}

static int (*const calls[])(void) = {change_locale, make_locale, name_error, convert, list_modules};
enum { KINDS = sizeof calls / sizeof calls[0] };

static void check_child(pid_t pid)
{
    int status = -1;

    MTEST_CHECK(waitpid(pid, &status, 0) == pid, "no child %d", (int)pid);
    MTEST_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3, "the child ended with status %#x", status);
}

static void fork_children(void)
{
    for (int i = 0; i < CHILDREN; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            int n_right = 0;

            for (int kind = 0; kind < KINDS; kind++)
                n_right += calls[kind]();
            _exit(n_right == KINDS ? 3 : 4);
        }
        check_child(pid);
    }
}

static int fork_from_callback(struct dl_phdr_info *info, size_t size, void *pid)
{
    (void)info;
    (void)size;
    *(pid_t *)pid = fork();
    if (*(pid_t *)pid == 0)
        _exit(name_error() ? 3 : 4);
    return 1;
}

int main(int argc, char **argv)
{
    int is_over = 0;
    MPI_Request request;
    pid_t pid = -1;

    mtest_init(&argc, &argv, 1);
    if (mtest_rank == 0) {
        MTEST_CHECK(dl_iterate_phdr(fork_from_callback, &pid) == 1, "the callback was not called");
        check_child(pid);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (mtest_rank == 0)
            fork_children();
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
        for (is_over = 0; !is_over; MPI_Test(&request, &is_over, MPI_STATUS_IGNORE))
            for (int i = 0; i < CALLS && mtest_rank > 0; i++)
                MTEST_CHECK(calls[kind](), "call %d was wrong", kind);
    }
    return mtest_end();
}
