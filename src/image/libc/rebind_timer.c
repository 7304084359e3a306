/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_timer.c: setitimer, alarm and ualarm. The ranks of a process share its timers. As a process's timers end with it, one
 * ends with the rank that has set it last: nobody else expects its signal, which would end the process. A signal that was sent
 * before may be delivered later, on another thread: it is dropped.
 */
#include "image/libc/rebind_timer.h"

#include <signal.h>
#include <sys/time.h>

#include "image/copy/instantiate.h"
#include "image/libc/rebind.h"

static _Atomic(struct image_libc *)
    owners[3]; /* by number of the timer; NULL: it is not set, or not by a rank */

static atomic_bool is_stopped[3]; /* by number of the timer: a rank's, and it sends no more signals */

static void set_owner(int timer, bool is_armed)
{
    atomic_store(&is_stopped[timer], !is_armed);
    atomic_store(&owners[timer], is_armed && image_is_on_rank() ? image_libc_current() : NULL);
}

static int image_libc_setitimer(int timer, const struct itimerval *wanted, struct itimerval *old_out)
{
    int result = setitimer((__itimer_which_t)timer, wanted, old_out);

    if (result == 0 && wanted && timer >= 0 && timer < (int)BASE_COUNT(owners))
        set_owner(timer, wanted->it_value.tv_sec || wanted->it_value.tv_usec);
    return result;
}
IMAGE_REBINDS(image_libc_setitimer, "setitimer"); /* the timer ends with the rank */

static unsigned image_libc_alarm(unsigned seconds)
{
    set_owner(ITIMER_REAL, seconds > 0);
    return alarm(seconds);
}
IMAGE_REBINDS(image_libc_alarm, "alarm"); /* the same */

static useconds_t image_libc_ualarm(useconds_t us, useconds_t interval_us)
{
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

bool image_timers_have_left(int number, const siginfo_t *info)
{
    static const int numbers[] = {
        [ITIMER_REAL] = SIGALRM, [ITIMER_VIRTUAL] = SIGVTALRM, [ITIMER_PROF] = SIGPROF};

    for (size_t i = 0; i < BASE_COUNT(numbers); i++)
        if (numbers[i] == number)
            return info->si_code == SI_KERNEL && atomic_load(&is_stopped[i]);
    return false;
}
