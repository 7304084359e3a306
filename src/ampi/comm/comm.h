/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm.h: communicators (MPI 5.0, chapter 7).
 *
 * State that ranks of a process share is stored once per process: struct ampi_comm_shared. It contains one
 * small handle per member rank (struct ampi_comm). The last rank to arrive at the creating collective
 * creates all of them, so a message to a member can be delivered before that member has returned from the
 * creation.
 *
 *      ampi_comm_shared ---- side[0] ---- handles[rank] (struct ampi_comm: matching engine, attributes, ...)
 *                       \--- side[1]      layout (which PE runs which member), group
 *
 * An intracommunicator has side[0] only; an intercommunicator has both: members of one side send to the
 * other.
 */
#ifndef AMPI_COMM_H
#define AMPI_COMM_H

#include "ampi/object/error.h"
#include "ampi/comm/group.h"
#include "ampi/match/match.h"
#include "ampi/object/rank.h"

struct ampi_attrs;
struct ampi_info;
struct ampi_topo;
struct ampi_win_shared;
struct ampi_file_shared;
struct ampi_coll_args;
struct ampi_coll_state;
struct ampi_comm_streams;

/* In ampi_layout.pe_of: the member lives in another process (procs/procs.h). */
#define AMPI_PE_REMOTE UINT16_MAX

/* The locations of a group's members. Shared by communicators with the same group. */
struct ampi_layout {
    _Atomic uint32_t refs;
    struct ampi_group *group; /* the members */
    uint16_t *pe_of; /* PE of each member; AMPI_PE_REMOTE: in another process. The parts below are of this
                      * process */
    int n_local;     /* members of this process */
    int n_parts;     /* PEs with members */
    int *part_pe;    /* their PE numbers, ascending */
    int *part_of_pe; /* index into the parts by PE number; -1: no member there */
    int *part_first; /* members of part p: part_members[part_first[p] .. part_first[p + 1] - 1], ascending */
    int *part_members;
};

/* One side of a communicator. */
struct ampi_comm_side {
    struct ampi_layout *layout;
    struct ampi_comm *handles; /* by rank in this side; one array, untouched where members are remote */
    int n_ranks;
};

struct ampi_comm_shared {
    _Atomic uint32_t refs; /* handles not freed yet, and messages and requests that hold a handle */
    uint64_t context_id;   /* distinguishes this communicator's messages from others' */
    struct ampi_comm_shared *next_context; /* next in the table of communicators across processes:
                                            * contexts.c */
    bool is_inter;
    bool is_hidden;        /* for other messages of another communicator (ampi_comm_hidden_shared) */
    int *n_streams_of;     /* of a communicator with several streams per rank: their number by rank; NULL:
                                     * another one */
    _Atomic int n_streams; /* the greatest of them; set last */
    struct ampi_comm_side side[2];  /* [1] is empty for an intracommunicator */
    struct ampi_coll_state *coll;   /* collectives in progress: coll/engine/slot.h */
    struct ampi_topo *topo;         /* process topology; NULL: none */
    struct ampi_win_shared *window; /* the window, across processes, that owns this communicator:
                                     * rma/win.h; NULL: none */
    struct ampi_file_shared *file;  /* the open file that owns this communicator: io/file.h; NULL: none */
    struct ampi_comm_shared *next_watched; /* links of the list of communicators: comm_watch.c */
    struct ampi_comm_shared **link_watched;
    uint64_t number; /* of the communicator in that list, never reused; 0: none */
    _Atomic(struct ampi_comm_shared *) hidden[2]; /* by enum ampi_comm_hidden; NULL: none yet */
};

/* A blocked probe; on its stack. */
struct ampi_prober {
    struct ampi_prober *next; /* link of the handle's list */
    struct ult *ult;          /* that probes */
    int source;
    int tag;
};

/* Last in the lists of handles whose events are wanted; has no ult. */
extern struct ampi_prober ampi_prober_watch;

