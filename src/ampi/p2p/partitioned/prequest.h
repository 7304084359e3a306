/* SPDX-License-Identifier: BSD-3-Clause
 *
 * prequest.h: partitioned requests whose partitions kernels mark ready (MPIX_Prequest_create). The words that kernels and
 * PEs share are described in heddle_prequest.h.
 *
 * While a send with a prequest is active, its PE polls the marks of the partitions. There are two kinds of
 * rounds:
 *
 *      message   the partitions are counted, and after the last one the data is one message, as without a prequest
 *      direct    the kernel copies a partition into the receive's buffer, or the PE does (larger ones, those that MPI_Pready
 *                marks). There is no message: after the last one the send's PE completes both requests
 *
 * The receive chooses when it starts: direct, if both ends are in one process, their buffers are contiguous
 * and have the same partitions, the GPU of the sending kernels can use the receive's buffer, and the send
 * has a prequest (`is_wanted`). It publishes the choice with the number of the round. A send with a prequest
 * waits for the choice and obeys it, so both ends always agree; so does a send whose prequest was freed.
 *
 * The marks (prequest_marks.c) are flags, one word per partition, or a queue of partitions. They are in
 * pinned memory, or in the GPU's memory, from which the PE copies them. The info object of MPI_Psend_init
 * chooses: heddle_prequest_marks, heddle_prequest_memory.
 *
 * The words are in pinned memory, because both sides poll them without a call of the driver. Partitions that the PE
 * copies are gathered: neighbors are one move, of at most 64 KiB if the resident kernel is there, because the
 * program's kernels may fill the GPU and wait for the data. (108 partitions of 8 KiB took 601 us with a move each.)
 * An error of a kernel ends the round, because a wrongly marked partition would never be marked correctly. In a round
 * of messages the data is still sent, so that the receive does not wait for ever. Words in the receiver's GPU memory
 * were rejected: MPIX_Parrived also needs the number of the round, which the host knows.
 *
 * Measured on an H200 (docs/performance.md): flags and queue in pinned memory are equal within 8 %, in the
 * GPU's memory they cost 7 to 19 us more. 132 blocks of 8 warps that read one word of pinned memory took
 * 1,141 us.
 */
#ifndef AMPI_P2P_PREQUEST_H
#define AMPI_P2P_PREQUEST_H

#include <stdatomic.h>

#include "ampi/p2p/request.h"
#include "gpu/gpu.h"
#include "heddle_prequest.h"

struct part_copy;
struct ampi_comm;
struct ampi_partitioned;
struct ampi_prequest;

/* The place of a send's marks; all false: flags in pinned memory. */
struct ampi_marks_choice {
    bool is_queue;
    bool is_on_device;
};

/* A send's marks: private to prequest_marks.c. */
struct ampi_marks {
    struct ampi_marks_choice is;
    int next;            /* the next flag, or place in the queue, that the PE polls */
    void *device_memory; /* NULL: none */
    size_t device_bytes;
    char *copy; /* is_on_device: pinned memory for a copy of n_fetched of them */
    int n_fetched;
    bool is_fetching;
    int error; /* of the last copy: the driver's */
    struct gpu_move fetch;
};

/* A ULT in MPIX_Pbuf_prepare; on its stack. */
struct ampi_preparing {
    struct ampi_preparing *next;
    struct ult *u;
};

/* An end's prequest. It is kept until the end is freed, also after MPIX_Prequest_free. */
struct ampi_prequest {
    struct gpu_watch watch;
    struct HEDDLE_Prequest
        *shared; /* pinned memory: HEDDLE_PREQUEST_COPIES, of which the first n_copies are used; then words */
    int n_copies;
    size_t shared_bytes;
    struct ampi_request *request;
    struct ampi_preparing *preparing;
    struct part_copy *free_copies; /* prequest.c */
    struct ampi_marks marks;
    /* Send, this round: */
    int error;         /* MPI's class; MPI_SUCCESS: none yet */
    int n_done;        /* direct: partitions that have been copied */
    int n_copying;     /* direct: moves of the PE that are under way */
    int n_gathered;    /* direct: marked partitions that the PE has not begun to copy: */
    int next_gathered; /* ... none before this one */
    bool *is_gathered; /* ... by partition; memory of the prequest */
    bool is_known;     /* the receive has chosen: */
    bool is_direct;    /* ... this */
    bool is_watched;   /* the PE polls */
};

