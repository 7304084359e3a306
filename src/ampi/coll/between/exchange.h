/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange.h: the engine under what collectives do between processes.
 *
 * An exchange is one operation's traffic between the processes that take part in it ("participants", numbered
 * from 0). It runs on the leader PE of each process, one step after the other: a step sends messages, says
 * what it awaits, and returns; the next step runs when that has come and all that was sent has left, so a
 * step may change whatever earlier ones sent. A step that awaits nothing is the last. Messages are told apart
 * by the operation's number and a tag, which may come early.
 *
 * An algorithm is a function that does steps (ampi_exchange_step_fn); each has a file of its own with its
 * cost on top. There p is the number of participants, n the bytes of one part (or of the vector, in
 * reductions). Those that move parts do not look at the data: a part is what one process has for another, or
 * for all of them. Those that reduce work on a vector of elements (reduction.h).
 */
#ifndef AMPI_COLL_EXCHANGE_H
#define AMPI_COLL_EXCHANGE_H

#include "ampi/coll/engine/coll.h"
#include "machine_ucx/machine.h"

struct ampi_exchange;
struct ampi_reduction;

typedef void (*ampi_exchange_step_fn)(struct ampi_exchange *x);

/* A message that has come. */
struct ampi_exchange_message {
    struct ampi_exchange_message *next; /* link of remote->arrived, then of x->got or x->kept */
    uint32_t series;                    /* number of the persistent collective; 0: it is none */
    uint32_t seq; /* number of the operation, among the starts of the series if it has one */
    int tag;
    int algorithm; /* enum ampi_between */
    uint32_t plan_hash;
    int proc;             /* index of the sender's process in the communicator */
    uint64_t note;        /* the algorithm's */
    unsigned char *bytes; /* malloc'ed, or the exchange's if is_lent */
    size_t n_bytes;
    void *token;             /* the machine's, if the bytes have not been fetched; else NULL */
    struct ampi_exchange *x; /* that fetches them */
    bool is_lent;            /* bytes are the exchange's scratch memory */
    bool has_voted;          /* the sender's operation was voted on, and refused */
    bool has_refused;        /* a call of a collective raised an error at a rank of the sender before */
};

/* The data of one process for another; aligned for any type. */
struct ampi_exchange_part {
    const unsigned char *bytes; /* NULL: has not come */
    size_t n_bytes;
};

struct ampi_exchange {
    struct ampi_coll_slot *slot;
    int algorithm;  /* enum ampi_between; the same at all participants */
    int device;     /* GPU that this process works on: large parts and vectors are in its memory; -1: in the
                       host's. What others do is not known here. */
    bool is_staged; /* members have buffers on GPUs, which the machine does not take: large parts and vectors
                       are in pinned memory */
    uint32_t plan_hash; /* of its name, 23 bits: all have to do the same operation */
    ampi_exchange_step_fn run_step;
    int n;           /* participants; 0: this process does not take part */
    int own;         /* number of this one */
    int root;        /* of the root's process, where there is a root */
    int *proc;       /* by participant: index of the process in the communicator */
    int step;        /* how many have run */
    uint32_t series; /* number of the persistent collective; 0: it is none */
    uint32_t seq;    /* of the operation */
    int tag;         /* of the messages that are awaited */
    int n_awaited;   /* how many of them are missing */
    int n_sending;
    bool is_running;                       /* a step is */
    bool has_failed;                       /* what it awaits may never come: it ends when all has left */
    bool is_over;                          /* the last step has run */
    bool has_voted;                        /* NCCL was voted on, and refused (coll_nccl.h) */
    struct ampi_exchange_message *got;     /* for the next step; moved to kept by the engine afterwards */
    struct ampi_exchange_message *kept;    /* freed with the operation */
    void *memory;                          /* list; freed with the operation */
    struct ampi_exchange_scratch *scratch; /* likewise, of the GPU, and pinned memory */
    struct ampi_exchange_part *out; /* by participant: this process's parts; out[own] is for all where all
                                       get the same */
    struct ampi_exchange_part *in;  /* by participant: the parts for this process */
    bool *is_target;                /* by participant: sparse exchanges: it gets a part */
    int n_sources;                  /* sparse exchanges: participants that have a part for this process */
    struct ampi_exchange_entry *entries; /* the Bruck all-to-all's */
    struct ampi_reduction *reduction;
    struct ampi_coll_nccl_op *nccl; /* NULL: it is not done by NCCL, nor may be (coll/between/coll_nccl.h) */
};

/* ---- For algorithms ---- */

/* Sends bytes, which stay unchanged until the next step, to a participant. The note comes with them. */
void ampi_exchange_send(struct ampi_exchange *x, int to, int tag, uint64_t note, const void *bytes,
                        size_t n_bytes);

/* The next step waits for n messages with this tag: they are x->got then, in no order. */
void ampi_exchange_await(struct ampi_exchange *x, int tag, int n);

