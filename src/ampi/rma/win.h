/* SPDX-License-Identifier: BSD-3-Clause
 *
 * win.h: windows (MPI 5.0, chapter 12, One-Sided Communications).
 *
 * As with communicators, members of one process share one object, and each has a small handle:
 *
 *      ampi_win_shared ---- targets[rank]   base, size and displacement unit of every member
 *                      \--- handles[]       the members of this process (struct ampi_win)
 *
 * All are made together, by the member that arrives last at the creating collective. A window has a
 * communicator of its own, for its collectives and as its name between processes.
 *
 * Within a process there is no target: the origin copies from or to the target's memory, or combines under
 * the target's lock (accumulate.c), and an operation is over when its call returns.
 *
 * Epochs of a handle as origin (`access`), and the calls that change them:
 *
 *      NONE  --fence-->  FENCE  --fence-->  FENCE, or NONE with MPI_MODE_NOSUCCEED
 *      NONE  --start-->  START  --complete-->  NONE
 *      NONE  --lock-->   LOCK   --unlock, of the last target-->  NONE
 *      NONE  --lock_all-->  LOCK_ALL  --unlock_all-->  NONE
 *
 * A fence that no operation has followed has not opened an epoch: start, lock and post may follow FENCE then.
 */
#ifndef AMPI_WIN_H
#define AMPI_WIN_H

#include "ampi/comm/comm.h"
#include "ampi/object/info.h"
#include "ampi/p2p/request.h"
#include "ampi/rma/segment.h"
#include "ampi/rma/win_lock.h"

enum ampi_access {
    AMPI_ACCESS_NONE,
    AMPI_ACCESS_FENCE,
    AMPI_ACCESS_START,
    AMPI_ACCESS_LOCK,
    AMPI_ACCESS_LOCK_ALL
};

/* A member's memory, for origins. */
struct ampi_win_target {
    char *base; /* as this process sees it if it is in reach, else as the member's process does */
    MPI_Aint size_bytes;
    MPI_Aint disp_unit;
    struct ampi_win *handle; /* NULL: the member is of another process */
    struct ampi_win *at; /* the memory is in reach: the handle, or what stands in for one of another process
                                of the node; NULL: it is not */
    int node;            /* the lowest process of the member's node */
};

/* Memory attached to a dynamic window. */
struct ampi_win_region {
    uintptr_t from;
    uintptr_t to; /* one past its end */
};

struct ampi_win_shared {
    _Atomic uint32_t refs;           /* handles that are not freed */
    int n_ranks;                     /* members, in all processes */
    int n_local;                     /* members of this process */
    int flavor;                      /* MPI_WIN_FLAVOR_* */
    bool is_one_pe;                  /* all members are of one PE: no two operations at a time */
    bool is_remote;                  /* some members are of other processes */
    struct ampi_comm_shared *comm;   /* of the window's own; its handles hold references */
    struct ampi_win_target *targets; /* by rank */
    struct ampi_win *handles;        /* n_local of them */
    void *memory;                    /* of MPI_Win_allocate_shared, for all members of this process */
    size_t memory_bytes;
    struct ampi_win_lock everybody;  /* MPI_Win_lock_all against exclusive locks of members of this process */
    struct ampi_win_shared *next;    /* link of the table of windows over processes */
    char *segment;                   /* memory that processes of the node share: win_share.c; NULL: none */
    struct ampi_segment_place place; /* of it */
    struct ampi_win *stand_ins;      /* of the members in reach of other processes: as targets alone */
    int *others;                     /* over processes: the first member in each other process */
    int n_others;
};

struct ampi_win {
    uint32_t magic; /* AMPI_MAGIC_WIN */
    int rank;
    struct ampi_win_shared *shared;
    struct ampi_rank *owner;
    struct ampi_comm *comm; /* the owner's handle of the window's communicator */

    /* As origin; the owner's own. */
    uint8_t access;         /* enum ampi_access */
    bool has_accessed;      /* FENCE: an operation was issued in this epoch */
    bool is_exposed;        /* between MPI_Win_post and the MPI_Win_wait for it */
    bool has_no_locks;      /* hint no_locks */
    bool is_unordered;      /* hint accumulate_ordering = none */
    uint32_t n_polls;       /* synchronisation calls that let others run now and then: ampi_win_take_turns */
    uint64_t *open_to;      /* START, LOCK: a bit for each target; NULL: never needed */
    uint64_t *exclusive;    /* LOCK: of these, the ones locked exclusively */
    uint64_t *posted;       /* a bit for each target whose post has come, and no start yet */
    uint64_t *awaited;      /* a bit for each target whose post MPI_Win_start waits for */
    uint64_t *combining_at; /* targets of other processes with accumulates under way */
    int n_open;             /* LOCK: targets */
    uint32_t n_awaited;     /* bits in awaited */
    uint32_t n_grants;      /* locks that other processes have not granted yet */
    uint32_t n_under_way;   /* messages to other processes that have not been answered */
    int error;              /* of these; raised by the call that completes them */
    bool is_draining;       /* `waiting` is for n_under_way */
    bool has_lost;          /* a member's process is lost */
    struct ampi_rma_part *parts;           /* messages of operations that wait for their answers */
    struct ampi_rank_waiter *waiting_lock; /* the owner stands in a lock's queue: lock.c */
    struct ampi_request *waiting;          /* the owner is blocked until one of the counts is 0 */
    struct ampi_group *started;            /* START: the targets */
    struct ampi_group *exposed_to;         /* is_exposed: the origins */
    uint32_t n_to_complete;                /* is_exposed: origins that have not called MPI_Win_complete */

