/* SPDX-License-Identifier: BSD-3-Clause
 *
 * procs.h: jobs of several processes: locations of ranks, and messages between processes.
 *
 * Ranks are distributed in blocks: to processes first, then to the PEs of each. A process stores its own ranks,
 * and for a communicator the handles of its own members; for others it knows the world rank, which determines
 * process and PE. All messages go from a PE to a PE through the machine (machine_ucx/machine.h), begin with a
 * struct ampi_am_header and are handled on the destination's PE:
 *
 *      AMPI_AM_SEND   a point-to-point message             p2p/route/remote.c
 *      AMPI_AM_ACK    a synchronous send was matched       p2p/route/remote.c
 *      AMPI_AM_CANCELLED  result of cancelling a send     p2p/route/remote_send.c
 *      AMPI_AM_CREDIT messages have been received          p2p/route/remote.c
 *      AMPI_AM_PULL   requests an offered message          p2p/route/staged_send.c
 *      AMPI_AM_PIECE  a piece of it                        p2p/route/staged.c
 *      AMPI_AM_COLL   between processes in a collective    coll/between/between.c
 *      AMPI_AM_MEET   a process has joined a meeting, or   meet/meet_procs.c
 *                       a meeting is complete
 *      AMPI_AM_TERMINATION  deadlock detection             procs/termination.c
 *      AMPI_AM_USAGE  a process begins a collective        coll/between/usage_procs.c
 *      AMPI_AM_RMA    one-sided communication              rma/rma_remote_target.c
 *      AMPI_AM_NODE_MEMORY  location of node memory        procs/node_memory.c
 *      AMPI_AM_FILE   shared file pointer                  io/shared_pointer.c
 *      AMPI_AM_COLL_COPIED  data was copied from here      coll/between/exchange_direct.c
 *      AMPI_AM_PAIR   a small collective of two members   coll/between/pair_procs.c
 *      AMPI_AM_REGISTRY  ports and published names         dynamic/registry.c
 *      AMPI_AM_MISSING  members of a collective, for       coll/between/missing.c
 *                       reports
 *
 * In a job of one process ampi_machine is NULL, and of this folder only launcher_env.h is used.
 */
#ifndef AMPI_PROCS_H
#define AMPI_PROCS_H

#include "ampi/object/rank.h"
#include "machine_ucx/machine.h"

/* Maximum number of PEs of a process. */
#define AMPI_PES_MAX 1024

enum ampi_am_kind {
    AMPI_AM_SEND = 1,
    AMPI_AM_ACK,
    AMPI_AM_COLL,
    AMPI_AM_MEET,
    AMPI_AM_CREDIT,
    AMPI_AM_TERMINATION,
    AMPI_AM_PULL,
    AMPI_AM_PIECE,
    AMPI_AM_CANCELLED,
    AMPI_AM_USAGE,
    AMPI_AM_RMA,
    AMPI_AM_NODE_MEMORY,
    AMPI_AM_COLL_COPIED,
    AMPI_AM_REGISTRY,
    AMPI_AM_FILE,
    AMPI_AM_PAIR,
    AMPI_AM_MISSING,
    AMPI_AM_KINDS,
};

