/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heddle_prequest.h: the protocol between kernels that mark partitions ready and the library. It is compiled as CUDA
 * C++ for kernels (mpi-ext-device.cuh has the functions that programs call), and as C for the library and its tests.
 *
 * A prequest is in pinned memory, which the host and all GPUs can access, with one word per partition:
 *
 *      of a send       the partition's mark: the kernel writes it, the PE polls it
 *                        round << 2 | HEDDLE_PREQUEST_HANDED   the PE has to send it
 *                        round << 2 | HEDDLE_PREQUEST_COPIED   the kernel has copied it to the receiver's buffer
 *      of a receive    the round in which the partition has last arrived: its sender's kernel or the PE writes it, kernels poll it
 *
 * A GPU reads pinned memory in 1 us, and reads of one line of it one after the other, also those of different blocks. So a
 * kernel reads a whole line at once, there are HEDDLE_PREQUEST_COPIES of it for different partitions, each word of a receive has a line
 * of its own, and what only kernels read is in the GPU's memory.
 *
 * On request a send has a queue in place of the marks: a ring of the partitions that kernels have marked, in the order of the marks. Marks or queue
 * may be in the GPU's memory; then the PE copies them when it looks. The counter that gives a kernel its place in the queue is
 * always there.
 *
 *      counter         number of the round << HEDDLE_PREQUEST_SHIFT | marks of the round so far
 *      ring[place]     the mark << 32 | the partition
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
#define HEDDLE_PREQUEST_SHIFT 24 /* a send with more partitions has no queue */

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

/* A line. A handle is the address of the first of HEDDLE_PREQUEST_COPIES, which are equal but for the fields after `seen`. */
struct HEDDLE_Prequest {
    uint32_t magic;    /* written at creation */
    uint32_t size;     /* written at creation: partitions | HEDDLE_PREQUEST_SEND */
    uint32_t state;    /* written by the host at each start: HEDDLE_PREQUEST_STATE */
    uint32_t received; /* receive: the last round of which all data has arrived */
    /* Send, written at creation: */
    uint64_t part_bytes;
    const char *from; /* the first partition */
    /* Send, written by the host while is_direct: */
    char *to;          /* the receive's first partition */
    uint32_t *arrived; /* the receive's words; NULL: no kernel asks for them */
    uint64_t first;    /* send, written at each start: the counter of this round before the first mark */
    /* Written at creation: */
    uint64_t *counter; /* NULL: there is no queue */
    uint64_t *ring;
    uint32_t *words; /* NULL: there is a queue */
    uint32_t *seen;  /* a send's marks for kernels: nobody else reads them */
    uint64_t fault;  /* written by kernels: the last wrong call: fault << 32 | partition; 0: none */
    void *host;      /* the host's */
    uint64_t unused[3];
};

#define HEDDLE_PREQUEST_COPIES 64
#define HEDDLE_PREQUEST_SEND 0x80000000u
#define HEDDLE_PREQUEST_THREAD_BYTES \
    1024u /* a larger partition is not copied by a single thread, but by the PE ... */
#define HEDDLE_PREQUEST_BLOCK_BYTES ((uint64_t)256 << 10) /* ... nor by a warp or a block */

/* The distance of the words of a receive with so many partitions, in words. */
#define HEDDLE_PREQUEST_STRIDE(n_partitions) ((n_partitions) <= 4096 ? 32u : 1u)

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

HEDDLE_PREQUEST_FN uint64_t heddle_prequest_load_wide(const uint64_t *word)
{
    return *(const volatile unsigned long long *)word;
}

HEDDLE_PREQUEST_FN void heddle_prequest_store(uint32_t *word, uint32_t value)
{
    *(volatile uint32_t *)word = value;
}

HEDDLE_PREQUEST_FN void heddle_prequest_store_wide(uint64_t *word, uint64_t value)
{
    *(volatile unsigned long long *)word = value;
}

