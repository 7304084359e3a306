/* SPDX-License-Identifier: BSD-3-Clause */
/* sched_yield in a rank's main thread gives the core to the rank's threads, too: on one core, a main thread and its thread pass a turn
 * to each other, and each needs a few calls for that, not all calls that fit into the kernel's time slice. */
#define _GNU_SOURCE
#include "mtest.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TURNS 20
#define CALLS_MAX (TURNS * 2000) /* others may use the core, too */

static atomic_int is_threads_turn;

static void *take_turns(void *arg)
{
    for (int i = 0; i < TURNS; i++) {
        while (!atomic_load(&is_threads_turn))
            sched_yield();
        atomic_store(&is_threads_turn, 0);
    }
    return arg;
}

/* The calling thread and those that it creates share one core. */
static void use_one_core(void)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    syscall(SYS_sched_setaffinity, 0, sizeof one,
            &one); /* sched_setaffinity has no effect on a main thread */
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int n_calls = 0;

    mtest_init(&argc, &argv, 1);
    use_one_core();
    pthread_create(&thread, NULL, take_turns, NULL);
    for (int i = 0; i < TURNS; i++) {
        atomic_store(&is_threads_turn, 1);
        for (; atomic_load(&is_threads_turn); n_calls++)
            sched_yield();
    }
    pthread_join(thread, NULL);
    MTEST_CHECK(n_calls < CALLS_MAX, "%d calls of sched_yield for %d turns", n_calls, TURNS);
    return mtest_end();
}
