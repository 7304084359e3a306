/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rank.h: a rank (an MPI process, as the program sees it), and its job.
 *
 * Life of a rank (with the function that changes its state):
 *
 *      1 STARTED      --PMPI_Init and similar-->   2 INITIALIZED
 *      2 INITIALIZED  --PMPI_Finalize-->           3 FINALIZED
 *      any            --rank_end (job.c)-->        4 ENDED
 */
#ifndef AMPI_RANK_H
#define AMPI_RANK_H

#include "ampi/object/handle.h"
#include "ult/ult.h"

struct ampi_comm;
struct ampi_request;
struct ampi_request_slab;
struct ampi_errhandler;
struct ampi_bsend_buffer;
struct ampi_datarep;
struct ampi_error_classes;
struct ampi_events;
struct ampi_handle_ints;
struct ampi_handlers;
struct ampi_info;
struct ampi_keyvals;
struct ampi_leaks;
struct ampi_misuse;
struct ampi_work_rank;
struct image;

enum ampi_rank_state {
    AMPI_RANK_STARTED = 1,
    AMPI_RANK_INITIALIZED = 2,
    AMPI_RANK_FINALIZED = 3,
    AMPI_RANK_ENDED = 4
};

/* The routes of a message: p2p/send.c. */
enum ampi_route { AMPI_ROUTE_SAME_PE, AMPI_ROUTE_OTHER_PE, AMPI_ROUTE_OTHER_PROCESS, AMPI_ROUTE_COUNT };

/* A spawned MPI_COMM_WORLD. Its ranks in this process have consecutive world ranks. */
struct ampi_spawned {
    int first_rank;   /* the world rank of the first one in this process */
    int first_number; /* its rank in that MPI_COMM_WORLD */
    int n_ranks;      /* of that MPI_COMM_WORLD */
    int number; /* among those that this process has spawned, or that were spawned as processes, from 1. 0: the
                  * job of this process, in a universe */
    int n_held; /* of ranks that this process has spawned: those whose memory is not freed yet */
};

struct ampi_rank {
    struct ult ult; /* of its main thread; others have their own (gate.h) */
    enum ampi_rank_state state;
    int world_rank; /* identifies it in the job: in MPI_COMM_WORLD; of a spawned rank, from ampi_job.n_ranks on */
    int pe_id;      /* of its PE */
    struct ampi_message_pool *messages; /* its PE's */
    struct ampi_comm *world;            /* its handle of MPI_COMM_WORLD */
    struct ampi_request *free_requests; /* pool: request.c */
    int n_requests;                     /* taken from it */
    uint64_t n_sent[AMPI_ROUTE_COUNT];  /* messages that it sent; for the tool interface */
    struct ampi_comm *self;           /* its handle of MPI_COMM_SELF; NULL until first used: ampi_comm_self */
    int thread_level;                 /* level returned by MPI_Init_thread */
    int threads_level;                /* the highest level of the world model and of its sessions */
    int n_in_calls;                   /* number of its threads in a call, if its PE is shared */
    int n_win_locks;                  /* of all windows, that it holds: each MPI_Win_lock(_all) is one */
    struct ampi_thread *threads;      /* its other threads that have called MPI: gate.c */
    int n_sessions;                   /* open sessions (MPI_Session_init) */
    enum ampi_rank_state world_state; /* state without regard to sessions; 0: STARTED */
    struct ampi_bsend_buffer *bsend;  /* MPI_Buffer_attach; NULL: none */
    struct ampi_error_classes *error_classes; /* added by the program: error_class.c; NULL: none */
    struct ampi_keyvals *keyvals;             /* attribute keys that the program made: attr.c; NULL: none */
    int last_used_code;                       /* target of the attribute MPI_LASTUSEDCODE */
    struct ampi_info *info_env;               /* MPI_INFO_ENV: info.c; NULL until first used */
    struct ampi_info *fortran_booleans;   /* MPI_Abi_set_fortran_booleans: abi_query.c; NULL: never called */
    struct ampi_handle_ints *handle_ints; /* integers that stand for handles: fortran_int.c; NULL: none */
    struct ampi_errhandler *file_errhandler; /* of MPI_FILE_NULL: inherited by opened files; NULL: the
                                              * default */
    struct ampi_datarep *datareps;           /* of files, that it registered: io/datarep.c; NULL: none */
    struct ult *main_thread;                 /* MPI's: the caller of MPI_Init; NULL: the rank's own ULT */
    int n_tool_inits;                        /* calls of MPI_T_init_thread minus MPI_T_finalize */
    struct ampi_events *events; /* its registrations for events: tool/event_queue.h; NULL: none */
    struct ampi_request_slab *request_slabs; /* memory of the pool of requests */
    struct ampi_leaks *leaks;   /* its live handles, with +check leaks: job/leaks.c; NULL: none yet */
    struct ampi_misuse *misuse; /* +check usage: misuse/misuse.h; NULL: none yet */
    _Atomic uint64_t acquired;  /* +check usage: the last tick that the rank knows: misuse/windows.c */
    bool had_session;           /* a session was open once */
    char *gpu_error; /* CUDA's text of the last failed operation, until that error is raised; malloc'ed,
                          * atomic */
    struct ampi_error_detail *error_detail; /* of the last error: error.c; atomic; NULL: none */
    char *coll_refused; /* the last collective call that raised an error and did not take part; malloc'ed;
                          * NULL: none */
    struct ampi_handlers *handlers;     /* its sets of functions that run on a GPU: handlers.c; NULL: none */
    struct ampi_work_rank *work;        /* its work requests: work/work.h; NULL: it has registered none */
    const struct ampi_spawned *spawned; /* its world; NULL: it was there at the start */
    struct ampi_rank *next_left;        /* of ended ones with memory to free: dynamic/spawn_numbers.c */
    struct ampi_comm *parent;           /* MPI_Comm_get_parent; NULL: MPI_COMM_NULL */
    int app_num;                        /* MPI_APPNUM */
    int max_ranks;                      /* maxprocs of its program; 0: as ampi_job's n_program */
    char *arguments;                    /* of a spawned one, or of another program: as ampi_job's */
    struct image_program *program;      /* what it runs; NULL: the process's program */
    struct image *image;                /* its copy of the program; NULL: it runs on the prototype */
    int initial_errors; /* the error handler at MPI_Init: ampi_errhandler_find; 0: the default */
    int exit_code;      /* once ENDED, or the code to end with: job.c */
    char **argv;        /* arguments of its main; NULL: it runs on the prototype */
    /* For its handlers of signals: job/rank_signals.c */
    struct ult_wakeup signal_wakeup; /* brings the errand to its PE */
    struct ult_errand signal_errand; /* runs them */
    atomic_bool is_signalled;        /* one of the two is under way */
} BASE_CACHE_ALIGNED;                /* neighbours may run on different PEs */

