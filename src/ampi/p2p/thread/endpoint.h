/* SPDX-License-Identifier: BSD-3-Clause
 *
 * endpoint.h: endpoints: messages of threads that do not take the lock of their PE.
 *
 * The handle of a communicator with a stream without a GPU has an endpoint if its rank has MPI_THREAD_MULTIPLE and
 * all members are in this process. The handle is *direct* at first: the endpoint's lock guards its matching engine,
 * which otherwise belongs to the PE, and the simple calls of direct.h take that lock only. Before any other call uses
 * the engine, the handle becomes ordinary, for ever: the engine and the order of its messages stay, and from then on
 * it belongs to the PE, as all other engines do.
 *
 *      direct  --ampi_endpoint_leave, of any thread-->  ordinary
 *
 * Small messages go through rings (ult/inbox.h), one from each sender's endpoint, so sender and receiver do
 * not wait for each other. The receiver's calls empty the rings; while the receiver waits in its PE (the
 * endpoint is *watched*), senders do. Other messages go through the engine, after the sender has emptied the
 * rings.
 *
 * Requests of direct calls are *private*: no other call knows them. They become ordinary when any other
 * function gets them, or when the caller has waited for some time (ampi_endpoint_publish).
 *
 * Invariants:
 *   1. A request is private if its kind is one of the two below. Such a kind is changed with both locks held, the PE's and
 *      that of the endpoint of request->comm.
 *   2. ampi_endpoint_complete completes a private request with that endpoint's lock held. It completes an ordinary one by a
 *      wake-up of its PE. The PE's code completes both kinds with the PE's lock held.
 *   3. An endpoint's lock is taken last. A thread holds one of them at most.
 *   4. A sender puts an item into a ring, then reads `watched`. To begin watching, or to leave, a thread writes `watched`,
 *      then empties the rings, with the lock. Both have a full barrier between. So one of them sees the item.
 *   5. A rank uses a stream's communicator from one thread at a time: only that thread puts items into the rings that begin
 *      at its endpoint.
 *
 * All members have their endpoints before one returns from the call that creates the communicator (a
 * second, empty collective): otherwise a quick member's ordinary message could be in the inbox of a PE when
 * the engine changes hands.
 *
 * Interleavings:
 *
 * - An item and leaving: a sender that finds the endpoint left takes the lock. If its item is still in its
 *   ring, it takes it back and sends in the ordinary way. No later message of the same sender can have
 *   overtaken it.
 * - A private request completes in the PE because its handle became ordinary: its thread may see that and leave its
 *   stack at once, so ampi_request_complete touches nothing after the state.
 * - Publishing and completing: a completer holds one of the two locks. It sees a private request, and
 *   stores the state, or an ordinary one, and posts the wake-up.
 * - A large copy without the lock: the request is out of the engine; only its completion takes the lock
 *   again.
 * - MPI_Cancel while a sender copies into the receive: the receive is not posted any more, so it is not
 *   cancelled.
 * - MPI_Comm_free with private requests: they are counted as pending at once, and dropped inside of the PE.
 */
#ifndef AMPI_P2P_ENDPOINT_H
#define AMPI_P2P_ENDPOINT_H

#include "ampi/p2p/message.h"
#include "ult/pe_lock.h"

struct ampi_endpoint {
    struct ult_lock lock;               /* guards the handle's engine while it is direct, and the fields
                                         * below */
    struct ampi_message_pool *messages; /* pool of the messages that wait in the engine */
    struct ult_inbox inbox;
    /* Read by senders: the number of posted receives that are not private; AMPI_ENDPOINT_LEFT: the handle is
     * ordinary. */
    _Atomic uint32_t watched BASE_CACHE_ALIGNED;
    /* What only the rank's own threads use: */
    struct ult_lock requests_lock BASE_CACHE_ALIGNED; /* guards: */
    struct ampi_request *free_requests;
    int n_private;              /* private requests that the program has */
    bool is_closed;             /* the handle is freed; its n_pending counts the private requests */
    unsigned n_tests;           /* in vain */
    struct ult_ring **rings_to; /* by destination: this endpoint's ring there; NULL: none yet */
    _Atomic uint64_t n_sent[2]; /* messages, by enum ampi_route */
    struct ampi_rank *owner;    /* NULL: unused */
    struct ampi_endpoint *next; /* link of the list of all endpoints */
};

#define AMPI_ENDPOINT_LEFT 0x80000000u

extern const struct ampi_request_kind ampi_private_send_kind;
extern const struct ampi_request_kind ampi_private_recv_kind;

/* True once a handle of this process has an endpoint. */
extern _Atomic bool ampi_endpoints_exist;

/* True if handles of the communicator may have endpoints; the same at all members. */
bool ampi_endpoint_may_give(const struct ampi_comm *comm);

/* Creates the endpoint of a new communicator's handle, unless the rank's thread level is too low. No member
 * may send a message before all have called it. */
void ampi_endpoint_give(struct ampi_comm *comm);

/* Registers this room for handles of destroyed communicators (job/connect.c). */
void ampi_endpoint_connect(void);

/* True if the handle is direct. It stays direct while the endpoint's lock is held. */
static inline bool ampi_endpoint_is_direct(const struct ampi_comm *comm)
{
    return atomic_load_explicit(&comm->is_direct, memory_order_acquire);
}

/* Makes the handle ordinary. Any thread. */
void ampi_endpoint_leave(struct ampi_comm *comm);

/* Called when the rank frees its handle: makes it ordinary, and counts its private requests as pending. On
 * the owner's PE. */
void ampi_endpoint_close(struct ampi_comm *comm);

static inline bool ampi_request_is_private(const struct ampi_request *request)
{
    return request->kind == &ampi_private_recv_kind || request->kind == &ampi_private_send_kind;
}

/* Creates an ACTIVE private request for the program, with an empty status. On any thread of the handle's
 * rank. */
struct ampi_request *ampi_endpoint_request(struct ampi_comm *comm, const struct ampi_request_kind *kind);

static inline bool ampi_endpoint_is_complete(const struct ampi_request *request)
{
    return __atomic_load_n(&request->state, __ATOMIC_ACQUIRE) == AMPI_REQUEST_COMPLETE;
}

/* Empties the rings of the endpoint of a private request. True: the request is complete. */
bool ampi_endpoint_poll(const void *request);

/* Repeats that until the request is complete. False, after some time or at once: the caller has to wait with
 * the PE entered. */
bool ampi_endpoint_spin(const struct ampi_request *request);

/* Frees n COMPLETE private requests of a handle, linked by next, that the program had. False: the handle is
 * closed. */
bool ampi_endpoint_retire(struct ampi_comm *comm, struct ampi_request *first, struct ampi_request *last,
                          int n);

/* Complete a request that is or was private; its status is filled in. On any thread: the first without the
 * lock of an endpoint, the second with the lock of the request's endpoint. */
void ampi_endpoint_complete(struct ampi_request *request);
void ampi_endpoint_complete_locked(struct ampi_request *request);

/* The sender's ring in the endpoint of a member. */
struct ult_ring *ampi_endpoint_ring_to(struct ampi_comm *comm, int dest);

/* Makes a request ordinary if it is private. On the owner's PE. */
void ampi_endpoint_publish(struct ampi_request *request);
void ampi_endpoint_publish_on_stack(struct ampi_request *request);

/* Counts a message to a member. */
void ampi_endpoint_count(struct ampi_comm *comm, int dest);

/* The messages that the rank has sent from its endpoints by a route. */
uint64_t ampi_endpoints_sent(const struct ampi_rank *rank, enum ampi_route route);

#endif
