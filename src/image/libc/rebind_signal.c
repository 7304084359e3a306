/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_signal.c: handlers per rank of signals that are no faults.
 *
 * Signals such as SIGTERM and SIGUSR1 concern the process: the handlers of all ranks run. The thread that the kernel has chosen sends
 * the signal to the OS thread of each rank's main thread. There the running rank's handler interrupts it. The signal of a rank that
 * does not run is pending (rebind_sigmask.c): its handler runs on its own stack, so it may end the rank, jump, and change contexts.
 *
 *      the rank                                            its handlers run
 *      runs the program's code                             at once
 *      waits in a call of the C library (image_pause_ns)   after the pause: as if the call had been interrupted
 *      waits in MPI                                        as an errand (ult.h), and the wait goes on
 *      is ready                                            as an errand, when it blocks or yields
 *
 * A function of this file calls them and counts the calls, because a rank's waits (rebind_wait.c) end then.
 * rebind_sigaction.c sets the handlers, rebind_fault.c has the signals of faults, rebind_sigmask.c masks and waits for signals.
 */
#include "image/copy/instantiate.h"
#include "image/copy/threads.h"
#include "image/libc/rebind_signal.h"
#include "image/libc/rebind_timer.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "ult/arch/ult_arch.h"

pthread_mutex_t image_signals_lock = PTHREAD_MUTEX_INITIALIZER; /* guards actions of ranks */

/* In si_errno of a signal for the handlers that are queued for this OS thread. Less 1 and the signal's si_code if that is not negative:
 * only the process's first thread may send those. */
enum { MARK_QUEUED = INT_MAX, CODES = 0x200 };

/* Of this library, which contains the switch between ranks. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static _Atomic(struct image_signals *) ranks; /* those that have set an action; changed with the lock held */