struct ampi_comm {
    uint32_t magic; /* AMPI_MAGIC_COMM */
    int rank;       /* the owner's rank in its side */
    struct ampi_comm_shared *shared;
    struct ampi_comm_side *local; /* the owner's side */
    struct ampi_comm_side *peer;  /* the side that messages go to; == local in an intracommunicator */
    struct ampi_rank *owner;
    struct ampi_match match;   /* receives posted by the owner and messages to it */
    struct ampi_message *away; /* taken by ampi_recv_try, to be fetched by the ampi_recv_post that follows */
    bool has_failed;           /* a member's process has failed: ampi_comm_mark_failed */
    uint8_t at_post;           /* AMPI_AT_POST_*: for sends and receives that start */
    struct ampi_prober *probers; /* the owner's threads that are blocked in a probe; NULL: none */
    uint32_t coll_seq;           /* collectives that the owner has started on it, without persistent ones */
    uint32_t coll_pending;       /* slots of collectives in progress, one bit each */
    uint32_t n_coll_refused;     /* calls of collectives that raised an error and took no part */
    uint32_t n_series;           /* persistent collectives that the owner initialized on it */
    uint32_t n_series_starts;    /* ... and its starts of them */
    uint32_t next_channel;       /* hidden communicators: number of the owner's next partitioned send */
    struct ampi_coll_args *coll_deferred_first; /* collectives that may not start yet, in order */
    struct ampi_coll_args *coll_deferred_last;  /* if there is a first one */
    uint32_t n_pending; /* pending requests, matched messages and buffered sends, which keep it alive after
                         * MPI_Comm_free */
    bool is_freed;      /* MPI_Comm_free was called */
    struct ampi_errhandler *errhandler; /* NULL: the default (see errhandler.h) */
    struct ampi_attrs *attrs;           /* cached attributes; NULL: none */
    struct ampi_info *info;             /* hints; NULL: none */
    struct ampi_comm_streams *streams;  /* of a stream communicator: comm_stream.h; NULL: not a stream
                                         * communicator */
    char *name;                         /* MPI_Comm_set_name; NULL: the default */
    struct ampi_bsend_buffer *bsend;    /* MPI_Comm_attach_buffer; NULL: none */
    struct ampi_session *session;       /* origin of the communicator, for buffered sends; NULL: none */
    struct ampi_endpoint *endpoint;     /* p2p/thread/endpoint.h; NULL: none */
    _Atomic bool is_direct;             /* its lock guards `match`, not the PE */
    struct ampi_win *window;            /* the owner's handle of the window that owns it; NULL: none */
} BASE_CACHE_ALIGNED;                   /* neighbours may run on different PEs */

/* The communicator has streams, whose operations may have to start first; its events are wanted (object/event.h); standard sends
 * may wait for their receive (+schedule random). */
#define AMPI_AT_POST_STREAMS 1
#define AMPI_AT_POST_EVENTS 2
#define AMPI_AT_POST_SHUFFLED 4

static inline void ampi_comm_set_streams(struct ampi_comm *comm, struct ampi_comm_streams *streams)
{
    comm->streams = streams;
    comm->at_post = (uint8_t)((comm->at_post & ~AMPI_AT_POST_STREAMS) | (streams ? AMPI_AT_POST_STREAMS : 0));
}

/* The running rank's MPI_COMM_SELF, created at first use. */
struct ampi_comm *ampi_comm_self(struct ampi_rank *self);

/* The object of a handle; NULL if it is not valid (including MPI_COMM_NULL). */
static inline struct ampi_comm *ampi_comm_of(struct ampi_rank *self, MPI_Comm handle)
{
    if (BASE_LIKELY(handle == MPI_COMM_WORLD))
        return self->world;
    if (handle == MPI_COMM_SELF)
        return ampi_comm_self(self);
    return ampi_handle_has_magic(handle, AMPI_MAGIC_COMM) ? (struct ampi_comm *)handle : NULL;
}

/* The program's handle. */
static inline MPI_Comm ampi_comm_handle(struct ampi_comm *comm)
{
    if (comm == comm->owner->world)
        return MPI_COMM_WORLD;
    return comm == comm->owner->self ? MPI_COMM_SELF : (MPI_Comm)comm;
}

