/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange.h: the engine for collectives' communication between processes.
 *
 * An exchange is the communication of one operation between the processes that take part in it
 * ("participants", numbered from 0). It runs in steps on the leader PE of each process. A step sends
 * messages, declares the messages that it awaits, and returns. The next step runs when these have arrived
 * and all sent data has left, so a step may change data that earlier steps have sent. A step that awaits
 * nothing is the last one. The operation's number and a tag identify a message, which may arrive early. If
 * an algorithm never changes data that it has sent, its steps may run ahead: they wait for messages only.
 *
 * An algorithm is a function that runs steps (ampi_exchange_step_fn); each has its own file with its cost
 * at the top. There p is the number of participants, n the bytes of one part (or of the vector, in
 * reductions). Algorithms that move parts do not access the data: a part is the data of one process for
 * another, or for all of them. Algorithms that reduce work on a vector of elements (reduction.h).
 */
#ifndef AMPI_COLL_EXCHANGE_H
#define AMPI_COLL_EXCHANGE_H

#include "ampi/coll/engine/coll.h"
#include "ampi/procs/node_memory.h"
#include "ampi/procs/procs.h"
#include "machine_ucx/machine.h"

struct ampi_exchange;
struct ampi_reduction;

typedef void (*ampi_exchange_step_fn)(struct ampi_exchange *x);

/* A received message. */
struct ampi_exchange_message {
    struct ampi_exchange_message *next; /* next in the bucket, then in x->got or x->kept */
    uint32_t series;                    /* number of the persistent collective; 0: not persistent */
    uint32_t seq;                       /* number of the operation, or of the start if it is persistent */
    int tag;
    int algorithm; /* enum ampi_between */
    uint32_t plan_hash;
    int proc;             /* index of the sender's process in the communicator */
    uint64_t cookie;      /* data of the algorithm */
    unsigned char *bytes; /* malloc'ed, or owned by the exchange if is_lent */
    size_t n_bytes;
    void *token;                         /* of the machine, if the bytes have not been fetched; else NULL */
    struct ampi_exchange_direct *direct; /* set if the bytes are still in the sender's memory, from which
                                          * this process copies them */
    struct ampi_exchange *x;             /* the exchange that fetches them */
    bool is_lent;                        /* bytes are the exchange's scratch memory, or node memory */
    struct ampi_node_ref ref;            /* node memory of the bytes; n_bytes 0: none */
    bool is_bare;     /* the data is a bare part, whose origin is in the cookie; or lent elements of a
                       * reduction */
    bool is_again;    /* the kernel has refused the copy, and the data comes a second time; or a listed part
                       * does */
    bool has_voted;   /* the sender's operation was refused in a vote */
    bool has_refused; /* an earlier collective call raised an error at a rank of the sender */
};

/* The data of one process for another; aligned for any type, unless it is bare. A bare part is the only item
 * (items.h) of the process's only member. It is sent from the member's buffer, without a head, and its
 * receiver can fetch it into the buffer of its own member. */
struct ampi_exchange_block {
    const unsigned char *bytes; /* NULL: not received yet */
    size_t n_bytes;
    struct ampi_exchange_origin {
        int32_t member; /* the member that the data comes from; another process may have forwarded it */
        int32_t root;   /* of the operation, as that member gave it */
    } origin;           /* is_bare */
    bool is_bare;
    uint64_t *addresses; /* listed: of the items' data; NULL: the part has the data (parts.h) */
};
_Static_assert(sizeof(struct ampi_exchange_origin) == sizeof(uint64_t), "it is the cookie of a bare part");

