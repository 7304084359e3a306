/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nccl.h: collectives between the GPUs of several processes through NCCL, which is opened at run time if
 * available.
 *
 * A communicator has one participant per process, on one device. Its life, on one PE, which polls the
 * result of each step with gpu_nccl_state:
 *
 *      create   opens the library, if necessary, and gets the data that others need (gpu_nccl_card)
 *      connect  with all participants' cards: creates NCCL's communicator. All participants must call it.
 *      start    an operation in a stream, which waits there for the others'. All must start the same ones
 *               in the same order.
 *      abort    ends operations in progress, wherever the others are; nothing can be started afterwards
 *      destroy  frees everything, at any time when nothing is in progress
 *
 * Steps that may take long run on separate threads; no function here waits. Errors are numbers like CUDA's,
 * for gpu_error_text: GPU_NCCL_ERRORS + NCCL's, or one of those below.
 */
#ifndef GPU_NCCL_H
#define GPU_NCCL_H

#include "gpu/copy/queue.h"

/* "off": not used; else the library's path; NULL: libnccl.so.2 from the loader's search path. Set before
 * the ranks begin. */
extern const char *gpu_nccl_library;

/* False if it cannot be used here: switched off, or there is no GPU. Cheap; loads nothing. */
bool gpu_nccl_is_possible(void);

struct gpu_nccl;
struct gpu_queue;

#define GPU_NCCL_BUSY (-1) /* of a step: in progress */
#define GPU_NCCL_ERRORS 0x10000
enum gpu_nccl_error {
    GPU_NCCL_NOT_THERE = GPU_NCCL_ERRORS + 0x1000, /* no library */
    GPU_NCCL_UNUSABLE,                             /* the library is too old, or lacks functions */
    GPU_NCCL_CANCELLED,                            /* by gpu_nccl_cancel or gpu_nccl_abort */
    GPU_NCCL_ELSEWHERE,                            /* it has failed in another process */
    GPU_NCCL_ERROR_END
};

/* True if the failure of another process may be the cause. */
bool gpu_nccl_may_be_loss(int error);

/* Data about a participant that the others need. */
struct gpu_nccl_card {
    int32_t error;   /* of create; 0: NCCL can be used */
    int32_t version; /* NCCL's number of it */
    uint64_t host;   /* equal on one host only */
    char bus[16];    /* PCI address of the device on the host */
    char id[128];    /* of the communicator, from the participant with makes_id */
};

/* Creates a communicator on the device; makes_id: this participant's card carries its id. */
struct gpu_nccl *gpu_nccl_create(int device, bool makes_id);

/* State of the last create, connect or abort: GPU_NCCL_BUSY, 0 or an error, for gpu_error_text. */
int gpu_nccl_state(struct gpu_nccl *nccl);

void gpu_nccl_get_card(const struct gpu_nccl *nccl, struct gpu_nccl_card *card_out);

/* Checks the cards of the n participants, in the same order everywhere; cards[own] is this one's. NULL:
 * compatible; else the reason (static). All participants get the same result. */
const char *gpu_nccl_compare(const struct gpu_nccl_card *cards, int n);

/* id: from the card that has one. */
void gpu_nccl_connect(struct gpu_nccl *nccl, const char *id, int n, int own);

/* Gives up connecting because another participant will never connect. */
void gpu_nccl_cancel(struct gpu_nccl *nccl);

/* "2.28.9, /usr/lib/libnccl.so.2" of the library in use. */
void gpu_nccl_describe(char *text, size_t text_bytes);

/* ---- Operations ---- */

enum gpu_nccl_kind {
    GPU_NCCL_ALLREDUCE,
    GPU_NCCL_REDUCE,
    GPU_NCCL_REDUCE_SCATTER,
    GPU_NCCL_BCAST,
    GPU_NCCL_ALLGATHER
};

/* All addresses must be accessible for kernels of the communicator's device. */
struct gpu_nccl_call {
    enum gpu_nccl_kind kind;
    const void *send; /* this participant's data; of a bcast the root's */
    void *recv;       /* destination of its result; may be `send`, or this participant's block of it. NULL:
                       * none */
    size_t count;     /* elements of the vector; bytes for bcast and allgather */
    const size_t *counts; /* reduce_scatter, allgather: count of each participant; their sum is `count` */
    int root;
    int op; /* enum gpu_op, enum gpu_type of gpu/kernels/kernels.h; reductions */
    int type;
};

/* True if NCCL supports the pair. */
bool gpu_nccl_can(int op, int type);

/* True if the address is memory of the device that its kernels can access. */
bool gpu_nccl_can_use(int device, const void *address);

/* The calling PE's stream for it. NULL: unavailable, *error_out is the reason. */
struct gpu_queue *gpu_nccl_queue(const struct gpu_nccl *nccl, int *error_out);

/* Queues an operation: 0; GPU_NCCL_BUSY: it will be in the queue when gpu_nccl_ask returns 0; or an error. */
int gpu_nccl_start(struct gpu_nccl *nccl, struct gpu_queue *queue,
                   const struct gpu_nccl_call *call) BASE_MUST_CHECK;

/* The communicator's state: 0, GPU_NCCL_BUSY or an error. */
int gpu_nccl_ask(struct gpu_nccl *nccl) BASE_MUST_CHECK;

void gpu_nccl_abort(struct gpu_nccl *nccl);

/* ---- The end ---- */

void gpu_nccl_destroy(struct gpu_nccl *nccl);

/* Ends all communicators and waits until their threads have ended, for limit_s seconds at most. Before the
 * process ends; any thread. */
#define GPU_NCCL_SETTLE_S 3.0
void gpu_nccl_settle(double limit_s);

/* At the process's exit, before CUDA's driver ends: waits for threads that are inside NCCL, for limit_s
 * seconds at most. If some still are, the process ends here, with this code: NCCL crashes without the
 * driver (seen with 2.28). */
void gpu_nccl_leave(int exit_code, double limit_s);

/* Writes the text of an error of this file; false: it is not. Any thread. */
bool gpu_nccl_error_text(int error, char *text, size_t text_bytes);

#endif
