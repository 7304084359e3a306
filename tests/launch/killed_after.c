/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Preloaded in mpirun, with KILLED_AFTER="FUNCTION N": at the Nth return of mkdir, flock or fork, SIGKILL ends the
 * process and its group. So mpirun is killed between two steps of its start, however short the time is.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int n_left; /* returns of the function until the end */
static char function[16];

__attribute__((constructor)) static void begin(void)
{
    const char *text = getenv("KILLED_AFTER"), *number = text ? strchr(text, ' ') : NULL;

    if (!number || (size_t)(number - text) >= sizeof function)
        return;
    memcpy(function, text, (size_t)(number - text));
    n_left = atoi(number);
    setpgid(0, 0); /* the test is not in the group */
}

static void end_after(const char *name)
{
    if (n_left > 0 && strcmp(name, function) == 0 && --n_left == 0)
        kill(0, SIGKILL);
}

int mkdir(const char *path, mode_t mode)
{
    int result = ((int (*)(const char *, mode_t))dlsym(RTLD_NEXT, "mkdir"))(path, mode);

    end_after("mkdir");
    return result;
}

int flock(int fd, int operation)
{
    int result = ((int (*)(int, int))dlsym(RTLD_NEXT, "flock"))(fd, operation);

    end_after("flock");
    return result;
}

pid_t fork(void)
{
    pid_t pid = ((pid_t(*)(void))dlsym(RTLD_NEXT, "fork"))();

    if (pid > 0)
        end_after("fork");
    return pid;
}
