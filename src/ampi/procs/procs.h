/* SPDX-License-Identifier: BSD-3-Clause
 *
 * procs.h: jobs of several processes: which ranks are where, and what travels between processes.
 *
 * Ranks are dealt out in blocks: to processes first, then to the PEs of each. A process keeps its own ranks,
 * and of a communicator the handles of its own members; of the others it knows the world rank, from which
 * process and PE follow. All messages go from a PE to a PE through the machine (machine_ucx/machine.h), begin
 * with a struct ampi_wire and are handled on the destination's PE:
 *
 *      AMPI_WIRE_SEND   a point-to-point message             p2p/remote.c
 *      AMPI_WIRE_ACK    a synchronous send was matched       p2p/remote.c
 *      AMPI_WIRE_CANCELLED  whether a send was taken back   p2p/remote_send.c
 *      AMPI_WIRE_CREDIT messages have been received          p2p/remote.c
 *      AMPI_WIRE_PULL   an offered message is wanted         p2p/pipe_send.c
 *      AMPI_WIRE_PIECE  a piece of it                        p2p/pipe.c
 *      AMPI_WIRE_COLL   between processes in a collective    coll/between/wire.c
 *      AMPI_WIRE_MEET   a process has come to a meeting, or  meet/meet_procs.c
 *                       a meeting is complete
 *      AMPI_WIRE_QUIET  a process has nothing to do          procs/quiet.c
 *      AMPI_WIRE_USAGE  which collective a process begins    coll/between/usage_procs.c
 *      AMPI_WIRE_RMA    one-sided communication              rma/rma_remote_target.c
 *
 * In a job of one process ampi_machine is NULL and nothing of this folder is called but
 * launcher_env.h.
 */
#ifndef AMPI_PROCS_H
#define AMPI_PROCS_H

#include "ampi/object/rank.h"
#include "machine_ucx/machine.h"

/* Most PEs of a process. */
#define AMPI_PES_MAX 1024

enum ampi_wire_kind {
    AMPI_WIRE_SEND = 1,
    AMPI_WIRE_ACK,
    AMPI_WIRE_COLL,
    AMPI_WIRE_MEET,
    AMPI_WIRE_CREDIT,
    AMPI_WIRE_QUIET,
    AMPI_WIRE_PULL,
    AMPI_WIRE_PIECE,
    AMPI_WIRE_CANCELLED,
    AMPI_WIRE_USAGE,
    AMPI_WIRE_RMA,
    AMPI_WIRE_KINDS,
};

/* The header of every message between processes: 40 bytes, the same on both sides. */
struct ampi_wire {
    uint8_t kind;        /* enum ampi_wire_kind */
    uint8_t flags;       /* AMPI_WIRE_* below */
    uint16_t src_pe;     /* PE of the sender */
    uint32_t src_proc;   /* process of the sender */
    uint64_t context_id; /* of the communicator; PULL: the receiver's flow; PIECE: where it belongs */
    uint32_t seq;    /* SEND: number between these two PEs; COLL: number of the operation on the communicator,
                        or of the start of a persistent one */
    int32_t tag;     /* SEND; COLL: which message of the operation */
    int32_t source;  /* SEND: rank of the sender; COLL: number of the persistent collective, 0: it is none */
    int32_t dest;    /* SEND: rank of the destination in its side */
    uint64_t cookie; /* SEND, ACK: the sender's request if it wants to know of the match; MEET: the meeting;
                        CREDIT: bytes; COLL: what the algorithm adds; offers, PULL, PIECE: the other's flow */
};
#define AMPI_WIRE_SIDE 1     /* the destination is in side[1] of an intercommunicator */
#define AMPI_WIRE_SYNC 2     /* tell the sender of the match */
#define AMPI_WIRE_DONE 4     /* MEET: all have come; CANCELLED: it was taken back */
#define AMPI_WIRE_PIPE 8     /* SEND: an offer (p2p/pipe.h), the data comes in pieces */
#define AMPI_WIRE_FAILED 16  /* PIECE: no more will come, tag is CUDA's error */
#define AMPI_WIRE_CANCEL 64  /* SEND: takes back the message whose number the data is */
#define AMPI_WIRE_VOTED 32   /* COLL: the operation goes its usual way after a vote (coll_nccl.h) */
#define AMPI_WIRE_REFUSED 64 /* COLL: a call of a collective raised an error at a rank of the sender before */

/* The machine; NULL: one process. */
extern const struct machine *ampi_machine;

/* ---- Life (procs.c) ---- */

/* Loads the machine, with UCX from the folder that the user names (+ucx; NULL: from where the machine finds
 * it). Ends the process with a message when that fails. (load.c) */
const struct machine *ampi_procs_load(const char *ucx);

/* Loads the machine and learns which process this is: sets ampi_job's fields about processes and, from the
 * wanted number of ranks (0: one per process), those about ranks. Ends the process with a message when that
 * fails. Called once. */
void ampi_procs_attach(long n_ranks);

/* Opens the machine; PEs exist. */
void ampi_procs_open(void);