/* Sessions and the world model (MPI_Init, MPI_Finalize) are independent: a rank is INITIALIZED while it has
 * either. These functions update `state`; the last one is for MPI_Initialized and MPI_Finalized, which
 * concern the world model only. */
static inline void ampi_rank_update_state(struct ampi_rank *rank)
{
    enum ampi_rank_state state = rank->world_state ? rank->world_state : AMPI_RANK_STARTED;

    /* Threads of the program may read it: thread.c. */
    __atomic_store_n(&rank->state, rank->n_sessions > 0 ? AMPI_RANK_INITIALIZED : state, __ATOMIC_RELAXED);
}

static inline void ampi_rank_open_session(struct ampi_rank *rank)
{
    rank->n_sessions++;
    rank->had_session = true;
    ampi_rank_update_state(rank);
}

static inline void ampi_rank_close_session(struct ampi_rank *rank)
{
    rank->n_sessions--;
    ampi_rank_update_state(rank);
}

static inline void ampi_rank_set_world_state(struct ampi_rank *rank, enum ampi_rank_state world_state)
{
    __atomic_store_n(&rank->world_state, world_state, __ATOMIC_RELAXED);
    ampi_rank_update_state(rank);
}

/* The job: set up once, read-only while ranks run, except for the atomic fields. */
struct ampi_job {
    int n_ranks;      /* at the job's start */
    int n_pes;        /* of this process */
    int first_rank;   /* the lowest world rank of this process */
    int n_local;      /* ranks of this process */
    int n_procs;      /* processes at the job's start */
    int max_procs;    /* processes have numbers below this one; those from n_procs on are spawned */
    int proc_id;      /* of this process */
    int *first_ranks; /* the lowest world rank of each process, and n_ranks; NULL: all processes
                              * have equally many */
    int app_num;      /* number of its program among those of the job: MPI_APPNUM */
    int n_program;    /* ranks of its program; 0: all */
    int own_first; /* in a universe (mpirun --universe) the job's processes have the numbers from here ... */
    int own_end;   /* ... to this - 1; the others below max_procs are other jobs'. 0: no universe */
    const char *universe;    /* the universe's folder; NULL: none */
    bool asks_pmix;          /* another launcher than Heddle's mpirun starts processes that are spawned */
    int node_first;          /* the lowest process of this node */
    int node_index;          /* index of this process among those of this node */
    int node_n_procs;        /* processes of this node */
    struct ampi_rank *ranks; /* of this process, by ampi_job_index_of */
    int spawned_at;          /* index in ranks of the first one with a number for spawned ranks */
    const struct ampi_spawned *spawned; /* the world of its first ranks; NULL: the job's */
    int *world_ranks;                   /* its members' world ranks */
    const char *parent_port;            /* where the parents of a spawned process accept; "": it has none */
    int initial_errors;                 /* of a spawned process's ranks: see struct ampi_rank */
    int spawn_room;                     /* number of ranks that this process can spawn; 0: none */
    _Atomic int n_present; /* entries of ranks that are in use: n_local, and those of spawned ranks */
    int universe_size;     /* MPI_UNIVERSE_SIZE */
    const char *host;      /* this node's name */
    const char *program;   /* argv[0] */
    char *arguments;       /* the arguments after it, without our options, separated by blanks; NULL:
                              * none */
    bool is_virtual;       /* ranks run on copies of the program */
    _Atomic int exit_code; /* the first non-zero code of a rank */
    _Atomic int n_ended;   /* ranks that are ENDED */
    bool is_forked;        /* a process of the job forked this one, which is not part of the job */
    int forked_rank;       /* the rank that forked it; -1: unknown */
};
extern struct ampi_job ampi_job;

