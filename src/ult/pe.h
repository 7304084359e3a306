/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pe.h: the inside of a PE; for the files of src/ult alone.
 */
#ifndef ULT_PE_H
#define ULT_PE_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include "ult/pe_lock.h"
#include "ult/ult.h"

/* Items that did not fit into a full inbox, in order; malloc'ed, unlike an item not aligned, which malloc does not do fast. */
struct ult_backlog_entry {
    struct ult_backlog_entry *next;
    void (*handle)(const struct ult_item *);
    unsigned char body[ULT_ITEM_BYTES];
};
struct ult_backlog {
    struct ult_backlog_entry *first;
    struct ult_backlog_entry *last;
};

/* An OS thread that runs a PE's ULTs, or ran them until one of these kept it. */
struct ult_carrier {
    struct ult base; /* its own context as a ULT: first and last to run */
    struct ult_pe *pe;
    pthread_t thread;
    struct ult_carrier *successor; /* the carrier that replaced this one; NULL: none */
    struct ult_waiter waiter;      /* wakes it when a ULT is ready */
    void *thread_pointer;          /* the OS thread's */
    pid_t tid;                     /* the kernel's id of the OS thread */
};

/* A PE's state for several OS threads; in use once the PE is shared. Guarded by the lock unless stated otherwise.
 * (sharing.c) */
struct ult_sharing {
    struct ult_lock lock;
    unsigned n_entries;   /* times that the lock was taken, except by waiting threads to poll */
    _Atomic int n_active; /* threads that use the PE and do not wait for it */
    bool is_carrier_idle; /* the carrier waits */
    bool has_no_more;     /* creating another carrier has failed */
    struct ult *outside;  /* the carrier's ULT while it runs the program's code; NULL: it is in the library */
    uint64_t n_returns;   /* number of returns of such ULTs to the program's code */
    sigset_t signal_mask; /* of the carriers */
    struct ult_watcher *watcher;   /* NULL: none */
    _Atomic uint64_t n_polls;      /* polls by waiting threads; changed with the lock */
    int n_awake;                   /* waiting threads that do not sleep on their bell */
    struct ult_waiter *sleeper;    /* the waiting thread that sleeps until events come; NULL: none */
    struct ult_waiter *parked;     /* threads that sleep on their bell, newest first */
    struct ult_progress *progress; /* NULL: none; set on the carrier before other threads use the PE */
    /* The waiting thread that polls; NULL: none. In another cache line than the lock, because waiting threads read it. */
    _Atomic(struct ult_waiter *) poller BASE_CACHE_ALIGNED;
};

/* A thread that makes progress while the carrier is in the program's code. The PE's lock guards is_kept and n_users. */
struct ult_progress {
    struct ult ult; /* its own, bound */
    pthread_t thread;
    atomic_bool is_stopping; /* it ends */
    bool is_kept;            /* until the end of the job */
    int n_users;             /* calls of ult_progress_start that have not been undone */
};

struct ult_pe {
    struct ult_pe_slots slots; /* first: ult_pe_slot */
    struct ult *queue_first;   /* the run queue, in the order in which ULTs run */
    struct ult *queue_last;
    uint64_t n_switches;        /* switches between ULTs */
    uint64_t n_waits;           /* waits for a ready ULT */
    uint64_t n_sleeps;          /* sleeps for lack of a ready ULT */
    struct ult *ended;          /* the last one that ended, except bound ones; NULL: none */
    uint64_t n_before_end;      /* n_switches at that time */
    int *errno_addr;            /* this thread's errno */
    void **cxa_globals;         /* this thread's exception state, two words; NULL: no libstdc++ */
    unsigned n_yields;          /* since the sources were last polled */
    unsigned n_until_lend;      /* yields of ULTs since the start, if there are more PEs than cores */
    uint32_t n_random;          /* random numbers drawn so far (shuffle.c) */
    int n_live;                 /* ULTs that have not ended */
    struct ult_source *sources; /* other event sources to poll */
    struct ult *timer_first;    /* sleepers by wake_at_ns */
    struct ult *timer_last;
    struct ult_backlog *backlogs; /* by destination PE */
    int n_backlogged;             /* entries in all of them */
    int n_offloaded;              /* calls in progress on other threads (offload_threads.c) */
    bool must_poll;               /* asleep, but a sender may not see it: membarrier failed */
    struct ult_ring **rings_to;   /* by destination PE: this PE's ring in its inbox; NULL: nothing sent yet */
    struct ult_carrier *carrier;  /* the OS thread that runs its ULTs now */
    struct ult_carrier first;     /* the first one */
    pid_t tid;                    /* the kernel's name of the carrier */
    struct lender *lenders;       /* OS threads whose thread pointers its ULTs have (lender.c) */
    bool is_shared;               /* other threads use the PE, too: sharing.h */
    struct ult_sharing sharing BASE_CACHE_ALIGNED;
    /* Read by other PEs; in cache lines that are never or seldom written: */
    int pe_id BASE_CACHE_ALIGNED;
    int event_fd;                              /* wakes the PE */
    _Atomic bool is_asleep BASE_CACHE_ALIGNED; /* sleeps, or is about to: senders must wake it */
    struct ult_inbox inbox BASE_CACHE_ALIGNED;
};