/* Raises the counter to `first` if it is lower, and adds one. Returns the value before. By kernels of one GPU. */
HEDDLE_PREQUEST_FN uint64_t heddle_prequest_count(uint64_t *counter, uint64_t first)
{
    atomicMax((unsigned long long *)counter, (unsigned long long)first);
    return atomicAdd((unsigned long long *)counter, 1ull);
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

HEDDLE_PREQUEST_FN uint64_t heddle_prequest_load_wide(const uint64_t *word)
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

HEDDLE_PREQUEST_FN uint64_t heddle_prequest_count(uint64_t *counter, uint64_t first)
{
    uint64_t old = __atomic_load_n(counter, __ATOMIC_RELAXED);

    while (!__atomic_compare_exchange_n(counter, &old, (old < first ? first : old) + 1, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
    }
    return old < first ? first : old;
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

/* By one access. */
HEDDLE_PREQUEST_FN heddle_prequest_vector heddle_prequest_load_vector(const heddle_prequest_vector *from)
{
    heddle_prequest_vector vector;
#ifdef __CUDA_ARCH__
    asm volatile("ld.volatile.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(vector.x), "=r"(vector.y), "=r"(vector.z), "=r"(vector.w)
                 : "l"(from)
                 : "memory");
#else
    /* In the order of the addresses: a CPU's state (in the first half) may be newer than what is read after it. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    vector = *from;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
    return vector;
}

/* The words of a receive lie behind the lines. */
HEDDLE_PREQUEST_FN uint32_t *heddle_prequest_words_of(struct HEDDLE_Prequest *prequest)
{
    return (uint32_t *)(prequest + HEDDLE_PREQUEST_COPIES);
}

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

/* A kernel reads all fields at once, into memory of its own. By threads that share *view, with a barrier behind it. */
HEDDLE_PREQUEST_FN void heddle_prequest_read(struct HEDDLE_Prequest *view,
                                             const struct HEDDLE_Prequest *prequest, int partition,
                                             uint32_t lane, uint32_t n_lanes)
{
    const heddle_prequest_vector *from =
        (const heddle_prequest_vector *)&prequest[(uint32_t)partition % HEDDLE_PREQUEST_COPIES];
    heddle_prequest_vector *to = (heddle_prequest_vector *)view;

    for (uint32_t i = lane; i < sizeof *view / sizeof *to; i += n_lanes)
        to[i] = heddle_prequest_load_vector(&from[i]);
}

/* What a call of MPIX_Pready will do. */
struct heddle_prequest_plan {
    enum HEDDLE_Prequest_fault fault; /* if it is one, nothing else happens */
    uint32_t mark;                    /* the mark to write, and where: */
    uint32_t *seen;
    uint32_t *word;    /* NULL: into the queue */
    uint32_t *arrived; /* the receive's word of the partition; NULL: no kernel asks for it */
    uint64_t n_bytes;  /* to copy; 0: the PE does it */
    const char *from;
    char *to;
    uint64_t *counter; /* NULL: there is no queue */
    uint64_t *ring;
    uint64_t first;
    uint32_t n_partitions;
};

/* By all threads of the call. bytes_max: partitions up to this size they copy themselves. */
HEDDLE_PREQUEST_FN struct heddle_prequest_plan heddle_prequest_plan_of(const struct HEDDLE_Prequest *view,
                                                                       int partition, uint64_t bytes_max)
{
    struct heddle_prequest_plan plan = {
        HEDDLE_PREQUEST_FINE, 0, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, 0, 0};
    uint32_t n_partitions = view->size & ~HEDDLE_PREQUEST_SEND;
    uint64_t at = (uint64_t)partition * view->part_bytes;
    int can_copy = HEDDLE_PREQUEST_IS_DIRECT(view->state) && view->part_bytes <= bytes_max;

    if (view->magic != HEDDLE_PREQUEST_MAGIC)
        plan.fault = HEDDLE_PREQUEST_INVALID;
    else if (!(view->size & HEDDLE_PREQUEST_SEND))
        plan.fault = HEDDLE_PREQUEST_NO_SEND;
    else if (partition < 0 || (uint32_t)partition >= n_partitions)
        plan.fault = HEDDLE_PREQUEST_RANGE;
    else if (!HEDDLE_PREQUEST_IS_ACTIVE(view->state))
        plan.fault = HEDDLE_PREQUEST_INACTIVE;
    if (plan.fault != HEDDLE_PREQUEST_FINE)
        return plan;
    plan.mark = HEDDLE_PREQUEST_ROUND(view->state) << 2 |
                (can_copy ? HEDDLE_PREQUEST_COPIED : HEDDLE_PREQUEST_HANDED);
    plan.seen = &view->seen[partition];
    plan.word = view->words ? &view->words[partition] : NULL;
    plan.counter = view->counter;
    plan.ring = view->ring;
    plan.first = view->first;
    plan.n_partitions = n_partitions;
    if (can_copy) {
        plan.n_bytes = view->part_bytes;
        plan.from = view->from + at;
        plan.to = view->to + at;
        plan.arrived =
            view->arrived ? &view->arrived[partition * HEDDLE_PREQUEST_STRIDE(n_partitions)] : NULL;
    }
    return plan;
}

/* The partition's mark; by the thread that will end the call. */
HEDDLE_PREQUEST_FN uint32_t heddle_prequest_mark(const struct heddle_prequest_plan *plan)
{
    return plan->fault != HEDDLE_PREQUEST_FINE ? 0
                                               : heddle_prequest_load((const uint32_t *)HEDDLE_PREQUEST_ALIAS(
                                                     plan->seen, sizeof *plan->seen));
}

/* By all threads. */
HEDDLE_PREQUEST_FN void heddle_prequest_work(const struct heddle_prequest_plan *plan, uint32_t lane,
                                             uint32_t n_lanes)
{
    if (plan->fault == HEDDLE_PREQUEST_FINE && plan->n_bytes > 0)
        heddle_prequest_copy(HEDDLE_PREQUEST_ALIAS(plan->to, plan->n_bytes),
                             HEDDLE_PREQUEST_ALIAS(plan->from, plan->n_bytes), plan->n_bytes, lane, n_lanes);
}

/* Puts the partition into the queue, behind the fence. A ring has a place for each partition: a mark that finds none is one too many. */
HEDDLE_PREQUEST_FN enum HEDDLE_Prequest_fault heddle_prequest_push(const struct heddle_prequest_plan *plan,
                                                                   int partition)
{
    uint64_t *counter = (uint64_t *)HEDDLE_PREQUEST_ALIAS(plan->counter, sizeof *counter);
    uint64_t place = heddle_prequest_count(counter, plan->first) - plan->first;

    if (place >= plan->n_partitions)
        return HEDDLE_PREQUEST_TWICE;
    heddle_prequest_store_wide(
        (uint64_t *)HEDDLE_PREQUEST_ALIAS(&plan->ring[place], sizeof plan->ring[place]),
        (uint64_t)plan->mark << 32 | (uint32_t)partition);
    return HEDDLE_PREQUEST_FINE;
}

/* Last, by one of them, behind a barrier; mark: what it was before. Returns the call's result. */
HEDDLE_PREQUEST_FN enum HEDDLE_Prequest_fault heddle_prequest_end(struct HEDDLE_Prequest *prequest,
                                                                  int partition,
                                                                  const struct heddle_prequest_plan *plan,
                                                                  uint32_t mark)
{
    enum HEDDLE_Prequest_fault fault = plan->fault;

    if (fault == HEDDLE_PREQUEST_FINE && mark >> 2 == plan->mark >> 2)
        fault = HEDDLE_PREQUEST_TWICE;
    if (fault == HEDDLE_PREQUEST_FINE) {
        heddle_prequest_fence();
        if (plan->arrived)
            heddle_prequest_store(plan->arrived, plan->mark >> 2);
        heddle_prequest_store((uint32_t *)HEDDLE_PREQUEST_ALIAS(plan->seen, sizeof *plan->seen), plan->mark);
        if (plan->word && plan->word != plan->seen)
            heddle_prequest_store((uint32_t *)HEDDLE_PREQUEST_ALIAS(plan->word, sizeof *plan->word),
                                  plan->mark);
        if (plan->counter)
            fault = heddle_prequest_push(plan, partition);
    }
    if (fault != HEDDLE_PREQUEST_FINE && fault != HEDDLE_PREQUEST_INVALID)
        heddle_prequest_blame(prequest, partition, fault);
    return fault;
}

/* All of it by one thread. n_lanes: it does the work of so many threads (a test). */
HEDDLE_PREQUEST_FN enum HEDDLE_Prequest_fault heddle_prequest_ready_as(struct HEDDLE_Prequest *prequest,
                                                                       int partition, uint32_t n_lanes)
{
    struct HEDDLE_Prequest view;
    struct heddle_prequest_plan plan;
    uint32_t mark;

    if (!prequest)
        return HEDDLE_PREQUEST_INVALID;
    heddle_prequest_read(&view, prequest, partition, 0, 1);
    plan = heddle_prequest_plan_of(&view, partition,
                                   n_lanes > 1 ? HEDDLE_PREQUEST_BLOCK_BYTES : HEDDLE_PREQUEST_THREAD_BYTES);
    mark = heddle_prequest_mark(&plan);
    if (plan.fault == HEDDLE_PREQUEST_FINE && mark >> 2 != plan.mark >> 2)
        for (uint32_t lane = 0; lane < n_lanes; lane++)
            heddle_prequest_work(&plan, lane, n_lanes);
    return heddle_prequest_end(prequest, partition, &plan, mark);
}

HEDDLE_PREQUEST_FN enum HEDDLE_Prequest_fault heddle_prequest_ready(struct HEDDLE_Prequest *prequest,
                                                                    int partition)
{
    return heddle_prequest_ready_as(prequest, partition, 1);
}

/* ---- MPIX_Parrived ---- */

/* After a fault *flag_out is 1, so that a loop around the call ends. */
HEDDLE_PREQUEST_FN enum HEDDLE_Prequest_fault heddle_prequest_arrived(struct HEDDLE_Prequest *prequest,
                                                                      int partition, int *flag_out)
{
    struct HEDDLE_Prequest view;
    uint32_t n_partitions, round, word;

    *flag_out = 1;
    if (!prequest)
        return HEDDLE_PREQUEST_INVALID;
    *(heddle_prequest_vector *)&view = heddle_prequest_load_vector(
        (const heddle_prequest_vector *)&prequest[(uint32_t)partition % HEDDLE_PREQUEST_COPIES]);
    n_partitions = view.size & ~HEDDLE_PREQUEST_SEND;
    if (view.magic != HEDDLE_PREQUEST_MAGIC)
        return HEDDLE_PREQUEST_INVALID;
    if (view.size & HEDDLE_PREQUEST_SEND)
        return heddle_prequest_blame(prequest, partition, HEDDLE_PREQUEST_NO_RECEIVE);
    if (partition < 0 || (uint32_t)partition >= n_partitions)
        return heddle_prequest_blame(prequest, partition, HEDDLE_PREQUEST_RANGE);
    word = heddle_prequest_load(heddle_prequest_words_of(prequest) +
                                partition * HEDDLE_PREQUEST_STRIDE(n_partitions));
    round = HEDDLE_PREQUEST_ROUND(view.state);
    *flag_out = !HEDDLE_PREQUEST_IS_ACTIVE(view.state) || word == round || view.received == round;
    if (*flag_out)
        heddle_prequest_fence();
    return HEDDLE_PREQUEST_FINE;
}

#endif /* HEDDLE_PREQUEST_H */