/* The rank that the caller runs for; NULL on threads that are not PEs, and on other threads of a rank outside the
 * functions of MPI. */
static inline struct ampi_rank *ampi_self(void)
{
    const struct ult *u = ult_self();

    return BASE_LIKELY(u != NULL) ? u->owner : NULL;
}

/* True if the caller is the rank's main thread (MPI 5.0, section 11.6.1). */
static inline bool ampi_rank_is_on_main(const struct ampi_rank *rank)
{
    return ult_self() == (rank->main_thread ? rank->main_thread : &rank->ult);
}

/* Raises MPI_ERR_OTHER for ampi_enter, because the caller is not a rank between MPI_Init and MPI_Finalize;
 * that ends the job. (enter.c) */
struct ampi_rank *ampi_enter_wrong(const char *call) BASE_COLD;

/* Ends a process that a rank has forked and that calls MPI; the job continues. (enter.c) */
void ampi_refuse_forked(const char *call) BASE_NORETURN;

/* First line of every MPI function that needs an initialised MPI: the running rank. call: "MPI_Send". Never
 * switches. */
static inline struct ampi_rank *ampi_enter(const char *call)
{
    struct ult *u = ult_self();
    struct ampi_rank *self;

    if (BASE_UNLIKELY(!u))
        return ampi_enter_wrong(call);
    self = u->owner;
    if (BASE_UNLIKELY(self->state != AMPI_RANK_INITIALIZED))
        return ampi_enter_wrong(call);
    u->call = call;
    u->resume_at = __builtin_return_address(0);
    return self;
}

/* The running rank, behind ampi_enter: for the body that an `int` and a `_c` function share. */
static inline struct ampi_rank *ampi_entered(void)
{
    return ult_self()->owner;
}

/* For reports: the function that the calling rank is in; from: the address of the call. */
static inline void ampi_rank_set_call(const char *call, const void *from)
{
    struct ult *u = ult_self();

    u->call = call;
    u->resume_at = from;
}

/* ampi_enter_any_time where no rank runs yet: a process with one rank becomes it at its first
 * call. (enter.c) */
struct ampi_rank *ampi_enter_first(void) BASE_COLD;

/* First line of the MPI functions that may be called before MPI_Init and after MPI_Finalize: the running
 * rank, NULL on a thread of no rank. */
static inline struct ampi_rank *ampi_enter_any_time(const char *call)
{
    struct ampi_rank *self = ampi_self();

    if (BASE_UNLIKELY(!self))
        self = ampi_enter_first();
    if (self)
        ampi_rank_set_call(call, __builtin_return_address(0));
    return self;
}

/* Spawned ranks: each process has this many numbers for them, from 0 on. Numbers are used again: generations tell their world
 * ranks apart, which are n_ranks + (generation * max_procs + process) * AMPI_SPAWN_MAX + number. */
#define AMPI_SPAWN_MAX 4096

static inline bool ampi_job_is_spawned(int world_rank)
{
    return BASE_UNLIKELY(world_rank >= ampi_job.n_ranks);
}

static inline int ampi_job_proc_of_spawned(int world_rank)
{
    return (world_rank - ampi_job.n_ranks) / AMPI_SPAWN_MAX % ampi_job.max_procs;
}

/* True if the rank is in this process. */
static inline bool ampi_job_is_local(int world_rank)
{
    if (ampi_job_is_spawned(world_rank))
        return ampi_job_proc_of_spawned(world_rank) == ampi_job.proc_id;
    return (unsigned)(world_rank - ampi_job.first_rank) < (unsigned)ampi_job.n_local;
}

