/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_sigmask.c: a rank's mask of signals, and its waits for signals, during which other ranks run.
 *
 * The kernel has a mask per OS thread, which ranks share. So it is the union of the masks of the ranks with main threads there,
 * and each rank's own is recorded. A signal to the process is for each rank: whoever takes it from the kernel, a handler or a wait,
 * delivers it to all (rebind_signal.c); it stays pending for a rank that blocks it. A main thread that waits asks the kernel again
 * and again. Other threads of ranks have masks of their own; if one waits in sigwait, it is sent the rank's signals. Whoever keeps a
 * signal looks again at the mask and the waiters, and whoever changes these looks at the kept signals afterwards: none is lost.
 */
#include "image/libc/rebind_signal.h"

#include <errno.h>
#include <setjmp.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000
#define POLL_NS 2000000 /* between looks of a thread that nobody can send a signal to */

static uint64_t to_bits(const sigset_t *set)
{
    uint64_t bits = 0;

    for (int number = 1; number < NSIG; number++)
        if (sigismember(set, number) == 1)
            bits |= image_signal_bit(number);
    return bits;
}

static void to_set(uint64_t bits, sigset_t *set_out)
{
    sigemptyset(set_out);
    for (int number = 1; number < NSIG; number++)
        if (bits & image_signal_bit(number))
            sigaddset(set_out, number);
}

/* sigtimedwait, which would hide that a signal is to this thread only (SI_TKILL). A cancellation point if is_cancellable. */
static int take_signal(const sigset_t *set, siginfo_t *info_out, const struct timespec *limit,
                       bool is_cancellable)
{
    int type, number;

    if (is_cancellable)
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
    number = (int)syscall(SYS_rt_sigtimedwait, set, info_out, limit, NSIG / 8);
    if (is_cancellable)
        pthread_setcanceltype(type, NULL);
    return number;
}

/* ---- Masks ---- */

static bool is_on_main(void)
{
    return !image_is_forked_child() && image_is_on_rank();
}

/* What other ranks of this OS thread block than this one (NULL: one without a record). */
static uint64_t blocked_by_others_at(const struct image_signals *rank, pid_t tid)
{
    uint64_t bits = 0;

    for (struct image_signals *other = image_signals_first(); other; other = atomic_load(&other->next))
        if (other != rank && atomic_load(&other->blocked) && image_signals_are_at(other, tid))
            bits |= atomic_load(&other->blocked);
    return bits;
}

/* The same for the calling one. */
static uint64_t blocked_by_others(const struct image_signals *rank)
{
    return image_signals_first() ? blocked_by_others_at(rank, gettid()) : 0;
}

/* Makes new_bits the mask of the rank, which has a record unless it blocks nothing before and after; returns that before. What the
 * kernel blocks, but no rank, is not recorded: in a handler, its signal. */
static uint64_t set_mask(struct image_signals *rank, int how, uint64_t bits)
{
    uint64_t own = rank ? atomic_load(&rank->blocked) : 0, others = blocked_by_others(rank);
    uint64_t unknown, old, wanted;
    sigset_t set;

    pthread_sigmask(SIG_SETMASK, NULL, &set);
    unknown = to_bits(&set) & ~(own | others);
    old = own | unknown;
    wanted = how == SIG_BLOCK ? old | bits : how == SIG_UNBLOCK ? old & ~bits : bits;
    if (rank)
        atomic_store(&rank->blocked, wanted & ~unknown);
    to_set(wanted | others, &set);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    if (rank)
        image_mask_run_pending(rank);
    return old;
}

/* Delivers signals that the OS thread's kernel mask holds back, to the rank and to others. One that has ended gets none. */
static void deliver_held(struct image_signals *rank, uint64_t bits)
{
    static const struct timespec at_once;
    sigset_t held;
    siginfo_t info;
    int number;

    if (!bits)
        return;
    to_set(bits, &held);
    while ((number = take_signal(&held, &info, &at_once, false)) > 0)
        if (image_signals_pass_on(rank, number, &info))
            image_signals_run(rank, number, &info);
}

void image_mask_begin_exit(struct image_libc *libc)
{
    struct image_signals *rank;
    sigset_t now;

    if (!is_on_main() || libc != image_libc_current() || !image_is_in_handler(libc))
        return;
    rank = image_signals_make(libc);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    if (rank)
        atomic_fetch_or(&rank->blocked, to_bits(&now) & ~to_bits(&libc->mask_before));
}