/* The header of every message between processes: 40 bytes, equal on both sides. */
struct ampi_am_header {
    uint8_t kind;        /* enum ampi_am_kind */
    uint8_t flags;       /* AMPI_AM_* below */
    uint16_t src_pe;     /* PE of the sender */
    uint32_t src_proc;   /* process of the sender */
    uint64_t context_id; /* of the communicator; PULL: the receiver's flow; PIECE: its offset in the data */
    uint32_t seq;    /* SEND: number between these two PEs; COLL: number of the operation on the communicator,
                      * or of the start of a persistent one */
    int32_t tag;     /* SEND: the tag; COLL: index of the message in the operation */
    int32_t source;  /* SEND: rank of the sender; COLL: number of the persistent collective, 0: not
                      * persistent */
    int32_t dest;    /* SEND: rank of the destination in its side */
    uint64_t cookie; /* SEND, ACK: the sender's request if it needs a notification of the match; MEET: the
                      * meeting; CREDIT: bytes; COLL: data of the algorithm; offers, PULL, PIECE: the other
                      * side's flow */
};
#define AMPI_AM_SIDE 1     /* the destination is in side[1] of an intercommunicator */
#define AMPI_AM_AGAIN 1    /* COLL: the kernel refused to copy the data to its place */
#define AMPI_AM_SYNC 2     /* notify the sender of the match; MEET: for a report */
#define AMPI_AM_DONE 4     /* MEET: all have arrived; CANCELLED: the send was cancelled */
#define AMPI_AM_STAGED 8   /* SEND: an offer (p2p/route/staged.h), the data is sent in pieces */
#define AMPI_AM_GONE 8     /* MISSING: no member is left, and none entered the collective */
#define AMPI_AM_LENT 8     /* COLL: the data is a reference to node memory (node_memory.h) */
#define AMPI_AM_FAILED 16  /* PIECE: the last one, tag is CUDA's error; COLL_COPIED: the kernel refused */
#define AMPI_AM_BARE 16    /* COLL: the data is a bare part (coll/between/exchange.h) */
#define AMPI_AM_CANCEL 64  /* SEND: cancels the message whose number is the data */
#define AMPI_AM_TYPE 32    /* SEND: announces the data of the next message (misuse/messages.c) */
#define AMPI_AM_VOTED 32   /* COLL: the operation takes its usual path after a vote (coll_nccl.h) */
#define AMPI_AM_REFUSED 64 /* COLL: an earlier collective call raised an error at a rank of the sender */
#define AMPI_AM_DIRECT 128 /* COLL: the data is the address of the data (coll/between/exchange_direct.c) */

/* The machine; NULL: one process. */
extern const struct machine *ampi_machine;

/* ---- Life (procs.c) ---- */

/* Loads the machine, with UCX from the user's folder (+ucx; NULL: the machine's default). Ends the process
 * with a message on failure. (load.c) */
const struct machine *ampi_procs_load(const char *ucx);

/* The machine, open, with calls that captures of CUDA neither stop nor are ended by, if it calls CUDA. (relaxed_machine.c) */
const struct machine *ampi_procs_relax(const struct machine *machine);

/* True if the program refers to functions by which streams or kernels of a GPU wait for this process. */
bool ampi_procs_streams_wait(void);

/* Loads the machine and gets this process's place: sets ampi_job's fields about processes and, from the
 * requested number of ranks (0: one per process), those about ranks. Ends the process with a message on
 * failure. Called once. */
void ampi_procs_attach(long n_ranks);

/* Opens the machine; PEs exist already. */
void ampi_procs_open(void);

/* Waits for all processes and disconnects, but only briefly if this one has failed (its exit code is not
 * 0): then the launcher ends the others. At the end, when no rank runs. Without a machine: no effect. */
void ampi_procs_close(int exit_code);

/* Ends the other processes, as far as the launcher can. */
void ampi_procs_abort(int exit_code);

/* A function for struct ult_hooks, called when all ranks of this process are blocked and only messages could
 * wake one. */
int64_t ampi_procs_check_termination(void);

/* All ranks of this process are blocked, or only test and probe and find nothing: n_progress is as at the last call if they have done
 * nothing else since. If all processes say so, struct ampi_procs_waits_client's livelock is called. Any thread. */
void ampi_procs_vote_livelock(uint64_t n_progress);

/* ---- Locations of ranks ---- */

static inline bool ampi_procs_is_started(int proc_id)
{
    return !ampi_machine->is_started || ampi_machine->is_started(proc_id);
}

/* True if a process has been started, and has not ended. */
static inline bool ampi_procs_is_present(int proc_id)
{
    return !ampi_machine->is_present || ampi_machine->is_present(proc_id);
}

/* True if all ranks of a process have called MPI_Finalize, and it waits for connected processes: it only answers them. */
static inline bool ampi_procs_is_parting(int proc_id)
{
    return ampi_machine->is_parting && ampi_machine->is_parting(proc_id);
}

/* True if a process has been started, and its ranks may still communicate. */
static inline bool ampi_procs_may_begin(int proc_id)
{
    return ampi_procs_is_present(proc_id) && !ampi_procs_is_parting(proc_id);
}