struct ampi_exchange {
    struct ampi_coll_slot *slot;
    int algorithm;  /* enum ampi_between; equal at all participants */
    int device;     /* the GPU of this process for large parts and vectors; -1: host memory. The choice of
                     * other processes is unknown here. */
    bool is_staged; /* members have GPU buffers, which the machine does not support: large parts and vectors
                     * are in pinned memory */
    uint32_t plan_hash; /* of its name, 23 bits: must be equal at all participants */
    ampi_exchange_step_fn run_step;
    int n;                              /* number of participants; 0: this process does not take part */
    int own;                            /* the number of this participant */
    int root;                           /* of the root's process, if there is a root */
    int *proc;                          /* by participant: index of the process in the communicator */
    int step;                           /* steps that have run */
    uint32_t series;                    /* number of the persistent collective; 0: not persistent */
    uint32_t seq;                       /* of the operation */
    int tag;                            /* of the awaited messages */
    int n_awaited;                      /* number of missing messages */
    int n_sending;                      /* messages whose data has not left */
    int n_held;                         /* fetches and holds in progress, during which no step runs */
    bool is_ahead;                      /* steps do not wait for data that is being sent */
    bool is_running;                    /* a step is running */
    bool has_failed;                    /* awaited messages may never arrive: ends when all sent data has
                                         * left */
    bool is_over;                       /* the last step has run */
    bool has_voted;                     /* a vote on NCCL has refused it (coll_nccl.h) */
    struct ampi_exchange_message *got;  /* messages for the next step; the engine moves them to kept
                                         * afterwards */
    struct ampi_exchange_message *kept; /* freed with the operation */
    void *memory;                       /* list of allocations; freed with the operation */
    struct ampi_exchange_node_block *node_blocks; /* list of allocations in node memory */
    struct ampi_exchange_loan *loans;             /* data that other participants have not copied yet */
    uint64_t n_loans;                             /* ... number of the last one */
    int n_listed;                                 /* listed parts that have arrived without their data */
    struct ampi_exchange_listing *listing;        /* ... its copies; NULL: not planned yet */
    struct ampi_exchange_scratch *scratch;        /* list of allocations in GPU memory and pinned memory */
    struct ampi_exchange_block *out; /* by participant: this process's parts; out[own] is for all if all get
                                      * the same data */
    struct ampi_exchange_block *in;  /* by participant: the parts for this process */
    bool *is_target;                 /* by participant: sparse exchanges: it gets a part */
    int n_sources;                   /* sparse exchanges: participants that have a part for this process */
    struct ampi_exchange_entry *entries; /* the Bruck all-to-all's */
    bool has_early;                      /* plan->early can run while other processes copy this one's data */
    bool is_packed_by_all;               /* all PEs pack large parts. CUDA may be loaded meanwhile */
    ampi_coll_work_fn prepare;           /* run by all PEs before the first step; NULL: none */
    size_t prepare_bytes;                /* ... amount of its data */
    struct ampi_reduction *reduction;
    struct ampi_coll_nccl_op *nccl; /* NULL: not run by NCCL, nor eligible (coll/between/coll_nccl.h) */
};

/* ---- For algorithms ---- */

/* Sends bytes, which stay unchanged until the next step, and the cookie to a participant. */
void ampi_exchange_send(struct ampi_exchange *x, int to, int tag, uint64_t cookie, const void *bytes,
                        size_t n_bytes);

/* Sends a part as a message of its own. */
void ampi_exchange_send_part(struct ampi_exchange *x, int to, int tag,
                             const struct ampi_exchange_block *part);

/* The part that a message contains. */
static inline struct ampi_exchange_block ampi_exchange_part_of(const struct ampi_exchange_message *message)
{
    struct ampi_exchange_block part = {
        .bytes = message->bytes, .n_bytes = message->n_bytes, .is_bare = message->is_bare};

    memcpy(&part.origin, &message->cookie, sizeof part.origin);
    return part;
}

/* Lets the steps of this exchange run without waiting until sent data has left: it stays unchanged until the
 * operation ends. */
void ampi_exchange_run_ahead(struct ampi_exchange *x);

/* Makes the next step wait for n messages with this tag, which will be in x->got, in any order.
 * AMPI_EXCHANGE_ANY_TAG: any tag that no earlier step has awaited. */
#define AMPI_EXCHANGE_ANY_TAG (-1)
#define AMPI_EXCHANGE_TAG_AGAIN \
    (1 << 30) /* used by no algorithm: a listed part that is sent a second
               * time, packed */
void ampi_exchange_await(struct ampi_exchange *x, int tag, int n);

/* Makes the next step also wait for ampi_exchange_go_on. */
void ampi_exchange_hold(struct ampi_exchange *x);
void ampi_exchange_go_on(struct ampi_exchange *x);

/* Makes the next step wait until all PEs with members have run `work`. If n_bytes is too small to share,
 * this PE does the work of all. */
void ampi_exchange_share(struct ampi_exchange *x, ampi_coll_work_fn work, size_t n_bytes);

/* The next step runs even if nothing is awaited. */
void ampi_exchange_again(struct ampi_exchange *x);

/* Memory that lives as long as the operation. Aligned for any type. */
void *ampi_exchange_alloc(struct ampi_exchange *x, size_t n_bytes);

/* The same for data that is forwarded without being read: GPU memory or pinned memory, if available and
 * worthwhile; node memory, if other processes of the node can read it. */
#define AMPI_EXCHANGE_DIRECT_BYTES ((size_t)128 << 10)
void *ampi_exchange_alloc_data(struct ampi_exchange *x, size_t n_bytes);

/* Copies such data; either side may be host memory. */
void ampi_exchange_copy(struct ampi_exchange *x, void *to, const void *from, size_t n_bytes);

/* The participant that sent a message. */
int ampi_exchange_sender(const struct ampi_exchange *x, const struct ampi_exchange_message *message);

