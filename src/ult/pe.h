/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pe.h: the inside of a PE; for the files of src/ult alone.
 */
#ifndef ULT_PE_H
#define ULT_PE_H

#include <pthread.h>

#include "ult/ult.h"

/* Items that did not fit into a full inbox, in order; malloc'ed. */
struct ult_backlog_entry {
    struct ult_item item;
    struct ult_backlog_entry *next;
};
struct ult_backlog {
    struct ult_backlog_entry *first;
    struct ult_backlog_entry *last;
};

struct ult_pe {
    struct ult *queue_first; /* the run queue, in the order in which ULTs run */
    struct ult *queue_last;
    uint64_t n_switches;        /* switches between ULTs */
    uint64_t n_sleeps;          /* sleeps for lack of a ready ULT */
    int *errno_addr;            /* this thread's errno */
    void **cxa_globals;         /* this thread's exception state, two words; NULL: no libstdc++ */
    unsigned n_yields;          /* since the sources were last polled */
    int n_live;                 /* ULTs that have not ended */
    struct ult_source *sources; /* what else is polled */
    struct ult *timer_first;    /* sleepers by wake_at_ns */
    struct ult *timer_last;
    struct ult_backlog *backlogs; /* by destination PE */
    int n_backlogged;             /* entries in all of them */
    struct ult_ring **rings_to;   /* by destination PE: this PE's ring in its inbox; NULL: nothing sent yet */
    pthread_t thread;
    pid_t tid;       /* the kernel's name of it */
    struct ult base; /* the PE's own context as a ULT: first and last to run */
    /* What other PEs read, in lines that are never or seldom written: */
    int pe_id BASE_CACHE_ALIGNED;
    int event_fd;                              /* wakes the PE from its sleep */
    _Atomic bool is_asleep BASE_CACHE_ALIGNED; /* sleeps, or is about to: senders must wake it */
    struct ult_inbox inbox BASE_CACHE_ALIGNED;
};

/* The job's PEs and what they share; set up by ult_job_init. */
struct ult_job {
    int n_pes;
    struct ult_pe *pes;
    struct ult_hooks hooks;
    _Atomic int n_live;  /* ULTs of all PEs that have not ended, and PEs that have not created theirs yet */
    bool has_membarrier; /* a PE that falls asleep can make all others pass a barrier: senders need none */
    int node_index;      /* this process among those of the job on this node */
    int node_n_procs;    /* how many these are; 0: not told, one */
    int spin_polls;      /* polls of an idle PE before it sleeps */
    bool is_oversubscribed;    /* there are more PEs on this node than cores */
    _Atomic int n_backlogged;  /* entries in the backlogs of all PEs */
    pthread_mutex_t idle_lock; /* guards n_asleep */
    int n_asleep;              /* PEs that sleep */
};
extern struct ult_job ult_job;

/* Waits until the PE has a ready ULT, or `until_done` and every ULT of the job has ended: polls, then sleeps.
 * (idle.c) */
void ult_pe_idle(struct ult_pe *pe, bool until_done) BASE_NOINLINE;

/* Polls everything once; returns how many events there were. (idle.c) */
int ult_pe_poll(struct ult_pe *pe) BASE_NOINLINE;

/* Wakes the PE if it sleeps. Any thread. (idle.c) */
void ult_pe_wake(struct ult_pe *pe);

/* Waits for the caller's turn to be the one between ult_exclusive_begin and end; gives it away.
 * (exclusive.c) */
void ult_exclusive_take(struct ult *self);
void ult_exclusive_let_go(void);

/* Lets the other ready ULTs of the PE run first; false: there is none. Does no errands. (pe.c) */
bool ult_pe_let_others_run(struct ult *self);

/* Adds a sleeper; readies those whose time has come and returns their number; ns until the next one, or -1.
 * (timer.c) */
void ult_timer_add(struct ult_pe *pe, struct ult *u);
int ult_timer_fire(struct ult_pe *pe);
int64_t ult_timer_next_ns(const struct ult_pe *pe);

#endif
