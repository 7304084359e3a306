/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_sigsend.c: signals that a rank's threads send to the rank: raise, kill, pthread_kill and similar functions. What needs no
 * handler is done at once. Handlers are called by the kernel, which sends the signal with the rank's mark (rebind_signal.c).
 */
#include "image/libc/rebind_signal.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

bool image_action_is_harmless(int number)
{
    return number == SIGCHLD || number == SIGURG || number == SIGWINCH || number == SIGCONT;
}

void image_act_by_default(int number)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    struct sigaction before;
    sigset_t set, mask;

    sigemptyset(&set);
    sigaddset(&set, number);
    sigaction(number, &usual, &before);
    pthread_sigmask(SIG_UNBLOCK, &set, &mask);
    raise(number);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    sigaction(number, &before, NULL);
}

const struct sigaction *image_action_of(const struct image_signals *rank, int number)
{
    return rank && rank->is_set[number] ? &rank->actions[number] : image_action_initial(number);
}

/* Does what needs no handler of the rank, for a signal to its main thread: the OS thread's mask is also that of others, the process's
 * action follows from those of all. False: there is a handler, or the signal is the kernel's. */
static bool send_without_handler(struct image_libc *libc, int number, const siginfo_t *info)
{
    struct image_signals *rank = libc->signals;
    const struct sigaction *action;
    struct sigaction process;

    if (number <= 0 || number >= NSIG || number == SIGKILL || number == SIGSTOP ||
        image_fault_index(number) >= 0 || sigaction(number, NULL, &process) != 0)
        return false;
    if (rank && image_mask_keeps_blocked(rank, number, info))
        return true;
    if (process.sa_sigaction == image_on_signal || image_action_is_known(number))
        action = image_action_of(rank, number);
    else
        action = &process;
    if (image_action_is_function(action))
        return false;
    if (action->sa_handler == SIG_DFL && !image_action_is_harmless(number))
        image_act_by_default(number);
    return true;
}

static int send_signal(struct image_libc *libc, pid_t tid, int number, siginfo_t *info, bool has_value)
{
    int mark = libc->signals && image_fault_index(number) < 0 ? libc->signals->mark : 0;
    bool is_recorded;
    int result;

    if (!has_value && !mark)
        return (int)syscall(SYS_tgkill, getpid(), tid, number);
    is_recorded =
        !has_value && number > 0 && number < IMAGE_MERGED && image_signals_are_at(libc->signals, tid);
    info->si_code = SI_QUEUE;
    info->si_errno = has_value ? mark : -mark;
    if (is_recorded) {
        info->si_value.sival_int = IMAGE_MARK_SENT;
        atomic_store(&libc->signals->sent_to[number], tid);
    }
    result = (int)syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, number, info);
    if (is_recorded && result != 0)
        atomic_compare_exchange_strong(&libc->signals->sent_to[number], &tid, 0);
    return result;
}

int image_signals_send(struct image_libc *libc, pid_t tid, int number, const union sigval *value)
{
    siginfo_t info = {.si_signo = number, .si_code = value ? SI_QUEUE : SI_TKILL};
    int result;

    if (libc->signals && atomic_load(&libc->signals->has_ended))
        return 0;
    info.si_pid = getpid();
    info.si_uid = getuid();
    if (value)
        info.si_value = *value;
    if (send_without_handler(libc, number, &info))
        return 0;
    result = send_signal(libc, tid, number, &info, value != NULL);
    if (result == 0 && tid == gettid())
        image_mask_deliver(number);
    return result;
}
