/* SPDX-License-Identifier: BSD-3-Clause
 *
 * win.h: windows (MPI 5.0, chapter 12, One-Sided Communications).
 *
 * As with communicators, the members of one process share one object, and each has a small handle:
 *
 *      ampi_win_shared ---- targets[rank]   base, size and displacement unit of every member
 *                      \--- handles[]       the members of this process (struct ampi_win)
 *
 * The last member to arrive at the creating collective creates all of them. A window has its own
 * communicator, for its collectives and as its id between processes.
 *
 * Within a process the target is passive: the origin copies from or to the target's memory, or combines
 * under the target's lock (accumulate.c), and an operation is complete when its call returns.
 *
 * Epochs of a handle as origin (`access`), and the calls that change them:
 *
 *      NONE  --fence-->  FENCE  --fence-->  FENCE, or NONE with MPI_MODE_NOSUCCEED
 *      NONE  --start-->  START  --complete-->  NONE
 *      NONE  --lock-->   LOCK   --unlock, of the last target-->  NONE
 *      NONE  --lock_all-->  LOCK_ALL  --unlock_all-->  NONE
 *
 * A fence without a following operation has not opened an epoch: start, lock and post are allowed in FENCE
 * then.
 */
#ifndef AMPI_WIN_H
#define AMPI_WIN_H

#include "ampi/comm/comm.h"
#include "ampi/object/attr.h"
#include "ampi/object/info.h"
#include "ampi/p2p/request.h"
#include "ampi/procs/segment.h"
#include "ampi/rma/win_lock.h"

enum ampi_access {
    AMPI_ACCESS_NONE,
    AMPI_ACCESS_FENCE,
    AMPI_ACCESS_START,
    AMPI_ACCESS_LOCK,
    AMPI_ACCESS_LOCK_ALL
};

/* A member's memory, as seen by origins. */
struct ampi_win_target {
    char *base; /* an address in this process if accessible, else in the member's process */
    MPI_Aint size_bytes;
    MPI_Aint disp_unit;
    struct ampi_win *handle; /* NULL: the member is in another process */
    struct ampi_win *at; /* if accessible: the handle, or a stand-in for a member in another process of the
                          * node; NULL: inaccessible */
    int node;            /* the lowest process of the member's node */
    bool is_device;      /* the memory is a GPU's */
};

/* Memory attached to a dynamic window. */
struct ampi_win_region {
    uintptr_t from;
    uintptr_t to; /* one past its end */
};

/* Makes accumulates on a member's memory atomic. Lies in memory shared by the processes of a node, or in a handle. */
struct ampi_win_guard {
    _Atomic uint32_t owner;  /* 0: free; else 1 + the process that combines */
    _Atomic uint32_t n_torn; /* number of owners that failed: some data may be half written */
};

struct ampi_win_shared {
    _Atomic uint32_t refs;           /* handles not freed yet */
    int n_ranks;                     /* members, in all processes */
    int n_local;                     /* members of this process */
    int flavor;                      /* MPI_WIN_FLAVOR_* */
    bool is_one_pe;                  /* all members are on one PE: operations never run concurrently */
    bool has_own_memory;             /* ALLOCATE: each member has its own, because some want a GPU's */
    bool is_remote;                  /* some members are in other processes */
    struct ampi_comm_shared *comm;   /* the window's own communicator; its handles hold references */
    struct ampi_win_target *targets; /* by rank */
    struct ampi_win *handles;        /* n_local of them */
    void *memory;                    /* from MPI_Win_allocate_shared, for all members of this process */
    size_t memory_bytes;
    size_t alignment_bytes;         /* the largest that a member has asked for */
    struct ampi_win_lock everybody; /* the process's lock: MPI_Win_lock_all excludes exclusive locks of its
                                     * members */
    struct ampi_win_lock gate;      /* ranks wait here while MPI_Win_lock_all waits: lock.c */
    struct ampi_win_shared *next, **link; /* in the list of windows across processes */
    pthread_mutex_t members_lock;         /* guards the next three */
    struct ampi_remote_holder *holders;   /* of locks, in other processes: rma_remote_target.c */
    int n_leaving;                   /* members of this process that have called MPI_Win_free: rma_leave.c */
    struct ampi_rma_leaver *leavers; /* members that wait until all of this process have called it */
    char *segment;                   /* memory shared by processes of the node: win_share.c; NULL: none */
    struct ampi_segment_place place; /* location of the segment */
    struct ampi_win *stand_ins;      /* for accessible members of other processes: only as targets */
    struct ampi_win_keys **keys;     /* across processes, by PE: rma_access.c; each NULL until it is needed */
    int *others;                     /* across processes: the first member in each other process */
    int n_others;
};

struct ampi_win {
    uint32_t magic; /* AMPI_MAGIC_WIN */
    int rank;
    struct ampi_win_shared *shared;
    struct ampi_rank *owner;
    struct ampi_comm *comm; /* the owner's handle of the window's communicator */

