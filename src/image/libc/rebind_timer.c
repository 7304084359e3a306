/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_timer.c: a rank's timers: timer_create, setitimer, alarm and ualarm. A process has one timer of each kind of setitimer, so a
 * rank's is one of timer_create. The signal's value leads to a record with the timer's rank, which alone gets the signal: the kernel
 * may choose a thread of another one. All timers end with the rank; a signal that was sent before may come later, and is dropped then.
 *
 * ITIMER_VIRTUAL counts what ITIMER_PROF counts: the kernel has no such clock for timer_create.
 */
#include "image/libc/rebind_timer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "image/copy/instantiate.h"
#include "image/copy/threads.h"
#include "image/libc/rebind_signal.h"

#define NS_PER_US 1000
#define US_PER_S 1000000

enum { USES = 16, NO_KIND = -1 };

/* Never freed: a handler may look at it. The address's low bits are free for the number of its uses, so that a late signal is not taken
 * for the next timer's. */
struct timer {
    _Atomic(struct image_libc *) owner; /* NULL: the record is free, or being filled in */
    atomic_bool is_used;
    unsigned n_uses; /* below USES */
    int kind;        /* of setitimer; NO_KIND: of timer_create */
    timer_t number;
    union sigval value; /* which the rank gave */
    struct timer *next; /* link of the list of all */
} __attribute__((aligned(USES)));

static _Atomic(struct timer *) timers;

/* The signals and clocks of setitimer's timers. */
static const struct {
    int number;
    clockid_t clock;
} kinds[] = {[ITIMER_REAL] = {SIGALRM, CLOCK_MONOTONIC},
             [ITIMER_VIRTUAL] = {SIGVTALRM, CLOCK_PROCESS_CPUTIME_ID},
             [ITIMER_PROF] = {SIGPROF, CLOCK_PROCESS_CPUTIME_ID}};

static struct timer *take_record(void)
{
    struct timer *timer = atomic_load(&timers);

    while (timer && atomic_exchange(&timer->is_used, true))
        timer = timer->next;
    if (timer) {
        timer->n_uses = (timer->n_uses + 1) % USES;
        return timer;
    }
    timer = aligned_alloc(USES, sizeof *timer);
    if (!timer)
        return NULL;
    *timer = (struct timer){.is_used = true, .next = atomic_load(&timers)};
    while (!atomic_compare_exchange_weak(&timers, &timer->next, timer))
        ;
    return timer;
}

static void free_record(struct timer *timer)
{
    atomic_store(&timer->owner, NULL);
    atomic_store(&timer->is_used, false);
}

/* Creates a timer of the rank. Returns NULL with errno if that fails. */
static struct timer *create(struct image_libc *libc, clockid_t clock, int kind, const struct sigevent *event,
                            const void *caller)
{
    struct sigevent changed = event ? *event : (struct sigevent){.sigev_signo = SIGALRM};
    struct timer *timer = take_record();

    if (!timer) {
        errno = EAGAIN;
        return NULL;
    }
    timer->kind = kind;
    timer->value = changed.sigev_value;
    if (changed.sigev_notify == SIGEV_SIGNAL || changed.sigev_notify == SIGEV_THREAD_ID) {
        changed.sigev_value.sival_ptr = (char *)timer + timer->n_uses;
        if (changed.sigev_signo > 0 && changed.sigev_signo < NSIG)
            image_signals_watch(changed.sigev_signo);
    }
    image_threads_expect(&changed, caller);
    if (timer_create(clock, &changed, &timer->number) != 0) {
        free_record(timer);
        return NULL;
    }
    atomic_store(&timer->owner, libc);
    return timer;
}

static struct timer *find(const struct image_libc *libc, int kind, timer_t number)
{
    struct timer *timer = atomic_load(&timers);

    while (timer && (atomic_load(&timer->owner) != libc || timer->kind != kind ||
                     (kind == NO_KIND && timer->number != number)))
        timer = timer->next;
    return timer;
}

/* The rank whose timers a call is about; NULL: the process's. */
static struct image_libc *rank_of_call(void)
{
    return image_is_forked_child() ? NULL : image_libc_current();
}

static int image_libc_timer_create(clockid_t clock, struct sigevent *event, timer_t *number_out)
{
    struct image_libc *libc = rank_of_call();
    struct timer *timer;

    if (!libc)
        return timer_create(clock, event, number_out);
    timer = create(libc, clock, NO_KIND, event, __builtin_return_address(0));
    if (timer)
        *number_out = timer->number;
    return timer ? 0 : -1;
}
IMAGE_REBINDS(image_libc_timer_create,
              "timer_create"); /* the timer's signals are the rank's, it ends with the rank */

static int image_libc_timer_delete(timer_t number)
{
    struct image_libc *libc = rank_of_call();
    struct timer *timer = libc ? find(libc, NO_KIND, number) : NULL;
    int result = timer_delete(number);

    if (timer)
        free_record(timer);
    return result;
}
IMAGE_REBINDS(image_libc_timer_delete, "timer_delete");

/* ---- setitimer ---- */

static struct itimerspec to_spec(const struct itimerval *value)
{
    return (struct itimerspec){
        .it_value = {value->it_value.tv_sec, value->it_value.tv_usec * NS_PER_US},
        .it_interval = {value->it_interval.tv_sec, value->it_interval.tv_usec * NS_PER_US}};
}

