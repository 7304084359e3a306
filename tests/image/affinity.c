/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: a rank that pins its main thread sees its choice; the other ranks of its PE see and keep theirs. A child that pins itself
 * is pinned, and its rank keeps what it has.
 */
#include "image_test.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int first_cpu(const cpu_set_t *set)
{
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, set))
            return cpu;
    return -1;
}

/* By each of the two interfaces: every second rank pins itself to the first CPU, the others to all but that
 * one, if there are several. */
static void check(int by_thread)
{
    cpu_set_t before, wanted, seen;
    int is_odd = test_id() & 1;

    CHECK(sched_getaffinity(0, sizeof before, &before) == 0 && CPU_COUNT(&before) > 0);
    let_others_run();
    wanted = before;
    if (is_odd) {
        CPU_ZERO(&wanted);
        CPU_SET(first_cpu(&before), &wanted);
    } else if (CPU_COUNT(&before) > 1) {
        CPU_CLR(first_cpu(&before), &wanted);
    }
    if (by_thread)
        CHECK(pthread_setaffinity_np(pthread_self(), sizeof wanted, &wanted) == 0);
    else
        CHECK(sched_setaffinity(getpid(), sizeof wanted, &wanted) == 0);
    let_others_run();
    CHECK(sched_getaffinity(0, sizeof seen, &seen) == 0 && CPU_EQUAL(&seen, &wanted));
    CHECK(pthread_getaffinity_np(pthread_self(), sizeof seen, &seen) == 0 && CPU_EQUAL(&seen, &wanted));
    CHECK(pthread_setaffinity_np(pthread_self(), sizeof before, &before) == 0);
    let_others_run();
    CHECK(sched_getaffinity(0, sizeof seen, &seen) == 0 && CPU_EQUAL(&seen, &before));
    CPU_ZERO(&wanted);
    CHECK(sched_setaffinity(0, sizeof wanted, &wanted) == -1 && errno == EINVAL);
    CHECK(pthread_setaffinity_np(pthread_self(), sizeof wanted, &wanted) == EINVAL);
}

/* As a child does that starts a program on one CPU. The system call tells what that program will have. */
static void pin_child(const cpu_set_t *wanted)
{
    cpu_set_t seen, inherited;

    CPU_ZERO(&inherited);
    _exit(sched_setaffinity(0, sizeof *wanted, wanted) == 0 &&
                  sched_getaffinity(0, sizeof seen, &seen) == 0 && CPU_EQUAL(&seen, wanted) &&
                  syscall(SYS_sched_getaffinity, 0, sizeof inherited, &inherited) > 0 &&
                  CPU_EQUAL(&inherited, wanted)
              ? 0
              : 1);
}

static void check_child(pid_t child, const cpu_set_t *before)
{
    cpu_set_t seen;
    int status;

    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(sched_getaffinity(0, sizeof seen, &seen) == 0 && CPU_EQUAL(&seen, before));
}

static void check_children(void)
{
    cpu_set_t before, wanted;
    pid_t child;

    CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
    CPU_ZERO(&wanted);
    CPU_SET(first_cpu(&before), &wanted);
    if ((child = fork()) == 0)
        pin_child(&wanted);
    check_child(child, &before);
    if ((child = vfork()) == 0)
        pin_child(&wanted);
    check_child(child, &before);
}

int main(void)
{
    check_children();
    check(0);
    check(1);
    check_children();
    puts("ok");
    return 0;
}
