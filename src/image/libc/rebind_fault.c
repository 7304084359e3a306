/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_fault.c: fault handlers per rank.
 *
 * A signal caused by an instruction of a rank (SIGSEGV, SIGFPE, abort's SIGABRT, ...) concerns that rank,
 * and each rank's handler is code of its own copy. But a process has one handler per signal. So the kernel
 * gets a handler of this file, which calls the running rank's handler or, for a rank without one, the
 * handler installed before the ranks' (the crash report). Flags and mask of a handler are per process: those that a rank set
 * last apply to all. rebind_signal.c has the other signals, rebind_sigaction.c sigaction.
 */
#include "image/libc/rebind_signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ult/arch/ult_arch.h"

/* In the order of struct image_libc.fault_actions. */
static struct {
    int number;
    atomic_bool is_ours;     /* image_on_fault is installed */
    struct sigaction before; /* the action that it replaced */
} faults[] = {{.number = SIGSEGV}, {.number = SIGBUS},  {.number = SIGFPE},
              {.number = SIGILL},  {.number = SIGABRT}, {.number = SIGTRAP}};

int image_fault_index(int number)
{
    for (size_t i = 0; i < BASE_COUNT(faults); i++)
        if (faults[i].number == number)
            return (int)i;
    return -1;
}

/* ---- A fault ---- */

void image_action_call(const struct sigaction *action, int number, siginfo_t *info, void *context)
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
        image_action_call(&action, faults[index].number, info, context);
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

/* image_on_fault has its own stack, so it also runs when the stack is full. The rank's handler would not have run
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

    image_action_call(handler->action, handler->number, handler->info, handler->context);
}

void image_on_fault(int number, siginfo_t *info, void *context)
{
    struct image_libc *libc = image_libc_current();
    int index = image_fault_index(number);
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
        image_action_call(&action, number, info, context);
    if (info->si_code > 0 && has_raised_again(own, number))
        do_as_before(index, info, context);
}

/* ---- Setting a handler ---- */

/* Installs image_on_fault with the flags and mask that the rank asked for. */
static int take_over(int index, const struct sigaction *wanted)
{
    struct sigaction ours = *wanted, now;

    if (sigaction(faults[index].number, NULL, &now) != 0)
        return -1;
    if (now.sa_sigaction != image_on_fault)
        faults[index].before = now;
    ours.sa_sigaction = image_on_fault;
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
    if (image_action_is_function(wanted) ||
        (wanted->sa_handler == SIG_IGN && !atomic_load(&faults[index].is_ours)))
        return take_over(index, wanted);
    return 0;
}

int image_fault_set(struct image_libc *libc, int index, const struct sigaction *wanted,
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

bool image_has_fault_handler(int number)
{
    const struct image_libc *libc = image_libc_current();
    int index = image_fault_index(number);

    return libc && libc->fault_actions && index >= 0 && libc->fault_actions[index].sa_handler != SIG_DFL;
}