/* True if a process has failed, and that was or will be announced (ampi_failed_record). */
static inline bool ampi_procs_is_failing(int proc_id)
{
    return ampi_machine->is_failing && ampi_machine->is_failing(proc_id);
}

/* True unless the process belongs to another job of the universe. */
static inline bool ampi_procs_is_own(int proc_id)
{
    return !ampi_job.own_end || (proc_id >= ampi_job.own_first && proc_id < ampi_job.own_end);
}

/* For spawned ranks, and jobs of several programs (job_programs.c). */
int ampi_procs_find_of_rank(int world_rank);

static inline int ampi_procs_first_rank(int proc_id)
{
    if (BASE_UNLIKELY(ampi_job.first_ranks != NULL))
        return ampi_job.first_ranks[proc_id];
    return (int)((int64_t)proc_id * ampi_job.n_ranks / ampi_job.n_procs);
}

static inline int ampi_procs_of_rank(int world_rank)
{
    if (BASE_UNLIKELY(ampi_job.first_ranks != NULL || world_rank >= ampi_job.n_ranks))
        return ampi_procs_find_of_rank(world_rank);
    return (int)((((int64_t)world_rank + 1) * ampi_job.n_procs - 1) / ampi_job.n_ranks);
}

/* The PE of a rank in its process. Looks up the process at first use; -1: unknown. */
int ampi_procs_pe_of(int world_rank);

/* ---- Sending (procs.c) ---- */

/* Sends a copy of the header with data. Returns MACHINE_PENDING: the data must stay unchanged until done is
 * called; otherwise it has left, or the process has failed (machine_ucx/machine.h). From the calling PE. For
 * data that the receiver's handler takes at once. */
int ampi_procs_send(int dest_proc, int dest_pe, const struct ampi_am_header *am, const void *data,
                    size_t n_bytes, enum machine_memory memory, machine_done_fn done, void *arg);

/* Sends a copy of the header with malloc'ed data of the library, which is freed when it has left (NULL:
 * none). From the calling PE. False: the process has failed. */
bool ampi_procs_post(int dest_proc, int dest_pe, const struct ampi_am_header *am, void *data, size_t n_bytes);

/* Receives data, malloc'ed; see ampi_procs_take. */
typedef void (*ampi_procs_then_fn)(const struct ampi_am_header *am, void *bytes, size_t n_bytes);

/* ---- Failed processes (failure.c) ---- */

/* Initialises: no process has failed. Called once the job's processes are known. */
void ampi_failed_init(void);

/* Called when a rank of this process prefers errors to the end of the job if processes fail: tells the
 * launcher, once, which takes a while. Without this, a failure ends the job. */
void ampi_failed_tolerate(void);

/* Records a failed process; why: "was ended by signal 9". Any thread, once for each process. */
void ampi_failed_record(int proc_id, const char *why);

bool ampi_failed_any(void);
bool ampi_failed_is(int proc_id);
/* True if it has, and all PEs have ended their ranks' communication with it. Any thread. */
bool ampi_failed_is_handled(int proc_id);
bool ampi_failed_is_rank(int world_rank);

/* A fingerprint of a set of processes (is_failed, by process), 0 for the empty set: different sets have
 * different ones (except one pair in 2^32). */
uint32_t ampi_failed_fingerprint(const bool *is_failed);

/* "process 2 of 4 (ranks 4 to 5) has failed: it was ...": into a buffer of AMPI_FAILED_TEXT_MAX bytes. */
#define AMPI_FAILED_TEXT_MAX 512
void ampi_failed_describe_process(int proc_id, char *text);

/* In the PE's loop: handles new failures, which ends its ranks' communication with those processes. Returns
 * the number of events. */
int ampi_failed_handle(int pe_id);
bool ampi_failed_must_handle(int pe_id);

/* Makes the PEs check all communicators again, because one with failed members was created. */
void ampi_failed_check_again(void);

/* ---- Received messages (procs.c) ---- */

/* Handles a message on its destination's PE. header: the message's, which begins with *am. Returns true if
 * the data is kept. Must not switch. */
typedef bool (*ampi_am_handler_fn)(int pe_id, const struct ampi_am_header *am, const void *header,
                                   const struct machine_data *data);

/* Registers the handler of all messages of a kind. Before ampi_procs_open. */
void ampi_procs_set_handler(enum ampi_am_kind kind, ampi_am_handler_fn handler);