    /* As origin; used only by the owner. */
    uint8_t access;      /* enum ampi_access */
    bool has_accessed;   /* FENCE: an operation was issued in this epoch */
    bool is_exposed;     /* between MPI_Win_post and the MPI_Win_wait for it */
    bool has_no_locks;   /* hint no_locks */
    bool is_unchecked;   /* LOCK_ALL, with MPI_MODE_NOCHECK: no lock is held */
    bool has_passed;     /* LOCK: the last locks passed a waiter too often (win_lock.h), or a closed gate */
    uint8_t n_pauses;    /* LOCK: consecutive pauses because of that */
    bool is_unordered;   /* hint accumulate_ordering = none */
    uint32_t n_polls;    /* synchronisation calls, some of which let others run: ampi_win_take_turns */
    uint32_t n_at_once;  /* targets of operations on the fast path: all, or 0 while events are wanted */
    uint64_t *open_to;   /* START, LOCK: a bit for each target; NULL: not needed yet */
    uint64_t *exclusive; /* LOCK: a bit for each target locked exclusively */
    uint64_t *unchecked; /* LOCK: a bit for each target of MPI_MODE_NOCHECK: its lock is not held */
    uint64_t *posted;    /* a bit for each target whose post has arrived before the start */
    uint64_t *awaited;   /* a bit for each target whose post MPI_Win_start waits for */
    uint64_t *combining_at; /* targets in other processes with pending accumulates */
    int n_open;             /* LOCK: number of targets */
    uint32_t n_awaited;     /* number of bits in awaited */
    uint32_t n_under_way;   /* unanswered messages to other processes */
    uint64_t n_begun;       /* messages to other processes so far; each has its number */
    int error; /* of such a message, if no call waited for it; the next completing call raises it */
    uint32_t n_torn_reported; /* ampi_win_count_torn when the owner last raised an error for it */
    uint32_t n_locks;         /* calls that asked other processes for locks; each has its number */
    uint64_t *asked;    /* MPI_Win_lock_all, MPI_Win_free: a bit for each rank that a grant is awaited from */
    uint64_t *busy;     /* MPI_Win_lock_all: a bit for each rank in `asked` that does not grant it at once */
    bool has_failed;    /* a member's process has failed */
    bool has_unflushed; /* some bits of `unflushed` may be set */
    uint64_t *unflushed;           /* a bit for each target that data was put into without a message */
    struct ampi_rma_part *parts;   /* messages of operations that wait for their answers */
    struct ampi_epoch_wait *waits; /* of the owner's threads (epoch.h) */
    struct ampi_group *started;    /* START: the targets */
    struct ampi_group *exposed_to; /* is_exposed: the origins */
    uint32_t n_to_complete;        /* is_exposed: origins that have not called MPI_Win_complete */

    /* Attached objects and values. */
    struct ampi_errhandler *errhandler; /* NULL: MPI_ERRORS_ARE_FATAL */
    struct ampi_attrs *attrs;
    struct ampi_info *info; /* hints in use */
    char *name;             /* NULL: "" */
    void *allocated;        /* MPI_Win_allocate: the owner's memory; NULL: none */
    void *exposed;    /* the machine's name for the memory; NULL: no other process has asked for its key */
    void *key;        /* exposed: the key */
    size_t key_bytes; /* exposed: the key's size */
    int disp_unit;    /* target of the attribute MPI_WIN_DISP_UNIT */
    int model;        /* ... of MPI_WIN_MODEL */

    /* As target; used by origins on all PEs. */
    struct ampi_win_lock lock BASE_CACHE_ALIGNED;       /* MPI_Win_lock */
    struct ampi_win_guard combining BASE_CACHE_ALIGNED; /* of its memory, and of `regions` */
    struct ampi_win_guard *guard; /* that one, or one in memory that processes of the node share */
    int n_regions;
    struct ampi_win_region *regions; /* DYNAMIC: attached memory, ascending */
} BASE_CACHE_ALIGNED;

/* ---- Handles (win.c) ---- */

/* The object of a handle; NULL if it is not valid (including MPI_WIN_NULL). */
static inline struct ampi_win *ampi_win_of(MPI_Win handle)
{
    return ampi_handle_has_magic(handle, AMPI_MAGIC_WIN) ? (struct ampi_win *)handle : NULL;
}

/* Raises MPI_ERR_WIN for a handle that is not a valid window, and returns that class. */
int ampi_win_raise_invalid(MPI_Win handle) BASE_COLD;

/* Calls the window's error handler, and returns the code. May switch. */
int ampi_win_raise(struct ampi_win *win, int error_code, const char *fmt, ...) BASE_PRINTF(3, 4) BASE_COLD;

/* The window as the owner of attributes (win_object.c). */
struct ampi_attr_owner ampi_win_attr_owner(struct ampi_win *win);

