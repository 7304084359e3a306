/* SPDX-License-Identifier: BSD-3-Clause */
/* A handler may join threads, also in exit(). */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

#include "mtest.h"

static pthread_t thread, main_thread;
static volatile int self_result;
static int values[4];

static void *work(void *arg)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    return arg;
}

static int work_c11(void *arg)
{
    work(arg);
    return 3;
}

static void join(int number)
{
    struct timespec end;
    thrd_t other;
    void *value = NULL;

    (void)number;
    values[0] = pthread_join(thread, &value) == 0 && value == values;
    self_result = pthread_join(main_thread, NULL);
    if (thrd_create(&other, work_c11, NULL) == thrd_success)
        values[1] = thrd_join(other, &values[2]) == thrd_success;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 60;
    values[3] =
        pthread_create(&thread, NULL, work, values) == 0 && pthread_timedjoin_np(thread, NULL, &end) == 0;
}

static void end(int number)
{
    (void)number;
    exit(0);
}

static void join_at_exit(void)
{
    void *value = NULL;

    if (pthread_join(thread, &value) != 0 || value != values)
        _Exit(1);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    main_thread = pthread_self();
    signal(SIGUSR1, join);
    signal(SIGUSR2, end);
    MTEST_CHECK(pthread_create(&thread, NULL, work, values) == 0, "no thread");
    raise(SIGUSR1);
    MTEST_CHECK(values[0] && values[1] && values[2] == 3 && values[3], "not all were joined: %d %d %d %d",
                values[0], values[1], values[2], values[3]);
    MTEST_CHECK(self_result == EDEADLK, "the main thread's join of itself returned %d", self_result);
    MTEST_CHECK(pthread_create(&thread, NULL, work, values) == 0, "no thread");
    if (mtest_end() != 0)
        return 1;
    atexit(join_at_exit);
    raise(SIGUSR2);
    return 1;
}