void image_mask_end_rank(struct image_libc *libc)
{
    uint64_t own = libc->signals ? atomic_load(&libc->signals->blocked) : 0, others;
    sigset_t set;

    if (!is_on_main() || libc != image_libc_current())
        return;
    image_signals_jump(); /* the handlers do not go on */
    if (!own)
        return;
    others = blocked_by_others(libc->signals);
    deliver_held(libc->signals, own & ~others);
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    to_set((to_bits(&set) & ~own) | others, &set);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
}

/* The OS thread of the calling main thread; in a child of vfork, that of its parent. */
static pid_t tid_of_main(const struct image_libc *libc)
{
    atomic_int place = 0;

    return image_shares_memory() && image_rebind_client.main_tid
               ? image_rebind_client.main_tid(libc->main_thread.image, &place)
               : gettid();
}

bool image_mask_of_others(sigset_t *own_out, sigset_t *others_out)
{
    struct image_libc *libc = image_is_on_rank() ? image_libc_current() : NULL;
    struct image_signals *rank = libc ? libc->signals : NULL;
    uint64_t own = rank ? atomic_load(&rank->blocked) : 0;
    uint64_t others =
        libc && image_signals_first() ? blocked_by_others_at(rank, tid_of_main(libc)) & ~own : 0;
    sigset_t set;

    to_set(others, others_out);
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    to_set(to_bits(&set) & ~others, own_out);
    return others != 0;
}

/* In a forked child: what other ranks blocked in its parent. The child has unblocked it, but masks that were saved before have it. */
static uint64_t left_behind;

void image_mask_leave(const sigset_t *others)
{
    left_behind |= to_bits(others);
    pthread_sigmask(SIG_UNBLOCK, others, NULL);
}

void image_mask_correct(sigset_t *saved)
{
    for (uint64_t bits = left_behind; bits; bits &= bits - 1)
        sigdelset(saved, image_signal_first(bits));
}

/* The signals of a main thread; NULL: the caller is none, or has no record. */
static struct image_signals *signals_of_main(void)
{
    return is_on_main() ? image_libc_current()->signals : NULL;
}

static int image_libc_sigmask(int how, const sigset_t *set, sigset_t *old_out)
{
    bool is_known = how == SIG_BLOCK || how == SIG_UNBLOCK || how == SIG_SETMASK, may_block = false;
    struct image_libc *libc = is_on_main() ? image_libc_current() : NULL;
    struct image_signals *rank = libc ? libc->signals : NULL;
    uint64_t old;

    if (set && how != SIG_UNBLOCK)
        may_block = to_bits(set) != 0;
    if (may_block && !libc && !image_shares_memory())
        left_behind &= ~to_bits(set);
    if (may_block && libc && !rank)
        rank = image_signals_make(libc);
    if (!libc || (may_block && !rank) || (set && !is_known))
        return pthread_sigmask(how, set, old_out);
    old = set_mask(rank, set ? how : SIG_BLOCK, set ? to_bits(set) : 0);
    if (old_out)
        to_set(old, old_out);
    return 0;
}
IMAGE_REBINDS(image_libc_sigmask, "pthread_sigmask"); /* ranks of an OS thread have masks of their own */

static int image_libc_sigprocmask(int how, const sigset_t *set, sigset_t *old_out)
{
    int error = image_libc_sigmask(how, set, old_out);

    if (error)
        errno = error;
    return error ? -1 : 0;
}
IMAGE_REBINDS(image_libc_sigprocmask, "sigprocmask"); /* the same */

/* What the kernel has for this OS thread and the process may be for other ranks: it is delivered first. */
static int image_libc_sigpending(sigset_t *set_out)
{
    static const struct timespec at_once;
    struct image_signals *rank = signals_of_main();
    uint64_t blocked = rank ? atomic_load(&rank->blocked) : 0;
    siginfo_t info;
    sigset_t set;
    int number;

    if (sigpending(set_out) != 0 || !is_on_main())
        return sigpending(set_out);
    to_set(to_bits(set_out) & blocked, &set);
    while ((to_bits(set_out) & blocked) && (number = take_signal(&set, &info, &at_once, false)) > 0)
        if (image_signals_pass_on(rank, number, &info))
            image_mask_add_pending(rank, number, &info);
    to_set((to_bits(set_out) & ~(blocked | blocked_by_others(rank))) |
               (rank ? atomic_load(&rank->pending) & blocked : 0),
           set_out);
    return 0;
}
IMAGE_REBINDS(image_libc_sigpending, "sigpending"); /* some wait in the rank's record */