/* Waits for all processes and disconnects, but not for long if this one has failed (its exit code is not 0):
 * then the launcher ends the others. At the end, with no rank running. Without a machine: nothing. */
void ampi_procs_close(int exit_code);

/* Ends the other processes, as far as the launcher can. */
void ampi_procs_abort(int exit_code);

/* All ranks of this process are blocked, and only messages could wake one: for the scheduler (struct
 * ult_hooks). */
int64_t ampi_procs_quiet(void);

/* ---- Where ranks are ---- */

static inline int ampi_procs_first_rank(int proc_id)
{
    return (int)((int64_t)proc_id * ampi_job.n_ranks / ampi_job.n_procs);
}

static inline int ampi_procs_of_rank(int world_rank)
{
    return (int)((((int64_t)world_rank + 1) * ampi_job.n_procs - 1) / ampi_job.n_ranks);
}

/* The PE of a rank in its process. Looks the process up at first use; -1: it cannot be found. */
int ampi_procs_pe_of(int world_rank);

/* ---- Sending (procs.c) ---- */

/* Sends a copy of the header with data, which stays unchanged until done is called: MACHINE_PENDING; else it
 * has left, or the process is lost (machine_ucx/machine.h). From the calling PE. */
int ampi_procs_send(int dest_proc, int dest_pe, const struct ampi_wire *wire, const void *data,
                    size_t n_bytes, enum machine_memory memory, machine_done_fn done, void *arg);

/* Sends a copy of the header with data of the library's, which was malloc'ed and is freed when it has left
 * (NULL: none). From the calling PE. False: the process is lost. */
bool ampi_procs_post(int dest_proc, int dest_pe, const struct ampi_wire *wire, void *data, size_t n_bytes);

/* Gets data that has come, malloc'ed; see ampi_procs_take. */
typedef void (*ampi_procs_then_fn)(const struct ampi_wire *wire, void *bytes, size_t n_bytes);

/* ---- Lost processes (failure.c) ---- */

/* No process is lost yet. Once the job's processes are known. */
void ampi_lost_init(void);

/* A rank of this process wants an error, not the job's end, when processes are lost: tells the launcher,
 * once; that takes a while. Without this a loss ends the job. */
void ampi_lost_tolerate(void);

/* A process was found to be gone; why: "was ended by signal 9". Any thread, once for each process. */
void ampi_lost_note(int proc_id, const char *why);

bool ampi_lost_any(void);
bool ampi_lost_is(int proc_id);
bool ampi_lost_is_rank(int world_rank);

/* A number for a set of processes (by process: is it lost), 0 for the empty one: two sets that differ have
 * different ones (but for one pair in 2^32). */
uint32_t ampi_lost_fingerprint(const bool *is_lost);

/* "process 2 of 4 (ranks 4 to 5) is lost: it was ...": to room for AMPI_LOST_TEXT_MAX bytes. */
#define AMPI_LOST_TEXT_MAX 320
void ampi_lost_describe_process(int proc_id, char *text);

/* In the PE's loop: if there are losses that it has not handled, ends what its ranks have under way with
 * those processes. Returns how many events there were. */
int ampi_lost_handle(int pe_id);
bool ampi_lost_must_handle(int pe_id);

/* A communicator was made that has lost members: PEs have to look at all again. */
void ampi_lost_look_again(void);

/* ---- Messages that come (procs.c) ---- */

/* Handles a message on its destination's PE. header: the message's, of which *wire is the beginning. Returns
 * true if the data is kept. Must not switch. */
typedef bool (*ampi_wire_handler_fn)(int pe_id, const struct ampi_wire *wire, const void *header,
                                     const struct machine_data *data);

/* From now on the handler gets all messages of a kind. Before ampi_procs_open. */
void ampi_procs_set_handler(enum ampi_wire_kind kind, ampi_wire_handler_fn handler);

/* For handlers that need all data here: calls then(wire, bytes, n) now or when it was fetched, with malloc'ed
 * bytes that are then's. Returns what the handler is to return. */
bool ampi_procs_take(int pe_id, const struct ampi_wire *wire, const struct machine_data *data,
                     ampi_procs_then_fn then);

/* Functions of a room that each PE calls in its loop. Any may be NULL. */
struct ampi_procs_client {
    /* Tries again what could not be done before, such as messages to communicators that this process has not
     * made yet. Returns how many it could. */
    int (*retry)(int pe_id);
    bool (*must_retry)(int pe_id); /* the PE must not sleep */
    /* A process has failed: ends what the PE has under way with it. */
    void (*forget)(int pe_id, int proc_id);
    /* Processes have failed, or a communicator was made that has failed members; after forget. */
    void (*look_again)(int pe_id);
};

/* Clients are called in the order in which they were added. Before ampi_procs_open. */
void ampi_procs_add_client(const struct ampi_procs_client *client);

/* ---- Within this room ---- */

/* Call the clients' functions. */
void ampi_procs_tell_failure(int pe_id, int proc_id);
void ampi_procs_tell_look_again(int pe_id);

/* AMPI_WIRE_QUIET (quiet.c). */
void ampi_procs_handle_quiet(const struct ampi_wire *wire);

#endif
