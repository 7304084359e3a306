/* SPDX-License-Identifier: BSD-3-Clause
 *
 * repeat_watch.c: a thread that submits operations that have been held back too long; see repeats.h.
 *
 * It checks every PERIOD_NS while ranks hold back operations from time to time, and sleeps otherwise.
 */
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "gpu/rank/repeats.h"

#define PERIOD_NS 100000

/* The state of all ranks; entries are never removed. */
struct watched {
    struct watched *next;
    struct gpu_repeats *repeats;
};
static struct watched *_Atomic all;

/* 1: the thread sleeps, or is about to; 2: there is no thread yet. */
static _Atomic uint32_t is_asleep = 2;

static bool look_at_all(void)
{
    uint64_t now_ns = ult_now_ns();
    bool is_needed = false;

    for (struct watched *i = atomic_load(&all); i; i = i->next)
        is_needed |= gpu_repeats_look(i->repeats, now_ns);
    return is_needed;
}

static void *watch(void *unused)
{
    const struct timespec period = {.tv_nsec = PERIOD_NS};

    (void)unused;
    pthread_setname_np(pthread_self(), "heddle graphs");
    for (;;) {
        if (look_at_all()) {
            nanosleep(&period, NULL);
            continue;
        }
        atomic_store(&is_asleep, 1);
        if (look_at_all())
            atomic_store(&is_asleep, 0);
        else
            syscall(SYS_futex, &is_asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
    }
    return NULL;
}

/* Without the thread nothing is held back. */
static BASE_COLD void start(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t every, before;

    if (!gpu_graphs_can_be()) {
        gpu_repeats_are_on = false;
        return;
    }
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, BASE_THREAD_STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, watch, NULL) != 0) {
        base_log_verbose(1, "no thread to monitor graphs of launches: %s", strerror(errno));
        gpu_repeats_are_on = false;
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void gpu_repeat_watch_begin(void)
{
    uint32_t was = atomic_load(&is_asleep);

    if (BASE_LIKELY(was == 0))
        return;
    if (atomic_exchange(&is_asleep, 0) == 1)
        syscall(SYS_futex, &is_asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void gpu_repeat_watch_add(struct gpu_repeats *repeats)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct watched *added = base_malloc(sizeof *added, "sequences of launches");

    added->repeats = repeats;
    added->next = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &added->next, added))
        ;
    pthread_once(&once, start);
}