void image_mask_get(sigset_t *set_out)
{
    image_libc_sigmask(SIG_BLOCK, NULL, set_out);
}

/* Sends the signal to a thread of the rank that waits for it. */
static bool send_to_waiter(const struct image_signals *rank, int number, const siginfo_t *info)
{
    siginfo_t sent = *info;

    sent.si_code = SI_QUEUE;
    sent.si_errno = info->si_code == SI_QUEUE ? rank->mark : -rank->mark;
    for (int i = 0; i < IMAGE_WAITERS; i++) {
        const struct image_waiter *waiter = &rank->waiters[i];
        pid_t tid = atomic_load(&waiter->tid);
        if (tid > 0 && (atomic_load(&waiter->set) & image_signal_bit(number)) &&
            syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, number, &sent) == 0)
            return true;
    }
    return false;
}

static bool has_waiter(const struct image_signals *rank, int number)
{
    for (int i = 0; i < IMAGE_WAITERS; i++)
        if (atomic_load(&rank->waiters[i].tid) > 0 &&
            (atomic_load(&rank->waiters[i].set) & image_signal_bit(number)))
            return true;
    return false;
}

/* True if the rank's main thread blocks the signal or waits for it. A handler may be for one of the other threads, but not if these
 * wait in sigwait. */
static bool does_block(const struct image_signals *rank, int number)
{
    uint64_t bit = image_signal_bit(number);

    if (atomic_load(&rank->awaited) & bit)
        return true;
    return (atomic_load(&rank->blocked) & bit) &&
           ((atomic_load(&rank->was_awaited) & bit) || !image_signals_has_handler(rank, number) ||
            atomic_load(&rank->libc->n_threads) == 0);
}

/* Whoever looks at pending signals after a change of what `blocks` asks takes the signal. */
static bool keep_while(bool (*blocks)(const struct image_signals *rank, int number),
                       struct image_signals *rank, int number, const siginfo_t *info)
{
    uint64_t bit = image_signal_bit(number);

    if (!blocks(rank, number))
        return false;
    image_mask_add_pending(rank, number, info);
    if (blocks(rank, number) || !(atomic_fetch_and(&rank->pending, ~bit) & bit))
        return true;
    image_mask_forget(rank, number);
    return false;
}

static bool does_main_block(const struct image_signals *rank, int number)
{
    return atomic_load(&rank->blocked) & image_signal_bit(number);
}

static bool does_block_without_waiter(const struct image_signals *rank, int number)
{
    return does_block(rank, number) && !has_waiter(rank, number);
}

bool image_mask_keeps_blocked(struct image_signals *rank, int number, const siginfo_t *info)
{
    return keep_while(does_main_block, rank, number, info);
}

bool image_mask_keeps(struct image_signals *rank, int number, const siginfo_t *info)
{
    for (;;) {
        if (atomic_load(&rank->has_ended))
            return false;
        if (send_to_waiter(rank, number, info))
            return true;
        if (!does_block(rank, number))
            return false;
        if (keep_while(does_block_without_waiter, rank, number, info))
            return true;
    }
}

static int image_libc_raise(int number)
{
    struct image_libc *libc = number > 0 && number < NSIG && is_on_main() ? image_libc_current() : NULL;

    return libc ? image_signals_send(libc, gettid(), number, NULL) : raise(number);
}
IMAGE_REBINDS(image_libc_raise, "raise", "gsignal"); /* another rank of the OS thread would get it */

