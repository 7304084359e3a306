/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_signal.h: what a rank has set for signals, and how they are delivered. Between rebind_signal.c (delivery),
 * rebind_sigaction.c (actions), rebind_fault.c (the same for faults) and rebind_sigmask.c (masks, waits for signals).
 */
#ifndef IMAGE_REBIND_SIGNAL_H
#define IMAGE_REBIND_SIGNAL_H

#include "image/libc/rebind.h"

#include <signal.h>
#include <spawn.h>

/* Sets of signals have bit N - 1 for signal N. */
static inline uint64_t image_signal_bit(int number)
{
    return UINT64_C(1) << (number - 1);
}

/* Calls the action's function. */
void image_action_call(const struct sigaction *action, int number, siginfo_t *info, void *context);
bool image_action_is_function(const struct sigaction *action);

/* ---- Faults ---- */

/* The signal's place in struct image_libc.fault_actions; -1: it is no fault. */
int image_fault_index(int number);

/* sigaction for the fault of that place. With image_signals_lock held. */
int image_fault_set(struct image_libc *libc, int index, const struct sigaction *wanted,
                    struct sigaction *old_out);

/* The process's handler of faults. */
void image_on_fault(int number, siginfo_t *info, void *context);

/* ---- Other signals ---- */

/* A thread in sigwait that is not a main thread. */
struct image_waiter {
    _Atomic pid_t tid; /* the kernel's id; 0: the element is free; -1: it is no longer, but not filled in */
    _Atomic uint64_t set; /* it waits for these */
};
enum { IMAGE_WAITERS = 4 }; /* others of a rank poll */

/* Of signals with smaller numbers the kernel keeps one per OS thread. */
enum { IMAGE_MERGED = 32 };

/* The information of a pending signal. */
struct image_kept {
    atomic_int state; /* of rebind_sigpending.c; 0: the element is free */
    siginfo_t info;
};
enum { IMAGE_KEPT = 8 }; /* others of a rank lose it */

/* What a rank has set for them. */
struct image_signals {
    int mark; /* in si_errno of a signal that is for this rank alone; > 0 */
    struct sigaction actions[NSIG];
    bool is_set[NSIG];     /* else the rank has the process's action */
    atomic_int n_running;  /* calls of its handlers that have not returned */
    atomic_bool has_ended; /* its threads may still send signals to it: they are dropped */
    /* The OS thread on which a signal will come, which the rank may have left then; 0: none. */
    _Atomic pid_t queued_to[NSIG];       /* its handlers have to run */
    _Atomic pid_t sent_to[IMAGE_MERGED]; /* it is for the main thread alone */
    _Atomic uint64_t blocked;            /* by its main thread */
    _Atomic uint64_t pending;            /* they have come, and are blocked, or the rank did not run */
    struct image_kept kept[IMAGE_KEPT];  /* of these */
    _Atomic uint64_t awaited;            /* the main thread waits for these in sigwait */
    _Atomic uint64_t was_awaited;        /* one of its threads waits, or has waited, for these */
    struct image_waiter waiters[IMAGE_WAITERS];
    atomic_int place; /* for image_rebind_client.main_tid */
    struct image_libc *libc;
    _Atomic(struct image_signals *) next; /* link of the list of all */
};

/* The first of all ranks that have set an action or a mask. */
struct image_signals *image_signals_first(void);

/* The rank's, which is made if there is none; NULL: no memory. Takes image_signals_lock; the second form expects it held. */
struct image_signals *image_signals_make(struct image_libc *libc);
struct image_signals *image_signals_make_held(struct image_libc *libc);

/* Take and release image_signals_lock. No signal comes meanwhile: its handler could wait for the lock for ever. */
void image_signals_hold(sigset_t *before_out);
void image_signals_let_go(const sigset_t *before);

/* The process's handler of them. */
void image_on_signal(int number, siginfo_t *info, void *context);

