/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_signal.c: fault handlers per rank.
 *
 * A signal caused by an instruction of a rank (SIGSEGV, SIGFPE, abort's SIGABRT, ...) concerns that rank,
 * and each rank's handler is code of its own copy. But a process has one handler per signal. So the kernel
 * gets a handler of this file, which calls the running rank's handler or, for a rank without one, the
 * handler installed before the ranks' (the crash report). Other signals (SIGTERM, SIGUSR1, timers) concern
 * the process: the handlers of all ranks run, one after the other, on the thread that the kernel has chosen. A function of this
 * file calls them and counts the calls, because a rank's waits (rebind_wait.c) end then. A rank that asks for its action gets
 * its own, or that before any rank's: Python's does not handle SIGINT if something handles it already.
 *
 * Flags and mask of a handler are per process: those that a rank set last apply to all. SIG_IGN and SIG_DFL count if no rank
 * has a handler.
 */
#include "image/copy/instantiate.h"
#include "image/libc/rebind.h"
#include "image/libc/rebind_timer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ult/arch/ult_arch.h"

/* In the order of struct image_libc.fault_actions. */
static struct {
    int number;
    atomic_bool is_ours;     /* on_fault is installed */
    struct sigaction before; /* the action that it replaced */
} faults[] = {{.number = SIGSEGV}, {.number = SIGBUS},  {.number = SIGFPE},
              {.number = SIGILL},  {.number = SIGABRT}, {.number = SIGTRAP}};

pthread_mutex_t image_signals_lock =
    PTHREAD_MUTEX_INITIALIZER; /* guards faults, except the fields that on_fault reads */

static int index_of(int number)
{
    for (size_t i = 0; i < BASE_COUNT(faults); i++)
        if (faults[i].number == number)
            return (int)i;
    return -1;
}

/* ---- A fault ---- */

static void call(const struct sigaction *action, int number, siginfo_t *info, void *context)
{
    if (action->sa_flags & SA_SIGINFO)
        action->sa_sigaction(number, info, context);
    else
        action->sa_handler(number);
}

/* For a fault that no rank handles. If nothing was installed before, the instruction is retried and ends
 * the process. */
static void do_as_before(int index, siginfo_t *info, void *context)
{
    struct sigaction action = faults[index].before;

    if (action.sa_handler == SIG_IGN)
        return;
    if (action.sa_handler != SIG_DFL) {
        call(&action, faults[index].number, info, context);
        return;
    }
    sigaction(faults[index].number, &action, NULL);
    if (info->si_code <= 0)
        raise(faults[index].number);
}

/* True if the kernel can write a handler's frame below this stack pointer. rt_sigprocmask reads the memory
 * before it rejects the call. */
static bool has_room(const char *sp)
{
    enum { FRAME_BYTES = 4096 };

    return syscall(SYS_rt_sigprocmask, -1, sp - FRAME_BYTES, NULL, 8) != 0 && errno != EFAULT;
}

/* on_fault has its own stack, so it also runs when the stack is full. The rank's handler would not have run
 * then unless it asked for that: Fortran's runtime installs one that does not. */
static bool can_handle(const struct sigaction *action, void *context)
{
    int saved_errno = errno;
    bool can = (action->sa_flags & SA_ONSTACK) || has_room(ult_arch_context_sp(context));

    errno = saved_errno;
    return can;
}

/* After a fault's handler: true if it has chosen the default action and raised the signal, which is still blocked, as
 * Fortran's runtime does after its backtrace. Takes the signal: the report must describe the fault, not the raise. */
static bool has_raised_again(const struct sigaction *own, int number)
{
    static const struct timespec at_once = {0, 0};
    int saved_errno = errno;
    sigset_t set;
    bool has;

    if (own->sa_handler != SIG_DFL)
        return false;
    sigemptyset(&set);
    sigaddset(&set, number);
    has = sigtimedwait(&set, NULL, &at_once) == number;
    errno = saved_errno;
    return has;
}

/* The arguments of `call` for a rank's handler. */
struct handler_call {
    const struct sigaction *action;
    int number;
    siginfo_t *info;
    void *context;
};

static void call_handler(void *arg)
{
    const struct handler_call *handler = arg;

    call(handler->action, handler->number, handler->info, handler->context);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    struct image_libc *libc = image_libc_current();
    int index = index_of(number);
    struct sigaction *own = libc && libc->fault_actions ? &libc->fault_actions[index] : NULL;
    struct sigaction action;

    if (!own || own->sa_handler == SIG_DFL || (own->sa_handler == SIG_IGN && info->si_code > 0) ||
        !can_handle(own, context)) {
        do_as_before(index, info, context);
        return;
    }
    action = *own;
    if (action.sa_flags & (int)SA_RESETHAND)
        own->sa_handler = SIG_DFL;
    if (action.sa_handler != SIG_IGN && (action.sa_flags & SA_ONSTACK))
        image_altstack_call(call_handler, &(struct handler_call){&action, number, info, context});
    else if (action.sa_handler != SIG_IGN)
        call(&action, number, info, context);
    if (info->si_code > 0 && has_raised_again(own, number))
        do_as_before(index, info, context);
}

/* ---- Other signals ---- */

/* What a rank has set for signals other than faults. */
struct image_signals {
    int mark; /* in si_errno of a signal that a rank sends to itself; > 0 */
    struct sigaction actions[NSIG];
    bool is_set[NSIG];     /* else the rank has the process's action */
    atomic_int n_running;  /* calls of its handlers that have not returned */
    atomic_bool has_ended; /* its threads may still send signals to it: they are dropped */
    struct image_libc *libc;
    _Atomic(struct image_signals *) next; /* link of `ranks` */
};

static _Atomic(struct image_signals *) ranks; /* those that have set an action; changed with the lock held */

/* The actions before the first rank's. Guarded by the lock, except for on_signal. */
static struct {
    struct sigaction action;
    bool is_known;
} initial[NSIG];

static bool is_function(const struct sigaction *action)
{
    return action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN;
}

static bool has_function(const struct image_signals *rank, int number)
{
    return rank && rank->is_set[number] && is_function(&rank->actions[number]);
}

static bool does_ignore(const struct image_signals *rank, int number)
{
    return rank->is_set[number] && rank->actions[number].sa_handler == SIG_IGN;
}

/* Returns false if the rank has no handler. The call is counted before the look at the action: image_signals_have_ended. */
static bool call_handler_of(struct image_signals *rank, int number, siginfo_t *info, void *context)
{
    bool is_handled;

    if (!rank)
        return false;
    atomic_fetch_add(&rank->n_running, 1);
    is_handled = has_function(rank, number);
    if (is_handled) {
        struct sigaction action = rank->actions[number];
        if (action.sa_flags & (int)SA_RESETHAND)
            rank->actions[number].sa_handler = SIG_DFL;
        call(&action, number, info, context);
        atomic_fetch_add(&rank->libc->n_handled, 1);
        if (!(action.sa_flags & SA_RESTART))
            atomic_fetch_add(&rank->libc->n_interrupts, 1);
    }
    atomic_fetch_sub(&rank->n_running, 1);
    return is_handled;
}

/* For a signal without a handler. The default action is the kernel's: it follows when this handler returns. */
static void do_without(const struct image_signals *rank, int number, siginfo_t *info, void *context)
{
    struct sigaction action = rank && rank->is_set[number] ? rank->actions[number] : initial[number].action;
    bool is_harmless = number == SIGCHLD || number == SIGURG || number == SIGWINCH || number == SIGCONT;

    if (is_function(&action)) {
        call(&action, number, info, context);
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

/* The rank that the signal is for: of the calling thread, or by its mark, because a main thread's signal may interrupt another
 * rank. NULL: all. Makes the information that of a signal without a mark. */
static struct image_libc *target_of(int number, siginfo_t *info)
{
    int mark = info->si_code == SI_QUEUE ? abs(info->si_errno) : 0;

    for (struct image_signals *rank = mark ? atomic_load(&ranks) : NULL; rank;
         rank = atomic_load(&rank->next)) {
        if (rank->mark != mark)
            continue;
        if (info->si_errno < 0)
            info->si_code = SI_TKILL;
        info->si_errno = 0;
        return rank->libc;
    }
    return info->si_code == SI_TKILL || is_of_call(number, info) || image_is_forked_child()
               ? image_libc_current()
               : NULL;
}

int image_signals_send(struct image_libc *libc, pid_t tid, int number, const union sigval *value)
{
    siginfo_t info = {.si_signo = number, .si_code = SI_QUEUE};
    int mark = libc->signals && index_of(number) < 0 ? libc->signals->mark : 0;

    if (mark && atomic_load(&libc->signals->has_ended))
        return 0;
    if (!value && !mark)
        return (int)syscall(SYS_tgkill, getpid(), tid, number);
    info.si_errno = value ? mark : -mark;
    info.si_pid = getpid();
    info.si_uid = getuid();
    if (value)
        info.si_value = *value;
    return (int)syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, number, &info);
}

/* A signal that a rank sends to itself (raise), or that comes to a process that it has forked, is the rank's. Others are
 * all ranks', as if each were a process. */
static void on_signal(int number, siginfo_t *info, void *context)
{
    struct image_libc *target = target_of(number, info);
    bool is_handled = false;

    if (target) {
        if (target->signals && atomic_load(&target->signals->has_ended))
            return;
        if (!call_handler_of(target->signals, number, info, context))
            do_without(target->signals, number, info, context);
        return;
    }
    for (struct image_signals *rank = atomic_load(&ranks); rank; rank = atomic_load(&rank->next))
        is_handled |= call_handler_of(rank, number, info, context) || does_ignore(rank, number);
    if (!is_handled && !image_timers_have_left(number, info))
        do_without(NULL, number, info, context);
}

/* Finds or makes the rank's element of the list. With the lock held; NULL: no memory. */
static struct image_signals *signals_of(struct image_libc *libc)
{
    if (!libc->signals && (libc->signals = calloc(1, sizeof *libc->signals))) {
        libc->signals->libc = libc;
        libc->signals->mark = atomic_load(&ranks) ? atomic_load(&ranks)->mark + 1 : 1;
        atomic_store(&libc->signals->next, atomic_load(&ranks));
        atomic_store(&ranks, libc->signals);
    }
    return libc->signals;
}

void image_signals_forget(struct image_libc *libc)
{
    if (!libc->signals)
        return;
    atomic_store(&libc->signals->has_ended, true);
    memset(libc->signals->is_set, 0,
           sizeof libc->signals->is_set); /* stays: on_signal may run on another thread */
}

void image_signals_begin(struct image_libc *libc)
{
    if (libc->signals)
        atomic_store(&libc->signals->has_ended, false);
}

bool image_signals_have_ended(const struct image_libc *libc)
{
    atomic_thread_fence(memory_order_seq_cst); /* after image_signals_forget */
    return !libc->signals || atomic_load(&libc->signals->n_running) == 0;
}

/* Sets the process's action if a rank's has changed to `wanted`: other ranks' handlers remain. With the lock held. */
static int set_process_action(int number, const struct sigaction *wanted)
{
    struct sigaction ours = *wanted;

    if (is_function(wanted)) {
        ours.sa_sigaction = on_signal;
        ours.sa_flags = (wanted->sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO;
    } else {
        for (struct image_signals *rank = atomic_load(&ranks); rank; rank = atomic_load(&rank->next))
            if (has_function(rank, number))
                return 0;
    }
    return sigaction(number, &ours, NULL);
}

/* sigaction for such a signal. With the lock held. */
static int set_counted(struct image_libc *libc, int number, const struct sigaction *wanted,
                       struct sigaction *old_out)
{
    struct image_signals *own = wanted ? signals_of(libc) : libc->signals;
    struct sigaction old;

    if (wanted && !own) {
        errno = ENOMEM;
        return -1;
    }
    if (sigaction(number, NULL, &old) != 0)
        return -1;
    if (wanted && !initial[number].is_known) {
        initial[number].action = old;
        initial[number].is_known = true;
    }
    if (initial[number].is_known)
        old = own && own->is_set[number] ? own->actions[number] : initial[number].action;
    if (wanted) {
        bool was_set = own->is_set[number];
        own->actions[number] = *wanted;
        own->is_set[number] = true;
        if (is_function(wanted))
            atomic_store(&libc->has_handlers, true);
        if (set_process_action(number, wanted) != 0) {
            own->actions[number] = old;
            own->is_set[number] = was_set;
            return -1;
        }
    }
    if (old_out)
        *old_out = old;
    return 0;
}

/* ---- Setting a handler ---- */

/* Installs on_fault with the flags and mask that the rank asked for. */
static int take_over(int index, const struct sigaction *wanted)
{
    struct sigaction ours = *wanted, now;

    if (sigaction(faults[index].number, NULL, &now) != 0)
        return -1;
    if (now.sa_sigaction != on_fault)
        faults[index].before = now;
    ours.sa_sigaction = on_fault;
    ours.sa_flags =
        (wanted->sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO | (faults[index].before.sa_flags & SA_ONSTACK);
    if (sigaction(faults[index].number, &ours, NULL) != 0)
        return -1;
    atomic_store(&faults[index].is_ours, true);
    return 0;
}

static int set_action(struct image_libc *libc, int index, const struct sigaction *wanted)
{
    if (!libc->fault_actions)
        libc->fault_actions = calloc(BASE_COUNT(faults), sizeof *libc->fault_actions);
    if (!libc->fault_actions) {
        errno = ENOMEM;
        return -1;
    }
    libc->fault_actions[index] = *wanted;
    if (is_function(wanted) || (wanted->sa_handler == SIG_IGN && !atomic_load(&faults[index].is_ours)))
        return take_over(index, wanted);
    return 0;
}

static int set_fault(struct image_libc *libc, int index, const struct sigaction *wanted,
                     struct sigaction *old_out)
{
    struct sigaction old = {.sa_handler = SIG_DFL};

    if (libc->fault_actions)
        old = libc->fault_actions[index];
    if (wanted && set_action(libc, index, wanted) != 0)
        return -1;
    if (old_out)
        *old_out = old;
    return 0;
}

/* The rank of the calling code: a handler may interrupt another rank. NULL: not in a rank. */
static struct image_libc *rank_of_code(const void *code)
{
    struct image_libc *libc = image_libc_current();
    struct image *image = libc ? image_find(code) : NULL;

    return image ? image_libc_of(image) : libc;
}

/* sigaction in a child of vfork: only the kernel's action is the child's own, the memory is the rank's. */
static int set_in_child(struct image_libc *libc, int number, const struct sigaction *wanted,
                        struct sigaction *old_out)
{
    struct sigaction old;

    if (sigaction(number, wanted, &old) != 0)
        return -1;
    if (old.sa_sigaction == on_signal)
        old = libc->signals && libc->signals->is_set[number] ? libc->signals->actions[number]
                                                             : initial[number].action;
    else if (old.sa_sigaction == on_fault)
        old = libc->fault_actions ? libc->fault_actions[index_of(number)]
                                  : (struct sigaction){.sa_handler = SIG_DFL};
    if (old_out)
        *old_out = old;
    return 0;
}

static int set_of(struct image_libc *libc, int number, const struct sigaction *wanted,
                  struct sigaction *old_out)
{
    int index = libc ? index_of(number) : -1, result;
    sigset_t all, before;

    if (!libc || number <= 0 || number >= NSIG)
        return sigaction(number, wanted, old_out);
    if (image_shares_memory())
        return set_in_child(libc, number, wanted, old_out);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&image_signals_lock);
    result = index < 0 ? set_counted(libc, number, wanted, old_out) : set_fault(libc, index, wanted, old_out);
    pthread_mutex_unlock(&image_signals_lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}

static int image_libc_sigaction(int number, const struct sigaction *wanted, struct sigaction *old_out)
{
    return set_of(rank_of_code(__builtin_return_address(0)), number, wanted, old_out);
}
IMAGE_REBINDS(image_libc_sigaction, "sigaction");

typedef void (*image_signal_fn)(int number);

static image_signal_fn set_handler(struct image_libc *libc, int number, image_signal_fn handler, int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, old;

    sigemptyset(&action.sa_mask);
    return set_of(libc, number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

static image_signal_fn image_libc_signal(int number, image_signal_fn handler)
{
    struct image_libc *libc = rank_of_code(__builtin_return_address(0));

    if (!libc || handler == SIG_ERR)
        return signal(number, handler);
    return set_handler(libc, number, handler, SA_RESTART);
}
IMAGE_REBINDS(image_libc_signal, "signal", "bsd_signal", "ssignal");

static image_signal_fn image_libc_sysv_signal(int number, image_signal_fn handler)
{
    struct image_libc *libc = rank_of_code(__builtin_return_address(0));

    if (!libc || handler == SIG_ERR)
        return sysv_signal(number, handler);
    return set_handler(libc, number, handler, (int)(SA_RESETHAND | SA_NODEFER));
}
IMAGE_REBINDS(image_libc_sysv_signal, "__sysv_signal", "sysv_signal");

bool image_has_fault_handler(int number)
{
    const struct image_libc *libc = image_libc_current();
    int index = index_of(number);

    return libc && libc->fault_actions && index >= 0 && libc->fault_actions[index].sa_handler != SIG_DFL;
}