/* The index of a rank of this process in ampi_job.ranks, and among the regions of memory. */
static inline int ampi_job_index_of(int world_rank)
{
    if (ampi_job_is_spawned(world_rank))
        return ampi_job.spawned_at + (world_rank - ampi_job.n_ranks) % AMPI_SPAWN_MAX;
    return world_rank - ampi_job.first_rank;
}

/* True if no rank has the entry of ampi_job.ranks: ended spawned ranks give their numbers back. */
static inline bool ampi_job_is_free(int index)
{
    return index >= ampi_job.spawned_at && !ampi_job.ranks[index].spawned;
}

/* The PE that runs a rank of this process. Block mapping: consecutive ranks share a PE. Spawned ranks are dealt out. */
static inline int ampi_job_pe_of(int world_rank)
{
    if (ampi_job_is_spawned(world_rank))
        return (world_rank - ampi_job.n_ranks) % AMPI_SPAWN_MAX % ampi_job.n_pes;
    return (int)((int64_t)(world_rank - ampi_job.first_rank) * ampi_job.n_pes / ampi_job.n_local);
}

/* The number of the spawn that it belongs to; 0: it was there at its job's start. */
static inline int ampi_rank_spawn(const struct ampi_rank *rank)
{
    return rank->spawned ? rank->spawned->number : 0;
}

/* For reports: the rank in its MPI_COMM_WORLD, and the size of that. */
static inline int ampi_rank_number(const struct ampi_rank *rank)
{
    const struct ampi_spawned *spawned = rank->spawned;

    return spawned ? rank->world_rank - spawned->first_rank + spawned->first_number : rank->world_rank;
}

static inline int ampi_rank_world_size(const struct ampi_rank *rank)
{
    return rank->spawned ? rank->spawned->n_ranks : ampi_job.n_ranks;
}

#define AMPI_CALL_SITE_BYTES 300

/* Functions of higher rooms that lower rooms need. The job room fills the table before main runs
 * (job/connect.c), so that calls go up only here. */
struct ampi_upper {
    /* The running rank; in a process with one rank that is not virtualized, created at the first call.
     * NULL: the calling thread belongs to no rank. */
    struct ampi_rank *(*adopt_caller)(void);
    /* The rank that the calling thread belongs to, by the rank that started it or, for threads that serve
     * all ranks, by the copy of the program that the caller's address lies in. NULL: not known. */
    struct ampi_rank *(*rank_of_thread)(const void *caller);
    /* True if the rank's program is known to have threads besides its main thread. */
    bool (*has_threads)(const struct ampi_rank *rank);
    /* Starts the progress thread of the calling rank's PE, if one is wanted and there is none. */
    void (*start_progress)(void);
    /* Ends the whole job at once with this exit code, after what was printed so far has been flushed. */
    void (*end_job)(int exit_code) BASE_NORETURN;
    /* Prints the blocking call of every rank of this process. */
    void (*report_blocked)(void);
    /* Prints which two threads of a rank are in MPI at the same time, at the level MPI_THREAD_SERIALIZED. */
    void (*report_overlap)(const struct ult *second, const struct ult *first);
    /* A rank has set an error handler that returns: failed processes do not end the job any more. */
    void (*expect_errors)(void);
    /* Creates the contents of MPI_INFO_ENV for a rank. */
    struct ampi_info *(*create_info_env)(const struct ampi_rank *rank);
    /* From now on the process's exit first handles NCCL. */
    void (*watch_exit)(void);
    /* Calls the error handler of the communicator (NULL: of MPI_COMM_SELF, or of MPI_COMM_WORLD if that one
     * has none) and returns its code. */
    int (*raise)(struct ampi_comm *comm, int error_code, const char *text);
    /* ampi_event_emit (event.h) of a rank that wants events; kind: enum ampi_event_kind. */
    void (*take_event)(struct ampi_rank *rank, int kind, const struct ampi_comm *comm, const int64_t *values);
    void (*hand_out_events)(struct ampi_rank *rank);
    /* As ampi_call_site_of and ampi_call_site_describe (job/report.h). */
    const void *(*find_site)(const struct ampi_rank *rank, const void *from, const char *lo);
    bool (*describe_site)(const void *from, char text[AMPI_CALL_SITE_BYTES]);
    /* +check usage: writes the call that started a rank's operation, "MPI_Ibcast, called at main (a.c:12)". request: NULL:
     * that of a blocking call. */
    void (*describe_call)(struct ampi_rank *rank, const struct ampi_request *request, char *text,
                          size_t size_bytes);
};
extern struct ampi_upper ampi_upper;

/* Ends the whole job at once with this exit code, after flushing earlier output. */
static inline void ampi_job_abort(int exit_code) BASE_NORETURN;
static inline void ampi_job_abort(int exit_code)
{
    ampi_upper.end_job(exit_code);
}

#endif