/* The default action of the signal is a rank's, no longer the process's. Takes image_signals_lock. */
void image_signals_watch(int number);

/* The action before any rank's; all zero (SIG_DFL) if none has set one. */
const struct sigaction *image_action_initial(int number);

/* The rank of the calling code: a handler may interrupt another rank. NULL: not in a rank. */
struct image_libc *image_signals_rank_of(const void *code);

/* True if a function of the rank handles the signal. */
bool image_signals_has_handler(const struct image_signals *rank, int number);

/* True if this OS thread is that of the rank's main thread. */
bool image_signals_are_at(struct image_signals *rank, pid_t tid);

/* Before a jump, which leaves the running handlers. */
void image_signals_jump(void);

/* Runs the rank's handler, or the default action, for a signal that was pending. On its stack. */
void image_signals_run(struct image_signals *rank, int number, siginfo_t *info);

/* Delivers a signal that a thread has taken from the kernel, and that is not for `taker`, as if each other rank were a process.
 * Returns true if it is for `taker`, too: `info` has become that of a signal without a mark. Never switches. */
bool image_signals_pass_on(struct image_signals *taker, int number, siginfo_t *info);

/* The rank's action (NULL: of none). */
const struct sigaction *image_action_of(const struct image_signals *rank, int number);

/* True if the default action of the signal does nothing. */
bool image_action_is_harmless(int number);

/* The kernel's default action of the signal, for the process, though ranks of this OS thread may block it. Returns if that does not
 * end the process. */
void image_act_by_default(int number);

/* In sival_int of a signal without a value that is recorded in `sent_to` of its rank. */
enum { IMAGE_MARK_SENT = 1 };

/* False: the action before any rank's is the process's. */
bool image_action_is_known(int number);

/* ---- Pending signals: rebind_sigpending.c ---- */

/* May be called in handlers of signals, on any thread. */
void image_mask_add_pending(struct image_signals *rank, int number, const siginfo_t *info);
void image_mask_drop_pending(struct image_signals *rank);

/* Takes a pending signal of the set; 0: there is none. */
int image_mask_take_pending(struct image_signals *rank, uint64_t set, siginfo_t *info_out);

/* Drops the information of one of these signals: it is not pending. */
void image_mask_forget(struct image_signals *rank, int number);

/* A signal of the set; 0: it is empty. */
static inline int image_signal_first(uint64_t set)
{
    return set ? __builtin_ctzll(set) + 1 : 0;
}

/* Runs the handlers of those that the rank does not block. On its stack. */
void image_mask_run_pending(struct image_signals *rank);

/* True if the rank's main thread blocks the signal: it is pending now. (rebind_sigmask.c) */
bool image_mask_keeps_blocked(struct image_signals *rank, int number, const siginfo_t *info);

/* See image_libc_room.mask_of_others. */
bool image_mask_of_others(sigset_t *own_out, sigset_t *others_out);

/* In a forked child: unblocks what other ranks have blocked in its parent. Takes that out of a mask that was saved before. */
void image_mask_leave(const sigset_t *others);
void image_mask_correct(sigset_t *saved);

/* At the rank's end, which is recorded: its OS thread no longer blocks what the rank alone has blocked. Such signals that are
 * pending are for the ranks that stay. */
void image_mask_end_rank(struct image_libc *libc);

/* The attributes of a spawn (NULL: none), or, in `changed`, the same with the mask of the caller's rank where they say nothing of a
 * mask. (rebind_process.c) */
const posix_spawnattr_t *image_mask_for_spawn(const posix_spawnattr_t *attributes,
                                              posix_spawnattr_t *changed);

/* True if a signal to the rank has been kept until the rank unblocks it or waits for it (rebind_sigmask.c). Never switches; may
 * be called in a signal handler. */
bool image_mask_keeps(struct image_signals *rank, int number, const siginfo_t *info);

#endif
