/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sharing.h: PEs that several OS threads use: threads that the program makes call the library for their rank.
 *
 * A PE is made for one OS thread, its *carrier*, which runs its ULTs one after another, and all that belongs
 * to the PE is touched by that thread alone. A PE becomes *shared* when a rank whose threads may call MPI
 * starts its first thread. From then on the PE has a lock, and whoever is in the library holds it: the carrier
 * takes it when its ULT enters the library, and gives it back when the ULT returns to the program's code. A
 * thread of the program enters as a ULT of its own, which is *bound* to its OS thread: it takes the lock and
 * runs the call itself. Where a bound ULT would be switched away from, its OS thread gives the lock back and
 * waits. So inside the library everything is as on a PE that is not shared.
 *
 * Threads that wait take turns: one polls; when nothing comes, one sleeps until an event comes (the
 * *sleeper*), and the others sleep on a bell of their own, which is rung when their ULT is ready.
 *
 * If the carrier is in the program's code and stays there (its rank waits for its own threads), while ULTs of
 * other ranks are ready on the PE, then the ULT keeps that OS thread and becomes bound, and a new OS thread is
 * the PE's carrier. This needs no help of the code that runs: the other ULTs are all inside the library.
 *
 * Which thread touches what, and the interleavings that have been thought through: docs/decisions/0033.
 * Included by ult.h only.
 */
#ifndef ULT_SHARING_H
#define ULT_SHARING_H

/* In ult.detours: the ULT is bound. */
#define ULT_BOUND 0x80

/* How many PEs are shared. */
extern _Atomic int ult_n_shared;

/* From now on other OS threads may use the PE of the running ULT. On its carrier, in any state. */
void ult_pe_share(void);

bool ult_pe_is_shared(const struct ult_pe *pe);

/* The running ULT enters the library, or leaves it again for the program's code; calls may be nested. Between
 * the two, everything of ult.h may be called. A ULT begins inside of the library. May wait for the PE's lock;
 * never switches. */
static inline void ult_enter(struct ult *u);
static inline void ult_leave(struct ult *u);

/* May code that the program's code calls, without ult_enter, use what belongs to the PE? Not if it is shared. */
static inline bool ult_has_pe(const struct ult *u);

/* The parts of these for PEs that may be shared. */
void ult_enter_shared(struct ult *u) BASE_COLD;
void ult_leave_shared(struct ult *u) BASE_COLD;

/* Sets *u up, which is zeroed, as the ULT of an OS thread which the program made; it is of the same PE as
 * main, whose errands it does while it waits. The PE is shared. */
void ult_bind(struct ult *u, struct ult *main);

/* The OS thread ends. */
void ult_unbind(struct ult *u);

/* The calling OS thread enters the library as this ULT of its own, and leaves it: inside, ult_self is it. */
void ult_enter_bound(struct ult *u);
void ult_leave_bound(struct ult *u);

/* Starts a thread that polls the PE of the running ULT, or sleeps until events come, while the carrier is in the
 * program's code. The PE is shared from then on. On its carrier, once. Returns an error number. */
bool ult_progress_is_started(void);
int ult_progress_start(void) BASE_MUST_CHECK;

/* Ends these threads of all PEs. No ULT runs any more, or the only one, which is the caller's. */
void ult_progress_stop(void);

/* BLOCKED or PARKED? Bound? */
static inline bool ult_is_blocked(const struct ult *u);
static inline bool ult_is_bound(const struct ult *u);

#endif