/* The next step waits for ampi_exchange_go_on, too. */
void ampi_exchange_hold(struct ampi_exchange *x);
void ampi_exchange_go_on(struct ampi_exchange *x);

/* Memory that lives as long as the operation. Aligned for any type. */
void *ampi_exchange_alloc(struct ampi_exchange *x, size_t n_bytes);

/* The same for data that is not looked at: of the GPU, or pinned, if there is one and it is worth it. */
#define AMPI_EXCHANGE_DIRECT_BYTES ((size_t)128 << 10)
void *ampi_exchange_alloc_data(struct ampi_exchange *x, size_t n_bytes);

/* Copies such data; either may be the host's. */
void ampi_exchange_copy(struct ampi_exchange *x, void *to, const void *from, size_t n_bytes);

/* The participant that sent a message. */
int ampi_exchange_sender(const struct ampi_exchange *x, const struct ampi_exchange_message *message);

/* A participant some places further, around the circle. */
static inline int ampi_exchange_after(const struct ampi_exchange *x, int distance)
{
    return (x->own + distance) % x->n;
}
static inline int ampi_exchange_before(const struct ampi_exchange *x, int distance)
{
    return (x->own + x->n - distance % x->n) % x->n;
}

/* The size of the subtree below (and with) a place of the binomial tree over p places; place 0 is the
 * root. */
static inline int ampi_exchange_subtree(int place, int p)
{
    int lowest = place & -place;

    return place == 0 ? p : lowest < p - place ? lowest : p - place;
}

/* ---- On GPUs (exchange_device.c) ---- */

/* The GPU that members of this process have buffers on; -1: none. */
int ampi_coll_device_for(const struct ampi_coll_slot *slot);

/* Memory of x->device that lives as long as the operation; NULL: there is none. */
void *ampi_coll_device_scratch(struct ampi_exchange *x, size_t n_bytes);
void ampi_coll_device_release(struct ampi_exchange *x);

/* The kind of memory that the machine takes the data as. */
enum machine_memory ampi_coll_device_memory(const void *data);

/* ampi_op_apply where either may be a GPU's; the PE waits. */
void ampi_coll_device_apply(struct ampi_exchange *x, const struct ampi_op *op, const void *in, void *inout,
                            MPI_Count count, struct ampi_type *type);

/* ---- Lists of parts in one message (exchange_list.c) ---- */

/* Comes before each part, which is padded to this size. */
struct ampi_exchange_entry_head {
    int32_t source;
    int32_t target;
    uint64_t n_bytes;
};

/* Parts that are under way somewhere. */
struct ampi_exchange_entry {
    int source;
    int target;
    struct ampi_exchange_part part;
};

/* Sends entries as one message. */
void ampi_exchange_send_entries(struct ampi_exchange *x, int to, int tag,
                                const struct ampi_exchange_entry *entries, int n);

/* The entries of a message: calls with *at = 0 first. False: no more. */
bool ampi_exchange_next_entry(const struct ampi_exchange_message *message, size_t *at,
                              struct ampi_exchange_entry *entry_out);

/* ---- Algorithms for parts ---- */
void ampi_exchange_bcast_binomial(struct ampi_exchange *x);
void ampi_exchange_bcast_ring(struct ampi_exchange *x);
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

/* By the table's entry for the kind. n_bytes is the same at all participants. */
void ampi_exchange_choose(struct ampi_exchange *x, enum ampi_coll_kind kind, size_t n_bytes);

/* True if an algorithm does not look at what is sent: parts, or vectors of elements, may be a GPU's. */
bool ampi_exchange_is_direct(int algorithm);

/* This one, whatever the table says: no other can do it. */
void ampi_exchange_take(struct ampi_exchange *x, enum ampi_between algorithm);

/* The one that the root has chosen. */
void ampi_exchange_follow(struct ampi_exchange *x);

/* Ends the job if the sender has chosen another algorithm: the program's sizes do not agree. */
void ampi_exchange_check(const struct ampi_exchange *x, const struct ampi_exchange_message *message);

/* ---- For wire.c ---- */

/* Starts an exchange that has been set up; ampi_exchange_over is called at its end, perhaps before this
 * returns. */
void ampi_exchange_start(struct ampi_exchange *x);

/* A process is lost: the exchange ends as soon as nothing is being sent any more. */
void ampi_exchange_fail(struct ampi_exchange *x);

/* A message has come: its exchange goes on, or it is kept for later. */
struct ampi_coll_remote;
void ampi_exchange_handle(struct ampi_coll_remote *remote, struct ampi_exchange_message *message);

/* Frees messages and memory. */
void ampi_exchange_release(struct ampi_exchange *x);
void ampi_exchange_message_free(struct ampi_exchange_message *message);

/* The exchange has done all that it had to. (wire.c) */
void ampi_exchange_over(struct ampi_exchange *x);

#endif
