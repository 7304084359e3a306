/* SPDX-License-Identifier: BSD-3-Clause
 *
 * p2p_watch.h: events of messages (object/event.h): for operations on communicators that have at_post set, which left the
 * fast path for them. All are called on the PE of the communicator's owner, and the functions named before and after in a
 * call of the owner. These may switch, the others do not.
 */
#ifndef AMPI_P2P_WATCH_H
#define AMPI_P2P_WATCH_H

#include "ampi/object/event.h"
#include "ampi/p2p/p2p.h"
#include "base/settings.h"

/* In comm->away while events are wanted, so that persistent receives are not bound. */
extern struct ampi_message ampi_message_watch_mark;

/* The value of comm->away while no message waits there. */
struct ampi_message *ampi_p2p_mark_of(const struct ampi_comm *comm);

/* Reports the start of an operation. Before that, starts enqueued operations that the communicator's streams have
 * reached: they precede this one, because the program may have waited for the stream by a call that the library does
 * not see. */
void ampi_p2p_before_send(const struct ampi_send_args *args) BASE_COLD;
void ampi_p2p_before_recv(const struct ampi_recv_args *args) BASE_COLD;
void ampi_p2p_before_probed(const struct ampi_message *message, const struct ampi_recv_args *args) BASE_COLD;

/* An operation that has no request is complete. */
void ampi_p2p_after_send(const struct ampi_send_args *args) BASE_COLD;
void ampi_p2p_after_recv(const struct ampi_comm *comm, const MPI_Status *status) BASE_COLD;

/* What a request sends or receives. */
struct ampi_p2p_message {
    enum {
        AMPI_P2P_REPORTS_ITSELF,
        AMPI_P2P_SENDS,
        AMPI_P2P_RECEIVES
    } role;   /* the first: collectives, bsend */
    int peer; /* rank in the peer side, MPI_PROC_NULL, or MPI_ANY_SOURCE */
    int tag;
    MPI_Count count;
    struct ampi_type *type;
};

/* Of a partitioned operation: its whole round. NULL until there is one (partitioned.c). */
extern struct ampi_p2p_message (*ampi_p2p_partitioned_message)(const struct ampi_request *request);

/* MPI_Start of a persistent request begins. */
void ampi_p2p_before_start(const struct ampi_request *request) BASE_COLD;

/* Reports the completion of a request that has been started, or has completed at once. */
void ampi_p2p_watch(struct ampi_request *request) BASE_COLD;

/* request->on_complete of such a request. */
void ampi_p2p_completed(struct ampi_request *request, struct ampi_request *whole);

/* Emits an event of the communicator's owner, except on communicators of the library's own. */
void ampi_p2p_emit(const struct ampi_comm *comm, enum ampi_event_kind kind, int peer, int tag,
                   int64_t last) BASE_COLD;

/* +check usage: functions of misuse/ for messages of the program. None switches. */
struct ampi_p2p_checker {
    /* An operation starts. */
    void (*send)(const struct ampi_send_args *args);
    void (*receive)(const struct ampi_recv_args *args);
    /* Both start in one call, MPI_Sendrecv. */
    void (*exchange)(const struct ampi_send_args *send, const struct ampi_recv_args *recv);
    /* As ampi_match_watcher. */
    void (*matched)(struct ampi_comm *dest, struct ampi_match_node *node, int source, int tag,
                    bool was_unexpected);
    /* A message of a matched probe is received. */
    void (*receive_probed)(const struct ampi_message *message, const struct ampi_recv_args *args);
    /* A receive with a request is complete. */
    void (*completed)(const struct ampi_request *recv);
    /* A message will not be matched; sender: its request, or NULL. */
    void (*forget)(const struct ampi_comm *dest, int source, int tag, const struct ampi_request *sender);
    /* A message from another process has arrived, with what its process announced (ampi_remote_announce; NULL: nothing); and
     * will not be matched. */
    void (*arrived)(struct ampi_comm *dest, const struct ampi_am_header *am, const void *announced);
    void (*forget_arrived)(const struct ampi_comm *dest, int source, int tag, uint32_t seq);
    /* A partitioned send is created: describes it for the receive, which starts its first round when it has got that. */
    void (*announce_partitioned)(const struct ampi_request *send, void *announced);
    void (*check_partitioned)(const struct ampi_request *recv);
    /* The error of a receive whose message was too long: writes ": rank 0 sends 4 of MPI_INT by MPI_Send, called at main (a.c:12)",
     * or nothing if the send is not known. Once for each such receive. */
    void (*describe_long_send)(const struct ampi_comm *dest, const MPI_Status *status, char *text,
                               size_t size_bytes);
};
extern struct ampi_p2p_checker ampi_p2p_checker;

/* Writes why a receive has failed with MPI_ERR_TRUNCATE. comm: NULL: not known. False: the status is not of such a message.
 * (recv.c) */
bool ampi_p2p_describe_truncated(const struct ampi_comm *comm, const MPI_Status *status, char *text,
                                 size_t size_bytes) BASE_COLD;

/* A complete request is freed, and its error raised nowhere: forgets the message if that was too long. (recv.c) */
void ampi_p2p_drop_error(const struct ampi_request *request);

static inline bool ampi_p2p_is_checked(const struct ampi_comm *comm)
{
    return BASE_UNLIKELY(base_settings.check_usage) && !comm->streams && !comm->shared->window &&
           !comm->shared->file && !ampi_job.is_forked;
}

/* ampi_match_watcher, and watch of struct ampi_comm_client. */
void ampi_p2p_matched(struct ampi_match *match, struct ampi_match_node *node, int source, int tag,
                      bool was_unexpected) BASE_COLD;
void ampi_p2p_watch_comm(struct ampi_comm *comm, bool is_on);

#endif
