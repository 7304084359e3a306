/* SPDX-License-Identifier: BSD-3-Clause
 *
 * p2p.h: sending and receiving, below the argument checks of the public functions.
 *
 * The life of a message between two ranks of a process:
 *      ampi_send_try       matched already, or little data: delivers or buffers it; the send is complete
 *      ampi_send_queue     else: the send request waits at the destination until a receive fetches its data
 *      ampi_recv_try       a message has arrived: fetches it at once
 *      ampi_recv_post      else: the receive request waits in the table of posted receives
 */
#ifndef AMPI_P2P_P2P_H
#define AMPI_P2P_P2P_H

#include "ampi/p2p/request.h"

struct ampi_message;

enum ampi_send_mode { AMPI_SEND_STANDARD, AMPI_SEND_SYNCHRONOUS, AMPI_SEND_READY, AMPI_SEND_BUFFERED };

/* The arguments of a send. */
struct ampi_send_args {
    const void *buf;
    MPI_Count count;
    struct ampi_type *type;
    int dest; /* rank in the peer side, or MPI_PROC_NULL */
    int tag;
    struct ampi_comm *comm;
    enum ampi_send_mode mode;
};

/* The arguments of a receive. */
struct ampi_recv_args {
    void *buf;
    MPI_Count count;
    struct ampi_type *type;
    int source; /* or MPI_ANY_SOURCE or MPI_PROC_NULL */
    int tag;    /* or MPI_ANY_TAG */
    struct ampi_comm *comm;
};

/* ---- Checking arguments: raises the right class, or returns MPI_SUCCESS. The handles come from the program;
 *      the objects go to *args_out (comm, type). (p2p_check.c) ---- */
int ampi_check_send(struct ampi_rank *self, MPI_Datatype type, MPI_Comm comm,
                    struct ampi_send_args *args) BASE_MUST_CHECK;
int ampi_check_recv(struct ampi_rank *self, MPI_Datatype type, MPI_Comm comm,
                    struct ampi_recv_args *args) BASE_MUST_CHECK;
int ampi_check_probe(struct ampi_rank *self, MPI_Comm comm, int source, int tag,
                     struct ampi_comm **comm_out) BASE_MUST_CHECK;
int ampi_check_address(struct ampi_comm *comm, const void *buf, MPI_Count count,
                       const struct ampi_type *type) BASE_MUST_CHECK;

/* ---- Sending (send.c). Never switch. dest is not MPI_PROC_NULL. ---- */

/* True: the send is complete. False: nothing has happened yet, call ampi_send_queue. */
bool ampi_send_try(struct ampi_rank *self, const struct ampi_send_args *args);

/* Queues the (ACTIVE) request, filled by ampi_send_fill, at the destination. */
void ampi_send_queue(struct ampi_rank *self, struct ampi_request *request);

/* The same for data that is not there yet: the buffer is treated as device memory, even if it is empty. */
void ampi_send_queue_device(struct ampi_rank *self, struct ampi_request *request);

/* Copies the arguments into a send request, taking a reference of the type if the request outlives the
 * call. */
void ampi_send_fill(struct ampi_request *request, const struct ampi_send_args *args);

/* Makes a filled send request persistent. can_bind: its starts may bind it to a receive (channel.h). */
static inline void ampi_send_keep(struct ampi_request *request, bool can_bind)
{
    request->u.p2p.facts = (struct gpu_facts){0};
    if (!can_bind)
        request->u.p2p.n_tries = UINT8_MAX;
}

/* Starts a send and returns its request (for MPI_Isend and similar functions); ampi_request_done if it is
 * complete already. */
struct ampi_request *ampi_send_start(struct ampi_rank *self, const struct ampi_send_args *args);

/* Sends and waits; raises and returns the error if the destination's process has failed. May switch. */
int ampi_send_blocking(struct ampi_rank *self, const struct ampi_send_args *args);

/* Copies all data of the send into contiguous memory. */
static inline void ampi_p2p_pack(void *out, const struct ampi_send_args *args, size_t n_bytes)
{
    if (BASE_LIKELY(ampi_type_is_block(args->type, args->count))) {
        const char *data = (const char *)args->buf + args->type->true_lb_bytes;
        if (n_bytes)
            memcpy(out, data, n_bytes);
    } else {
        struct ampi_cursor cursor;
        ampi_cursor_init(&cursor, (void *)args->buf, args->count, args->type);
        ampi_cursor_pack(&cursor, out, n_bytes);
    }
}

/* ---- Receiving (recv.c). source is not MPI_PROC_NULL. ---- */

/* True: a message had arrived, was received, and *status is filled in, including MPI_ERROR. False: the
 * caller has to post a request at once, which may have to fetch the data of a message from another process.
 * Never switches. */
