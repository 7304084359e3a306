/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_signal.c: handlers per rank of signals that are no faults.
 *
 * Signals such as SIGTERM, SIGUSR1 and those of timers concern the process: the handlers of all ranks run, each on the OS thread
 * of its rank's main thread, to which the thread that the kernel has chosen sends the signal: Python's handler does nothing at once
 * on another. A function of this file calls them and counts the calls, because a rank's waits (rebind_wait.c) end then.
 * rebind_sigaction.c sets the handlers, rebind_fault.c has the signals of faults, rebind_sigmask.c masks and waits for signals.
 */
#include "image/copy/instantiate.h"
#include "image/copy/threads.h"
#include "image/libc/rebind_signal.h"
#include "image/libc/rebind_timer.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

pthread_mutex_t image_signals_lock = PTHREAD_MUTEX_INITIALIZER; /* guards actions of ranks */

/* In si_errno of a signal for the handlers that are queued for this OS thread. */
enum { MARK_QUEUED = INT_MAX };

/* In sival_int of a signal without a value that is recorded in `sent_to` of its rank. */
enum { MARK_SENT = 1 };

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

/* The rank whose handler runs on this OS thread, unless that is a thread that the rank has started; NULL: none. */
static __thread struct image_libc *handling __attribute__((tls_model("initial-exec")));

/* The signal was sent to this OS thread, one that the rank has started: its main thread's waits go on. */
static __thread bool is_for_thread __attribute__((tls_model("initial-exec")));

/* setcontext, swapcontext and __builtin_longjmp leave handlers unseen: the stack tells. */
bool image_is_in_handler(struct image_libc *libc)
{
    const char *here = __builtin_frame_address(0);
    const stack_t *alternate = &libc->signal_stack;
    bool is_on_stack = here >= libc->stack_lo && here < libc->stack_hi &&
                       (size_t)(here - (const char *)alternate->ss_sp) >= alternate->ss_size;

    if (!libc->n_interrupted)
        return false;
    if (!is_on_stack || (here < libc->first_frame && libc->first_frame < libc->stack_hi))
        return true;
    handling = NULL;
    libc->n_interrupted = 0;
    return false;
}

/* Handlers compare it with that of their main thread. */
static pthread_t image_libc_self(void)
{
    if (handling && image_is_on_rank() && !image_is_in_handler(image_libc_current()))
        handling = NULL; /* a rank has left its handler unseen */
    return handling ? handling->main_id : pthread_self();
}
IMAGE_REBINDS(image_libc_self, "pthread_self", "thrd_current");

static void call_as(struct image_libc *libc, const struct sigaction *action, int number, siginfo_t *info,
                    void *context)
{
    struct image_libc *before = handling, *running = image_is_on_rank() ? image_libc_current() : NULL;
    unsigned n_before = running && image_is_in_handler(running) ? running->n_interrupted : 0;

    if (running)
        running->n_interrupted = n_before + 1;
    if (running && n_before == 0)
        running->first_frame = __builtin_frame_address(0);
    if (running && n_before == 0 && context)
        running->mask_before = ((ucontext_t *)context)->uc_sigmask;
    else if (running && n_before == 0)
        pthread_sigmask(SIG_SETMASK, NULL, &running->mask_before);
    /* Also if it is the running rank: in the middle of a switch, pthread_self is still another one's. */
    handling = libc == image_libc_current() && !running ? NULL : libc;
    image_action_call(action, number, info, context);
    handling = before;
    if (running)
        running->n_interrupted = n_before;
}

void image_signals_jump(void)
{
    if (!handling)
        return;
    handling = NULL;
    if (image_is_on_rank())
        image_libc_current()->n_interrupted = 0;
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
        call_as(rank->libc, &action, number, info, context);
        if (!is_for_thread)
            atomic_fetch_add(&rank->libc->n_handled, 1);
        if (!is_for_thread && !(action.sa_flags & SA_RESTART))
            atomic_fetch_add(&rank->libc->n_interrupts, 1);
    }
    atomic_fetch_sub(&rank->n_running, 1);
    return is_handled;
}

