/* SPDX-License-Identifier: BSD-3-Clause
 *
 * misuse.h: +check usage: messages, buffers, handles and one-sided operations that a program uses wrongly.
 *
 *      messages.c   the datatypes of a message and of its receive differ
 *      buffers.c    a send buffer that changes, and receive buffers that overlap others, while operations are pending
 *      started.c    data of a started collective, or of a partition that is ready, that changes
 *      pages.c      (+check buffers) an access of the program to such a buffer
 *      handles.c    a handle that has been freed is used
 *      windows.c    one-sided operations that conflict at a target
 *      conflicts.c  the sets of blocks that they access
 *      claims.c     the same between processes
 *      origins.c    the memory of one-sided operations, at their origin and, for stores, at the target
 *
 * Collectives are in coll/engine/usage.c. Reports name both sides with their calls, and end the job, except that of a freed handle:
 * there MPI raises an error.
 *
 * With the option all communicators are watched like those of programs that want events (object/event.h), so messages
 * leave their fast paths; the gates record the rest (tools/gen_gates.py). Without it nothing here is called.
 */
#ifndef AMPI_MISUSE_H
#define AMPI_MISUSE_H

#include <pthread.h>

#include "ampi/misuse/runs.h"
#include "ampi/p2p/p2p.h"
#include "ampi/rma/win.h"
#include "base/settings.h"

struct base_text;

/* Kinds of handles that a program has to free. */
enum ampi_leak {
    AMPI_LEAK_COMM,
    AMPI_LEAK_GROUP,
    AMPI_LEAK_DATATYPE,
    AMPI_LEAK_OP,
    AMPI_LEAK_WIN,
    AMPI_LEAK_FILE,
    AMPI_LEAK_REQUEST,
    AMPI_LEAK_MESSAGE,
    AMPI_LEAK_KEYVAL, /* of type int; all others are pointers */
    AMPI_LEAK_SESSION,
    AMPI_LEAK_INFO,
    AMPI_LEAK_ERRHANDLER,
    AMPI_LEAK_KINDS
};
extern const char *const ampi_leak_nouns[AMPI_LEAK_KINDS]; /* "communicator" (handles.c) */

static inline bool ampi_misuse_is_on(void)
{
    return BASE_UNLIKELY(base_settings.check_usage) && !ampi_job.is_forked;
}

/* A call of the program. */
struct ampi_misuse_call {
    const char *name;
    const void *from; /* its return address */
};

/* A pending operation of the program with a request: in the table of its rank, by that. */
struct ampi_misuse_pending {
    struct ampi_misuse_pending *next; /* in its chain */
    const struct ampi_request *request;
    struct ampi_misuse_call call; /* that started it */
    uint64_t waited;              /* `n_waits` of the last call that waits for it, and ... */
    MPI_Count waited_at;          /* ... its index there */
    void *buf;                    /* of a send or receive */
    MPI_Count count;
    struct ampi_type *type;         /* holds a reference; NULL: not a send or receive */
    bool is_recv;                   /* it writes to its memory: also a collective */
    uint64_t sum;                   /* of the data in the buffer at the start */
    struct ampi_misuse_part *parts; /* what it sends if it is a collective or partitioned (started.c) */
    int n_parts;                    /* of these */
    bool is_partitioned;            /* of a send with partitions */
    struct ampi_interval *runs;     /* its memory (runs.h), linked by `with`; NULL: too many */
    int n_runs;                     /* number of these, or of too many */
    struct ampi_interval *pages;    /* protected ones, linked by `with` (pages.c) */
    const struct ampi_win *win;     /* a one-sided operation, without a request: in `accesses`; NULL: none */
    int target;                     /* ... its target */
    bool is_settled;                /* ... the library no longer uses its buffer; `sum` is valid */
};

#define AMPI_MISUSE_CHAINS 256

