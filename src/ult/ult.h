/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ult.h: user-level threads and the PEs that run them.
 *
 * A PE is an OS thread with a queue of ready ULTs and an inbox. A ULT belongs to one PE for its whole
 * life. There is no scheduler thread: a ULT that blocks or yields switches straight to the next ready
 * one; when none is ready it polls, and then sleeps, on its own stack until one is. So a blocking
 * receive whose message is about to come costs no switch at all.
 *
 * States of a ULT, and who moves it on:
 *
 *      1 READY    --(run queue: switch_to_next)-->  2 RUNNING
 *      2 RUNNING  --ult_yield-->                    1 READY
 *      2 RUNNING  --ult_suspend-->                  3 BLOCKED
 *      3 BLOCKED  --ult_ready-->                    1 READY
 *      2 RUNNING  --ult_end-->                      4 ENDED
 *      3 BLOCKED  --ult_send-->                     1 READY, and BLOCKED again when the errand is done
 *
 * Invariants:
 *   1. A ULT is in its PE's run queue if and only if it is READY.
 *   2. Only the PE's own thread touches its run queue and its ULTs; other threads go through the inbox.
 *   3. Between two ULTs of a PE, what the C and C++ libraries keep per OS thread on the program's behalf
 *      (errno, exception state, the program's own thread_local block) is swapped with the ULT.
 */
#ifndef ULT_ULT_H
#define ULT_ULT_H

#include <sys/types.h>

#include "base/base.h"
#include "ult/annotate.h"
#include "ult/inbox.h"

struct ult_pe;

enum ult_state { ULT_READY = 1, ULT_RUNNING = 2, ULT_BLOCKED = 3, ULT_ENDED = 4 };

/* Something that has to be done on the stack of a certain ULT. */
struct ult_errand {
    struct ult_errand *next;          /* link of the ULT's list */
    void (*run)(struct ult_errand *); /* on the ULT; may switch by yielding and sleeping only */
};

struct ult {
    void *sp;                /* saved stack pointer while not RUNNING */
    struct ult *next;        /* link of the PE's run queue */
    struct ult_pe *pe;       /* the PE that runs it, for life */
    unsigned char *tls_save; /* the program's thread_local bytes while not RUNNING; NULL: none */
    void *cxa_globals[2];    /* libstdc++'s per-thread exception state while not RUNNING */
    int saved_errno;         /* errno while not RUNNING */
    enum ult_state state;
    bool is_called;             /* blocked, but for its errands, which it is to do or does */
    bool is_ready_too;          /* ult_ready came while is_called: no longer blocked when these are done */
    uint8_t n_exclusive;        /* calls of ult_exclusive_begin that have not been ended */
    struct ult_errand *errands; /* in order */
    int world_rank;             /* for messages: the rank that this ULT is; -1: none */
    void (*entry)(void *arg);   /* what it runs */
    void *arg;
    char *stack_lo;         /* lowest byte of the stack; the guard lies below */
    char *stack_hi;         /* one past the highest byte */
    const void *resume_at;  /* where the program's code goes on, as far as known: fetched ahead of a switch */
    struct ult *timer_next; /* link of the PE's list of sleepers, by wake_at_ns */
    uint64_t wake_at_ns;    /* when to wake a sleeper (CLOCK_MONOTONIC) */
    void *hook_state;       /* what the hook of ult_hook_switches keeps; NULL at first */
    void *asan_fake_stack;  /* AddressSanitizer's while not RUNNING (asan.h); NULL: none */
    struct ult_annotation annotation; /* for sanitizers; empty in a build without them */
};

/* ---- Life of a job: see pe.c ---- */

/* What the upper layer wants to be told. */
struct ult_hooks {
    /* Every ULT of the process is blocked and nothing outside can wake one. Called on one PE while the others
     * sleep; normally prints a report and ends the process. NULL: the PEs sleep forever. */
    void (*deadlock)(void);
    /* The same, but something outside can: a source (struct ult_source) with an fd has operations under way.
     * Returns after how many ns it wants to be called again, if nothing happens before; 0: not at all.
     * NULL: nothing. */
    int64_t (*quiet)(void);
    /* Called on each PE's thread before its first ULT runs: creates its ULTs. NULL: nothing. */
    void (*pe_start)(struct ult_pe *pe);
};

/* Creates n_pes PEs; PE 0 is the calling thread, the others' threads start in ult_job_run. hooks may be NULL.
 * Ends the process with a message when that cannot be had. */
void ult_job_init(int n_pes, const struct ult_hooks *hooks);

/* Tells that several processes of the job share this node, and which of them this is. Before ult_job_init. */
void ult_job_share_node(int node_index, int node_n_procs);

/* Runs all ULTs until every one has ended. Called once, on the thread of ult_job_init. */
void ult_job_run(void);

/* After ult_job_run, when nothing is to be sent or received any more: the calling thread is no PE from now
 * on. */
void ult_job_leave(void);

/* Makes the calling OS thread the only ULT of PE 0, without a stack of ours: for a process with one rank,
 * which then runs as if it were not virtualized. Sets *u up; to be called after ult_job_init(1). Again, on
 * another thread: that one becomes it. */
void ult_job_adopt_caller(struct ult *u);

/* The PE with this number, 0 <= pe_id < ult_pe_count(). */
struct ult_pe *ult_pe_get(int pe_id);
int ult_pe_count(void);
int ult_pe_id(const struct ult_pe *pe);

/* Its number among all PEs of the job on this node, and how many these are (as far as this process knows: as
 * many in each of the node's processes as here). */
int ult_pe_node_index(const struct ult_pe *pe, int *n_on_node_out);

/* ---- ULTs ---- */

/* Sets up *u to run entry(arg) on the given stack and queues it on the PE. Before ult_job_run, or on the PE
 * itself. */
void ult_create(struct ult *u, struct ult_pe *pe, char *stack_lo, char *stack_hi, void (*entry)(void *),
                void *arg);

/* The running ULT, NULL on a thread that is no PE. */
static inline struct ult *ult_self(void);

/* Blocks the caller until ult_ready. A ready may not come before the suspend: set up what wakes it and
 * suspend without a switch in between. May switch. */
void ult_suspend(void);

/* Makes a BLOCKED ULT of this PE ready; it runs when its turn comes. Never switches. */
void ult_ready(struct ult *u);

/* Has a ULT of this PE do an errand, on its own stack, as soon as it is blocked or yields; a blocked one gets
 * its turn for that alone. The errand's memory must stay valid until it runs. Never switches. */
void ult_send(struct ult *u, struct ult_errand *errand);

/* Lets every other ready ULT of this PE run first, and polls. May switch. */
void ult_yield(void);

/* One ULT of the process at a time goes on behind begin, until its end; may be nested. While it waits or
 * yields, others get in. Nothing on a thread that is no PE. begin may switch. */
void ult_exclusive_begin(void);
void ult_exclusive_end(void);

/* The time (CLOCK_MONOTONIC). */
uint64_t ult_now_ns(void);

/* Blocks the caller for at least this long. May switch. */
void ult_sleep_ns(uint64_t duration_ns);

/* Ends the caller. Never returns. */
void ult_end(void) BASE_NORETURN;

/* How many ULTs of the PE have not ended. On the PE. */
int ult_pe_live(const struct ult_pe *pe);

/* True if a ULT of the PE waits for its turn. On the PE. */
bool ult_pe_has_ready(const struct ult_pe *pe);

/* The switches between ULTs so far, as another thread sees them, and the kernel's number of the PE's thread
 * (0: it has not started). Any thread. */
uint64_t ult_pe_switches_seen(const struct ult_pe *pe);
pid_t ult_pe_tid(const struct ult_pe *pe);

/* Has it found nothing to do, and waits to be woken? Any thread. */
bool ult_pe_is_asleep(const struct ult_pe *pe);

/* What a PE counts. To be read on the PE. */
uint64_t ult_pe_switches(const struct ult_pe *pe);   /* switches between ULTs */
uint64_t ult_pe_sleeps(const struct ult_pe *pe);     /* times it slept, because none of its ULTs was ready */
uint64_t ult_pe_backlogged(const struct ult_pe *pe); /* items that wait for room in other PEs' inboxes */

/* How often an idle PE polls before it sleeps. */
int ult_spin_polls(void);

/* ---- What is swapped with a ULT ---- */

/* A stretch of the program's static TLS block: bytes [tp + tp_offset, + size_bytes), tp the thread
 * pointer. */
struct ult_tls_region {
    ptrdiff_t tp_offset;
    size_t size_bytes;
};

/* Tells which regions belong to the program. Before the first ult_create. At most ULT_TLS_REGIONS_MAX. */
#define ULT_TLS_REGIONS_MAX 16
void ult_tls_set_regions(const struct ult_tls_region *regions, int n_regions);

/* The sum of the regions' sizes: the size of the block that `tls_save` has to have. */
size_t ult_tls_total_bytes(void);

/* Something else that is kept per OS thread on a ULT's behalf, and comes and goes: hook is called on the PE's
 * thread at each switch, before `to` runs, while *hint is not NULL (a load and a branch if it is). It must
 * not switch. Any thread; what hint points to must stay valid until some time after the next call. */
void ult_hook_switches(void *const *hint, void (*hook)(struct ult *from, struct ult *to));

/* ---- Progress: what a PE polls between ULTs ---- */

/* A source of events that is not the inbox (a UCX worker, GPU completions). poll returns how many events it
 * handled. An active source (pending != 0) keeps the deadlock detector quiet. */
struct ult_source {
    int (*poll)(struct ult_source *source);
    int fd;                                 /* an event fd that becomes readable; -1: must be polled */
    bool (*arm)(struct ult_source *source); /* before sleeping on fd; false: events are there, do not sleep */
    uint64_t pending;                       /* operations under way */
    /* What is under way will end soon: worth more polls before sleeping. NULL: never. */
    bool (*is_moving)(const struct ult_source *source);
    struct ult_source *next; /* link of the PE's list of sources */
};
void ult_pe_add_source(struct ult_pe *pe, struct ult_source *source);

/* Handles what lies in this PE's inbox and sources; returns how many items there were. Never switches. */
int ult_progress(void);

/* Wakes all PEs that sleep, so that they poll. What they are to find must have been written before
 * (sequentially consistent), and their sources' arm must look for it. Any thread. */
void ult_wake_all(void);

/* Inboxes: ult/inbox.h has the item types; these send to a PE. */

/* Puts a copy of *item into the inbox of another PE (or of this one). Items of one sender PE stay in order.
 * Never fails, never switches: when the inbox is full the item waits in the sender's backlog. PE threads
 * only. */
void ult_post_item(struct ult_pe *dest, const struct ult_item *item);

/* Queues a note: the caller provides its memory, which must stay valid until handled. Any thread. */
void ult_post_note(struct ult_pe *dest, struct ult_note *note);

/* A note that waits for the items before it. */
struct ult_fence {
    struct ult_note note;
    void (*arrived)(
        struct ult_fence *); /* called on the destination PE; may free the fence; may not switch */
    bool is_last_round;      /* its own */
};

/* Calls fence->arrived on the PE when that has handled all items that were posted to it before this call. The
 * caller provides the fence's memory. Any thread. */
void ult_post_fence(struct ult_pe *dest, struct ult_fence *fence);

#include "ult/ult_inline.h"

#endif