/* The job's PEs and shared state; set up by ult_job_init. */
struct ult_job {
    int n_pes;
    struct ult_pe *pes;
    struct ult_hooks hooks;
    _Atomic int n_live;  /* ULTs of all PEs that have not ended, plus PEs that have not created theirs yet */
    bool has_membarrier; /* a PE that falls asleep can force a barrier on all others: senders need none */
    int node_index;      /* this process among those of the job on this node */
    int node_n_procs;    /* number of these processes; 0: unspecified, one */
    int spin_polls;      /* polls of an idle PE before it sleeps */
    bool is_oversubscribed;    /* there are more PEs on this node than cores */
    _Atomic int n_backlogs;    /* backlogs of all PEs that are not empty */
    pthread_mutex_t idle_lock; /* guards n_asleep */
    int n_asleep;              /* PEs that sleep */
    _Atomic int n_threads;     /* OS threads that use PEs, if one is shared */
    int n_cores;               /* cores that this process may use */
};
extern struct ult_job ult_job;

/* Waits until the PE has a ready ULT, or `until_done` and every ULT of the job has ended: polls, then sleeps.
 * (idle.c) */
void ult_pe_idle(struct ult_pe *pe, bool until_done) BASE_NOINLINE;

/* Polls the inbox and all sources once; returns the number of events. (idle.c) */
int ult_pe_poll(struct ult_pe *pe) BASE_NOINLINE;

/* Wakes the PE if is_asleep is set; always. Any thread. (idle.c) */
void ult_pe_wake(struct ult_pe *pe);
void ult_pe_wake_now(struct ult_pe *pe);

/* Acquires the exclusive turn between ult_exclusive_begin and end; releases it. (exclusive.c) */
void ult_exclusive_take(struct ult *self);
void ult_exclusive_let_go(void);

/* Releases the turn of a ULT that ends, if it has it. */
void ult_exclusive_leave(struct ult *self);

/* Runs all errands of the caller, on its stack. (pe.c) */
void ult_errands_run(struct ult *self);

/* Reports to ult_watchers that the wait of a ULT is over. (watchers.c) */
void ult_report_ready(struct ult *u) BASE_COLD;

/* Runs the other ready ULTs of the PE first; false: none is ready. Does not run errands. (pe.c) */
bool ult_pe_let_others_run(struct ult *self);

/* Makes the calling OS thread this PE's carrier: finds the addresses of the thread's own state. Pins it to the PE's
 * core. Runs the PE's ULTs until they have ended, then answers messages until all ULTs of the job have ended.
 * (pe.c) */
void ult_pe_attach(struct ult_carrier *carrier);
void ult_pe_pin(const struct ult_pe *pe);
void ult_pe_run(struct ult_carrier *carrier);

/* Names the calling OS thread, one of this PE's, for perf, top and gdb: "PE 3" for the role "PE". (os_thread.c) */
void ult_pe_name_thread(const struct ult_pe *pe, const char *role);

/* Records the cores of this process for the threads of offload_threads.c, before a PE is pinned.
 * (offload_threads.c) */
void ult_offload_init(void);

/* Starts an OS thread of this library's own; returns an error number. (os_thread.c) */
int ult_pe_create_thread(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                         void *arg) BASE_MUST_CHECK;

/* Time after which a waiting thread yields its core if there are more threads than cores. It is longer
 * than an answer takes: threads that exchange messages run at the same time, and do not switch for each
 * message. */