bool image_action_is_function(const struct sigaction *action)
{
    return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

struct image_signals *image_signals_first(void)
{
    return atomic_load(&ranks);
}

bool image_signals_has_handler(const struct image_signals *rank, int number)
{
    return rank && rank->is_set[number] && image_action_is_function(&rank->actions[number]);
}

static bool does_ignore(const struct image_signals *rank, int number)
{
    return rank->is_set[number] && rank->actions[number].sa_handler == SIG_IGN;
}

/* The signal was sent to this OS thread, one that the rank has started: its main thread's waits go on. */
static __thread bool is_for_thread __attribute__((tls_model("initial-exec")));

static bool is_on_stack(const struct image_libc *libc, const void *address)
{
    return (const char *)address >= libc->stack_lo && (const char *)address < libc->stack_hi;
}

/* setcontext, swapcontext and __builtin_longjmp leave handlers unseen: the stack tells. */
bool image_is_in_handler(struct image_libc *libc)
{
    const char *here = __builtin_frame_address(0);
    const stack_t *alternate = &libc->signal_stack;
    bool is_on_own =
        is_on_stack(libc, here) && (size_t)(here - (const char *)alternate->ss_sp) >= alternate->ss_size;

    if (!libc->n_interrupted)
        return false;
    if (!is_on_own || (here < libc->first_frame && libc->first_frame < libc->stack_hi))
        return true;
    libc->n_interrupted = 0;
    return false;
}

void image_signals_jump(void)
{
    if (image_is_on_rank())
        image_libc_current()->n_interrupted = 0;
}

/* Calls the handler as the kernel does: it has blocked the signals of the action if there is a context. What the handler changes in the
 * mask ends with it. */
static void call_as(struct image_signals *rank, const struct sigaction *action, int number, siginfo_t *info,
                    ucontext_t *context)
{
    struct image_libc *running = image_is_on_rank() ? rank->libc : NULL;
    unsigned n_before = running && image_is_in_handler(running) ? running->n_interrupted : 0;
    uint64_t blocked = atomic_load(&rank->blocked);
    sigset_t set = action->sa_mask, before;
    ucontext_t here;

    if (!context) {
        getcontext(&here);
        if (!(action->sa_flags & (int)SA_NODEFER))
            sigaddset(&set, number);
        pthread_sigmask(SIG_BLOCK, &set, &before);
    } else {
        before = context->uc_sigmask;
    }
    if (running && n_before == 0) {
        running->first_frame = __builtin_frame_address(0);
        running->mask_before = before;
    }
    if (running)
        running->n_interrupted = n_before + 1;
    image_action_call(action, number, info, context ? context : &here);
    if (running) {
        running->n_interrupted = n_before;
        atomic_store(&rank->blocked, blocked);
    }
    if (!context)
        pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Returns false if the rank has no handler. The call is counted before the look at the action: image_signals_have_ended. */
static bool call_handler_of(struct image_signals *rank, int number, siginfo_t *info, void *context)
{
    bool is_handled;

    if (!rank)
        return false;
    atomic_fetch_add(&rank->n_running, 1);
    is_handled = image_signals_has_handler(rank, number);
    if (is_handled) {
        struct sigaction action = rank->actions[number];
        if (action.sa_flags & (int)SA_RESETHAND)
            rank->actions[number].sa_handler = SIG_DFL;
        call_as(rank, &action, number, info, context);
        if (!is_for_thread)
            atomic_fetch_add(&rank->libc->n_handled, 1);
        if (!is_for_thread && !(action.sa_flags & SA_RESTART))
            atomic_fetch_add(&rank->libc->n_interrupts, 1);
    }
    atomic_fetch_sub(&rank->n_running, 1);
    return is_handled;
}

/* For a signal without a handler of a rank. */
static void do_without(const struct image_signals *rank, int number, siginfo_t *info, void *context)
{
    struct sigaction action = *image_action_of(rank, number);

    if (image_action_is_function(&action))
        image_action_call(&action, number, info, context);
    else if (action.sa_handler == SIG_DFL && !image_action_is_harmless(number))
        image_act_by_default(number);
}

/* The kernel sends these to the thread that made the call, but their si_code is that of kill. */
static bool is_of_call(int number, const siginfo_t *info)
{
    return (number == SIGPIPE || number == SIGXFSZ) && info->si_code == SI_USER && info->si_pid == getpid();
}

/* The rank with the signal's mark; NULL: none. Makes the information that of a signal without a mark. */
static struct image_signals *take_mark(siginfo_t *info)
{
    struct image_signals *rank = info->si_code == SI_QUEUE && info->si_errno ? atomic_load(&ranks) : NULL;

    while (rank && rank->mark != abs(info->si_errno))
        rank = atomic_load(&rank->next);
    if (!rank)
        return NULL;
    if (info->si_errno < 0)
        info->si_code = SI_TKILL;
    info->si_errno = 0;
    return rank;
}

static pid_t main_tid_of(struct image_signals *rank)
{
    return image_rebind_client.main_tid
               ? image_rebind_client.main_tid(rank->libc->main_thread.image, &rank->place)
               : 0;
}

bool image_signals_are_at(struct image_signals *rank, pid_t tid)
{
    return main_tid_of(rank) == tid;
}

/* The rank that a signal to this OS thread is for: the running one, but if it has set no action, one of the thread's that has. */
static struct image_libc *rank_of_thread(int number)
{
    struct image_libc *current = image_libc_current();
    pid_t tid = gettid();

    if (image_is_forked_child() || (current && current->signals && current->signals->is_set[number]))
        return current;
    for (struct image_signals *rank = atomic_load(&ranks); rank; rank = atomic_load(&rank->next))
        if (image_signals_has_handler(rank, number) && image_signals_are_at(rank, tid))
            return rank->libc;
    return current;
}

/* The rank that the signal is for: of the calling thread, or by its mark, because a main thread's signal may interrupt another
 * rank. NULL: all. */
static struct image_libc *target_of(int number, siginfo_t *info)
{
    struct image_signals *marked = take_mark(info);

    if (marked)
        return marked->libc;
    if (info->si_code == SI_TKILL)
        return rank_of_thread(number);
    return is_of_call(number, info) || image_is_forked_child() ? image_libc_current() : NULL;
}

/* True if a rank of this OS thread blocks the signal. */
static bool is_blocked_at(pid_t tid, int number)
{
    for (struct image_signals *rank = atomic_load(&ranks); rank; rank = atomic_load(&rank->next))
        if ((atomic_load(&rank->blocked) & image_signal_bit(number)) && image_signals_are_at(rank, tid))
            return true;
    return false;
}

/* Has the rank's handler run on the OS thread of its main thread; false: here. The kernel merges equal signals to a thread, so
 * one may be for several ranks. is_blocked: by a rank. */
static bool send_to_main(struct image_signals *rank, int number, const siginfo_t *info, bool is_blocked)
{
    siginfo_t sent = *info;
    pid_t tid = main_tid_of(rank);

    if (!tid || tid == gettid() || (is_blocked && is_blocked_at(tid, number)))
        return false; /* the handler is for a thread that does not block it, or the kernel would keep it */
    sent.si_errno = MARK_QUEUED;
    if (sent.si_code >= 0 && sent.si_code < CODES) {
        sent.si_errno -= 1 + sent.si_code;
        sent.si_code = SI_QUEUE;
    }
    atomic_store(&rank->queued_to[number], tid);
    if (syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, number, &sent) == 0)
        return true;
    atomic_compare_exchange_strong(&rank->queued_to[number], &tid, 0);
    return false;
}

/* True if the record of a signal is for this OS thread: it ends. */
static bool take_here(_Atomic pid_t *record)
{
    pid_t tid = gettid();

    return atomic_load(record) == tid && atomic_compare_exchange_strong(record, &tid, 0);
}

static bool is_own_code(const void *address)
{
    const char *base = (const char *)&__ehdr_start;
    const ElfW(Phdr) *segments = (const void *)(base + __ehdr_start.e_phoff);
    size_t offset = (size_t)((const char *)address - base);

    for (int i = 0; i < __ehdr_start.e_phnum; i++)
        if ((segments[i].p_flags & PF_X) && offset - segments[i].p_vaddr < segments[i].p_memsz)
            return true;
    return false;
}

/* True if the interrupted code may be a switch between ranks, on the stack of another one. */
static bool is_in_switch(const struct image_libc *libc, void *context)
{
    return context && !is_on_stack(libc, ult_arch_context_sp(context)) &&
           is_own_code(ult_arch_context_pc(context));
}

/* True if a handler of the rank may run here and now: the calling thread is another one of the rank, or runs its program's code. */
static bool may_run(const struct image_signals *rank, void *context)
{
    if (!image_rebind_client.call_soon)
        return true;
    if (image_is_forked_child() || !image_is_on_rank())
        return rank->libc == image_libc_current();
    return rank->libc == image_libc_current() && !rank->libc->is_pausing &&
           !image_rebind_client.is_waiting() && !is_in_switch(rank->libc, context);
}

/* The rank's handler will run on its own stack. */
static void run_later(struct image_signals *rank, int number, const siginfo_t *info)
{
    image_mask_add_pending(rank, number, info);
    image_rebind_client.call_soon(rank->libc->main_thread.image, &rank->place);
}

static bool has_pending(const struct image_signals *rank)
{
    return rank && (atomic_load(&rank->pending) & ~atomic_load(&rank->blocked));
}

void image_signals_run_pending(void)
{
    struct image_signals *rank = image_is_on_rank() ? image_libc_current()->signals : NULL;

    if (has_pending(rank) && may_run(rank, NULL))
        image_mask_run_pending(rank);
}

void image_signals_called(void)
{
    struct image_libc *libc = image_libc_current();

    if (has_pending(libc->signals) && !libc->is_pausing)
        image_mask_run_pending(libc->signals);
}

/* Returns true if the rank is the running one, whose handler has to be called after those of others, because it may not return. */
static bool is_last(struct image_signals *rank, int number, const siginfo_t *info, void *context)
{
    if (may_run(rank, context))
        return true;
    if (image_signals_has_handler(rank, number))
        run_later(rank, number, info);
    return false;
}

/* Runs the handlers that are queued for this OS thread. Returns true if the signal was sent for that only. */
static bool run_queued(int number, siginfo_t *info, void *context)
{
    bool is_only = info->si_errno >= MARK_QUEUED - CODES;
    struct image_signals *last = NULL;

    if (is_only && info->si_errno < MARK_QUEUED)
        info->si_code = MARK_QUEUED - 1 - info->si_errno;
    if (is_only)
        info->si_errno = 0;
    for (struct image_signals *rank = atomic_load(&ranks); rank; rank = atomic_load(&rank->next))
        if (take_here(&rank->queued_to[number]) && !image_mask_keeps(rank, number, info) &&
            is_last(rank, number, info, context))
            last = rank;
    if (last)
        call_handler_of(last, number, info, context);
    return is_only;
}

static void call_one(struct image_libc *target, int number, siginfo_t *info, void *context)
{
    struct image_signals *rank = target->signals;

    if (rank && atomic_load(&rank->has_ended))
        return;
    if (!is_for_thread && image_signals_has_handler(rank, number) && !may_run(rank, context))
        run_later(rank, number, info);
    else if (!call_handler_of(rank, number, info, context))
        do_without(rank, number, info, context);
}

static void make_direct(int number, siginfo_t *info_out)
{
    *info_out = (siginfo_t){.si_signo = number, .si_code = SI_TKILL};
    info_out->si_pid = getpid();
    info_out->si_uid = getuid();
}

/* True if the signal is recorded: its information becomes that of a signal without a mark. */
static bool take_record(int number, siginfo_t *info)
{
    if (info->si_code != SI_QUEUE || info->si_errno >= 0 || info->si_value.sival_int != IMAGE_MARK_SENT)
        return false;
    make_direct(number, info);
    return true;
}

/* Delivers the signals that were sent to single ranks on this OS thread: the kernel has merged them. The running rank's handler is
 * the last, because it may jump. Returns true if one is for `taker`. */
static bool run_sent(const struct image_signals *taker, int number, void *context)
{
    struct image_signals *last = NULL;
    bool is_takers = false;
    siginfo_t direct;

    if (number >= IMAGE_MERGED)
        return false;
    make_direct(number, &direct);
    for (struct image_signals *rank = atomic_load(&ranks); rank; rank = atomic_load(&rank->next)) {
        if (!take_here(&rank->sent_to[number]))
            continue;
        if (rank == taker)
            is_takers = true;
        else if (image_mask_keeps(rank, number, &direct))
            continue;
        else if (may_run(rank, context))
            last = rank;
        else
            call_one(rank->libc, number, &direct, context);
    }
    if (last)
        call_one(last->libc, number, &direct, context);
    return is_takers;
}

/* For a signal to all ranks except one (NULL: none), as if each were a process. Returns false if nobody handles it. */
static bool call_all(struct image_signals *except, int number, siginfo_t *info, void *context)
{
    bool is_handled = false, is_blocked = false;
    struct image_signals *last = NULL;

    for (struct image_signals *rank = atomic_load(&ranks); rank; rank = atomic_load(&rank->next))
        is_blocked |= (atomic_load(&rank->blocked) & image_signal_bit(number)) != 0;
    for (struct image_signals *rank = atomic_load(&ranks); rank; rank = atomic_load(&rank->next)) {
        if (rank == except)
            continue;
        if (image_mask_keeps(rank, number, info) || does_ignore(rank, number)) {
            is_handled = true;
        } else if (image_signals_has_handler(rank, number)) {
            is_handled = true;
            if (!send_to_main(rank, number, info, is_blocked) && is_last(rank, number, info, context))
                last = rank;
        }
    }
    if (last)
        call_handler_of(last, number, info, context);
    return is_handled;
}

/* A signal of a timer of this rank: as if it were the process's, but for the rank alone. */
static void call_owner(struct image_libc *owner, int number, siginfo_t *info, void *context)
{
    struct image_signals *rank = owner->signals;

    if (rank && (atomic_load(&rank->has_ended) || image_mask_keeps(rank, number, info)))
        return;
    if (!image_signals_has_handler(rank, number))
        do_without(rank, number, info, context);
    else if (!send_to_main(rank, number, info, true) && is_last(rank, number, info, context))
        call_handler_of(rank, number, info, context);
}

/* A signal that a rank sends to itself (raise), or that comes to a process that it has forked, is the rank's. Others are
 * all ranks', as if each were a process. */
static void deliver(int number, siginfo_t *info, void *context)
{
    struct image_libc *target;
    bool before = is_for_thread, is_done = take_record(number, info);

    is_done |= run_queued(number, info, context); /* also with a recorded one: it may have merged with that */
    run_sent(NULL, number, context);
    if (is_done)
        return;
    if (image_timers_take(info, &target)) {
        if (target)
            call_owner(target, number, info, context);
        return;
    }
    is_for_thread = info->si_code == SI_TKILL && image_thread_own && !image_is_on_rank();
    target = target_of(number, info);
    if (target)
        call_one(target, number, info, context);
    else if (!call_all(NULL, number, info, context))
        do_without(NULL, number, info, context);
    is_for_thread = before;
}

void image_on_signal(int number, siginfo_t *info, void *context)
{
    deliver(number, info, context);
    image_signals_run_pending();                              /* what the handler has blocked */
    image_mask_correct(&((ucontext_t *)context)->uc_sigmask); /* a handler may have forked: in the child */
}

void image_signals_run(struct image_signals *rank, int number, siginfo_t *info)
{
    call_one(rank->libc, number, info, NULL);
}

bool image_signals_pass_on(struct image_signals *taker, int number, siginfo_t *info)
{
    bool is_done = take_record(number, info), is_takers;
    struct image_signals *marked;
    struct image_libc *owner;

    is_done |= run_queued(number, info, NULL);
    is_takers = run_sent(taker, number, NULL);
    if (is_done) {
        make_direct(number, info);
        return is_takers;
    }
    if (image_timers_take(info, &owner)) {
        if (owner && owner != taker->libc)
            call_owner(owner, number, info, NULL);
        return owner == taker->libc || is_takers;
    }
    marked = take_mark(info);
    if (!marked && info->si_code != SI_TKILL && !is_of_call(number, info))
        call_all(taker, number, info, NULL);
    else if (marked && marked != taker && !image_mask_keeps(marked, number, info))
        call_one(marked->libc, number, info, NULL);
    return !marked || marked == taker || is_takers;
}

struct image_signals *image_signals_make_held(struct image_libc *libc)
{
    struct image_signals *made = libc->signals ? NULL : calloc(1, sizeof *made);

    if (made) {
        made->libc = libc;
        made->mark = atomic_load(&ranks) ? atomic_load(&ranks)->mark + 1 : 1;
        atomic_store(&made->next, atomic_load(&ranks));
        atomic_store(&ranks, made);
        /* last: other threads of the rank read it without the lock */
        __atomic_store_n(&libc->signals, made, __ATOMIC_RELEASE);
    }
    return libc->signals;
}

void image_signals_hold(sigset_t *before_out)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before_out);
    pthread_mutex_lock(&image_signals_lock);
}