/* For a signal without a handler. The default action is the kernel's: it follows when this handler returns. */
static void do_without(const struct image_signals *rank, int number, siginfo_t *info, void *context)
{
    struct sigaction action =
        rank && rank->is_set[number] ? rank->actions[number] : *image_action_initial(number);
    bool is_harmless = number == SIGCHLD || number == SIGURG || number == SIGWINCH || number == SIGCONT;

    if (image_action_is_function(&action)) {
        image_action_call(&action, number, info, context);
    } else if (action.sa_handler == SIG_DFL && !is_harmless) {
        sigaction(number, &action, NULL);
        raise(number);
    }
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

static int send_signal(struct image_libc *libc, pid_t tid, int number, const union sigval *value)
{
    siginfo_t info = {.si_signo = number, .si_code = SI_QUEUE};
    int mark = libc->signals && image_fault_index(number) < 0 ? libc->signals->mark : 0;
    bool is_recorded;
    int result;

    if (mark && atomic_load(&libc->signals->has_ended))
        return 0;
    if (!value && !mark)
        return (int)syscall(SYS_tgkill, getpid(), tid, number);
    is_recorded = !value && number > 0 && number < IMAGE_MERGED && image_signals_are_at(libc->signals, tid);
    info.si_errno = value ? mark : -mark;
    info.si_pid = getpid();
    info.si_uid = getuid();
    if (value)
        info.si_value = *value;
    if (is_recorded) {
        info.si_value.sival_int = MARK_SENT;
        atomic_store(&libc->signals->sent_to[number], tid);
    }
    result = (int)syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, number, &info);
    if (is_recorded && result != 0)
        atomic_compare_exchange_strong(&libc->signals->sent_to[number], &tid, 0);
    return result;
}

int image_signals_send(struct image_libc *libc, pid_t tid, int number, const union sigval *value)
{
    int result = send_signal(libc, tid, number, value);

    if (result == 0 && tid == gettid())
        image_mask_deliver(number);
    return result;
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

/* Runs the handlers that are queued for this OS thread. Returns true if the signal was sent for that only. */
static bool run_queued(int number, siginfo_t *info, void *context)
{
    bool is_only = info->si_errno == MARK_QUEUED;

    if (is_only)
        info->si_errno = 0;
    for (struct image_signals *rank = atomic_load(&ranks); rank; rank = atomic_load(&rank->next))
        if (take_here(&rank->queued_to[number]) && !image_mask_keeps(rank, number, info))
            call_handler_of(rank, number, info, context);
    return is_only;
}

static void call_one(struct image_libc *target, int number, siginfo_t *info, void *context)
{
    if (target->signals && atomic_load(&target->signals->has_ended))
        return;
    if (!call_handler_of(target->signals, number, info, context))
        do_without(target->signals, number, info, context);
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
    if (info->si_code != SI_QUEUE || info->si_errno >= 0 || info->si_value.sival_int != MARK_SENT)
        return false;
    make_direct(number, info);
    return true;
}

/* Delivers the signals that were sent to single ranks on this OS thread: the kernel has merged them. The running rank's handler is
 * the last, because it may jump. Returns true if one is for `taker`. */
static bool run_sent(const struct image_signals *taker, int number, void *context)
{
    struct image_libc *current = image_libc_current();
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
        else if (rank->libc == current)
            last = rank;
        else
            call_one(rank->libc, number, &direct, context);
    }
    if (last)
        call_one(last->libc, number, &direct, context);
    return is_takers;
}

/* For a signal to all ranks except one (NULL: none), as if each were a process. Returns false if nobody handles it, or, if it comes
 * from a rank's timer, that rank does not. */
static bool call_all(struct image_signals *except, int number, siginfo_t *info, void *context)
{
    const struct image_libc *owner = image_timers_owner(number, info);
    bool is_handled = false, is_blocked = false;

    for (struct image_signals *rank = atomic_load(&ranks); rank; rank = atomic_load(&rank->next))
        is_blocked |= (atomic_load(&rank->blocked) & image_signal_bit(number)) != 0;
    for (struct image_signals *rank = atomic_load(&ranks); rank; rank = atomic_load(&rank->next)) {
        bool does_handle =
            rank != except &&
            (image_mask_keeps(rank, number, info) ||
             (image_signals_has_handler(rank, number) && send_to_main(rank, number, info, is_blocked)) ||
             call_handler_of(rank, number, info, context) || does_ignore(rank, number));
        if (!owner || rank->libc == owner)
            is_handled |= does_handle;
    }
    return is_handled;
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
    is_for_thread = info->si_code == SI_TKILL && image_thread_own && !image_is_on_rank();
    target = target_of(number, info);
    if (target)
        call_one(target, number, info, context);
    else if (!call_all(NULL, number, info, context) && !image_timers_have_left(number, info))
        do_without(NULL, number, info, context);
    is_for_thread = before;
}

void image_on_signal(int number, siginfo_t *info, void *context)
{
    deliver(number, info, context);
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

    is_done |= run_queued(number, info, NULL);
    is_takers = run_sent(taker, number, NULL);
    if (is_done) {
        make_direct(number, info);
        return is_takers;
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
    atomic_store(&libc->signals->pending, 0);
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
