/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The standard input of process 0. A file or a pipe is passed on directly. A terminal is not: the kernel
 * stops a process that reads the terminal from outside its foreground group, and each process leads its own
 * group. So terminal input is copied into a pipe. Used by mpirun_procs.c.
 */
#include "launch/procs/mpirun_procs.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int pipe_fd = -1; /* the write end; -1: no copying */
static char held[4096];  /* read from the terminal, but not written yet */
static size_t held_len;

int procs_input_open(void)
{
    int ends[2];
    if (!isatty(STDIN_FILENO))
        return fcntl(STDIN_FILENO, F_GETFD) < 0 ? -1 : STDIN_FILENO;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    pipe_fd = ends[1];
    return ends[0];
}

static bool may_read(void)
{
    /* Reading from the background would stop this process. No event tells when it comes to the foreground. */
    return pipe_fd >= 0 && held_len == 0 && tcgetpgrp(STDIN_FILENO) == getpgrp();
}

struct pollfd procs_input_watched(void)
{
    if (pipe_fd >= 0 && held_len > 0) /* until the full pipe has been read */
        return (struct pollfd){.fd = pipe_fd, .events = POLLOUT};
    return (struct pollfd){.fd = may_read() ? STDIN_FILENO : -1, .events = POLLIN};
}

void procs_input_work(void)
{
    if (pipe_fd < 0)
        return;
    if (may_read() && poll(&(struct pollfd){.fd = STDIN_FILENO, .events = POLLIN}, 1, 0) > 0) {
        ssize_t got = read(STDIN_FILENO, held, sizeof held);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            return;
        if (got <= 0) { /* ^D */
            close(pipe_fd);
            pipe_fd = -1;
            return;
        }
        held_len = (size_t)got;
    }
    if (held_len == 0)
        return;
    ssize_t put = write(pipe_fd, held, held_len); /* at most PIPE_BUF: all or nothing */
    if (put > 0) {
        held_len = 0;
    } else if (errno != EAGAIN && errno != EINTR) {
        close(pipe_fd);
        pipe_fd = -1;
    }
}