#define ULT_YIELD_AFTER_NS 2500

/* True if there are more threads than cores. */
static inline bool ult_is_crowded(void)
{
    return ult_job.is_oversubscribed ||
           atomic_load_explicit(&ult_job.n_threads, memory_order_relaxed) > ult_job.n_cores;
}

/* The calling OS thread holds the lock of its PE. */
extern __thread bool ult_has_lock __attribute__((tls_model("initial-exec")));

/* ---- Sharing (sharing.c). The caller holds the PE's lock. ---- */

/* Blocks a bound ULT, whose state is BLOCKED, until it is ready. */
void ult_sharing_wait(struct ult *self);

/* ult_pe_idle for a shared PE. */
void ult_sharing_idle(struct ult_pe *pe, bool until_done);

/* Polls, then lets other threads use the PE and other ULTs run. */
void ult_sharing_yield(struct ult *self);

/* Ends a bound ULT: never returns to it. */
void ult_sharing_end(struct ult *self) BASE_NORETURN;

/* Takes the lock of the PE, which the caller does not hold yet. */
void ult_sharing_lock(struct ult_pe *pe);

/* Time that ready ULTs wait for a carrier in the program's code before they get another one. */
#define ULT_KEEP_AFTER_NS 500000

/* Starts the thread that gives the ULTs of a shared PE another carrier if the carrier stays in the program's code. u:
 * one of the ULTs. On the carrier, or with the lock. If no thread can be started, only prints a message. */
void ult_watcher_start(const struct ult *u);

/* The carrier is in the program's code: it has just returned there, or a ULT is ready. */
void ult_watcher_notify(const struct ult_pe *pe);

/* Ends the watchers of all PEs; no ULT runs any more. */
void ult_watchers_end(void);

/* Blocks a progress thread's ULT until ult_sharing_stop, which any thread may call, without the lock, when
 * *is_stopping is set. */
void ult_sharing_wait_for_stop(struct ult *self, const atomic_bool *is_stopping);
void ult_sharing_stop(struct ult *u);

/* A bound ULT that is PARKED is ready. */
void ult_sharing_ready(struct ult *u);

/* All ULTs of the job have ended: wakes the PE's carrier if it waits. Any thread, without the lock. */
void ult_sharing_job_ended(struct ult_pe *pe);

/* The calling thread leaves the PE: releases its lock if the thread holds it. May be called without the lock. */
void ult_sharing_leave(struct ult_pe *pe);

/* ---- Sleeping (idle.c) ---- */

/* Most sources with an fd that one PE sleeps on. */
#define ULT_SLEEP_FDS_MAX 8

/* The file descriptors and the time limit of a sleep. */
struct ult_sleep {
    struct pollfd fds[1 + ULT_SLEEP_FDS_MAX];
    nfds_t n_fds;
    int64_t limit_ns; /* how long at most; -1: no limit */
};

/* Marks the PE asleep, so that senders wake it. False: there are events, the PE is not asleep. */
bool ult_idle_announce(struct ult_pe *pe);

/* Counts the PE among the sleepers. The last one to fall asleep, with nothing under way, has found a
 * deadlock. Returns the ns that the PE may sleep; 0: no limit. ult_idle_leave reverts it. */
int64_t ult_idle_enter(void);
void ult_idle_leave(void);

/* True if all PEs sleep. */
bool ult_idle_all(void);

/* Gets ready to sleep for at most limit_ns (0: no limit) until a sender, a source or a timer wakes the PE;
 * false: there are events already. Then sleeps. */
bool ult_idle_prepare(struct ult_pe *pe, int64_t limit_ns, struct ult_sleep *sleep_out) BASE_MUST_CHECK;
void ult_idle_sleep(const struct ult_pe *pe, struct ult_sleep *sleep);

/* How long the PE may poll now before it sleeps, in ns. */
uint64_t ult_idle_spin_ns(const struct ult_pe *pe);

/* Adds a sleeper; readies those whose time has come and returns their number; ns until the next one, or -1.
 * (timer.c) */
void ult_timer_add(struct ult_pe *pe, struct ult *u);
int ult_timer_fire(struct ult_pe *pe);
int64_t ult_timer_next_ns(const struct ult_pe *pe);

#endif