/* A rank's state, from its first call that needs it. */
struct ampi_misuse {
    pthread_mutex_t lock; /* guards `pending` and `memory`: a message is matched on its receiver's PE */
    struct ampi_misuse_pending **pending; /* chains; NULL: none yet */
    size_t n_chains;                      /* a power of two, at least the number of pending operations */
    size_t n_pending;
    uint64_t n_waits;                                    /* calls of MPI_Waitall and MPI_Testall */
    struct ampi_misuse_memory memory;                    /* of pending operations */
    struct ampi_misuse_pending *accesses;                /* one-sided ones that are not complete here */
    int n_accesses;                                      /* number of these */
    MPI_Count recv_count;                                /* of the receive that starts now */
    struct ampi_type *recv_type;                         /* ... */
    struct ampi_misuse_freed *freed[AMPI_MISUSE_CHAINS]; /* freed handles: handles.c */
    struct ampi_misuse_freed *freed_first, *freed_last;  /* the same, the oldest first */
    int n_freed;
    int n_kept; /* of them, requests that are not in the rank's pool */
};

struct ampi_misuse *ampi_misuse_of(struct ampi_rank *rank);

/* True if a rank that has ended has no pending operation, whose call would be reported. */
static inline bool ampi_misuse_can_leave(const struct ampi_rank *rank)
{
    return !rank->misuse || (rank->misuse->n_pending == 0 && !rank->misuse->accesses);
}

/* Drops the records of such a rank, whose copy of the program will be unmapped; the calls of its messages that nobody has
 * received yet become texts. */
void ampi_misuse_leave_rank(struct ampi_rank *rank);
void ampi_misuse_leave_messages(const struct ampi_rank *rank);

/* The running rank's call of the function that it is in. */
struct ampi_misuse_call ampi_misuse_call(void);

/* The place in the program for a return address of a gate. */
const void *ampi_misuse_site(const void *from);

/* Appends ", called at main (a.c:12)" to a text; nothing if the place is not known. */
void ampi_misuse_add_site(struct base_text *out, const void *from);

/* As describe_call of struct ampi_upper. */
void ampi_misuse_describe_call(struct ampi_rank *rank, const struct ampi_request *request, char *text,
                               size_t size_bytes);

/* Reports wrong usage by a rank, and ends the job. call: of the mistake. */
void ampi_misuse_end_job(const struct ampi_rank *rank, const struct ampi_misuse_call *call, const char *fmt,
                         ...) BASE_PRINTF(3, 4) BASE_NORETURN BASE_COLD;

/* ---- Messages and buffers: from p2p/p2p_watch.h. On the PE of the communicator's owner. Never switch. ---- */

void ampi_misuse_connect(void);

/* The first message with the key that the program will not receive: writes "4 of MPI_INT by MPI_Send, called at main (a.c:12)", once.
 * False: unknown. */
bool ampi_misuse_describe_unreceived(const struct ampi_comm *dest, int source, int tag, char *text,
                                     size_t size_bytes);

/* The pending operation of a request, for its call; false: it is not pending. Any PE. */
bool ampi_misuse_find_call(struct ampi_rank *rank, const struct ampi_request *request,
                           struct ampi_misuse_call *call_out);

/* The pending operation itself, of the calling rank; NULL: it is not pending. */
struct ampi_misuse_pending *ampi_misuse_find(struct ampi_rank *rank, const struct ampi_request *request);

/* Checksum of data; 0 if it is in GPU memory. */
uint64_t ampi_misuse_sum_of(const void *buf, MPI_Count count, const struct ampi_type *type);

/* A new operation, if it is a collective: records the data that it sends, and adds the memory of its result to its runs. Drops
 * parts, and reports one that has changed. */
void ampi_misuse_set_parts(struct ampi_rank *rank, struct ampi_misuse_pending *op);
void ampi_misuse_end_parts(const struct ampi_rank *rank, struct ampi_misuse_pending *op,
                           struct ampi_misuse_call call, bool is_given_up);

/* Adds memory to the runs of a new operation. */
void ampi_misuse_add_runs(struct ampi_misuse_pending *op, const void *buf, MPI_Count count,
                          const struct ampi_type *type);

