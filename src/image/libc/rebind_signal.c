/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_signal.c: fault handlers per rank.
 *
 * A signal caused by an instruction of a rank (SIGSEGV, SIGFPE, abort's SIGABRT, ...) concerns that rank,
 * and each rank's handler is code of its own copy. But a process has one handler per signal. So the kernel
 * gets a handler of this file, which calls the running rank's handler or, for a rank without one, the
 * handler installed before the ranks' (the crash report). Other signals (SIGTERM, SIGUSR1, timers) concern
 * the process: the handler that any rank set last is in effect. A function of this file calls it and counts the calls, because
 * the rank's waits (rebind_wait.c) end then.
 *
 * Flags and mask of a fault's handler are per process: those that a rank set last apply to all.
 */
#include "image/copy/instantiate.h"
#include "image/libc/rebind.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
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

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards faults, except the fields that on_fault
                                                          * reads */

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

/* The handlers that ranks set last. Guarded by the lock, except for on_signal. */
static struct {
    struct sigaction action;
    struct image_libc *libc; /* of the rank */
} handlers[NSIG];

static void on_signal(int number, siginfo_t *info, void *context)
{
    struct sigaction action = handlers[number].action;
    struct image_libc *libc = handlers[number].libc;

    call(&action, number, info, context);
    atomic_fetch_add(&libc->n_handled, 1);
    if (!(action.sa_flags & SA_RESTART))
        atomic_fetch_add(&libc->n_interrupts, 1);
}

/* sigaction for such a signal. With the lock held. */
static int set_counted(struct image_libc *libc, int number, const struct sigaction *wanted,
                       struct sigaction *old_out)
{
    struct sigaction old = handlers[number].action, ours, now;
    bool is_handler = wanted && wanted->sa_handler != SIG_DFL && wanted->sa_handler != SIG_IGN;
    int result;

    if (is_handler) {
        ours = *wanted;
        ours.sa_sigaction = on_signal;
        ours.sa_flags |= SA_SIGINFO;
        handlers[number].action = *wanted;
        handlers[number].libc = libc;
        atomic_store(&libc->has_handlers, true);
    }
    result = sigaction(number, is_handler ? &ours : wanted, &now);
    if (result == 0 && old_out)
        *old_out = now.sa_sigaction == on_signal ? old : now;
    return result;
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
    bool is_handler = wanted->sa_handler != SIG_DFL && wanted->sa_handler != SIG_IGN;

    if (!libc->fault_actions)
        libc->fault_actions = calloc(BASE_COUNT(faults), sizeof *libc->fault_actions);
    if (!libc->fault_actions) {
        errno = ENOMEM;
        return -1;
    }
    libc->fault_actions[index] = *wanted;
    if (is_handler || (wanted->sa_handler == SIG_IGN && !atomic_load(&faults[index].is_ours)))
        return take_over(index, wanted);
    return 0;
}

static int image_libc_sigaction(int number, const struct sigaction *wanted, struct sigaction *old_out)
{
    struct image_libc *libc = image_libc_current();
    int index = libc ? index_of(number) : -1;
    struct sigaction old = {.sa_handler = SIG_DFL};
    int result = 0;

    if (!libc || number <= 0 || number >= NSIG)
        return sigaction(number, wanted, old_out);
    pthread_mutex_lock(&lock);
    if (index < 0) {
        result = set_counted(libc, number, wanted, old_out);
        pthread_mutex_unlock(&lock);
        return result;
    }
    if (libc->fault_actions)
        old = libc->fault_actions[index];
    if (wanted)
        result = set_action(libc, index, wanted);
    pthread_mutex_unlock(&lock);
    if (result == 0 && old_out)
        *old_out = old;
    return result;
}
IMAGE_REBINDS(image_libc_sigaction, "sigaction");

typedef void (*image_signal_fn)(int number);

static image_signal_fn set_handler(int number, image_signal_fn handler, int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, old;

    sigemptyset(&action.sa_mask);
    return image_libc_sigaction(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

static image_signal_fn image_libc_signal(int number, image_signal_fn handler)
{
    if (!image_libc_current() || handler == SIG_ERR)
        return signal(number, handler);
    return set_handler(number, handler, SA_RESTART);
}
IMAGE_REBINDS(image_libc_signal, "signal", "bsd_signal", "ssignal");

static image_signal_fn image_libc_sysv_signal(int number, image_signal_fn handler)
{
    if (!image_libc_current() || handler == SIG_ERR)
        return sysv_signal(number, handler);
    return set_handler(number, handler, (int)(SA_RESETHAND | SA_NODEFER));
}
IMAGE_REBINDS(image_libc_sysv_signal, "__sysv_signal", "sysv_signal");

bool image_has_fault_handler(int number)
{
    const struct image_libc *libc = image_libc_current();
    int index = index_of(number);

    return libc && libc->fault_actions && index >= 0 && libc->fault_actions[index].sa_handler != SIG_DFL;
}
