/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heddle_prequest.h: the protocol between kernels that mark partitions ready and the library. It is compiled as CUDA
 * C++ for kernels (mpi-ext-device.cuh has the functions that programs call), and as C for the library and its tests.
 *
 * A prequest is in pinned memory, which the host and all GPUs can access, with one word per partition behind it:
 *
 *      of a send       the partition's mark: the kernel writes it, the PE polls it
 *                        round << 2 | HEDDLE_PREQUEST_HANDED   the PE has to send it
 *                        round << 2 | HEDDLE_PREQUEST_COPIED   the kernel has copied it to the receiver's buffer
 *      of a receive    the round in which the partition has last arrived: its sender's kernel or the PE writes it, kernels poll it
 *
 * Words hold the number of the round, so nothing is reset: a word of an earlier round differs from all words of this
 * one. (30 bits of the number are kept: a word would have to be 2^30 rounds old to be mistaken.)
 *
 * Order of memory. A partition's data is written before MPIX_Pready, by the calling thread, or by threads of its block
 * with a barrier between; block and warp forms begin with that barrier.
 *
 *   1. sending kernel      data (the program's stores, and the copy)
 *   2.                     barrier, if several threads copied: their stores happen before what follows
 *   3.                     fence of system scope (__threadfence_system), by the thread that goes on: it is cumulative,
 *                          so it orders all stores that happen before it, also those of other threads
 *   4.                     store to the receive's word (volatile, that is relaxed at system scope)
 *   5. receiving kernel    load of the word finds the number of the round
 *   6.                     fence of system scope
 *   7.                     loads of the data
 *
 * 3 and 4 are a release pattern, 5 and 6 an acquire pattern on the same word, both of system scope: in PTX's memory model
 * 3 synchronizes with 6, so 1 happens before 7. If further threads read the data, the program puts a barrier behind 6. The
 * PE's acquire load of a mark takes the place of 5 and 6 in the same way; on the other side, its release store of a
 * word follows the completion of its copy.
 *
 * The next round. The receive's buffer is written again only after the receiver has started the next round: the sender's kernel
 * gets the buffer's address from the PE, which has seen that start (acquire) before MPIX_Pbuf_prepare returned.
 */
#ifndef HEDDLE_PREQUEST_H
#define HEDDLE_PREQUEST_H

#include <stddef.h>
#include <stdint.h>

#define HEDDLE_PREQUEST_MAGIC 0x50524551u
#define HEDDLE_PREQUEST_HANDED 1u
#define HEDDLE_PREQUEST_COPIED 2u

/* Wrong calls in kernels. */
enum HEDDLE_Prequest_fault {
    HEDDLE_PREQUEST_FINE,
    HEDDLE_PREQUEST_INVALID,    /* not a prequest, or freed */
    HEDDLE_PREQUEST_RANGE,      /* the partition does not exist */
    HEDDLE_PREQUEST_TWICE,      /* the partition was marked in this round already */
    HEDDLE_PREQUEST_INACTIVE,   /* the request has not been started */
    HEDDLE_PREQUEST_NO_SEND,    /* MPIX_Pready of a receive */
    HEDDLE_PREQUEST_NO_RECEIVE, /* MPIX_Parrived of a send */
};

struct HEDDLE_Prequest {
    /* Written at creation: */
    uint32_t magic;
    uint32_t n_partitions;
    uint32_t is_send;
    uint32_t thread_bytes_max; /* a larger partition is not copied by a single thread, but by the PE ... */
    uint64_t block_bytes_max;  /* ... nor by a warp or a block */
    uint64_t part_bytes;       /* send */
    const char *from;          /* send: the first partition */
    /* Written by the host at each start: */
    uint32_t state;    /* HEDDLE_PREQUEST_STATE */
    uint32_t received; /* receive: the last round of which all data has arrived */
    /* Send, while is_direct: */
    char *to;          /* the receive's first partition */
    uint32_t *arrived; /* the receive's words; NULL: no kernel asks for them */
    /* Written by kernels: */
    uint64_t fault; /* the last wrong call: fault << 32 | partition; 0: none */
    /* The host's: */
    void *host;
    uint32_t *words;
};

/* round: the number of starts. is_direct: the kernel may copy. */
#define HEDDLE_PREQUEST_STATE(round, is_direct, is_active) \
    ((uint32_t)(round) << 2 | ((is_direct) ? 2u : 0u) | ((is_active) ? 1u : 0u))
#define HEDDLE_PREQUEST_ROUND(state) ((state) >> 2)
#define HEDDLE_PREQUEST_IS_DIRECT(state) (((state)&2u) != 0)
#define HEDDLE_PREQUEST_IS_ACTIVE(state) (((state)&1u) != 0)

/* ---- Memory: as a GPU has it, and as a CPU has it ---- */

#ifdef __CUDACC__

#define HEDDLE_PREQUEST_FN static __device__ __forceinline__

HEDDLE_PREQUEST_FN uint32_t heddle_prequest_load(const uint32_t *word)
{
    return *(const volatile uint32_t *)word;
}

HEDDLE_PREQUEST_FN void heddle_prequest_store(uint32_t *word, uint32_t value)
{
    *(volatile uint32_t *)word = value;
}

HEDDLE_PREQUEST_FN void heddle_prequest_store_wide(uint64_t *word, uint64_t value)
{
    *(volatile unsigned long long *)word = value;
}

/* In front of a store it makes that a release, behind a load an acquire. */
HEDDLE_PREQUEST_FN void heddle_prequest_fence(void)
{
    __threadfence_system();
}

#else

/* A program that runs device code on the CPU (a test) says where device memory is. */
#ifdef HEDDLE_PREQUEST_ALIAS
#define HEDDLE_PREQUEST_FN static inline
#else
#define HEDDLE_PREQUEST_FN static inline __attribute__((unused))
#endif

HEDDLE_PREQUEST_FN uint32_t heddle_prequest_load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

HEDDLE_PREQUEST_FN void heddle_prequest_store(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

HEDDLE_PREQUEST_FN void heddle_prequest_store_wide(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

HEDDLE_PREQUEST_FN void heddle_prequest_fence(void) {
} /* the loads and stores above are acquires and releases */

#endif

#ifndef HEDDLE_PREQUEST_ALIAS
#define HEDDLE_PREQUEST_ALIAS(address, n_bytes) ((char *)(address))
#endif

/* ---- Copying a partition ---- */

#ifdef __CUDACC__
typedef uint4 heddle_prequest_vector;
#else
typedef struct {
    uint64_t half[2];
} __attribute__((may_alias, aligned(16))) heddle_prequest_vector;
#endif

/* The part of thread `lane` of n_lanes: 16 bytes per thread and access, four of them in flight, if both ends are aligned. */
HEDDLE_PREQUEST_FN void heddle_prequest_copy(char *to, const char *from, uint64_t n_bytes, uint32_t lane,
                                             uint32_t n_lanes)
{
    uint64_t n_vectors = (((uintptr_t)to | (uintptr_t)from) & 15) == 0 ? n_bytes / 16 : 0, i = lane;
    heddle_prequest_vector *to_vectors = (heddle_prequest_vector *)to;
    const heddle_prequest_vector *vectors = (const heddle_prequest_vector *)from;

    for (; i + 3 * (uint64_t)n_lanes < n_vectors; i += 4 * (uint64_t)n_lanes) {
        heddle_prequest_vector a = vectors[i], b = vectors[i + n_lanes],
                               c = vectors[i + 2 * (uint64_t)n_lanes], d = vectors[i + 3 * (uint64_t)n_lanes];
        to_vectors[i] = a;
        to_vectors[i + n_lanes] = b;
        to_vectors[i + 2 * (uint64_t)n_lanes] = c;
        to_vectors[i + 3 * (uint64_t)n_lanes] = d;
    }
    for (; i < n_vectors; i += n_lanes)
        to_vectors[i] = vectors[i];
    if (n_vectors == 0 && (((uintptr_t)to | (uintptr_t)from | n_bytes) & 3) == 0) {
        for (i = lane; i < n_bytes / 4; i += n_lanes)
            ((uint32_t *)to)[i] = ((const uint32_t *)from)[i];
        return;
    }
    for (i = n_vectors * 16 + lane; i < n_bytes; i += n_lanes)
        to[i] = from[i];
}

/* ---- MPIX_Pready ---- */

/* Reports a wrong call to the host. */
HEDDLE_PREQUEST_FN enum HEDDLE_Prequest_fault
heddle_prequest_blame(struct HEDDLE_Prequest *prequest, int partition, enum HEDDLE_Prequest_fault fault)
{
    heddle_prequest_store_wide(&prequest->fault, (uint64_t)fault << 32 | (uint32_t)partition);
    return fault;
}

HEDDLE_PREQUEST_FN int heddle_prequest_is_valid(const struct HEDDLE_Prequest *prequest)
{
    return prequest && heddle_prequest_load(&prequest->magic) == HEDDLE_PREQUEST_MAGIC;
}

/* What a call of MPIX_Pready will do. */
struct heddle_prequest_plan {
    uint32_t mark;                    /* the mark to write */
    enum HEDDLE_Prequest_fault fault; /* if it is one, nothing else happens */
};

/* First, by all threads of the call; bytes_max: partitions up to this size they copy themselves. */
HEDDLE_PREQUEST_FN struct heddle_prequest_plan heddle_prequest_begin(const struct HEDDLE_Prequest *prequest,
                                                                     int partition, uint64_t bytes_max)
{
    struct heddle_prequest_plan plan = {0, HEDDLE_PREQUEST_FINE};
    uint32_t state;

    if (!heddle_prequest_is_valid(prequest)) {
        plan.fault = HEDDLE_PREQUEST_INVALID;
        return plan;
    }
    state = heddle_prequest_load(&prequest->state);
    if (!prequest->is_send)
        plan.fault = HEDDLE_PREQUEST_NO_SEND;
    else if (partition < 0 || (uint32_t)partition >= prequest->n_partitions)
        plan.fault = HEDDLE_PREQUEST_RANGE;
    else if (!HEDDLE_PREQUEST_IS_ACTIVE(state))
        plan.fault = HEDDLE_PREQUEST_INACTIVE;
    else if (heddle_prequest_load(&prequest->words[partition]) >> 2 == HEDDLE_PREQUEST_ROUND(state))
        plan.fault = HEDDLE_PREQUEST_TWICE;
    plan.mark =
        HEDDLE_PREQUEST_ROUND(state) << 2 |
        (HEDDLE_PREQUEST_IS_DIRECT(state) && prequest->part_bytes <= bytes_max ? HEDDLE_PREQUEST_COPIED
                                                                               : HEDDLE_PREQUEST_HANDED);
    return plan;
}

/* Next, by all threads. */
HEDDLE_PREQUEST_FN void heddle_prequest_work(const struct HEDDLE_Prequest *prequest, int partition,
                                             struct heddle_prequest_plan plan, uint32_t lane,
                                             uint32_t n_lanes)
{
    if (plan.fault == HEDDLE_PREQUEST_FINE && (plan.mark & 3) == HEDDLE_PREQUEST_COPIED) {
        uint64_t n_bytes = prequest->part_bytes, at = (uint64_t)partition * n_bytes;
        char *to = HEDDLE_PREQUEST_ALIAS(*(char *volatile const *)&prequest->to + at, n_bytes);
        const char *from = HEDDLE_PREQUEST_ALIAS(prequest->from + at, n_bytes);
        heddle_prequest_copy(to, from, n_bytes, lane, n_lanes);
    }
}

/* Last, by one of them, behind a barrier. */
HEDDLE_PREQUEST_FN void heddle_prequest_end(struct HEDDLE_Prequest *prequest, int partition,
                                            struct heddle_prequest_plan plan)
{
    if (plan.fault != HEDDLE_PREQUEST_FINE) {
        if (plan.fault != HEDDLE_PREQUEST_INVALID)
            heddle_prequest_blame(prequest, partition, plan.fault);
        return;
    }
    heddle_prequest_fence();
    if ((plan.mark & 3) == HEDDLE_PREQUEST_COPIED) {
        uint32_t *arrived = *(uint32_t *volatile const *)&prequest->arrived;
        if (arrived)
            heddle_prequest_store(&arrived[partition], plan.mark >> 2);
    }
    heddle_prequest_store(&prequest->words[partition], plan.mark);
}

/* The three by one thread. */
HEDDLE_PREQUEST_FN enum HEDDLE_Prequest_fault heddle_prequest_ready(struct HEDDLE_Prequest *prequest,
                                                                    int partition)
{
    struct heddle_prequest_plan plan =
        heddle_prequest_begin(prequest, partition, prequest ? prequest->thread_bytes_max : 0);

    heddle_prequest_work(prequest, partition, plan, 0, 1);
    heddle_prequest_end(prequest, partition, plan);
    return plan.fault;
}

/* ---- MPIX_Parrived ---- */

/* After a fault *flag_out is 1, so that a loop around the call ends. */
HEDDLE_PREQUEST_FN enum HEDDLE_Prequest_fault heddle_prequest_arrived(struct HEDDLE_Prequest *prequest,
                                                                      int partition, int *flag_out)
{
    uint32_t state, round, received, word;

    *flag_out = 1;
    if (!heddle_prequest_is_valid(prequest))
        return HEDDLE_PREQUEST_INVALID;
    if (prequest->is_send)
        return heddle_prequest_blame(prequest, partition, HEDDLE_PREQUEST_NO_RECEIVE);
    if (partition < 0 || (uint32_t)partition >= prequest->n_partitions)
        return heddle_prequest_blame(prequest, partition, HEDDLE_PREQUEST_RANGE);
    word = heddle_prequest_load(&prequest->words[partition]);
    received = heddle_prequest_load(&prequest->received);
    state = heddle_prequest_load(&prequest->state);
    round = HEDDLE_PREQUEST_ROUND(state);
    *flag_out = !HEDDLE_PREQUEST_IS_ACTIVE(state) || word == round || received == round;
    if (*flag_out)
        heddle_prequest_fence();
    return HEDDLE_PREQUEST_FINE;
}

#endif /* HEDDLE_PREQUEST_H */