/* Reports pending operations of the calling rank whose memory this new operation must not use. */
void ampi_misuse_check_memory(struct ampi_rank *rank, const void *buf, MPI_Count count,
                              const struct ampi_type *type, bool is_recv);

/* Reports a send whose data is in the buffer of a receive that starts in the same call. */
void ampi_misuse_check_pair(struct ampi_rank *rank, struct ampi_misuse_pending *recv, const void *buf,
                            MPI_Count count, const struct ampi_type *type);

/* Reports a pending receive whose buffer has changed before its message came. */
void ampi_misuse_check_untouched(const struct ampi_request *recv);

/* The pages of a pending receive, if it is one: with +check buffers. */
void ampi_misuse_set_guarded(const struct ampi_request *recv, bool is_guarded);

/* Calls visit for each block of data; stops if it returns false. */
void ampi_misuse_each_block(const void *buf, MPI_Count count, const struct ampi_type *type,
                            bool (*visit)(uintptr_t begin, size_t n_bytes, void *arg), void *arg);

/* ---- +check buffers (pages.c) ---- */

/* Protects the operation's pages; removes the protection. */
void ampi_misuse_guard(struct ampi_misuse_pending *op);
void ampi_misuse_open(struct ampi_misuse_pending *op);

/* The operation that has a protected page. */
struct ampi_misuse_fault {
    struct ampi_misuse_call call; /* that started it; its name is NULL: there is none */
    bool is_recv;
};

/* For handlers of faults. False: the page at the address is not protected. open_at: removes the protection. */
bool ampi_misuse_find_guarded(const void *address, struct ampi_misuse_fault *fault_out);
void ampi_misuse_open_at(const void *address);
void ampi_misuse_describe_fault(const struct ampi_misuse_fault *fault, struct base_text *out);

/* ---- Gates. from: the return address of the call ---- */

/* A call has set n handles that the program owns now; has taken back those that differ from before; gets n handles. */
void ampi_misuse_made(enum ampi_leak kind, const char *name, const void *from, MPI_Count n,
                      const void *handles);
void ampi_misuse_freed(enum ampi_leak kind, const char *name, const void *from, MPI_Count n,
                       const void *before, const void *handles);
void ampi_misuse_used(enum ampi_leak kind, const char *name, const void *from, MPI_Count n,
                      const void *handles);

/* Operations start, complete as far as the program knows, or are given up. */
void ampi_misuse_begin(struct ampi_rank *rank, struct ampi_misuse_call call,
                       const struct ampi_request *request);
void ampi_misuse_finish(struct ampi_rank *rank, struct ampi_misuse_call call,
                        const struct ampi_request *request, bool is_given_up);
void ampi_misuse_started(const char *name, const void *from, int n, const MPI_Request *requests);
void ampi_misuse_seen(const char *name, const void *from, int n, const MPI_Request *requests);

/* Partitions low to low + n - 1, or those of the list, have been marked ready. */
void ampi_misuse_ready(const char *name, const void *from, MPI_Request request, int low, int n,
                       const int *list);

/* Data of a one-sided operation. */
struct ampi_misuse_data {
    const void *buf;
    MPI_Count count;
    MPI_Datatype type;
};

/* A one-sided operation of the program. */
enum ampi_misuse_access { AMPI_MISUSE_GET, AMPI_MISUSE_PUT, AMPI_MISUSE_ACCUMULATE };
struct ampi_misuse_rma {
    struct ampi_misuse_call call;
    enum ampi_misuse_access kind;
    int target_rank;
    MPI_Aint disp;
    struct ampi_misuse_data target; /* without an address */
    struct ampi_misuse_data origin; /* GET: the result */
    MPI_Op op;
    MPI_Win win;
};

/* It has started. */
void ampi_misuse_accessed(struct ampi_misuse_rma rma);

