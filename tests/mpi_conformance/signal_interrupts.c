/* SPDX-License-Identifier: BSD-3-Clause */
/* A handler without SA_RESTART ends a rank's read, recv and waitpid with EINTR; after one with SA_RESTART they wait on. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mtest.h"

enum { READS, RECEIVES, WAITS, WAITS_FOR_ANY, WAYS };

static const struct itimerval often = {{0, 2000}, {0, 2000}}, none;
static volatile sig_atomic_t n_signals;
static int fds[2];

/* The handler writes what the call waits for when it has run some times. */
static void handle(int number)
{
    (void)number;
    if (++n_signals == 5 && write(fds[1], "xx", 2) != 2)
        n_signals = -1000;
}

static ssize_t wait_in_way(int way, pid_t child)
{
    char byte;

    switch (way) {
    case READS:
        return read(fds[0], &byte, 1);
    case RECEIVES:
        return recv(fds[0], &byte, 1, 0);
    case WAITS:
        return waitpid(child, NULL, 0);
    default:
        return wait(NULL);
    }
}

static void check(int way, int flags)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = flags};
    ssize_t result;
    pid_t child;
    char byte;

    MTEST_CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "no sockets");
    child = fork();
    if (child == 0)
        _exit(read(fds[0], &byte, 1) == 1 ? 0 : 1);
    n_signals = 0;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    result = wait_in_way(way, child);
    MTEST_CHECK(flags ? result > 0 && n_signals >= 5 : result == -1 && errno == EINTR,
                "way %d, flags %d: the result is %d after %d signals", way, flags, (int)result,
                (int)n_signals);
    setitimer(ITIMER_REAL, &none, NULL);
    MTEST_CHECK(n_signals >= 5 || write(fds[1], "xx", 2) == 2, "nothing was written");
    waitpid(child, NULL, 0);
    close(fds[0]);
    close(fds[1]);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    for (int way = 0; way < WAYS; way++) {
        check(way, 0);
        check(way, SA_RESTART);
    }
    return mtest_end();
}