/* For handlers that need all data here: calls then(am, bytes, n) now or after fetching; it gets the
 * malloc'ed bytes. Returns the handler's return value. */
bool ampi_procs_take(int pe_id, const struct ampi_am_header *am, const struct machine_data *data,
                     ampi_procs_then_fn then);

/* Functions of a room that each PE calls in its loop. Any may be NULL. */
struct ampi_procs_client {
    /* Called if this process is one of several, before its first communicator. */
    void (*begin)(void);
    /* Retries postponed work, such as messages to communicators that this process has not created yet.
     * Returns the number of successes. */
    int (*retry)(int pe_id);
    bool (*must_retry)(int pe_id); /* the PE must not sleep */
    /* Ends the PE's communication with a failed process. */
    void (*forget)(int pe_id, int proc_id);
    /* Checks all communicators: processes have failed (then after forget), or a communicator with failed
     * members was created. */
    void (*look_again)(int pe_id);
    /* In a universe: true if ranks of any job may come, because this process waits for them. There, and in a spawned process,
     * sets is_linked of the processes with which it shares communicators. */
    bool (*is_linked)(bool *is_linked);
    /* Called when the job is deadlocked: asks other processes for facts that this one's report will name.
     * Returns the number of answers, each of which calls ampi_procs_answered, on PE 0. */
    int (*ask_for_report)(void);
};

/* Clients are called in the order in which they were added. Before ampi_procs_open. */
void ampi_procs_add_client(const struct ampi_procs_client *client);

/* Calls the clients' begin, if this process is one of several. Before the first communicator. */
void ampi_procs_call_begin(void);

/* Calls the clients' is_linked. */
bool ampi_procs_are_linked(bool *is_linked);

/* Counts an answer to ask_for_report. (termination.c) */
void ampi_procs_answered(void);

/* Reports of the ranks that wait for each other, across processes: functions of the room job/ (job/connect.c). */
struct ampi_procs_waits_client {
    /* Returns what the ranks of this process wait for, in records of any kind, malloc'ed; NULL: nothing is known. */
    void *(*find)(size_t *n_bytes_out);
    /* Prints a cycle, if there is one in the records of all processes, which it may reorder. */
    void (*report)(void *waits, size_t n_bytes);
    /* Prints a livelock: once. is_first: the first process that prints. */
    void (*livelock)(bool is_first);
};
extern struct ampi_procs_waits_client ampi_procs_waits;

/* ---- Within this room ---- */

/* Call the clients' functions. */
void ampi_procs_call_forget(int pe_id, int proc_id);
void ampi_procs_call_check(int pe_id);
int ampi_procs_call_ask(void); /* the sum of the results */

/* Sets ampi_job.first_ranks and n_ranks from ampi_launched_programs; ends the process if that does not fit the number of
 * processes. (job_programs.c) */
void ampi_procs_read_programs(const char *text);

/* The same for a spawned process, or one of a job in a universe: sets ampi_job's fields about its ranks from
 * ampi_launched_spawn. (job_programs.c) */
void ampi_procs_read_spawn(const char *text, const struct machine_place *place);
/* Such a text for the start of a job of another launcher in a universe; malloc'ed. (job_programs.c) */
char *ampi_procs_describe_start(long n_ranks, int n_procs);

/* True if each of the processes that are spawned together has one rank. */
bool ampi_procs_is_spawned_alone(const char *text);

/* Sets is_connected (by process) of this job's processes, and in a universe of those of all jobs that are connected to it,
 * directly or through others. False: ranks of any job may come. While the process is quiet. (connected.c) */
bool ampi_procs_find_connected(bool *is_connected) BASE_MUST_CHECK;

/* True if a process was in that set without the help of others: of this job, or it shares a communicator with this process. */
bool ampi_procs_are_direct(int proc_id);

/* This process is in MPI_Finalize, and has done all that the others want now: tells those that have asked. (termination.c) */
void ampi_procs_echo(void);

/* AMPI_AM_TERMINATION; takes over the bytes. (termination.c) */
void ampi_procs_handle_termination(const struct ampi_am_header *am, void *bytes, size_t n_bytes);

#endif
