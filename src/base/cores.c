/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cores.c: see cores.h.
 */
#include "base/cores.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The control group's CPU quota in whole cores, rounded up; fallback if there is no quota or it cannot be
 * read. */
static int quota_cores(int fallback)
{
    FILE *file;
    long quota_us = 0, period_us = 0;
    int n_read = 0;
    int saved_errno = errno;

    file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (file) {
        n_read = fscanf(file, "%ld %ld", &quota_us, &period_us); /* "max 100000": no quota */
        fclose(file);
    }
    errno = saved_errno; /* a missing file is not an error */
    if (n_read != 2 || quota_us <= 0 || period_us <= 0)
        return fallback;
    return (int)((quota_us + period_us - 1) / period_us);
}

int base_usable_cores(void)
{
    cpu_set_t usable;
    int n_cores = sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 1;
    int n_quota = quota_cores(n_cores);

    return n_quota < n_cores ? n_quota : n_cores;
}

/* sysconf(3) is not used: on virtual machines it multiplies by cores that do not exist. */
size_t base_cache_bytes(void)
{
    static const size_t guess = (size_t)32 << 20;
    char path[] = "/sys/devices/system/cpu/cpu0/cache/index0/size";
    char *digit = strrchr(path, '0');
    size_t largest = 0;
    int saved_errno = errno;

    for (; *digit < '5'; (*digit)++) {
        unsigned long kib = 0;
        FILE *file = fopen(path, "re");
        if (!file)
            break;
        if (fscanf(file, "%luK", &kib) == 1 && (size_t)kib << 10 > largest)
            largest = (size_t)kib << 10;
        fclose(file);
    }
    errno = saved_errno;
    return largest ? largest : guess;
}

int base_core_share(int n_procs)
{
    cpu_set_t given;
    bool is_bound =
        sched_getaffinity(0, sizeof given, &given) == 0 && CPU_COUNT(&given) < sysconf(_SC_NPROCESSORS_ONLN);

    return n_procs <= 1 || is_bound ? base_usable_cores() : base_usable_cores() / n_procs;
}
