/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The requirements of mpirun-procs and libpmix on the kernel. A filter of system calls (seccomp, a container) may refuse a part of
 * it: libpmix and its libraries then wait or loop for ever. Each of these calls is tried at the start. Used by
 * mpirun_procs.c.
 */
#include "launch/procs/mpirun_procs.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* Stack of each thread, if the limit can be raised that far; and at least: libpmix and libhwloc need more than 200 KiB. */
#define STACK_BYTES ((rlim_t)1 << 20)
#define STACK_MIN_BYTES ((rlim_t)256 << 10)

/* Returns 0 or an errno. */
static int check_fd(int fd)
{
    int error = fd < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return error;
}

static int try_signalfd(void)
{
    sigset_t none;
    sigemptyset(&none);
    return check_fd(signalfd(-1, &none, SFD_CLOEXEC));
}

static int try_eventfd(void)
{
    return check_fd(eventfd(0, EFD_CLOEXEC));
}

static int try_affinity(void)
{
    cpu_set_t cores;
    /* More cores than the set has room for are not a refusal. */
    return sched_getaffinity(0, sizeof cores, &cores) == 0 || errno == EINVAL ? 0 : errno;
}

static int try_select(void)
{
    return select(0, NULL, NULL, NULL, &(struct timeval){0}) < 0 ? errno : 0;
}

static int try_flock(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int error = fd < 0 || flock(fd, LOCK_UN) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return error;
}

void procs_requirements_check(void)
{
    static const struct {
        const char *name;
        int (*attempt)(void);
    } calls[] = {
        {"signalfd", try_signalfd}, {"eventfd", try_eventfd}, {"sched_getaffinity", try_affinity},
        {"select", try_select},     {"flock", try_flock},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        int error = calls[i].attempt();
        if (error != 0)
            launch_fail(1,
                        "the system call %s fails (a filter of system calls?), and mpirun needs it for "
                        "several processes: %s",
                        calls[i].name, strerror(error));
    }
}

/* Threads get stacks as large as the limit was when this program started. */
void procs_requirements_raise_stack(struct rlimit *before_out)
{
    pthread_attr_t attributes;
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0)
        limit = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
    *before_out = limit;
    if (limit.rlim_cur >= STACK_BYTES)
        return;
    limit.rlim_cur = limit.rlim_max < STACK_BYTES ? limit.rlim_max : STACK_BYTES;
    if (limit.rlim_cur < STACK_MIN_BYTES || setrlimit(RLIMIT_STACK, &limit) != 0)
        launch_fail(1, "a stack of %llu KiB is too small for several processes: raise `ulimit -s` to %llu",
                    (unsigned long long)before_out->rlim_cur >> 10, (unsigned long long)STACK_BYTES >> 10);
    if (pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, limit.rlim_cur) == 0)
        pthread_setattr_default_np(&attributes);
}
