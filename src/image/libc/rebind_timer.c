/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_timer.c: setitimer, alarm and ualarm. The ranks of a process share its timers. As a process's timers end with it, one
 * ends with the rank that has set it last: nobody else expects its signal, which would end the process. A signal that was sent
 * before may be delivered later, on another thread: it is dropped. The default action is that rank's alone: the kernel may choose a
 * thread of another one, though the rank blocks the signal, so a handler of the process decides.
 */
#include "image/libc/rebind_timer.h"

#include <signal.h>
#include <sys/time.h>

#include "image/copy/instantiate.h"
#include "image/libc/rebind_signal.h"

static _Atomic(struct image_libc *)
    owners[3]; /* by number of the timer; NULL: it is not set, or not by a rank */

static atomic_bool is_stopped[3]; /* by number of the timer: a rank's, and it sends no more signals */

/* The signals of the timers. */
static const int numbers[] = {[ITIMER_REAL] = SIGALRM, [ITIMER_VIRTUAL] = SIGVTALRM, [ITIMER_PROF] = SIGPROF};

/* Before the timer is set. */
static void watch(int timer)
{
    if (image_libc_current() && !image_is_forked_child())
        image_signals_watch(numbers[timer]);
}

static void set_owner(int timer, bool is_armed)
{
    atomic_store(&is_stopped[timer], !is_armed);
    atomic_store(&owners[timer], is_armed && image_is_on_rank() ? image_libc_current() : NULL);
}

static int image_libc_setitimer(int timer, const struct itimerval *wanted, struct itimerval *old_out)
{
    bool is_ours = wanted && timer >= 0 && timer < (int)BASE_COUNT(owners);
    bool is_armed = is_ours && (wanted->it_value.tv_sec || wanted->it_value.tv_usec);
    int result;

    if (is_armed)
        watch(timer);
    result = setitimer((__itimer_which_t)timer, wanted, old_out);
    if (result == 0 && is_ours)
        set_owner(timer, is_armed);
    return result;
}
IMAGE_REBINDS(image_libc_setitimer, "setitimer"); /* the timer ends with the rank */

static unsigned image_libc_alarm(unsigned seconds)
{
    if (seconds > 0)
        watch(ITIMER_REAL);
    set_owner(ITIMER_REAL, seconds > 0);
    return alarm(seconds);
}
IMAGE_REBINDS(image_libc_alarm, "alarm"); /* the same */

static useconds_t image_libc_ualarm(useconds_t us, useconds_t interval_us)
{
    if (us > 0)
        watch(ITIMER_REAL);
    set_owner(ITIMER_REAL, us > 0);
    return ualarm(us, interval_us);
}
IMAGE_REBINDS(image_libc_ualarm, "ualarm"); /* the same */

void image_timers_forget(struct image_libc *libc)
{
    static const struct itimerval none;

    for (int i = 0; i < (int)BASE_COUNT(owners); i++) {
        struct image_libc *owner = libc;
        if (atomic_compare_exchange_strong(&owners[i], &owner, NULL)) {
            atomic_store(&is_stopped[i], true);
            setitimer((__itimer_which_t)i, &none, NULL);
        }
    }
}

/* The timer that has sent a signal; -1: none. */
static int timer_of(int number, const siginfo_t *info)
{
    for (int i = 0; info->si_code == SI_KERNEL && i < (int)BASE_COUNT(numbers); i++)
        if (numbers[i] == number)
            return i;
    return -1;
}

bool image_timers_have_left(int number, const siginfo_t *info)
{
    int timer = timer_of(number, info);

    return timer >= 0 && atomic_load(&is_stopped[timer]);
}

struct image_libc *image_timers_owner(int number, const siginfo_t *info)
{
    int timer = timer_of(number, info);

    return timer >= 0 ? atomic_load(&owners[timer]) : NULL;
}