/* The buffer has the mask of the OS thread, with what other ranks blocked then. */
static void image_libc_longjmp(struct __jmp_buf_tag *buffer, int value)
{
    struct image_signals *rank;
    struct __jmp_buf_tag changed;
    uint64_t saved, others;

    image_signals_jump();
    if (!buffer->__mask_was_saved)
        siglongjmp(buffer, value);
    changed = *buffer;
    image_mask_correct(&changed.__saved_mask);
    if (!is_on_main())
        siglongjmp(&changed, value);
    rank = signals_of_main();
    saved = to_bits(&buffer->__saved_mask);
    others = blocked_by_others(rank);
    changed.__mask_was_saved = 0;
    set_mask(rank, SIG_SETMASK, saved & (~others | (rank ? atomic_load(&rank->blocked) : 0)));
    siglongjmp(&changed, value);
}
IMAGE_REBINDS(image_libc_longjmp, "siglongjmp", "longjmp", "_longjmp",
              "__longjmp_chk"); /* may set the mask */

/* ---- Waits ---- */

void image_mask_deliver(int number)
{
    struct image_signals *rank = signals_of_main();
    int saved_errno = errno;

    if (rank)
        deliver_held(rank, blocked_by_others(rank) & ~atomic_load(&rank->blocked) & image_signal_bit(number));
    errno = saved_errno;
}

void image_mask_begin(struct image_mask *changed_out, const sigset_t *mask, struct image_wait *wait)
{
    changed_out->rank = mask ? image_signals_make(image_libc_current()) : NULL;
    if (!changed_out->rank)
        return;
    wait->n_pauses = 1; /* handlers that have run before the first pause end the wait, too */
    wait->handled = image_handled_now();
    changed_out->before = set_mask(changed_out->rank, SIG_SETMASK, to_bits(mask));
}

void image_mask_poll(const struct image_mask *changed)
{
    if (changed->rank)
        deliver_held(changed->rank, blocked_by_others(changed->rank) & ~atomic_load(&changed->rank->blocked));
}

void image_mask_end(const struct image_mask *changed)
{
    int saved_errno = errno;

    if (changed->rank)
        set_mask(changed->rank, SIG_SETMASK, changed->before);
    errno = saved_errno;
}

/* Waits until a handler has run while the rank has this mask. */
static int suspend(const sigset_t *mask)
{
    struct image_wait wait = {0};
    struct image_mask changed;

    image_mask_begin(&changed, mask, &wait);
    if (!changed.rank)
        return sigsuspend(mask);
    for (;;) {
        image_mask_poll(&changed);
        if (image_wait_is_interrupted(&wait, false))
            break;
        image_cancel_point();
        image_wait_pause(&wait);
    }
    image_mask_end(&changed);
    errno = EINTR;
    return -1;
}

static int image_libc_sigsuspend(const sigset_t *set)
{
    return image_can_poll() ? suspend(set) : sigsuspend(set);
}
IMAGE_REBINDS(image_libc_sigsuspend, "sigsuspend", "__sigsuspend");

static int image_libc_pause(void)
{
    sigset_t set;

    if (!image_can_poll())
        return pause();
    image_mask_get(&set);
    return suspend(&set);
}
IMAGE_REBINDS(image_libc_pause, "pause");

/* The end of a wait for a signal of `set`: its number, 0: no signal so far, -1: an error. */
static int take_from_kernel(struct image_signals *rank, const sigset_t *set, siginfo_t *info_out,
                            const struct timespec *limit)
{
    int number = take_signal(set, info_out, limit, !image_is_on_rank());

    if (number > 0)
        return image_signals_pass_on(rank, number, info_out) ? number : 0;
    return errno == EAGAIN && limit ? 0 : -1;
}

