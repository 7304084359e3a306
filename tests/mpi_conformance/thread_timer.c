/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that the C library starts for a timer (SIGEV_THREAD) sends the message for which its rank waits; "early": the
 * timer is created before MPI is initialized. */
#include "mtest.h"
#include <signal.h>
#include <time.h>

static timer_t timer;

static void send_to_self(union sigval value)
{
    MPI_Send(&value.sival_int, 1, MPI_INT, mtest_rank, 3, MPI_COMM_WORLD);
}

static void create(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = send_to_self};

    event.sigev_value.sival_int = 42;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
        exit(77);
}

int main(int argc, char **argv)
{
    struct itimerspec in_50_ms = {.it_value.tv_nsec = 50000000};
    int is_early = argc > 1, provided, value = 0;

    if (is_early)
        create();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mtest_learn_world(1);
    if (!is_early)
        create();
    timer_settime(timer, 0, &in_50_ms, NULL);
    MPI_Recv(&value, 1, MPI_INT, mtest_rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MTEST_CHECK(value == 42, "received %d", value);
    timer_delete(timer);
    return mtest_end();
}
