/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nccl.h: collectives of several processes' GPUs through NCCL, which is opened at run time if it is there.
 *
 * A communicator has one participant in each process, on one device. Its life, on one PE, which asks with
 * gpu_nccl_state what has come of each step:
 *
 *      create   opens the library, if nobody has, and finds out what others have to know (gpu_nccl_card)
 *      connect  with everybody's cards known: makes NCCL's communicator. All participants have to come.
 *      start    an operation in a stream, which waits there for the others'. All have to start the same ones
 *               in the same order.
 *      abort    ends what is under way, wherever the others are; nothing can be started any more
 *      destroy  gives everything back, at any time when nothing is under way
 *
 * What may take long runs in threads of its own; nothing here waits. Errors are numbers as CUDA's, for
 * gpu_error_text: GPU_NCCL_ERRORS + NCCL's, or one of ours.
 */
#ifndef GPU_NCCL_H
#define GPU_NCCL_H

#include "gpu/queue.h"

/* "off": it is not used; else the library's path; NULL: where the loader finds libnccl.so.2. Set before the
 * ranks begin. */
extern const char *gpu_nccl_library;

/* False if it cannot be used here: switched off, or there is no GPU. Cheap; does not load anything. */
bool gpu_nccl_is_possible(void);

struct gpu_nccl;
struct gpu_queue;

#define GPU_NCCL_BUSY (-1) /* of a step: it is under way */
#define GPU_NCCL_ERRORS 0x10000
enum gpu_nccl_error {
    GPU_NCCL_NOT_THERE = GPU_NCCL_ERRORS + 0x1000, /* no library */
    GPU_NCCL_UNUSABLE,                             /* the library is too old, or lacks functions */
    GPU_NCCL_CANCELLED,                            /* by gpu_nccl_cancel or gpu_nccl_abort */
    GPU_NCCL_ELSEWHERE,                            /* it has failed in another process */
    GPU_NCCL_ERROR_END
};

/* True if the reason may be that another process is lost. */
bool gpu_nccl_may_be_loss(int error);

/* What the participants of a communicator have to know of each other. */
struct gpu_nccl_card {
    int32_t error;   /* of create; 0: NCCL can be used */
    int32_t version; /* NCCL's number of it */
    uint64_t host;   /* the same on one host only */
    char bus[16];    /* where on it the device is */
    char id[128];    /* of the communicator, from the participant that was to make it */
};

/* Begins a communicator with the device; makes_id: this participant's card names it. */
struct gpu_nccl *gpu_nccl_create(int device, bool makes_id);

/* Of the last of create, connect and abort: GPU_NCCL_BUSY, 0 or an error, whose text gpu_error_text has. */
int gpu_nccl_state(struct gpu_nccl *nccl);

void gpu_nccl_get_card(const struct gpu_nccl *nccl, struct gpu_nccl_card *card_out);

/* cards: one for each of n participants, in the same order everywhere, this one's is cards[own]. NULL: they
 * fit together; else why not (static). Everybody comes to the same answer. */
const char *gpu_nccl_compare(const struct gpu_nccl_card *cards, int n);

/* id: of the card that has one. */
void gpu_nccl_connect(struct gpu_nccl *nccl, const char *id, int n, int own);

/* Gives up connecting, which another participant will never do. */
void gpu_nccl_cancel(struct gpu_nccl *nccl);

/* "2.28.9, /usr/lib/libnccl.so.2" of the library that is in use. */
void gpu_nccl_describe(char *text, size_t text_bytes);

/* ---- Operations ---- */

enum gpu_nccl_kind {
    GPU_NCCL_ALLREDUCE,
    GPU_NCCL_REDUCE,
    GPU_NCCL_REDUCE_SCATTER,
    GPU_NCCL_BCAST,
    GPU_NCCL_ALLGATHER
};

/* All addresses are of memory that kernels of the communicator's device reach. */
struct gpu_nccl_call {
    enum gpu_nccl_kind kind;
    const void *send; /* what this participant has; of a bcast the root's */
    void *recv;       /* where its result goes; may be `send`, or this participant's part of it. NULL: none */
    size_t count;     /* of elements in the vector; of bytes for bcast and allgather */
    const size_t *counts; /* reduce_scatter, allgather: those of each participant; their sum is `count` */
    int root;
    int op; /* enum gpu_op, enum gpu_type of gpu/kernels/kernels.h; reductions */
    int type;
};

/* True if NCCL has the pair. */
bool gpu_nccl_can(int op, int type);

/* True if the address is that of memory of the device which its kernels reach. */
bool gpu_nccl_can_use(int device, const void *address);

/* The calling PE's stream for it. NULL: it cannot be had, *error_out says why. */
struct gpu_queue *gpu_nccl_queue(const struct gpu_nccl *nccl, int *error_out);

/* Queues an operation: 0, GPU_NCCL_BUSY: it will be in the queue when gpu_nccl_ask says 0; or an error. */
int gpu_nccl_start(struct gpu_nccl *nccl, struct gpu_queue *queue,
                   const struct gpu_nccl_call *call) BASE_MUST_CHECK;

/* How the communicator is: 0, GPU_NCCL_BUSY or an error. */
int gpu_nccl_ask(struct gpu_nccl *nccl) BASE_MUST_CHECK;

void gpu_nccl_abort(struct gpu_nccl *nccl);

/* ---- The end ---- */

void gpu_nccl_destroy(struct gpu_nccl *nccl);

/* Ends all that there are and waits until their threads have ended, for so many seconds at most. Before the
 * process ends; any thread. */
#define GPU_NCCL_SETTLE_S 3.0
void gpu_nccl_settle(double limit_s);

/* At the process's exit, before CUDA's driver ends: waits for threads that are inside NCCL, for so many
 * seconds at most. If some still are, the process ends here, with this code: NCCL crashes without the driver
 * (seen with 2.28). */
void gpu_nccl_leave(int exit_code, double limit_s);

/* The words for an error of this file. To text. */
void gpu_nccl_error_text(int error, char *text, size_t text_bytes);

#endif
