/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gate.h: entering and leaving the library, for ranks whose threads may call MPI.
 *
 * Each function of MPI that the library exports is a gate (tools/gen_gates.py), and its code is behind it
 * (AMPI_EXPORT in handle.h). While no rank of the process has asked for MPI_THREAD_SERIALIZED or
 * MPI_THREAD_MULTIPLE, the gate costs one comparison and jumps. Else it enters the PE of the caller's rank
 * before the call, and leaves it afterwards (ult/sharing.h): a rank's main thread as the rank's own ULT,
 * another thread of the rank as a ULT of that thread's own. Both act for the rank: ampi_self() is the rank.
 *
 * A call that is not allowed passes the gate unchanged, and ampi_enter raises the error.
 */
#ifndef AMPI_GATE_H
#define AMPI_GATE_H

#include "ampi/object/rank.h"

/* A thread of a rank besides the rank's ULT, which has called MPI. */
struct ampi_thread {
    struct ult ult;
    struct ampi_thread *next; /* link of the rank's list, which the PE's lock guards */
    struct ampi_rank *rank;
    pthread_t thread; /* its number */
    pid_t tid;        /* the kernel's */
    int cancel_state; /* the cancelability state before the call (pthread_setcancelstate) */
};

/* True once a rank of this process has a level at which its threads may call MPI. */
extern bool ampi_gate_is_on __attribute__((visibility("hidden")));

/* Called for each call of the program while the gate is on; NULL: not. */
extern void (*ampi_gate_watcher)(const char *call, bool is_thread) __attribute__((visibility("hidden")));

/* The calling thread enters the library; from: the address of its call. Returns the argument of ampi_gate_leave; NULL: it
 * does not enter. May wait for other threads of the PE; never switches. */
struct ult *ampi_gate_enter(const char *call, const void *from);
void ampi_gate_leave(struct ult *entered);

/* ampi_gate_leave of a call from which on streams or kernels may wait for the PE: starts a progress thread if waits in CUDA
 * do not let the PE make progress (gpu_needs_progress). */
void ampi_gate_leave_waiting(struct ult *entered);

/* ampi_gate_enter for a thread that starts MPI for its rank, whose PE is shared. From then on the thread may
 * call MPI, whatever level it requests. Followed by ampi_gate_leave. */
struct ult *ampi_gate_admit(struct ampi_rank *rank, const char *call, const void *from);

/* True if the calling thread, which is outside of MPI and runs no ULT, is its rank's main thread. */
bool ampi_gate_is_main(void);

/* The rank that the caller may use outside of its PE, by endpoints (p2p/thread/endpoint.h); NULL: none. from: as above. */
struct ampi_rank *ampi_gate_rank(const void *from);

/* The same for functions of heddle_mpi_stream.h, which have no generated gate: first and last in each of them. */
static inline struct ult *ampi_gate_pass(const char *call, const void *from)
{
    return BASE_UNLIKELY(ampi_gate_is_on) ? ampi_gate_enter(call, from) : NULL;
}

/* The thread level that a rank gets: the requested one. */
int ampi_gate_level(int required);

/* Sets the rank's level. From MPI_THREAD_SERIALIZED on its threads may call MPI: this turns the gates on, and shares the
 * rank's PE with its threads. On the rank's ULT, or on another thread of the rank if the PE is shared already. */
void ampi_gate_set_level(struct ampi_rank *rank, int level);

/* Called before a thread of the program starts, by the rank's main thread or another of its threads. */
void ampi_gate_thread_begins(void);

/* For reports: another thread of the rank that is in a call of MPI; NULL: none. */
const struct ampi_thread *ampi_gate_other_in_call(const struct ampi_rank *rank);

/* Lets a thread of the rank run an errand: a blocked thread, else the main thread as soon as it blocks or returns to the
 * program. On the rank's PE. Never switches. */
void ampi_rank_send(struct ampi_rank *rank, struct ult_errand *errand);

#endif
