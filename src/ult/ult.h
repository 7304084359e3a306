/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ult.h: user-level threads and the PEs that run them.
 *
 * A PE is an OS thread with a queue of ready ULTs and an inbox. A ULT belongs to one PE for its whole life.
 * There is no scheduler thread: a ULT that blocks or yields switches directly to the next ready one; if
 * none is ready it polls, and then sleeps, on its own stack until one is. So a blocking receive whose
 * message is about to arrive costs no switch at all.
 *
 * States of a ULT, and the functions that change them:
 *
 *      1 READY    --(run queue: switch_to_next)-->  2 RUNNING
 *      2 RUNNING  --ult_yield-->                    1 READY
 *      2 RUNNING  --ult_suspend-->                  3 BLOCKED
 *      3 BLOCKED  --ult_ready-->                    1 READY
 *      2 RUNNING  --ult_end-->                      4 ENDED
 *      3 BLOCKED  --ult_post_errand-->                     1 READY, and BLOCKED again when the errand is done
 *
 * A ULT is *bound* if it has an OS thread of its own: a thread that the program started, or a PE's former
 * thread (sharing.h). It is never in a run queue; it is PARKED where other ULTs are BLOCKED.
 *
 * Invariants:
 *   1. A ULT that is not bound is in its PE's run queue if and only if it is READY.
 *   2. Only the PE's own thread touches its run queue and its ULTs; other threads go through the inbox. Of a
 *      PE that is shared: only the OS thread that holds the PE's lock.
 *   3. Between two ULTs of a PE, what the C and C++ libraries keep per OS thread on the program's behalf
 *      (errno, exception state, the program's own thread_local block) is swapped with the ULT, or the ULT has
 *      a thread pointer of its own, and thereby all of it (lender.c).
 */
#ifndef ULT_ULT_H
#define ULT_ULT_H

#include <sys/types.h>

#include "base/base.h"
#include "ult/annotate.h"
#include "ult/inbox.h"

struct ult_pe;

enum ult_state { ULT_READY = 1, ULT_RUNNING = 2, ULT_BLOCKED = 3, ULT_ENDED = 4, ULT_PARKED = 5 };

/* An OS thread that waits for something of a shared PE (sharing.c). */
struct ult_waiter {
    _Atomic uint32_t bell;   /* enum ult_bell; a futex */
    struct ult_waiter *next; /* link of the PE's list of threads that sleep on their bell */
};

/* A function that must run on the stack of a certain ULT. */
struct ult_errand {
    struct ult_errand *next;          /* next in the ULT's list */
    void (*run)(struct ult_errand *); /* on the ULT; may switch by yielding and sleeping only */
};

struct ult {
    void *sp;                /* saved stack pointer while not RUNNING */
    struct ult *next;        /* next in the PE's run queue */
    struct ult_pe *pe;       /* its PE, for life */
    unsigned char *tls_save; /* the program's thread_local bytes while not RUNNING; NULL: none */
    void *cxa_globals[2];    /* libstdc++'s per-thread exception state while not RUNNING */
    int saved_errno;         /* errno while not RUNNING */
    enum ult_state state;
    union {
        struct {
            bool is_called;  /* blocked; has been woken for its errands, or runs them */
            bool is_watched; /* ult_watchers are told when it blocks */
        };
        uint16_t alert; /* either of these: one comparison for both */
    };
    bool is_ready_too; /* ult_ready came while is_called: becomes ready after the errands */
    uint8_t detours;   /* ULT_BOUND, ULT_SHUFFLED, and the number of open calls of ult_exclusive_begin */
    struct ult_errand *errands; /* in order */
    unsigned depth;             /* nesting of calls into the library (ult_enter) */
    int world_rank;             /* for messages: the rank that this ULT is; -1: none */
    void *owner;                /* the upper layer's object that it runs for: a rank; NULL: none */
    const char *call;           /* for reports: the upper layer's current or last function */
    unsigned wait_left;         /* the upper layer's: number of awaited completions */
    int n_wait_for;             /* the upper layer's, for reports: number of awaited objects ... */
    const void *wait_for;       /* ... and their addresses */
    const void *called_from; /* for reports: the program's call of the function that it is in; NULL: resume_at
                                 * tells that */
    struct ult *main; /* of a thread's own ULT (ult_bind): the ULT whose errands it runs when it blocks */
    struct ult_waiter waiter; /* bound: wakes its OS thread */
    struct ult_carrier *home; /* became bound while it ran: the former carrier; it uses that OS thread */
    void (*entry)(void *arg); /* function that it runs */
    void *arg;
    char *stack_lo;         /* lowest byte of the stack; the guard is below it */
    char *stack_hi;         /* one past the highest byte */
    const void *resume_at;  /* address where the program's code resumes, if known: prefetched before a
                             * switch */
    struct ult *timer_next; /* next in the PE's list of sleepers, by wake_at_ns */
    uint64_t wake_at_ns;    /* when to wake a sleeper (CLOCK_MONOTONIC) */
    void *hook_state;       /* state of the hook of ult_hook_switches; initially NULL */
    void *thread_state;     /* of a rank's own ULT: src/image's state of its thread; NULL: none */
    void *thread_pointer;   /* its own, for life (lender.c); NULL: that of the OS thread on which it runs */
    void *asan_fake_stack;  /* AddressSanitizer's while not RUNNING (asan.h); NULL: none */
    const void *user_fn;    /* for reports: the program's function that the upper layer calls; NULL: none */
    struct ult *joiner;     /* blocked until this ULT goes on (ult_join); NULL: none */
    const void *collective; /* for reports: the upper layer's collective that it waits for; NULL: none */
    const char *waits_for;  /* for events: a wait outside of the upper layer; NULL: none is named */
    struct ult_annotation annotation; /* for sanitizers; empty in a build without them */
};

/* ---- Setting up and running a job: see pe.c ---- */

/* Callbacks of the layer above. */
struct ult_hooks {
    /* All ULTs of the process are blocked and nothing outside can wake one. Called on one PE while the
     * others sleep; normally prints a report and ends the process. NULL: the PEs sleep forever. */
    void (*deadlock)(void);
    /* The same, but something outside can wake one: a source (struct ult_source) with an fd has pending
     * operations; or a thread of the program can (ult_has_others). Returns the time in ns after which it
     * must be called again if nothing happens before; 0: never. NULL: not called. */
    int64_t (*check_termination)(void);
    /* Called on each PE's thread before its first ULT runs: creates its ULTs. NULL: not called. */
    void (*pe_start)(struct ult_pe *pe);
    /* For PEs that are shared (sharing.h). True if the PE may go on with its other ULTs on another OS
     * thread, and leave this one, which is in the program's code, to this ULT for good. NULL: never. */
    bool (*may_keep_thread)(const struct ult *u);
    /* Called on an OS thread that becomes a PE's. NULL: nothing. */
    void (*carrier_start)(void);
    /* True if threads of the program that do not wait could still use a PE. NULL: never. */
    bool (*has_other_threads)(void);
    /* An errand of this ULT wants to suspend it, which it may not: prints a report and ends the job. NULL: a
     * message of this module's. */
    void (*errand_suspends)(const struct ult *u);
};

/* The number of threads of the program, among those that have called the library, that wait for the end of threads that are blocked in
 * it: of a PE, while all PEs are asleep and locked; NULL: all that may. NULL: none have waited so. */
extern int (*_Atomic ult_count_joining)(const struct ult_pe *pe);

/* Creates n_pes PEs; PE 0 is the calling thread, the others' threads start in ult_job_run. hooks may be
 * NULL. Ends the process with a message if that fails. */
void ult_job_init(int n_pes, const struct ult_hooks *hooks);

/* Declares that several processes of the job share this node, and the index of this one. Before
 * ult_job_init. */
void ult_job_share_node(int node_index, int node_n_procs);

/* Runs all ULTs until all have ended. Called once, on the thread of ult_job_init. */
void ult_job_run(void);

/* Called after ult_job_run, when nothing will be sent or received any more: the calling thread is no longer
 * a PE. */
void ult_job_leave(void);

/* The same in a child of fork, on the ULT that forked. */
void ult_job_leave_child(void);

/* Makes the calling OS thread the only ULT of PE 0, on its own stack: for a process with one rank, which
 * then runs as if it were not virtualized. Sets up *u; called after ult_job_init(1). A second call on
 * another thread moves the ULT to that thread. */
void ult_job_adopt_caller(struct ult *u);

/* The PE with this id, 0 <= pe_id < ult_pe_count(). */
struct ult_pe *ult_pe_get(int pe_id);
int ult_pe_count(void);
int ult_pe_id(const struct ult_pe *pe);

/* Its index among all PEs of the job on this node, and the number of these (assuming that each of the
 * node's processes has as many as this one). */
int ult_pe_node_index(const struct ult_pe *pe, int *n_on_node_out);

/* ---- ULTs ---- */

/* Sets up *u to run entry(arg) on the given stack and queues it on the PE. Before ult_job_run, or on the PE
 * itself. */
void ult_create(struct ult *u, struct ult_pe *pe, char *stack_lo, char *stack_hi, void (*entry)(void *),
                void *arg);

/* The running ULT, NULL on a thread that is not a PE. */
static inline struct ult *ult_self(void);

/* Blocks the caller until ult_ready. ult_ready must not come before the suspend: set up the waker and
 * suspend without a switch in between. May switch. */
void ult_suspend(void);

/* Stands in front of a function that the program calls and that may switch: after a switch it returns by
 * an indirect jump. The CPU predicts that a return goes to the last call that has not returned, but that
 * call was made by the ULT that ran before, in another copy of the program. Jumps are predicted by
 * earlier jumps. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define ULT_JUMPS_BACK __attribute__((function_return("thunk-extern")))
#else
#define ULT_JUMPS_BACK
#endif

/* Functions of an upper layer that are told what ULTs and PEs wait for; each NULL, or set before ULTs run. They do not
 * switch. */
struct ult_watchers {
    /* A ULT that is_watched is about to block, in ult_suspend: may give it errands, which it runs first. */
    void (*blocks)(struct ult *u);
    /* It has resumed, at since_ns it blocked. */
    void (*resumes)(struct ult *u, uint64_t since_ns);
    /* A PE has had no ready ULT from since_ns until now. */
    void (*idles)(struct ult_pe *pe, uint64_t since_ns);
    /* The wait of a ULT that is_watched is over. by: the ULT that ended it; NULL: a poll. */
    void (*readies)(struct ult *u, const struct ult *by);
    /* The PE switches; from has its new state. Set by ult_watch_switches. */
    void (*switches)(const struct ult *from, const struct ult *to);
};
extern struct ult_watchers ult_watchers;

/* Calls the function at each switch of ULTs from now on; it must not switch. Any thread. */
void ult_watch_switches(void (*switches)(const struct ult *from, const struct ult *to));

/* Makes a BLOCKED ULT of this PE ready; it runs at its turn. Never switches. */
void ult_ready(struct ult *u);

/* Makes a ULT of this PE run an errand, on its own stack, as soon as it is blocked or yields; a blocked one
 * gets a turn only for that. The errand's memory must stay valid until it runs. Never switches. */
void ult_post_errand(struct ult *u, struct ult_errand *errand);

/* Lets every other ready ULT of this PE run first, and polls. May switch. */
void ult_yield(void);

/* Between begin and end only one ULT of the process runs at a time; calls may be nested. While it waits or
 * yields, others may enter. No effect on a thread that is not a PE. begin may switch. */
void ult_exclusive_begin(void);
void ult_exclusive_end(void);

/* The time (CLOCK_MONOTONIC). */
uint64_t ult_now_ns(void);

/* Blocks the caller for at least this long, or until ult_end_sleep. May switch. */
void ult_sleep_ns(uint64_t duration_ns);

/* Suspends the running ULT until another one of its PE, which is blocked, has become ready; at most one ULT may wait for it.
 * Errands must not call this. Switches. */
void ult_join(struct ult *blocked);

/* Makes the ULT that waits so ready, if there is one. On the PE. Never switches. */
void ult_wake_joiner(struct ult *blocked);
static inline void ult_end_join(struct ult *blocked)
{
    if (BASE_UNLIKELY(blocked->joiner != NULL))
        ult_wake_joiner(blocked);
}

/* Ends the sleep of a ULT of this PE; without effect if it does not sleep. Never switches. */
void ult_end_sleep(struct ult *u);

/* Ends the caller. Never returns. */
void ult_end(void) BASE_NORETURN;

/* False if the ULT has not ended, or its PE still waits for another one on its stack. Not for bound ones. On the PE. */
bool ult_has_left_stack(const struct ult *u);

/* The number of ULTs of the PE that have not ended. On the PE. */
int ult_pe_live(const struct ult_pe *pe);

/* True if a ULT of the PE is ready. On the PE. */
bool ult_pe_has_ready(const struct ult_pe *pe);

/* The kernel's id of the OS thread on which the ULT runs, or would run now. Any thread. */
pid_t ult_tid(const struct ult *u);

/* True if the PE of the running ULT has others, which wait for as long as it blocks its OS thread: the PE is not shared. */
bool ult_holds_others(void);

/* The number of switches between ULTs, as visible to another thread, and the kernel's id of the PE's thread
 * (0: not started). Any thread. */
uint64_t ult_pe_switches_seen(const struct ult_pe *pe);
pid_t ult_pe_tid(const struct ult_pe *pe);

/* True if the PE found nothing to do and waits to be woken. Any thread. */
bool ult_pe_is_asleep(const struct ult_pe *pe);

/* Counters of a PE. Read on the PE. */
uint64_t ult_pe_switches(const struct ult_pe *pe); /* switches between ULTs */
uint64_t
ult_pe_resumed(const struct ult_pe *pe); /* the same, and times that it waited until a ULT was ready */
uint64_t ult_pe_sleeps(const struct ult_pe *pe);     /* times it slept because none of its ULTs was ready */
uint64_t ult_pe_backlogged(const struct ult_pe *pe); /* items that wait for room in other PEs' inboxes */

/* The number of polls of an idle PE before it sleeps. */
int ult_spin_polls(void);

/* ---- State swapped with a ULT ---- */

/* A range of the program's static TLS block: bytes [tp + tp_offset, + size_bytes), tp the thread pointer. */
struct ult_tls_region {
    ptrdiff_t tp_offset;
    size_t size_bytes;
};

/* Sets the regions that belong to the program. Before the first ult_create. At most ULT_TLS_REGIONS_MAX. */
#define ULT_TLS_REGIONS_MAX 16
void ult_tls_set_regions(const struct ult_tls_region *regions, int n_regions);

/* The sum of the regions' sizes: the required size of `tls_save`. */
size_t ult_tls_total_bytes(void);

/* Gives each ULT of the PE a thread pointer of its own: a static TLS block, errno and all else that the C library keeps per
 * thread. The bytes at tls_save become the block's initial contents; tls_save is freed. On the PE's thread, when its ULTs have
 * been created and none has run. Prints a message and changes nothing if there cannot be as many OS threads; without
 * effect in a program with a sanitizer. Never switches. */
void ult_pe_own_tls(struct ult_pe *pe);

/* The same for one ULT of the calling thread's PE, which was created later and has not run. Waits until the OS thread runs. */
void ult_own_tls(struct ult *u);

/* Registers a hook for other state that is kept per OS thread on a ULT's behalf. It is called on the PE's
 * thread at each switch, before `to` runs, while *hint is not NULL (a load and a branch if it is). It must
 * not switch. Any thread; the target of hint must stay valid until some time after the next call. */
void ult_hook_switches(void *const *hint, void (*hook)(struct ult *from, struct ult *to));

/* Upper layers' state per PE: one pointer for each slot. */
enum ult_pe_slot {
    ULT_PE_SLOT_LATER,    /* ampi/p2p/deferred_work.c */
    ULT_PE_SLOT_MESSAGES, /* ampi/p2p/p2p_device.c */
    ULT_PE_SLOT_GPU,      /* gpu/driver/pe_state.c */
    ULT_PE_SLOT_WORK,     /* ampi/work/engine.c */
    ULT_PE_SLOT_COUNT
};

/* The slot of the PE that the caller runs on; at first it holds NULL. Not on threads that run no ULT. */
static inline void **ult_pe_slot(enum ult_pe_slot slot);

/* ---- Progress: sources that a PE polls between ULTs ---- */

/* A source of events other than the inbox (a UCX worker, GPU completions). poll returns the number of
 * handled events. An active source (pending != 0) prevents a deadlock report. */
struct ult_source {
    int (*poll)(struct ult_source *source);
    int fd;                                 /* an event fd that becomes readable; -1: must be polled */
    bool (*arm)(struct ult_source *source); /* before sleeping on fd; false: there are events, do not sleep */
    uint64_t pending;                       /* pending operations */
    /* True if pending operations will end soon: worth more polls before sleeping. NULL: never. */
    bool (*is_moving)(const struct ult_source *source);
    struct ult_source *next; /* next in the PE's list of sources */
};
void ult_pe_add_source(struct ult_pe *pe, struct ult_source *source);

/* Handles events in this PE's inbox and sources; returns their number. Never switches. */
int ult_progress(void);

/* Handles all events that have come, also in parts of a source that are polled less often. For rare cases: takes
 * microseconds. Never switches. */
void ult_progress_fully(void);

/* Wakes all sleeping PEs, so that they poll. The state that they should notice must have been written
 * before (sequentially consistent), and their sources' arm must check it. Any thread. */
void ult_wake_all(void);

/* True if another thread of the program may call the library, and so wake a PE. Makes system calls. */
bool ult_has_others(void);

/* Sending to a PE's inbox; ult/inbox.h has the item types. */

/* Puts a copy of *item into the inbox of another PE (or of this one). Items of one sender PE stay in order.
 * Never fails, never switches: if the inbox is full the item waits in the sender's backlog. PE threads
 * only. */
void ult_post_item(struct ult_pe *dest, const struct ult_item *item);

/* Queues a wake-up: the caller provides its memory, which must stay valid until it is handled. Any thread. */
void ult_post_wakeup(struct ult_pe *dest, struct ult_wakeup *wakeup);

/* A wake-up that waits for earlier items. */
struct ult_fence {
    struct ult_wakeup wakeup;
    void (*arrived)(
        struct ult_fence *); /* called on the destination PE; may free the fence; may not switch */
    bool is_last_round;      /* its own */
};

/* Calls fence->arrived on the PE when it has handled all items that were posted to it before this call. The
 * caller provides the fence's memory. Any thread. */
void ult_post_fence(struct ult_pe *dest, struct ult_fence *fence);

/* ---- Calls that may block (offload_threads.c) ---- */

/* A function that may block, which a thread of the library runs. Memory of the caller, who must not change it until done is
 * called. */
struct ult_offload {
    void (*run)(struct ult_offload
                    *work); /* on another thread, which is not a PE: must not use what belongs to a PE */
    void (*done)(
        struct ult_offload *work); /* then, on the PE that started it, from its progress; may free it; may not
                                             * switch */
    struct ult_offload *next;      /* private, like the other fields: next in the queue of waiting work */
    struct ult_wakeup wakeup;      /* brings it back to the PE */
    struct ult_pe *pe;             /* that started it */
};

/* Starts it; work begins in the order of the starts. No deadlock is reported before done has been called. If there is no
 * thread and none can be created, the PE runs it at once. On a PE. Never switches otherwise. */
void ult_offload_start(struct ult_offload *work);

/* The number of cores that this process may use. */
int ult_core_count(void);

#include "ult/sharing.h"
#include "ult/ult_inline.h"

#endif
