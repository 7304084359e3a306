/* SPDX-License-Identifier: BSD-3-Clause
 *
 * request.h: pending operations, and waiting for them (MPI 5.0, section 3.7).
 *
 * States of a request, and the calls that change them:
 *
 *      1 INACTIVE  --MPI_Start: kind->start-->             2 ACTIVE (persistent, partitioned requests)
 *      2 ACTIVE    --ampi_request_complete-->              3 COMPLETE
 *      3 COMPLETE  --ampi_request_retire (Wait, Test)-->   1 INACTIVE if persistent, else freed
 *
 * Invariants:
 *   1. Only the owner's PE touches a request's state; other PEs' completions come through the inbox.
 *   2. `awaited_by` of each request that a ULT waits for points to the ULT. Completing such a request decrements
 *      ult->wait_left; at zero the ULT becomes ready.
 *   3. Further actions at completion are in `on_complete`: a request that the user freed while ACTIVE is
 *      destroyed, a part of a larger operation notifies it.
 *
 * A blocking call uses a request on its own stack; others come from the rank's pool.
 */
#ifndef AMPI_REQUEST_H
#define AMPI_REQUEST_H

#include "ampi/comm/comm.h"
#include "ampi/procs/procs.h"
#include "ampi/object/status.h"
#include "ampi/datatype/type.h"
#include "gpu/gpu.h"

struct ampi_request;
struct ampi_early;

enum ampi_request_state { AMPI_REQUEST_INACTIVE = 1, AMPI_REQUEST_ACTIVE = 2, AMPI_REQUEST_COMPLETE = 3 };

/* Called when a request completes; may free it; may not switch. whole: the operation that it is a part of,
 * or NULL. */
typedef void (*ampi_request_complete_fn)(struct ampi_request *request, struct ampi_request *whole);

/* The behaviour of a kind of requests. All members but name may be NULL. */
struct ampi_request_kind {
    const char *name; /* for reports: "receive" */
    /* MPI_Start: INACTIVE -> ACTIVE. Returns an error code. May not switch. */
    int (*start)(struct ampi_request *request);
    /* Before MPI_Start, for buffers of work requests (datatype/work_hook.h); NULL: all memory counts. May switch. */
    void (*settle)(const struct ampi_request *request);
    /* MPI_Cancel of an ACTIVE or COMPLETE request; completes it on success. Returns an error code. */
    int (*cancel)(struct ampi_request *request);
    /* At Wait or Test, once complete: may fill the status and returns the request's error (generalized
     * requests). */
    int (*query)(struct ampi_request *request, MPI_Status *status);
    /* When the program's last call for the request returns, before release: its error becomes the call's
     * unless there is one already (generalized requests). */
    int (*finish)(struct ampi_request *request);
    /* Before the request's memory is freed: drops its resources. */
    void (*release)(struct ampi_request *request);
    /* For reports, instead of the name: the operation that blocks the owner. */
    void (*describe)(const struct ampi_request *request, char *text, size_t size_bytes);
    bool is_collective; /* must not be cancelled, nor freed once started */
    bool raises_itself; /* query has called the error handler of the operation's own object */
};

/* The receive that a persistent send is bound to: channel.h. */
struct ampi_channel_end {
    struct ampi_request *recv;
    struct ampi_match *match; /* of recv */
    void *to;                 /* the first byte of its data, if is_block */
    const void *from;         /* ... of the send's */
    size_t n_bytes;           /* of a message */
    bool is_block;            /* both buffers are contiguous */
};

/* A point-to-point operation. */
struct ampi_p2p {
    union {
        struct ampi_match_node node;     /* receive: in the posted table; the key is its source and tag */
        struct ampi_am_header am;        /* send to another process: its header */
        struct ampi_channel_end channel; /* bound send */
        struct ult_wakeup wakeup;        /* matched, and completed from an endpoint: endpoint.h */
    };
    void *buf;
    MPI_Count count;
    struct ampi_type *type; /* holds a reference while the request lives, except in blocking calls */
    int peer_rank;          /* send: destination */
    int tag;                /* send */
    uint8_t mode;           /* send: enum ampi_send_mode */
    uint8_t n_tries;        /* persistent send: times that it was not bound, up to a limit */
    bool is_posted;         /* receive: is posted */
    bool is_device;         /* the buffer is in GPU memory */
    bool is_failed;         /* send to another process: that process has failed */
    bool is_unmatched;      /* send to another process: on the list of sends waiting for their match */
    bool is_cancelling;     /* send to another process: waits for the answer to its cancel request */
    bool is_cancelled;      /* send to another process: was cancelled */
    uint8_t n_remote_parts; /* send to another process: number of events it still waits for */
    int gpu_error;          /* send to another process: CUDA's error if the data could not be read */
    union {
        void *staged;             /* send to another process: packed data; NULL: none */
        struct ampi_early *early; /* of an enqueued operation (enqueue/early.h) */
    };
    union {
        struct ampi_request *prev_unmatched; /* send to another process: previous in the list */
        struct ampi_request *bound_send;     /* bound receive: its send; NULL: freed */
    };
    struct gpu_facts facts;    /* persistent: about the memory of the first byte of its data */
    struct gpu_move_memo memo; /* bound receive: about the move from its send's buffer */
};

