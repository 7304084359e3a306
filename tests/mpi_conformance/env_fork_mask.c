/* SPDX-License-Identifier: BSD-3-Clause */
/* A child of fork or posix_spawn blocks what its rank blocks, not what other ranks of the OS thread block. */
#include <pthread.h>
#include <signal.h>
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

static void check_children(char *program)
{
    posix_spawnattr_t attributes;
    sigset_t set;
    pid_t pid = fork();

    if (pid == 0)
        _exit(shown_by_child(own));
    check_status(pid, "fork");
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
    check_children(argv[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0, "the mask was not set");
    own = 0;
    check_children(argv[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_CHECK(pthread_sigmask(SIG_SETMASK, NULL, &set) == 0 && !sigismember(&set, SIGRTMIN + 1), "blocked");
    return mtest_end();
}