/* A member's data for the creation; equal in all processes. */
struct ampi_win_payload {
    char *base;
    MPI_Aint size_bytes;
    MPI_Aint disp_unit;
    int flavor;
    int error;              /* the member cannot take part: all members raise this */
    bool is_device;         /* base is a GPU's memory */
    bool has_own_memory;    /* ALLOCATE: base is memory of the kind that the member wants, not to be shared */
    int node;               /* the lowest process of its node */
    bool is_noncontiguous;  /* hint alloc_shared_noncontig */
    size_t alignment_bytes; /* SHARED, ALLOCATE: of a member's memory, a power of two */
};

/* Frees the memory of a window that all members of this process have freed. Across processes: when its communicator is
 * destroyed, because until then PEs may handle messages to it. */
void ampi_win_destroy(struct ampi_win_shared *shared);

/* Creates the window, collectively; raises errors on the communicator. Flavors other than SHARED pass their
 * memory. allocated: freed with the window. May switch. */
int ampi_win_make(struct ampi_comm *comm, struct ampi_win_payload *payload, const struct ampi_info *info,
                  void *allocated, struct ampi_win **win_out);

/* Allocates memory for a new window across processes, shared by the processes of a node if possible;
 * otherwise each member's own memory or, for MPI_Win_allocate_shared, an error. Collective; may switch. */
int ampi_win_share(struct ampi_win *win, bool is_noncontiguous);
void ampi_win_unshare(struct ampi_win_shared *shared);

/* ---- Events (win_watch.c; object/event.h). On the owner's PE ---- */

static inline bool ampi_win_is_watched(const struct ampi_win *win)
{
    return BASE_UNLIKELY(win->n_at_once == 0);
}

/* The owner puts, gets or accumulates. Never switches. */
void ampi_win_report_operation(const struct ampi_win *win, int target, MPI_Count n_bytes) BASE_COLD;

/* The owner has synchronised a target (-1: all); at the end of the call. May switch. */
void ampi_win_report_sync(const struct ampi_win *win, int target) BASE_COLD;
static inline void ampi_win_synced(const struct ampi_win *win, int target)
{
    if (ampi_win_is_watched(win))
        ampi_win_report_sync(win, target);
}

/* MPI_Win_fence begins or ends as a collective. The end may switch. */
void ampi_win_report_fence(const struct ampi_win *win, bool is_end, int error) BASE_COLD;

/* Connects a new window and its communicator; watch of struct ampi_comm_client. */
void ampi_win_connect_comm(struct ampi_win *win);
void ampi_win_watch(struct ampi_comm *comm, bool is_on);

/* ---- Hints (win_info.c) ---- */

/* The known hints of info (NULL: none), on top of old (NULL: the defaults). */
struct ampi_info *ampi_win_info_filter(const struct ampi_info *old, const struct ampi_info *info);

/* Sets the window's fields that depend on its hints. */
void ampi_win_apply_hints(struct ampi_win *win);

/* ---- Sets of members ---- */

static inline bool ampi_win_bit(const uint64_t *bits, int rank)
{
    return bits && (bits[rank / 64] >> (rank % 64) & 1);
}

static inline void ampi_win_clear_bit(uint64_t *bits, int rank)
{
    bits[rank / 64] &= ~((uint64_t)1 << (rank % 64));
}

/* Sets a bit; allocates the set at its first use. */
void ampi_win_set_bit(struct ampi_win *win, uint64_t **bits, int rank);

/* ---- Dynamic windows (win_dynamic.c) ---- */

/* True if all of [from, to) is attached at the target, which is in this process. */
bool ampi_win_is_attached(struct ampi_win *target, uintptr_t from, uintptr_t to);

/* ---- The target's memory ---- */

static inline bool ampi_win_guard_try(struct ampi_win_guard *guard)
{
    uint32_t owner = 0;

    return atomic_compare_exchange_strong_explicit(&guard->owner, &owner, (uint32_t)ampi_job.proc_id + 1,
                                                   memory_order_acquire, memory_order_relaxed);
}

/* Another PE or process combines: waits for it. If that process fails, the guard is taken from it. */
void ampi_win_combine_await(struct ampi_win *target);

/* Number of guards of the window's members taken from failed processes, as far as this process can see. */
uint32_t ampi_win_count_torn(const struct ampi_win_shared *shared);

/* Held for some microseconds at most, and never across a switch. */
static inline void ampi_win_combine_begin(struct ampi_win *target)
{
    if (target->shared->is_one_pe)
        return;
    if (BASE_UNLIKELY(!ampi_win_guard_try(target->guard)))
        ampi_win_combine_await(target);
}

static inline void ampi_win_combine_end(struct ampi_win *target)
{
    if (!target->shared->is_one_pe)
        atomic_store_explicit(&target->guard->owner, 0, memory_order_release);
}

/* For synchronisation calls that programs repeat until another rank has acted: every
 * AMPI_WIN_POLLS_PER_TURN calls they let the other ranks of the PE run. */
#define AMPI_WIN_POLLS_PER_TURN 16
static inline void ampi_win_take_turns(struct ampi_win *win)
{
    if (BASE_UNLIKELY(++win->n_polls % AMPI_WIN_POLLS_PER_TURN == 0))
        ult_yield();
}

#endif