struct ampi_request {
    uint32_t magic; /* AMPI_MAGIC_REQUEST */
    uint8_t state;  /* enum ampi_request_state */
    bool is_persistent;
    struct ult *awaited_by; /* invariant 2; NULL: no ULT waits for it */
    const struct ampi_request_kind *kind;
    struct ampi_rank *owner;
    struct ampi_comm *comm;               /* NULL: none (generalized requests) */
    ampi_request_complete_fn on_complete; /* invariant 3; NULL: no action */
    ampi_request_complete_fn then;        /* if on_complete is ampi_p2p_completed: called next, or NULL */
    struct ampi_request *whole;           /* the larger operation, for on_complete; of a persistent request
                                           * that a stream starts: that start (enqueue.c) */
    MPI_Status status;                    /* valid once COMPLETE; MPI_ERROR is the operation's result */
    struct ampi_request *next;            /* next in the pool; in remote_send.c's list while pending */
    union {
        struct ampi_p2p p2p;
        void *extra; /* state of other kinds */
    } u;
};

/* A block of a rank's pool, never freed. Debuggers find all requests by these. */
struct ampi_request_slab {
    struct ampi_request_slab *next;
    int n;
    struct ampi_request requests[];
};

/* A request from the pool, ACTIVE (INACTIVE if persistent), with an empty status. Raises nothing; ends the
 * job if memory is exhausted. comm may be NULL; else it is counted in comm->n_pending. */
struct ampi_request *ampi_request_create(struct ampi_rank *self, const struct ampi_request_kind *kind,
                                         struct ampi_comm *comm, bool is_persistent);

/* The request of an MPI_Isend whose message was delivered or buffered at once: one object for all, always
 * COMPLETE, never written. Destroying it has no effect. */
extern struct ampi_request ampi_request_done;

/* Sets up a request of a blocking call on its stack: invisible to the program, with nothing to free. */
void ampi_request_init_on_stack(struct ampi_request *request, struct ampi_rank *self,
                                const struct ampi_request_kind *kind, struct ampi_comm *comm);

/* ACTIVE -> COMPLETE; the status has been filled in. Wakes the owner if this was the last it waited for. On
 * the owner's PE. Never switches. */
void ampi_request_complete(struct ampi_request *request);

/* Makes a started request a part of a larger operation: on_complete(part, whole) is called when it
 * completes, or now if it already has. */
void ampi_request_attach(struct ampi_request *whole, struct ampi_request *part,
                         ampi_request_complete_fn on_complete);

/* For an ACTIVE request for which no ULT will wait: destroys it when it completes. */
void ampi_request_abandon(struct ampi_request *request);

/* Blocks until the request is COMPLETE. May switch. */
void ampi_request_await(struct ampi_request *request);

/* Blocks until n more of those requests that are non-NULL and ACTIVE have completed; n is at most their
 * number. False, at once: another thread waits for one of them, or one is in the array twice. May switch. */
bool ampi_request_await_n(struct ampi_request *const *requests, int n_requests, int n) BASE_MUST_CHECK;

/* After Wait or Test found it COMPLETE: returns the status (which may be MPI_STATUS_IGNORE) and the
 * operation's result, and makes a persistent request INACTIVE, or frees it and sets *handle to
 * MPI_REQUEST_NULL. */
int ampi_request_retire(MPI_Request *handle, struct ampi_request *request, MPI_Status *status);

/* Drops a request that is COMPLETE or INACTIVE. */
void ampi_request_destroy(struct ampi_request *request);

/* The object of a handle; NULL if it is not valid (including MPI_REQUEST_NULL). */
static inline struct ampi_request *ampi_request_of(MPI_Request handle)
{
    return ampi_handle_has_magic(handle, AMPI_MAGIC_REQUEST) ? (struct ampi_request *)handle : NULL;
}

/* Raise MPI_ERR_REQUEST on MPI_COMM_SELF, and return the code: the handle is not valid; another thread waits
 * for the request already, which is erroneous (MPI 5.0, section 11.6.2). */
int ampi_request_raise_invalid(MPI_Request handle) BASE_COLD;
int ampi_request_raise_awaited(void) BASE_COLD;

static inline bool ampi_request_is_active(const struct ampi_request *request)
{
    return request->state == AMPI_REQUEST_ACTIVE;
}

#endif