    /* What is cached on it. */
    struct ampi_errhandler *errhandler; /* NULL: MPI_ERRORS_ARE_FATAL */
    struct ampi_attrs *attrs;
    struct ampi_info *info; /* hints in use */
    char *name;             /* NULL: "" */
    void *allocated;        /* MPI_Win_allocate: the owner's memory; NULL: none */
    int disp_unit;          /* what the attribute MPI_WIN_DISP_UNIT points to */
    int model;              /* ... MPI_WIN_MODEL */

    /* As target: origins of all PEs use these. */
    struct ampi_win_lock lock BASE_CACHE_ALIGNED; /* MPI_Win_lock */
    atomic_flag combining BASE_CACHE_ALIGNED;     /* guards accumulates on its memory, and `regions` */
    atomic_flag *guard; /* that flag, or one in memory that processes of the node share */
    int n_regions;
    struct ampi_win_region *regions; /* DYNAMIC: attached memory, ascending */
} BASE_CACHE_ALIGNED;

/* ---- Handles (win.c) ---- */

/* The object of a handle; NULL if it is none (MPI_WIN_NULL included). */
static inline struct ampi_win *ampi_win_of(MPI_Win handle)
{
    return ampi_handle_has_magic(handle, AMPI_MAGIC_WIN) ? (struct ampi_win *)handle : NULL;
}

/* Raises MPI_ERR_WIN for a handle that is no window, and returns that. */
int ampi_win_raise_invalid(MPI_Win handle) BASE_COLD;

/* Calls the window's error handler, and returns the code. May switch. */
int ampi_win_raise(struct ampi_win *win, int error_code, const char *fmt, ...) BASE_PRINTF(3, 4) BASE_COLD;

/* A member's contribution to the creation; the same in all processes. */
struct ampi_win_gift {
    char *base;
    MPI_Aint size_bytes;
    MPI_Aint disp_unit;
    int flavor;
    int error;              /* the member cannot take part: all raise this */
    int node;               /* the lowest process of its node */
    bool is_noncontiguous;  /* hint alloc_shared_noncontig */
    size_t alignment_bytes; /* SHARED: of a member's memory */
};

/* Makes the window, collectively; raises errors on the communicator. flavors but SHARED bring their memory.
 * allocated: to be freed with the window. May switch. */
int ampi_win_make(struct ampi_comm *comm, struct ampi_win_gift *gift, const struct ampi_info *info,
                  void *allocated, struct ampi_win **win_out);

/* Gives the members of a new window of several processes memory that the processes of a node share, as far as
 * they can; else memory of their own, or for MPI_Win_allocate_shared an error. Collective; may switch. */
int ampi_win_share(struct ampi_win *win, bool is_noncontiguous);
void ampi_win_unshare(struct ampi_win_shared *shared);

/* ---- Hints (win_info.c) ---- */

/* The hints that the library knows, out of info (NULL: none), over old (NULL: the defaults). */
struct ampi_info *ampi_win_info_filter(const struct ampi_info *old, const struct ampi_info *info);

/* Sets the fields of the window that follow from its hints. */
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

/* Makes the set at its first use. */
void ampi_win_set_bit(struct ampi_win *win, uint64_t **bits, int rank);

/* ---- Dynamic windows (win_dynamic.c) ---- */

/* True if all of [from, to) is attached at the target, which is of this process. */
bool ampi_win_is_attached(struct ampi_win *target, uintptr_t from, uintptr_t to);

/* ---- The target's memory ---- */

/* Another PE or process combines: waits for the flag. */
void ampi_win_combine_await(struct ampi_win *target);

/* Held for some microseconds at most, and never across a switch. */
static inline void ampi_win_combine_begin(struct ampi_win *target)
{
    if (target->shared->is_one_pe)
        return;
    if (BASE_UNLIKELY(atomic_flag_test_and_set_explicit(target->guard, memory_order_acquire)))
        ampi_win_combine_await(target);
}

static inline void ampi_win_combine_end(struct ampi_win *target)
{
    if (!target->shared->is_one_pe)
        atomic_flag_clear_explicit(target->guard, memory_order_release);
}

/* Synchronisation calls that programs repeat until another rank has done something: every so often they let
 * the other ranks of the PE run. */
#define AMPI_WIN_POLLS_PER_TURN 16
static inline void ampi_win_take_turns(struct ampi_win *win)
{
    if (BASE_UNLIKELY(++win->n_polls % AMPI_WIN_POLLS_PER_TURN == 0))
        ult_yield();
}

#endif
