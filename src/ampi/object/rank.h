/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rank.h: an MPI process as the program sees it, and the job it is part of.
 *
 * Life of a rank (who moves it on):
 *
 *      1 STARTED      --PMPI_Init and its kin-->   2 INITIALIZED
 *      2 INITIALIZED  --PMPI_Finalize-->           3 FINALIZED
 *      any            --rank_end (job.c)-->        4 ENDED
 */
#ifndef AMPI_RANK_H
#define AMPI_RANK_H

#include "ampi/object/handle.h"
#include "ult/ult.h"

struct ampi_comm;
struct ampi_request;
struct ampi_errhandler;
struct ampi_bsend_buffer;
struct ampi_error_classes;
struct ampi_handle_ints;
struct ampi_info;
struct ampi_keyvals;
struct image;

enum ampi_rank_state {
    AMPI_RANK_STARTED = 1,
    AMPI_RANK_INITIALIZED = 2,
    AMPI_RANK_FINALIZED = 3,
    AMPI_RANK_ENDED = 4
};

/* The ways that a message takes: p2p/send.c. */
enum ampi_route { AMPI_ROUTE_SAME_PE, AMPI_ROUTE_OTHER_PE, AMPI_ROUTE_OTHER_PROCESS, AMPI_ROUTE_COUNT };

struct ampi_rank {
    struct ult ult; /* first: a rank is its ULT */
    enum ampi_rank_state state;
    int world_rank;                     /* in MPI_COMM_WORLD */
    int pe_id;                          /* of its PE */
    unsigned wait_left;                 /* completions it still waits for; at 0 it is made ready */
    struct ampi_message_pool *messages; /* its PE's */
    const char *call;                   /* the MPI function it is in or was in last; for messages */
    struct ampi_comm *world;            /* its handle of MPI_COMM_WORLD */
    struct ampi_request *free_requests; /* pool: request.c */
    int n_requests;                     /* taken from it */
    uint64_t n_sent[AMPI_ROUTE_COUNT];  /* messages that it sent; for the tool interface */
    struct ampi_comm *self; /* its handle of MPI_COMM_SELF; NULL until first used: ampi_comm_self */
    struct ampi_request *const *wait_for; /* what it waits for, n_wait_for of them; for reports */
    int n_wait_for;
    int thread_level;                         /* what MPI_Init_thread provided */
    int n_sessions;                           /* open sessions (MPI_Session_init) */
    enum ampi_rank_state world_state;         /* what state would be without sessions; 0: STARTED */
    struct ampi_bsend_buffer *bsend;          /* MPI_Buffer_attach; NULL: none */
    struct ampi_error_classes *error_classes; /* that the program added: error_class.c; NULL: none */
    struct ampi_keyvals *keyvals;             /* attribute keys that the program made: attr.c; NULL: none */
    int last_used_code;                       /* what MPI_LASTUSEDCODE points to */
    struct ampi_info *info_env;               /* MPI_INFO_ENV: info.c; NULL until first used */
    struct ampi_info *fortran_booleans;   /* MPI_Abi_set_fortran_booleans: abi_query.c; NULL: never called */
    struct ampi_handle_ints *handle_ints; /* integers that stand for handles: fortran_int.c; NULL: none */
    struct ampi_errhandler *file_errhandler; /* of MPI_FILE_NULL: what files get at open; NULL: the default */
    int n_tool_inits;                        /* MPI_T_init_thread less MPI_T_finalize */
    char *gpu_error;     /* what CUDA says of the last operation that failed for it, until that is raised;
                            malloc'ed,     atomic */
    char *coll_refused;  /* the last call of a collective that raised an error and took no part; malloc'ed;
                            NULL: none */
    struct image *image; /* its copy of the program; NULL: runs on the prototype */
    int exit_code;       /* once ENDED, or to end with: job.c */
    char **argv;         /* what its main got; NULL: runs on the prototype */
} BASE_CACHE_ALIGNED;    /* neighbours may run on different PEs */

/* Sessions and the world model (MPI_Init, MPI_Finalize) come and go independently: a rank is INITIALIZED
 * while it has either. These keep `state` so; the last is for MPI_Initialized and MPI_Finalized, which ask of
 * the world model alone. */
static inline void ampi_rank_update_state(struct ampi_rank *rank)
{
    enum ampi_rank_state state = rank->world_state ? rank->world_state : AMPI_RANK_STARTED;

    /* Threads of the program may look: thread.c. */
    __atomic_store_n(&rank->state, rank->n_sessions > 0 ? AMPI_RANK_INITIALIZED : state, __ATOMIC_RELAXED);
}