bool ampi_recv_try(struct ampi_rank *self, const struct ampi_recv_args *args, MPI_Status *status);

/* The same for a request that is filled with the arguments and has is_device set: fills the request's
 * status. */
bool ampi_recv_try_known(struct ampi_request *request, const struct ampi_recv_args *args);

/* Handles a receive request whose message was taken and has to be fetched (comm->away). Fails the request if members
 * of the communicator have failed. False: post the request. */
bool ampi_recv_post_specially(struct ampi_request *request, int source) BASE_COLD;

/* Posts the (ACTIVE) request, filled with the arguments. Never switches. */
void ampi_recv_post(struct ampi_request *request, int source, int tag);
void ampi_recv_fill(struct ampi_request *request, const struct ampi_recv_args *args);

/* Makes a filled receive request persistent. */
static inline void ampi_recv_keep(struct ampi_request *request)
{
    request->u.p2p.facts = (struct gpu_facts){0};
}

/* Starts a receive and returns its new request: MPI_Irecv. */
struct ampi_request *ampi_recv_start(struct ampi_rank *self, const struct ampi_recv_args *args);

/* Receives, waits, stores the status (which may be MPI_STATUS_IGNORE), and raises and returns the result.
 * May switch. */
int ampi_recv_blocking(struct ampi_rank *self, const struct ampi_recv_args *args, MPI_Status *status);

/* The status of a receive from MPI_PROC_NULL. */
void ampi_status_set_proc_null(MPI_Status *status);

/* Raises the error in a finished operation's status, if any, and returns it. comm NULL: on MPI_COMM_SELF. */
int ampi_p2p_result(struct ampi_comm *comm, const MPI_Status *status);

/* ---- Delivering (deliver.c): on the destination's PE. Never switch. ---- */

/* Delivers a message of n contiguous bytes: to the matching receive, or keeps it. */
void ampi_p2p_deliver_bytes(struct ampi_message_pool *pool, struct ampi_comm *dest, int source, int tag,
                            const void *data, size_t n_bytes);

/* The same for data that is already packed in a message; takes over the message. */
void ampi_p2p_deliver_message(struct ampi_message_pool *pool, struct ampi_comm *dest, int source, int tag,
                              struct ampi_message *message);

/* Delivers a send request that waits for a receive. */
void ampi_p2p_deliver_rendezvous(struct ampi_message_pool *pool, struct ampi_comm *dest, int source, int tag,
                                 struct ampi_request *sender, size_t size_bytes);

/* The status of a receive with room for room_bytes that has matched a message of size_bytes. */
static inline void ampi_p2p_fill_status(MPI_Status *status, int source, int tag, size_t size_bytes,
                                        size_t room_bytes)
{
    bool is_truncated = size_bytes > room_bytes;

    status->MPI_SOURCE = source;
    status->MPI_TAG = tag;
    status->MPI_ERROR = BASE_UNLIKELY(is_truncated) ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
    ampi_status_set_bytes(status, (MPI_Count)(is_truncated ? room_bytes : size_bytes));
    ampi_status_set_cancelled(status, false);
}

/* Fills a receive's buffer and status from n contiguous bytes, or from a send request's buffer. */
void ampi_p2p_unpack(const void *data, size_t n_bytes, int source, int tag, void *buf, MPI_Count count,
                     const struct ampi_type *type, MPI_Status *status);
void ampi_p2p_copy_from_sender(const struct ampi_request *sender, size_t size_bytes, int source, int tag,
                               void *buf, MPI_Count count, const struct ampi_type *type, MPI_Status *status);

/* Completes a send request whose data has been fetched, on its own PE; pe_id is the caller's. */
void ampi_p2p_complete_sender(int pe_id, int sender_pe, struct ampi_request *sender);

/* MPI_Cancel of an ACTIVE or COMPLETE send: cancels it if no receive has matched it; completes it then, now
 * or when the destination's PE has answered. Never switches. (cancel.c) */
int ampi_send_cancel(struct ampi_request *request);

/* Completes a cancelled send. On its owner's PE. */
void ampi_send_end_cancelled(struct ampi_request *request);

/* Completes a cancelled receive, which is no longer in the table of posted ones. (recv.c) */
void ampi_recv_end_cancelled(struct ampi_request *request);

/* The kinds of sends and receives; those of channel.h are sends and receives, too. */
bool ampi_request_is_send(const struct ampi_request *request);
bool ampi_request_is_recv(const struct ampi_request *request);

extern const struct ampi_request_kind ampi_send_kind;
extern const struct ampi_request_kind ampi_recv_kind;

/* Registers this room's functions with lower rooms (job/connect.c). */
void ampi_p2p_connect(void);

#endif