/* State that the two ends of a channel in one process share. The last end to be freed frees it. */
struct ampi_pair {
    atomic_int n_refs;
    /* The send's: */
    atomic_bool is_wanted; /* set after the following fields; never reset */
    int device;            /* of its kernels; -1: they cannot read the data */
    int n_partitions;
    size_t part_bytes;
    int error; /* of the direct round that is over: MPI's class */
    /* The receive's: */
    _Atomic uint64_t published; /* its last round * 2, + 1 if direct; set after the following fields */
    struct ampi_request *recv;
    char *to;               /* the first partition */
    uint32_t *arrived;      /* words of its prequest; NULL: it has none */
    struct ult_wakeup over; /* tells the receive's PE that a direct round is over */
};

/* Created with a send to a rank of this process, whose hello has the second reference. */
struct ampi_pair *ampi_pair_create(void);
void ampi_pair_unref(struct ampi_pair *pair);

/* A receive, whose hello has arrived, starts a round. True: the round is direct, without a message. */
bool ampi_pair_start_receive(struct ampi_request *recv);

/* Called before an end with a prequest starts a round and counts it. Raises and returns an error if kernels
 * have made a mistake since the last round: then the round must not start. */
int ampi_prequest_check_start(struct ampi_request *request);

/* The round has been counted. For a send: its PE polls the marks from now on, and completes it. */
void ampi_prequest_start(struct ampi_request *request);

/* MPI_Pready marks a partition of a send with a prequest. False: a kernel has marked it. flush: it was the last one of the
 * call. */
bool ampi_prequest_ready(struct ampi_request *send, int partition);
void ampi_prequest_flush(const struct ampi_request *send);

/* The message of a round has been sent or received: the result becomes an error if a kernel has made a
 * mistake. Called before the request completes. */
void ampi_prequest_end_round(struct ampi_request *request);

/* For MPI_Parrived: true if a partition of an active receive has arrived, as far as its prequest says. */
bool ampi_prequest_has_arrived(const struct ampi_request *recv, int partition);

/* Frees the prequest with its end. NULL: no effect. */
void ampi_prequest_destroy(struct ampi_prequest *prequest);

/* The info object of MPI_Psend_init chooses marks; raises and returns an error if it names unknown ones. */
int ampi_marks_choose(struct ampi_comm *comm, MPI_Info info, struct ampi_marks_choice *choice_out);

/* ---- Marks: for prequest.c and prequest_api.c ---- */

/* Bytes of pinned memory that a prequest needs after its lines. */
size_t ampi_marks_pinned_bytes(const struct ampi_partitioned *end);

/* Initializes the words of a new prequest, whose shared memory is zeroed. Returns the driver's error. May
 * switch. */
int ampi_marks_create(struct ampi_prequest *prequest) BASE_MUST_CHECK;
void ampi_marks_destroy(struct ampi_prequest *prequest);

/* A round of a send starts. */
void ampi_marks_start(struct ampi_prequest *prequest);

/* Calls note for new marks of an active send; each call finds a limited number. Returns the driver's
 * error. */
typedef void ampi_mark_fn(struct ampi_prequest *prequest, int partition, bool is_copied);
int ampi_marks_poll(struct ampi_prequest *prequest, ampi_mark_fn *note) BASE_MUST_CHECK;

/* True if the host sees marks of kernels at once, without a copy. */
static inline bool ampi_marks_are_near(const struct ampi_marks *marks)
{
    return !marks->is.is_queue && !marks->is.is_on_device;
}

/* ---- For prequest_api.c ---- */

/* Returns the error class of the last wrong call of a kernel, with a text, and clears it. MPI_SUCCESS: there
 * was none. */
int ampi_prequest_take_fault(struct ampi_prequest *prequest, char *text, size_t text_bytes);

/* Makes the prequest valid for kernels, or invalid. */
void ampi_prequest_set_magic(const struct ampi_prequest *prequest, uint32_t magic);

/* Publishes the round of the request to kernels. */
void ampi_prequest_set_state(const struct ampi_prequest *prequest, bool is_direct, bool is_active);

/* Sets is_known if the receive has made its choice. */
void ampi_prequest_learn(struct ampi_prequest *prequest);

/* The function of the watch: polls the marks of an active send. */
bool ampi_prequest_poll(struct gpu_watch *watch, int error);

void ampi_prequest_free_copies(struct ampi_prequest *prequest);

#endif