void image_signals_let_go(const sigset_t *before)
{
    pthread_mutex_unlock(&image_signals_lock);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

struct image_signals *image_signals_make(struct image_libc *libc)
{
    struct image_signals *made = libc->signals;
    sigset_t before;

    if (made)
        return made;
    image_signals_hold(&before);
    made = image_signals_make_held(libc);
    image_signals_let_go(&before);
    return made;
}

void image_signals_forget(struct image_libc *libc)
{
    struct image_signals *rank = libc->signals;

    if (rank) {
        atomic_store(&rank->has_ended, true);
        atomic_store(&rank->awaited, 0);
        atomic_store(&rank->was_awaited, 0);
        for (int number = 0; number < NSIG; number++)
            atomic_store(&rank->queued_to[number], 0);
        for (int number = 0; number < IMAGE_MERGED; number++)
            atomic_store(&rank->sent_to[number], 0);
        memset(rank->is_set, 0, sizeof rank->is_set); /* stays: image_on_signal may run on another thread */
    }
    image_mask_end_rank(libc);
    if (rank)
        atomic_store(&rank->blocked, 0);
}

void image_signals_begin(struct image_libc *libc)
{
    if (!libc->signals)
        return;
    image_mask_drop_pending(libc->signals);
    libc->is_pausing = false;
    libc->n_interrupted = 0;
    atomic_store(&libc->signals->has_ended, false);
}

bool image_signals_have_ended(const struct image_libc *libc)
{
    atomic_thread_fence(memory_order_seq_cst); /* after image_signals_forget */
    return !libc->signals || atomic_load(&libc->signals->n_running) == 0;
}

struct image_libc *image_signals_rank_of(const void *code)
{
    struct image_libc *libc = image_libc_current();
    struct image *image = libc ? image_find(code) : NULL;

    return image ? image_libc_of(image) : libc;
}