/* Rounded up: what is left of a timer is not 0. */
static struct timeval to_timeval(const struct timespec *time)
{
    long us = (time->tv_nsec + NS_PER_US - 1) / NS_PER_US;

    return (struct timeval){time->tv_sec + us / US_PER_S, us % US_PER_S};
}

static int get(struct image_libc *libc, int kind, struct itimerval *value_out)
{
    const struct timer *timer = find(libc, kind, NULL);
    struct itimerspec spec = {0};

    if (timer && timer_gettime(timer->number, &spec) != 0)
        return -1;
    *value_out = (struct itimerval){to_timeval(&spec.it_interval), to_timeval(&spec.it_value)};
    return 0;
}

static bool is_valid(const struct timeval *time)
{
    return time->tv_sec >= 0 && time->tv_usec >= 0 && time->tv_usec < US_PER_S;
}

static int set(struct image_libc *libc, int kind, const struct itimerval *wanted, struct itimerval *old_out)
{
    const struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = kinds[kind].number};
    struct itimerval old;
    struct itimerspec spec;
    const struct timer *timer;

    if (wanted && (!is_valid(&wanted->it_value) || !is_valid(&wanted->it_interval))) {
        errno = EINVAL;
        return -1;
    }
    if (get(libc, kind, &old) != 0)
        return -1;
    if (old_out)
        *old_out = old;
    if (!wanted)
        return 0;
    timer = find(libc, kind, NULL);
    if (!timer && (wanted->it_value.tv_sec || wanted->it_value.tv_usec))
        timer = create(libc, kinds[kind].clock, kind, &event, NULL);
    else if (!timer)
        return 0;
    spec = to_spec(wanted);
    return timer ? timer_settime(timer->number, 0, &spec, NULL) : -1;
}

static bool is_kind(int kind)
{
    return kind >= 0 && kind < (int)BASE_COUNT(kinds);
}

static int image_libc_setitimer(int kind, const struct itimerval *wanted, struct itimerval *old_out)
{
    struct image_libc *libc = rank_of_call();

    return libc && is_kind(kind) ? set(libc, kind, wanted, old_out)
                                 : setitimer((__itimer_which_t)kind, wanted, old_out);
}
IMAGE_REBINDS(image_libc_setitimer, "setitimer"); /* the timer is the rank's, and ends with it */

static int image_libc_getitimer(int kind, struct itimerval *value_out)
{
    struct image_libc *libc = rank_of_call();

    return libc && is_kind(kind) ? get(libc, kind, value_out) : getitimer((__itimer_which_t)kind, value_out);
}
IMAGE_REBINDS(image_libc_getitimer, "getitimer");

static unsigned image_libc_alarm(unsigned seconds)
{
    const struct itimerval wanted = {.it_value = {.tv_sec = seconds}};
    struct image_libc *libc = rank_of_call();
    struct itimerval old = {.it_value = {.tv_sec = 0}};

    if (!libc)
        return alarm(seconds);
    set(libc, ITIMER_REAL, &wanted, &old);
    return (unsigned)old.it_value.tv_sec +
           (old.it_value.tv_usec >= US_PER_S / 2 || (!old.it_value.tv_sec && old.it_value.tv_usec));
}
IMAGE_REBINDS(image_libc_alarm, "alarm"); /* the same */

static useconds_t image_libc_ualarm(useconds_t us, useconds_t interval_us)
{
    const struct itimerval wanted = {.it_value = {us / US_PER_S, us % US_PER_S},
                                     .it_interval = {interval_us / US_PER_S, interval_us % US_PER_S}};
    struct image_libc *libc = rank_of_call();
    struct itimerval old = {.it_value = {.tv_sec = 0}};

    if (!libc)
        return ualarm(us, interval_us);
    if (set(libc, ITIMER_REAL, &wanted, &old) != 0)
        return (useconds_t)-1;
    return (useconds_t)(old.it_value.tv_sec * US_PER_S + old.it_value.tv_usec);
}
IMAGE_REBINDS(image_libc_ualarm, "ualarm"); /* the same */

/* ---- For signals ---- */

void image_timers_forget(struct image_libc *libc)
{
    if (image_is_forked_child())
        return;
    for (struct timer *timer = atomic_load(&timers); timer; timer = timer->next)
        if (atomic_load(&timer->owner) == libc) {
            atomic_store(&timer->owner, NULL);
            timer_delete(timer->number);
            free_record(timer);
        }
}

bool image_timers_take(siginfo_t *info, struct image_libc **owner_out)
{
    const struct timer *timer = info->si_code == SI_TIMER ? atomic_load(&timers) : NULL;
    ptrdiff_t use = 0;

    for (; timer; timer = timer->next) {
        use = (const char *)info->si_value.sival_ptr - (const char *)timer;
        if (use >= 0 && use < USES)
            break;
    }
    if (!timer)
        return false;
    *owner_out = use == (ptrdiff_t)timer->n_uses ? atomic_load(&timer->owner) : NULL;
    info->si_value = timer->value;
    if (timer->kind != NO_KIND)
        *info = (siginfo_t){.si_signo = info->si_signo, .si_code = SI_KERNEL};
    return true;
}