/* The participant `distance` places further, cyclically. */
static inline int ampi_exchange_after(const struct ampi_exchange *x, int distance)
{
    return (x->own + distance) % x->n;
}
static inline int ampi_exchange_before(const struct ampi_exchange *x, int distance)
{
    return (x->own + x->n - distance % x->n) % x->n;
}

/* The size of the subtree rooted at a place of the binomial tree over p places; place 0 is the root. */
static inline int ampi_exchange_subtree(int place, int p)
{
    int lowest = place & -place;

    return place == 0 ? p : lowest < p - place ? lowest : p - place;
}

/* ---- On GPUs (exchange_device.c) ---- */

/* The GPU of the members' buffers in this process; -1: none. */
int ampi_coll_device_for(const struct ampi_coll_slot *slot);

/* Memory of x->device that lives as long as the operation; NULL: unavailable. */
void *ampi_coll_device_scratch(struct ampi_exchange *x, size_t n_bytes);
void ampi_coll_device_release(struct ampi_exchange *x);

/* The machine's kind of memory for the data. */
enum machine_memory ampi_coll_device_memory(const void *data);

/* ampi_op_apply where either buffer may be in GPU memory; the PE waits. */
void ampi_coll_device_apply(struct ampi_exchange *x, const struct ampi_op *op, const void *in, void *inout,
                            MPI_Count count, struct ampi_type *type);

/* ---- Node memory (exchange_node.c) ---- */

/* Node memory of the exchange; NULL: unavailable, or no participant could read it, or not worthwhile. */
void *ampi_exchange_node_alloc(struct ampi_exchange *x, size_t n_bytes);
void ampi_exchange_node_release(struct ampi_exchange *x);

/* True if all other participants can read this many bytes of this one directly. */
bool ampi_exchange_node_reaches_all(const struct ampi_exchange *x, size_t n_bytes);

/* Makes a reference to the bytes, which the caller sends to a participant's process. If the bytes are in
 * node memory of the exchange or of a message, it refers to them there; else they are copied into node
 * memory. False: the caller has to send the bytes. */
bool ampi_exchange_node_lend(struct ampi_exchange *x, int proc, const void *bytes, size_t n_bytes,
                             struct ampi_node_ref *ref_out);

/* ---- Copies from the sender's memory (exchange_direct.c) ---- */

/* Describes data that the receiver of a message copies from the sender's memory. It is the content of the
 * message, or follows a listed part. */
struct ampi_exchange_direct {
    uint64_t address; /* of the data in the sender's memory; not used by listed parts */
    uint64_t n_bytes;
    uint32_t proc_id; /* the sender */
    uint32_t pe_id;
    struct ampi_am_header answer; /* its cookie is the loan's number */
};

/* True if this process can copy from the memory of another one. The other one can then copy from this
 * process, or answers that it cannot. */
bool ampi_exchange_direct_reaches(int proc_id);

/* Sends the address of bytes, which must stay unchanged until the receiver has copied them: x->n_sending
 * counts the message until then. am: the header of a message with the bytes themselves. */
void ampi_exchange_direct_send(struct ampi_exchange *x, int proc, const struct ampi_am_header *am,
                               const void *bytes, size_t n_bytes);

/* Sends a listed part. am: the header of a message with the data. */
void ampi_exchange_direct_send_list(struct ampi_exchange *x, int proc, const struct ampi_am_header *am,
                                    const struct ampi_exchange_block *part);

/* Removes the description of the data from the message of a listed part, and returns it, malloc'ed. */
struct ampi_exchange_direct *ampi_exchange_direct_cut(const void *bytes, size_t *n_bytes);

/* Copies the data of a received message, frees `direct`, and returns the machine's result. MACHINE_FAILED:
 * the sender sends the data in another way. */
int ampi_exchange_direct_fetch(struct ampi_exchange_direct *direct, void *to);

/* The same for a listed part, in two calls: copy copies one item, on any PE; answer reports the result of
 * all copies to the sender, and frees `direct`. */
int ampi_exchange_direct_copy(const struct ampi_exchange_direct *direct, uint64_t from, void *to,
                              size_t n_bytes);
void ampi_exchange_direct_answer(struct ampi_exchange_direct *direct, int result);

/* Answers a message whose data nobody awaits. */
void ampi_exchange_direct_drop(struct ampi_exchange_direct *direct);

/* A process has failed: forgets the data that it has not copied. */
void ampi_exchange_direct_fail(struct ampi_exchange *x);

/* Registers the handler of answers. */
void ampi_exchange_direct_connect(void);

/* ---- Lists of parts in one message (exchange_list.c) ---- */

/* Precedes each part, which is padded to a multiple of this size. */
struct ampi_exchange_entry_head {
    int32_t source;
    int32_t target;
    uint64_t n_bytes;
};

/* A part on its way to its destination. */
struct ampi_exchange_entry {
    int source;
    int target;
    struct ampi_exchange_block part;
};