/* A synchronisation call begins; has succeeded. rank: -1: all. */
enum ampi_misuse_sync {
    AMPI_MISUSE_FENCE,    /* a new epoch begins */
    AMPI_MISUSE_FLUSH,    /* operations in locks are complete, at one target or all */
    AMPI_MISUSE_UNLOCK,   /* the same */
    AMPI_MISUSE_LOCAL,    /* ... at the origin only */
    AMPI_MISUSE_COMPLETE, /* MPI_Win_complete */
    AMPI_MISUSE_EXPOSED   /* the exposure epoch of the rank is over */
};
void ampi_misuse_syncing(struct ampi_misuse_call call, enum ampi_misuse_sync sync, int rank, MPI_Win win);
void ampi_misuse_synced(struct ampi_misuse_call call, enum ampi_misuse_sync sync, int rank, MPI_Win win);

/* MPI_Win_lock has returned. Only of the rank's own window it has waited for the lock (MPI 5.0, section 12.5.3); a shared one
 * comes after exclusive ones, but not after other shared ones. */
void ampi_misuse_locked(int rank, MPI_Win win);

/* A call has returned that may have learned what other ranks did before. */
void ampi_misuse_acquired(void);

/* A collective has returned: if all members are in this process, the rank has acquired what it needs. */
void ampi_misuse_met(void);

/* ---- The memory of one-sided operations (origins.c) ---- */

/* An operation that is not complete here, unless it has a request; its buffer must not overlap others'. */
void ampi_misuse_begin_access(struct ampi_win *win, const struct ampi_misuse_rma *rma);

/* The operations on the target (-1: all) are complete here. */
void ampi_misuse_finish_accesses(const struct ampi_win *win, struct ampi_misuse_call call, int target);

/* The library no longer uses the buffers of the window's operations. */
void ampi_misuse_settle_accesses(struct ampi_win *win);

/* Checksum, never 0. */
uint64_t ampi_misuse_sum(const void *bytes, size_t n_bytes);

/* Puts an operation with its buffer into the rank's set, and takes it out, which checks the data of a send (buffers.c). */
void ampi_misuse_enter(struct ampi_misuse *own, struct ampi_misuse_pending *op);
void ampi_misuse_leave(struct ampi_rank *rank, struct ampi_misuse_pending *op, struct ampi_misuse_call call,
                       bool is_given_up);

/* ---- Operations on windows (windows.c) ---- */

/* Blocks at a target that an operation accesses. */
struct ampi_misuse_claim {
    struct ampi_misuse_call call; /* name NULL: it is in another process */
    const char *text;             /* "MPI_Put, called at main (a.c:12)": then */
    const struct ampi_op *op;     /* NULL: none */
    uint64_t acquired;            /* of the origin */
    int origin;
    int target;
    uint32_t epoch;    /* FENCE: its number */
    uint8_t kind;      /* enum ampi_misuse_access */
    uint8_t in;        /* enum ampi_access: the epoch */
    bool is_exclusive; /* LOCK */
    bool is_fetching;  /* its result is at the origin once it is complete there */
    bool is_noted;     /* it stays until a synchronisation */
};

struct ampi_misuse_block {
    uint64_t begin, end;
};

/* Compares the operation with others, and records it. shared: the window, here. (conflicts.c) */
void ampi_misuse_take_claim(struct ampi_win_shared *shared, const struct ampi_misuse_claim *claim,
                            const struct ampi_misuse_block *blocks, size_t n_blocks);

/* Operations of the origin in locks are complete at the target. */
void ampi_misuse_end_claims(struct ampi_win_shared *shared, int origin, int target, bool is_local);

/* Between processes (claims.c): send these to the target's process. */
void ampi_misuse_send_claim(struct ampi_win *win, const struct ampi_misuse_claim *claim,
                            const struct ampi_misuse_block *blocks, size_t n_blocks);
void ampi_misuse_send_end(struct ampi_win *win, int target, bool is_local);

/* Waits until the process of the target (-1: all) has them. May switch. */
void ampi_misuse_await_ends(struct ampi_win *win, int target);

void ampi_misuse_windows_connect(void);
void ampi_misuse_claims_connect(void);

#endif