/* Raises MPI_ERR_COMM for a handle that is not a valid communicator, and returns that class. */
int ampi_comm_raise_invalid(MPI_Comm handle) BASE_COLD;

/* ---- Failed processes (comm_failure.c; procs/procs.h) ---- */

bool ampi_failed_in_group(const struct ampi_group *group);

/* The members of a group whose process has not failed. */
struct ampi_group *ampi_failed_survivors(const struct ampi_group *group);

/* ampi_failed_describe_process for the first failed process with ranks in the group (NULL: in the job). */
void ampi_failed_describe(const struct ampi_group *group, char *text);

/* ---- The rooms above ---- */

/* Functions of a higher room that keeps state with communicators. Any may be NULL. */
struct ampi_comm_client {
    void (*create)(struct ampi_comm_shared *shared);  /* a new communicator, not published yet */
    void (*destroy)(struct ampi_comm_shared *shared); /* called when it is no longer used */
    void (*close)(struct ampi_comm *comm);   /* called before destroy for each handle of this process; on
                                              * its owner's PE */
    void (*release)(struct ampi_comm *comm); /* the owner has freed its handle */
    /* A member's process has failed: the owner's operations leave the fast path from now on. */
    void (*mark_failed)(struct ampi_comm *comm);
    /* After that: operations that cannot complete any more fail. On the owner's PE. */
    void (*fail)(struct ampi_comm *comm);
    /* From now on events of the handle are wanted, or not any more: its operations leave the fast path. On the owner's PE,
     * or before the handle is published. */
    void (*watch)(struct ampi_comm *comm, bool is_on);
    void (*fail_shared)(struct ampi_comm_shared *shared, int pe_id); /* of all members of the PE */
};
#define AMPI_COMM_CLIENTS_MAX 8
extern const struct ampi_comm_client *ampi_comm_clients[AMPI_COMM_CLIENTS_MAX];
extern int ampi_comm_n_clients;

/* Clients are called in the order in which they were added. Before the first communicator is made. */
void ampi_comm_add_client(const struct ampi_comm_client *client);

/* Registers this room for reports of failed processes (job/connect.c). */
void ampi_comm_connect(void);

/* ---- Attributes (attr_api.c). May switch: callbacks are the program's. ---- */

/* For MPI_Comm_dup and similar functions: copies the rank's attributes of old to its new communicator. */
int ampi_comm_copy_attrs(struct ampi_comm *old, struct ampi_comm *dup);

/* The same for MPI_Comm_idup, before its new communicator exists: copies to *copies, for later. Raises
 * nothing: the error becomes the request's. */
int ampi_comm_copy_attrs_early(struct ampi_comm *old, struct ampi_attrs **copies);

/* Drops copies that no communicator will get: calls the delete callbacks, with MPI_COMM_NULL. */
void ampi_comm_drop_attr_copies(struct ampi_attrs **copies);

/* For MPI_Comm_free and, with MPI_COMM_SELF, MPI_Finalize. */
int ampi_comm_delete_attrs(struct ampi_comm *comm);

/* ampi_upper.raise (comm_errors.c). */
int ampi_comm_raise(struct ampi_comm *comm, int error_code, const char *text) BASE_COLD;

/* ---- Memory of handles (comm_handles.c) ---- */

/* Zeroed; memory is allocated when touched. */
struct ampi_comm *ampi_comm_handles_create(int n_ranks);
/* The handles stay readable for some time, as invalid communicators. */
void ampi_comm_handles_destroy(struct ampi_comm *handles, int n_ranks);

/* ---- Building (comm_build.c). The creating functions, not these, copy ranks' error handlers. ---- */

struct ampi_layout *ampi_layout_create(struct ampi_group *group); /* takes a reference to the group */
void ampi_layout_unref(struct ampi_layout *layout);

/* Creates a communicator with a handle for every member of the layout(s), each with rank and owner set;
 * peer NULL: an intracommunicator. Takes its own references to the layouts. One rank calls it for all. */
struct ampi_comm_shared *ampi_comm_build(struct ampi_layout *layout, struct ampi_layout *peer);

/* The same with a context id that all processes with members have agreed on; 0: this process chooses,
 * because it has all members. NULL: no context id is left. */