static int take(struct image_signals *rank, const sigset_t *set, siginfo_t *info_out,
                const struct timespec *limit)
{
    int number = image_mask_take_pending(rank, to_bits(set), info_out);

    return number ? number : take_from_kernel(rank, set, info_out, limit);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* wait_on_main while the rank blocks these signals. */
static int poll_on_main(struct image_signals *rank, const sigset_t *set, siginfo_t *info_out, uint64_t end_ns)
{
    static const struct timespec at_once;
    struct image_wait wait = {0};
    int number;

    while ((number = take(rank, set, info_out, &at_once)) == 0 || (number < 0 && errno == EINTR)) {
        uint64_t now = end_ns ? now_ns() : 0;
        if (end_ns && now >= end_ns) {
            errno = EAGAIN;
            return -1;
        }
        if (image_wait_is_interrupted(&wait, false))
            return -1;
        image_cancel_point();
        wait.limit_ns = end_ns - now;
        image_wait_pause(&wait);
    }
    return number;
}

/* sigtimedwait of a main thread. end_ns 0: without a limit. */
static int wait_on_main(struct image_signals *rank, const sigset_t *set, siginfo_t *info_out, uint64_t end_ns)
{
    bool is_blocked = (to_bits(set) & ~atomic_load(&rank->blocked)) == 0;
    uint64_t before = is_blocked ? 0 : set_mask(rank, SIG_BLOCK, to_bits(set));
    int number, saved_errno;

    atomic_store(&rank->awaited, to_bits(set));
    number = poll_on_main(rank, set, info_out, end_ns);
    saved_errno = errno;
    atomic_store(&rank->awaited, 0);
    if (!is_blocked)
        set_mask(rank, SIG_SETMASK, before);
    errno = saved_errno;
    return number;
}

/* An element for the calling thread; NULL: there is none. */
static struct image_waiter *begin_waiting(struct image_signals *rank, uint64_t set)
{
    for (int i = 0; i < IMAGE_WAITERS; i++) {
        pid_t none = 0;
        if (atomic_compare_exchange_strong(&rank->waiters[i].tid, &none, -1)) {
            atomic_store(&rank->waiters[i].set, set);
            atomic_store(&rank->waiters[i].tid, gettid());
            return &rank->waiters[i];
        }
    }
    return NULL;
}

static void end_waiting(void *waiter)
{
    if (waiter)
        atomic_store(&((struct image_waiter *)waiter)->tid, 0);
}

/* sigtimedwait of another thread of the rank. */
static int wait_on_thread(struct image_signals *rank, const sigset_t *set, siginfo_t *info_out,
                          uint64_t end_ns)
{
    struct image_waiter *waiter = begin_waiting(rank, to_bits(set));
    int number;

    pthread_cleanup_push(end_waiting, waiter);
    do {
        uint64_t now = end_ns ? now_ns() : 0, left_ns = end_ns > now ? end_ns - now : 0;
        struct timespec left;
        if (!waiter && (!end_ns || left_ns > POLL_NS))
            left_ns = POLL_NS;
        left = (struct timespec){(time_t)(left_ns / NS_PER_S), (long)(left_ns % NS_PER_S)};
        number = take(rank, set, info_out, end_ns || !waiter ? &left : NULL);
    } while (number == 0 && (!end_ns || now_ns() < end_ns));
    pthread_cleanup_pop(1);
    if (number == 0)
        errno = EAGAIN;
    return number > 0 ? number : -1;
}

static int image_libc_sigtimedwait(const sigset_t *set, siginfo_t *info_out, const struct timespec *limit)
{
    struct image_libc *libc = image_is_forked_child() ? NULL : image_libc_current();
    struct image_signals *rank = libc ? image_signals_make(libc) : NULL;
    uint64_t end_ns = 0;
    siginfo_t info = {.si_signo = 0};
    int number;

    if (!rank || (limit && (limit->tv_sec < 0 || limit->tv_nsec < 0 || limit->tv_nsec >= NS_PER_S)))
        return sigtimedwait(set, info_out, limit);
    if (limit)
        end_ns = now_ns() +
                 (limit->tv_sec < 1 << 30 ? (uint64_t)limit->tv_sec * NS_PER_S : UINT64_C(1) << 60) +
                 (uint64_t)limit->tv_nsec;
    atomic_fetch_or(&rank->was_awaited, to_bits(set));
    number =
        image_can_wait() ? wait_on_main(rank, set, &info, end_ns) : wait_on_thread(rank, set, &info, end_ns);
    if (info.si_code == SI_TKILL)
        info.si_code = SI_USER; /* as the C library does */
    if (number > 0 && info_out)
        *info_out = info;
    return number;
}
IMAGE_REBINDS(image_libc_sigtimedwait, "sigtimedwait");

static int image_libc_sigwaitinfo(const sigset_t *set, siginfo_t *info_out)
{
    return image_libc_sigtimedwait(set, info_out, NULL);
}
IMAGE_REBINDS(image_libc_sigwaitinfo, "sigwaitinfo");

static int image_libc_sigwait(const sigset_t *set, int *number_out)
{
    int number;

    do
        number = image_libc_sigtimedwait(set, NULL, NULL);
    while (number < 0 && errno == EINTR);
    if (number < 0)
        return errno;
    *number_out = number;
    return 0;
}
IMAGE_REBINDS(image_libc_sigwait, "sigwait");
