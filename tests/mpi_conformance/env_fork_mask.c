/* SPDX-License-Identifier: BSD-3-Clause */
/* Children and threads of a rank block what the rank blocks, not what other ranks of the OS thread block. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mtest.h"

extern char **environ;

static int own; /* the signal that this rank blocks */

/* Exit code 7: the process blocks `number` alone. */
static int shown_by_child(int number)
{
    sigset_t set;

    if (pthread_sigmask(SIG_SETMASK, NULL, &set) != 0)
        return 1;
    for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
        if (sigismember(&set, i) != (i == number))
            return 2;
    return sigismember(&set, SIGUSR2) ? 3 : 7;
}

static void check_status(pid_t pid, const char *what)
{
    int status = -1;

    MTEST_CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "%s: no child", what);
    MTEST_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "%s: the child ended with status %#x", what,
                status);
}

static pid_t spawn(char *program, posix_spawnattr_t *attributes, int number)
{
    char text[16];
    char *argv[] = {program, (char *)"child", text, NULL};
    pid_t pid = -1;

    snprintf(text, sizeof text, "%d", number);
    MTEST_CHECK(posix_spawn(&pid, program, NULL, attributes, argv, environ) == 0, "posix_spawn failed");
    return pid;
}

static void check_fork(const char *what)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(shown_by_child(own));
    check_status(pid, what);
}

static void *run_thread(void *nothing)
{
    MTEST_CHECK(shown_by_child(own) == 7, "a thread has another mask");
    check_fork("fork by a thread");
    return nothing;
}

static void check_threads(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t set;
    int all = own;

    MTEST_CHECK(shown_by_child(own) == 7, "the rank has another mask");
    MTEST_CHECK(pthread_create(&thread, NULL, run_thread, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    sigemptyset(&set);
    sigaddset(&set, own = SIGRTMIN + 1); /* that of rank 0 */
    pthread_attr_init(&attributes);
    pthread_attr_setsigmask_np(&attributes, &set);
    MTEST_CHECK(pthread_create(&thread, &attributes, run_thread, NULL) == 0, "no thread with a mask");
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    own = all;
}

static pid_t child_of_handler;

static void fork_in_handler(int number)
{
    (void)number;
    child_of_handler = fork();
}

/* What a child has when it returns from a handler, or jumps to where the rank was. */
static void check_restored(void)
{
    static sigjmp_buf before;
    static volatile pid_t pid;

    signal(SIGUSR1, fork_in_handler);
    raise(SIGUSR1);
    if (child_of_handler == 0)
        _exit(shown_by_child(own));
    check_status(child_of_handler, "fork in a handler");
    pid = 0;
    if (sigsetjmp(before, 1) == 0) {
        pid = fork();
        if (pid == 0)
            siglongjmp(before, 1);
    }
    if (pid == 0)
        _exit(shown_by_child(own));
    check_status(pid, "siglongjmp in a child");
}

static void check_vfork(char *program)
{
    char number[16];
    pid_t pid;

    snprintf(number, sizeof number, "%d", own);
    pid = vfork();
    if (pid == 0) {
        execl(program, program, "child", number, (char *)NULL);
        _exit(1);
    }
    check_status(pid, "vfork and exec");
}

static void check_children(char *program)
{
    posix_spawnattr_t attributes;
    sigset_t set;
    pid_t pid;

    check_fork("fork");
    pid = _Fork();
    if (pid == 0)
        _exit(shown_by_child(own));
    check_status(pid, "_Fork");
    check_status(spawn(program, NULL, own), "posix_spawn");
    sigemptyset(&set);
    sigaddset(&set, SIGRTMAX);
    MTEST_CHECK(posix_spawnattr_init(&attributes) == 0, "no attributes");
    check_status(spawn(program, &attributes, own), "posix_spawn with attributes");
    posix_spawnattr_setsigmask(&attributes, &set);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    check_status(spawn(program, &attributes, SIGRTMAX), "posix_spawn with a mask");
    posix_spawnattr_destroy(&attributes);
}

static void check_all(char *program)
{
    check_threads();
    check_children(program);
    check_vfork(program);
    check_restored();
}

int main(int argc, char **argv)
{
    sigset_t set;

    if (argc == 3 && strcmp(argv[1], "child") == 0)
        return shown_by_child(atoi(argv[2]));
    mtest_init(&argc, &argv, 1);
    own = SIGRTMIN + 1 + mtest_rank % 8;
    sigemptyset(&set);
    sigaddset(&set, own);
    MTEST_CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0, "the mask was not set");
    MPI_Barrier(MPI_COMM_WORLD);
    check_all(argv[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0, "the mask was not set");
    own = 0;
    check_all(argv[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_CHECK(pthread_sigmask(SIG_SETMASK, NULL, &set) == 0 && !sigismember(&set, SIGRTMIN + 1), "blocked");
    return mtest_end();
}