struct ampi_comm_shared *ampi_comm_build_as(struct ampi_layout *layout, struct ampi_layout *peer,
                                            uint64_t context_id);

/* Allocates a context id that no live communicator of this process has; raises nothing, 0: exhausted. */
uint32_t ampi_comm_context_alloc(void);

void ampi_comm_shared_ref(struct ampi_comm_shared *shared);

/* The same unless its destruction has begun. */
bool ampi_comm_shared_try_ref(struct ampi_comm_shared *shared);
void ampi_comm_shared_unref(struct ampi_comm_shared *shared);

/* Called when the last reference was dropped: destroys it when no message to it is in an inbox. Any thread.
 * (comm_retire.c) */
void ampi_comm_retire(struct ampi_comm_shared *shared);

/* Frees its memory. */
void ampi_comm_destroy(struct ampi_comm_shared *shared);

/* Communicators whose messages are invisible to the program's receives and probes. Created at first use, freed with the
 * communicator that they belong to. INTERNAL: of the library, with the same members. BY_STREAM: between streams; member
 * rank * n_streams + i is stream i of the rank (invariant 5 of match.h), and the streams that a rank has not are unused. */
enum ampi_comm_hidden { AMPI_COMM_INTERNAL, AMPI_COMM_BY_STREAM };

/* NULL: no context id is left; of BY_STREAM: n_streams is not set yet. */
struct ampi_comm_shared *ampi_comm_hidden_shared(struct ampi_comm_shared *shared, enum ampi_comm_hidden kind);

/* The owner's handle of INTERNAL. */
struct ampi_comm *ampi_comm_hidden(struct ampi_comm *comm);

/* Sets n_streams_of of a new communicator, takes it over, and lets messages of BY_STREAM arrive. */
void ampi_comm_set_n_streams(struct ampi_comm_shared *shared, int *n_streams_of);

/* True if the process of any member has failed. (procs/failure.c) */
bool ampi_comm_has_failed(const struct ampi_comm_shared *shared);

/* Takes the owner's receives that have to be posted (`away`) and its collectives (`coll_pending`) off the
 * fast path: from then on each is checked. On the owner's PE, or before the handle is published. */
void ampi_comm_mark_failed(struct ampi_comm *comm);

/* A bit of coll_pending that belongs to no slot. */
#define AMPI_COLL_PENDING_FAILED (1u << 31)
#define AMPI_COLL_PENDING_WATCHED (1u << 30)

/* ---- Events (comm_watch.c; object/event.h) ---- */

/* The first rank of the calling PE wants events, or the last one wants none any more: all handles of the PE, and those to
 * come, are watched. */
void ampi_comm_watch_pe(int pe_id, bool is_on);

/* All handles are watched in any case. Set before there are communicators. */
extern bool ampi_comm_watches_all;

/* The list of all communicators, except hidden ones, by next_watched. For debuggers. */
extern struct ampi_comm_shared *ampi_comm_first_watched;

/* Visits the rank's handles of all communicators, except hidden ones; none can be freed meanwhile. For reports. */
void ampi_comm_each(const struct ampi_rank *rank, void (*visit)(struct ampi_comm *comm, void *arg),
                    void *arg);

/* True if the rank is a member of a communicator, which may be about to be freed. */
bool ampi_comm_any_has(int world_rank);

/* Keeps a list of all communicators (job/connect.c). */
void ampi_comm_watch_connect(void);

/* Releases the owner's handle: MPI_Comm_free. Attributes have been deleted already. The error handler and
 * the memory stay until nothing is pending. */
void ampi_comm_release(struct ampi_comm *comm);

/* Called when the last pending operation on a freed communicator has ended. */
void ampi_comm_let_go(struct ampi_comm *comm) BASE_COLD;

/* Called when one of the operations counted by comm->n_pending has ended. May free the communicator. */
static inline void ampi_comm_drop_pending(struct ampi_comm *comm)
{
    if (BASE_UNLIKELY(--comm->n_pending == 0 && comm->is_freed))
        ampi_comm_let_go(comm);
}

#endif