static inline void ampi_rank_open_session(struct ampi_rank *rank)
{
    rank->n_sessions++;
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

/* The job: set up once, read-only while ranks run, but for the atomic fields. */
struct ampi_job {
    int n_ranks;             /* of MPI_COMM_WORLD */
    int n_pes;               /* of this process */
    int first_rank;          /* the lowest world rank of this process */
    int n_local;             /* ranks of this process */
    int n_procs;             /* processes of the job */
    int proc_id;             /* of this process */
    int node_first;          /* the lowest process of this node */
    int node_index;          /* this process among those of this node */
    int node_n_procs;        /* processes of this node */
    struct ampi_rank *ranks; /* of this process, by world rank less first_rank */
    const char *host;        /* this node's name */
    const char *program;     /* argv[0] */
    char *arguments;         /* those behind it, less our options, with blanks between them; NULL: none */
    bool is_virtual;         /* ranks run on copies of the program */
    _Atomic int exit_code;   /* the first non-zero code of a rank */
    _Atomic int n_ended;     /* ranks that are ENDED */
    bool is_forked;          /* this process was forked by one of the job's, and is no part of it */
    int forked_rank;         /* the rank that forked it; -1: not known */
};
extern struct ampi_job ampi_job;

/* The running rank; NULL on threads that are no PE. */
static inline struct ampi_rank *ampi_self(void)
{
    return (struct ampi_rank *)ult_self();
}

/* Raises MPI_ERR_OTHER for ampi_enter, whose caller is not a rank between MPI_Init and MPI_Finalize; that
 * ends the job. (enter.c) */
struct ampi_rank *ampi_enter_wrong(const char *call) BASE_COLD;

/* A process that a rank has forked calls MPI: ends it; the job goes on. (enter.c) */
void ampi_refuse_forked(const char *call) BASE_NORETURN;

/* First line of every MPI function that needs an initialised MPI: the running rank. call: "MPI_Send". Never
 * switches. */
static inline struct ampi_rank *ampi_enter(const char *call)
{
    struct ampi_rank *self = ampi_self();

    if (BASE_UNLIKELY(!self || self->state != AMPI_RANK_INITIALIZED))
        return ampi_enter_wrong(call);
    self->call = call;
    self->ult.resume_at = __builtin_return_address(0);
    return self;
}

/* ampi_enter_any_time where no rank runs yet: a process with one rank becomes it at its first
 * call. (enter.c) */
struct ampi_rank *ampi_enter_first(void) BASE_COLD;

/* First line of the MPI functions that may be called before MPI_Init and after MPI_Finalize: the running
 * rank, NULL on a thread that is no rank's. */
static inline struct ampi_rank *ampi_enter_any_time(const char *call)
{
    struct ampi_rank *self = ampi_self();

    if (BASE_UNLIKELY(!self))
        self = ampi_enter_first();
    if (self) {
        self->call = call;
        self->ult.resume_at = __builtin_return_address(0);
    }
    return self;
}

/* Does the rank live in this process? */
static inline bool ampi_job_is_local(int world_rank)
{
    return (unsigned)(world_rank - ampi_job.first_rank) < (unsigned)ampi_job.n_local;
}

/* The PE that runs a rank of this process. Block mapping: consecutive ranks share a PE. */
static inline int ampi_job_pe_of(int world_rank)
{
    return (int)((int64_t)(world_rank - ampi_job.first_rank) * ampi_job.n_pes / ampi_job.n_local);
}

/* The functions of higher rooms that lower rooms need. The job room fills the table before main runs
 * (job/connect.c), so that calls go up here and nowhere else. */
struct ampi_upper {
    /* The running rank; for a process with one rank, which is not virtualized, made at the first call. NULL:
     * the calling thread is no rank's. */
    struct ampi_rank *(*adopt_caller)(void);
    /* Ends the whole job at once with this exit code, after what was printed so far has been flushed. */
    void (*end_job)(int exit_code) BASE_NORETURN;
    /* Prints what every rank of this process is blocked in. */
    void (*report_blocked)(void);
    /* A rank has chosen an error handler that returns: failed processes do not end the job any more. */
    void (*expect_errors)(void);
    /* What MPI_INFO_ENV tells of a rank. */
    struct ampi_info *(*create_info_env)(const struct ampi_rank *rank);
    /* From now on the end of the process begins with what concerns NCCL. */
    void (*watch_exit)(void);
    /* Calls the error handler of the communicator (NULL: of MPI_COMM_SELF, or of MPI_COMM_WORLD if that one
     * has none) and returns its code. */
    int (*raise)(struct ampi_comm *comm, int error_code, const char *text);
};
extern struct ampi_upper ampi_upper;

/* Ends the whole job at once with this exit code, after what was printed so far has been flushed. */
static inline void ampi_job_abort(int exit_code) BASE_NORETURN;
static inline void ampi_job_abort(int exit_code)
{
    ampi_upper.end_job(exit_code);
}

#endif
