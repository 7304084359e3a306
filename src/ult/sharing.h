/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sharing.h: PEs that several OS threads use: threads that the program makes call the library for their rank.
 *
 * A PE starts with one OS thread, its *carrier*, which runs its ULTs one after another; only that thread accesses the
 * PE's data. A PE becomes *shared* when a rank whose threads may call MPI starts its first thread. From then on the PE
 * has a lock, held by the thread that is in the library: the carrier takes it when its ULT enters the library, and
 * releases it when the ULT returns to the program's code. A thread of the program enters as a ULT of its own, which is
 * *bound* to its OS thread: it takes the lock and runs the call itself. Where an ordinary ULT would switch to another
 * one, the OS thread of a bound ULT releases the lock and waits. So code inside the library needs no further locks.
 *
 * Waiting threads take turns: one polls; when no event comes, one sleeps until an event comes (the *sleeper*), and the
 * others sleep on their own bells, which are rung when their ULTs are ready.
 *
 * If the carrier stays in the program's code (its rank waits for its own threads) while ULTs of other ranks are ready
 * on the PE, its ULT keeps that OS thread and becomes bound, and a new OS thread becomes the PE's carrier. The
 * running code is not interrupted: all other ULTs of the PE are inside the library. The watcher, a thread of the PE,
 * does this (carrier.c).
 *
 * Included by ult.h only.
 *
 * Interleavings that the code relies on:
 *
 * - Ring and sleep. A waiter sets its bell to quiet and its state to PARKED while it holds the lock. The
 *   thread that makes it ready holds the lock, changes the state, then exchanges the bell. The old value
 *   SLEEPS means that the waiter has to be woken, by the event fd if it is the sleeper. The waiter falls
 *   asleep by changing quiet to SLEEPS, which fails if the bell has been rung.
 * - A ULT becomes ready for the carrier. It enters the run queue while the lock is held. Any thread that
 *   releases the lock rings a waiting carrier.
 * - A thread blocks, or returns to the program, while another one is the sleeper. It may leave a timer, an
 *   operation to poll for, or an item for a full inbox, which the sleeper does not know. So it wakes the
 *   sleeper.
 * - The polling thread loses its core. The others wait for their bells, and one of them becomes the
 *   sleeper. If items have arrived, it polls instead.
 * - The sleeper leaves. The last awake thread rings one of the others, which becomes the sleeper.
 * - Senders and is_asleep. A polling thread clears it and notifies the sleeper, which then polls every 0.1
 *   ms until no other thread has polled in between. It sets is_asleep again, passes the barrier, and reads
 *   the inbox once more.
 * - The watcher falls asleep. It sets its bell while it holds the lock. The carrier returns to the program, and ULTs
 *   become ready, while the lock is held, and then ring it. If the watcher does not get the lock, it polls again
 *   soon.
 * - The last ULT ends while the progress thread is the sleeper. The thread that ends it rings the bells of
 *   all carriers. A carrier checks for the end again after it has set is_asleep.
 * - The carrier returns to the library while its OS thread is given away. The keeper holds the lock, so the
 *   ULT waits at its gate, and then finds itself bound. The bound flag is read only under the lock.
 * - A rank ends on an OS thread that it has kept. The ULT returns to that thread's own stack, which waits
 *   for its successor. So PE 0's first thread is the last one, and ends the process.
 * - A call began before the gates were on. It returns without leaving the PE, so its rank keeps the lock
 *   while it computes. This happens once per rank.
 * - The lock is handed over to a thread that has stopped waiting. If no thread was woken, the lock is taken
 *   back.
 * - Errands of a main thread that returns run before the lock is released. Cancellation is disabled within
 *   a call. The child of a fork takes no lock.
 */
#ifndef ULT_SHARING_H
#define ULT_SHARING_H

struct ult_progress;

/* In ult.detours: the ULT is bound. */
#define ULT_BOUND 0x80

/* In ult.detours: the ULT that runs after it is chosen at random (shuffle.h). The rest counts calls of ult_exclusive_begin. */
#define ULT_SHUFFLED 0x40
#define ULT_EXCLUSIVE 0x3f

/* The calling thread may not poll some sources: other threads that wait do not rely on it. It runs no ULT but its own. */
extern __thread bool ult_polls_in_part __attribute__((tls_model("initial-exec")));

/* Number of shared PEs. */
extern _Atomic int ult_n_shared;

/* Lets other OS threads use the PE of the running ULT from now on. Called on its carrier, in any state. */
void ult_pe_share(void);

bool ult_pe_is_shared(const struct ult_pe *pe);

/* The running ULT enters the library, or leaves it again for the program's code; calls may be nested. Between
 * the two, everything of ult.h may be called. A ULT begins inside of the library. May wait for the PE's lock;
 * never switches. */
static inline void ult_enter(struct ult *u);
static inline void ult_leave(struct ult *u);

/* True if code called by the program without ult_enter may use the PE's data: the PE is not shared. */
static inline bool ult_has_pe(const struct ult *u);

/* The parts of ult_enter and ult_leave for PEs that may be shared. */
void ult_enter_shared(struct ult *u) BASE_COLD;
void ult_leave_shared(struct ult *u) BASE_COLD;

/* Sets up the zeroed *u as the ULT of an OS thread that the program started. It belongs to the same PE as main, and runs
 * main's errands while it waits. The PE is shared. */
void ult_bind(struct ult *u, struct ult *main);

/* Called when the OS thread of the ULT ends. */
void ult_unbind(struct ult *u);

/* The calling OS thread enters the library as this ULT of its own, and leaves it: inside, ult_self is it. */
void ult_enter_bound(struct ult *u);
void ult_leave_bound(struct ult *u);

/* For a thread outside its PE: calls is_done until that returns true, for about as long as a thread that waits for
 * its PE polls before it sleeps. False: it has not returned true. */
bool ult_spin_outside(bool (*is_done)(const void *arg), const void *arg);

/* Starts a thread that polls the PE of the running ULT, or sleeps until events come, while the carrier is in the
 * program's code, unless there is one. The PE is shared from then on. is_kept: the thread stays until the end of the job.
 * Returns an error number. */
int ult_progress_start(bool is_kept) BASE_MUST_CHECK;
bool ult_progress_is_started(void);
bool ult_progress_is_kept(void);

/* Undoes a start without is_kept. False: there is none. If the thread has no other user, *ends_out is set, and the caller
 * ends it by ult_progress_end, which other threads may use the PE during. */
bool ult_progress_drop(struct ult_progress **ends_out);
void ult_progress_end(struct ult_progress *progress);

/* Ends the progress threads of all PEs. No ULT runs any more except the caller's. */
void ult_progress_stop(void);

/* True if the ULT is BLOCKED or PARKED; true if it is bound. */
static inline bool ult_is_blocked(const struct ult *u);
static inline bool ult_is_bound(const struct ult *u);

#endif
