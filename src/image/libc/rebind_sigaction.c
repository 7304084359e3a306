/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_sigaction.c: sigaction and signal: a rank's actions, and the process's, which follows from those of all ranks.
 *
 * A rank that asks for its action gets its own, or that before any rank's: Python's does not handle SIGINT if something handles it
 * already. Flags and mask of a handler are per process: those that a rank set last apply to all. SIG_IGN and SIG_DFL count if no
 * rank has a handler.
 */
#include "image/copy/instantiate.h"
#include "image/libc/rebind_signal.h"

#include <errno.h>

/* The actions before the first rank's. Guarded by the lock, except for image_on_signal. */
static struct {
    struct sigaction action;
    bool is_known;
} initial[NSIG];

/* image_signals_watch was called for them. */
static atomic_bool is_watched[NSIG];

const struct sigaction *image_action_initial(int number)
{
    return &initial[number].action;
}

bool image_action_is_known(int number)
{
    return initial[number].is_known;
}

static void note_initial(int number, const struct sigaction *action)
{
    if (!initial[number].is_known)
        initial[number].action = *action;
    initial[number].is_known = true;
}

void image_signals_watch(int number)
{
    struct sigaction action;
    sigset_t before;

    if (atomic_load(&is_watched[number]))
        return;
    image_signals_hold(&before);
    if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_DFL) {
        note_initial(number, &action);
        action.sa_sigaction = image_on_signal;
        action.sa_flags = SA_SIGINFO | (int)SA_RESTART;
        sigaction(number, &action, NULL);
    }
    atomic_store(&is_watched[number], true);
    image_signals_let_go(&before);
}

/* Sets the process's action if a rank's has changed to `wanted`: other ranks' handlers remain. With the lock held. */
static int set_process_action(int number, const struct sigaction *wanted)
{
    struct sigaction ours = *wanted;
    bool is_function = image_action_is_function(wanted);

    if (is_function || (wanted->sa_handler == SIG_DFL && atomic_load(&is_watched[number]))) {
        ours.sa_sigaction = image_on_signal;
        ours.sa_flags = (wanted->sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO;
    }
    if (!is_function) {
        for (struct image_signals *rank = image_signals_first(); rank; rank = atomic_load(&rank->next))
            if (image_signals_has_handler(rank, number))
                return 0;
    }
    return sigaction(number, &ours, NULL);
}

/* sigaction for such a signal. With the lock held. */
static int set_counted(struct image_libc *libc, int number, const struct sigaction *wanted,
                       struct sigaction *old_out)
{
    struct image_signals *own = wanted ? image_signals_make_held(libc) : libc->signals;
    struct sigaction old;

    if (wanted && !own) {
        errno = ENOMEM;
        return -1;
    }
    if (sigaction(number, NULL, &old) != 0)
        return -1;
    if (wanted)
        note_initial(number, &old);
    if (initial[number].is_known)
        old = own && own->is_set[number] ? own->actions[number] : initial[number].action;
    if (wanted) {
        bool was_set = own->is_set[number];
        own->actions[number] = *wanted;
        own->is_set[number] = true;
        if (image_action_is_function(wanted))
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

/* sigaction in a child of vfork: only the kernel's action is the child's own, the memory is the rank's. */
static int set_in_child(struct image_libc *libc, int number, const struct sigaction *wanted,
                        struct sigaction *old_out)
{
    struct sigaction old;

    if (sigaction(number, wanted, &old) != 0)
        return -1;
    if (old.sa_sigaction == image_on_signal)
        old = libc->signals && libc->signals->is_set[number] ? libc->signals->actions[number]
                                                             : initial[number].action;
    else if (old.sa_sigaction == image_on_fault)
        old = libc->fault_actions ? libc->fault_actions[image_fault_index(number)]
                                  : (struct sigaction){.sa_handler = SIG_DFL};
    if (old_out)
        *old_out = old;
    return 0;
}

static int set_of(struct image_libc *libc, int number, const struct sigaction *wanted,
                  struct sigaction *old_out)
{
    int index = libc ? image_fault_index(number) : -1, result;
    sigset_t before;

    if (!libc || number <= 0 || number >= NSIG)
        return sigaction(number, wanted, old_out);
    if (image_shares_memory())
        return set_in_child(libc, number, wanted, old_out);
    image_signals_hold(&before);
    result = index < 0 ? set_counted(libc, number, wanted, old_out)
                       : image_fault_set(libc, index, wanted, old_out);
    image_signals_let_go(&before);
    return result;
}

static int image_libc_sigaction(int number, const struct sigaction *wanted, struct sigaction *old_out)
{
    return set_of(image_signals_rank_of(__builtin_return_address(0)), number, wanted, old_out);
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
    struct image_libc *libc = image_signals_rank_of(__builtin_return_address(0));

    if (!libc || handler == SIG_ERR)
        return signal(number, handler);
    return set_handler(libc, number, handler, SA_RESTART);
}
IMAGE_REBINDS(image_libc_signal, "signal", "bsd_signal", "ssignal");

static image_signal_fn image_libc_sysv_signal(int number, image_signal_fn handler)
{
    struct image_libc *libc = image_signals_rank_of(__builtin_return_address(0));

    if (!libc || handler == SIG_ERR)
        return sysv_signal(number, handler);
    return set_handler(libc, number, handler, (int)(SA_RESETHAND | SA_NODEFER));
}
IMAGE_REBINDS(image_libc_sysv_signal, "__sysv_signal", "sysv_signal");
