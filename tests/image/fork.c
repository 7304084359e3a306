/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: a process that a rank forks is a copy of that rank alone: its handlers of pthread_atfork and of exit
 * are called, those of other ranks are not; it may sleep; exit, _exit, abort and the end of main end it.
 * wait() finds the rank's own children only.
 */
#include "image_test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int n_prepared, n_parent, n_child;
static pid_t rank_pid;
static int pipe_fds[2];

static void prepare(void)
{
    n_prepared++;
}

static void in_parent(void)
{
    n_parent++;
}

static void in_child(void)
{
    n_child++;
}

static void tell(char c)
{
    CHECK(write(pipe_fds[1], &c, 1) == 1);
}

/* Called in the children that call exit, with their number of handlers, and in the rank. */
static void at_exit(void)
{
    if (getpid() != rank_pid)
        tell('x');
}

static char told(void)
{
    char c = 0;

    CHECK(read(pipe_fds[0], &c, 1) == 1);
    return c;
}

static pid_t start(void (*child)(void))
{
    pid_t pid = fork();

    if (pid == 0) {
        child();
        _exit(99);
    }
    CHECK(pid > 0);
    return pid;
}

static int code_of(pid_t pid)
{
    int status;

    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void call_exit(void)
{
    usleep(2000);
    sleep(0);
    nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
    sched_yield();
    CHECK(n_prepared == 1 && n_parent == 0 && n_child == 1);
    exit(5);
}

static void call_exit_in_child(void)
{
    pid_t pid = start(call_exit);
    int status;

    CHECK(wait(&status) == pid && WEXITSTATUS(status) == 1); /* its counts are others */
    _exit(6);
}

static void call_abort(void)
{
    abort();
}

static void just_end(void) {}

static void check_fork(void)
{
    int status;
    pid_t pid;

    CHECK(code_of(start(call_exit)) == 5);
    CHECK(told() == 'x');
    CHECK(n_prepared == 1 && n_parent == 1 && n_child == 0);
    CHECK(code_of(start(call_exit_in_child)) == 6);
    CHECK(told() == 'x');
    pid = start(call_abort);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK(code_of(start(just_end)) == 99);
}

static void check_wait(void)
{
    char *const args[] = {"sh", "-c", "exit 8", NULL};
    pid_t first, second, found;
    int status;

    CHECK(wait(NULL) == -1 && errno == ECHILD);
    first = start(just_end);
    let_others_run();
    CHECK(posix_spawn(&second, "/bin/sh", NULL, NULL, args, NULL) == 0);
    let_others_run();
    found = wait(&status);
    CHECK(found == first || found == second);
    CHECK(WEXITSTATUS(status) == (found == first ? 99 : 8));
    CHECK(waitpid(-1, &status, 0) == (found == first ? second : first));
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    second = vfork();
    if (second == 0)
        _exit(7);
    CHECK(code_of(second) == 7);
}

/* A child that returns from main. */
static int end_as_child(void)
{
    pid_t pid = fork();

    if (pid == 0)
        return 1;
    CHECK(code_of(pid) == 3);
    CHECK(told() == 'x');
    return 0;
}

int main(void)
{
    rank_pid = getpid();
    CHECK(pipe(pipe_fds) == 0);
    atexit(at_exit);
    CHECK(pthread_atfork(prepare, in_parent, in_child) == 0);
    let_others_run();
    check_fork();
    check_wait();
    if (end_as_child())
        return 3;
    puts("ok");
    return 0;
}
