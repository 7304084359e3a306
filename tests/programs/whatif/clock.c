/* SPDX-License-Identifier: BSD-3-Clause */
/* A monotonic clock that the program sets forward, for exact times: preloaded, so all ranks have the same one. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define QUERY_NS 50 /* each query takes some time, so that all events have their order */

static _Atomic long now = 1000000000;

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (clock != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock, time);
    long ns = now += QUERY_NS;
    time->tv_sec = ns / 1000000000;
    time->tv_nsec = ns % 1000000000;
    return 0;
}

void test_clock_advance(long ns)
{
    now += ns;
}