/* Sends entries as one message. */
void ampi_exchange_send_entries(struct ampi_exchange *x, int to, int tag,
                                const struct ampi_exchange_entry *entries, int n);

/* Iterates over the entries of a message: *at = 0 at the first call. False: the end. */
bool ampi_exchange_next_entry(const struct ampi_exchange_message *message, size_t *at,
                              struct ampi_exchange_entry *entry_out);

/* ---- Algorithms for parts ---- */
void ampi_exchange_bcast_binomial(struct ampi_exchange *x);
void ampi_exchange_bcast_linear(struct ampi_exchange *x);
void ampi_exchange_bcast_scatter(struct ampi_exchange *x);
void ampi_exchange_bcast_chain(struct ampi_exchange *x);
void ampi_exchange_allgather_bruck(struct ampi_exchange *x);
void ampi_exchange_allgather_ring(struct ampi_exchange *x);
void ampi_exchange_gather_binomial(struct ampi_exchange *x);
void ampi_exchange_gather_linear(struct ampi_exchange *x);
void ampi_exchange_scatter_binomial(struct ampi_exchange *x);
void ampi_exchange_scatter_linear(struct ampi_exchange *x);
void ampi_exchange_alltoall_bruck(struct ampi_exchange *x);
void ampi_exchange_alltoall_pairwise(struct ampi_exchange *x);
void ampi_exchange_sparse(struct ampi_exchange *x);

/* ---- Choosing one (exchange_choose.c) ---- */

/* Chooses the algorithm by the table's entry for the kind. n_bytes is equal at all participants. */
void ampi_exchange_choose(struct ampi_exchange *x, enum ampi_coll_kind kind, size_t n_bytes);

/* True if an algorithm does not read the data that it sends, so that parts or vectors may be in GPU
 * memory. */
bool ampi_exchange_is_direct(int algorithm);

/* True if an algorithm sends each part as a message of its own, so that it may be bare. */
bool ampi_exchange_sends_parts(int algorithm);

/* True if processes forward parts of others in such an algorithm. */
bool ampi_exchange_passes_on(int algorithm);

/* Sets the algorithm, where only one is possible. */
void ampi_exchange_take(struct ampi_exchange *x, enum ampi_between algorithm);

/* Uses the root's choice. */
void ampi_exchange_follow(struct ampi_exchange *x);

/* Ends the job if the sender has chosen another algorithm: the program's sizes do not match. */
void ampi_exchange_check(const struct ampi_exchange *x, const struct ampi_exchange_message *message);

/* ---- For between.c ---- */

/* Starts an exchange that has been set up; calls ampi_exchange_over at its end, perhaps before this
 * returns. */
void ampi_exchange_start(struct ampi_exchange *x);

/* A process has failed: the exchange ends when all data that is being sent has left. */
void ampi_exchange_fail(struct ampi_exchange *x);

/* ---- For exchange_direct.c ---- */

/* The exchange of an operation; NULL: it has not begun, or has ended. */
struct ampi_coll_remote;
struct ampi_exchange *ampi_exchange_find(struct ampi_coll_remote *remote, uint32_t seq, uint32_t series);

/* Send a message with the bytes. send_data sends a reference instead if the bytes are in node memory, or can
 * be copied there. */
void ampi_exchange_send_data(struct ampi_exchange *x, int proc, const struct ampi_am_header *am,
                             const void *bytes, size_t n_bytes);
void ampi_exchange_send_bytes(struct ampi_exchange *x, int proc, const struct ampi_am_header *am,
                              const void *bytes, size_t n_bytes);

/* Called when sent data has left (a machine_done_fn). */
void ampi_exchange_sent(void *exchange, int result);

/* ---- For between.c ---- */

/* A message has arrived: its exchange continues, or the message is kept for later. */
void ampi_exchange_handle(struct ampi_coll_remote *remote, struct ampi_exchange_message *message);

/* A process of the communicator has failed: drops messages whose sender waits for an answer, and that no
 * exchange awaits. */
void ampi_exchange_drop_arrived(struct ampi_coll_remote *remote);

/* Frees messages and memory. */
void ampi_exchange_release(struct ampi_exchange *x);
void ampi_exchange_message_free(struct ampi_exchange_message *message);

/* True if a message is a listed part. */
static inline bool ampi_exchange_is_list(const struct ampi_exchange_message *message)
{
    return (message->direct || message->is_again) && !message->is_bare &&
           message->tag != AMPI_EXCHANGE_TAG_AGAIN;
}

/* The last steps of an exchange that has received listed parts: copies their data. (parts_listed.c) */
void ampi_exchange_copy_listed(struct ampi_exchange *x);

/* The exchange is complete. (between.c) */
void ampi_exchange_over(struct ampi_exchange *x);

#endif
