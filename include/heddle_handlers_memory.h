/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heddle_handlers_memory.h: memory as a GPU has it, and as a CPU has it, for heddle_handlers_device.h. Functions whose names end with near are for words that only
 * blocks of the same GPU use.
 */
#ifndef HEDDLE_HANDLERS_MEMORY_H
#define HEDDLE_HANDLERS_MEMORY_H

#include "heddle_handlers.h"

#ifdef __CUDACC__

#define HEDDLE_HANDLERS_FN static __device__ __forceinline__
#define HEDDLE_HANDLERS_AT(type, address, n_bytes) ((type *)(address))
#define HEDDLE_HANDLERS_SYNC() __syncthreads()
#define HEDDLE_HANDLERS_PAUSE() ((void)0)

HEDDLE_HANDLERS_FN uint64_t heddle_handlers_load(const uint64_t *word)
{
    return *(const volatile uint64_t *)word;
}

HEDDLE_HANDLERS_FN void heddle_handlers_store(uint64_t *word, uint64_t value)
{
    *(volatile uint64_t *)word = value;
}

HEDDLE_HANDLERS_FN uint64_t heddle_handlers_acquire(const uint64_t *word)
{
    uint64_t value;

    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

HEDDLE_HANDLERS_FN void heddle_handlers_release(uint64_t *word, uint64_t value, int is_near)
{
    if (is_near)
        asm volatile("st.release.gpu.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
    else
        asm volatile("st.release.sys.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
}

HEDDLE_HANDLERS_FN uint32_t heddle_handlers_acquire_near(const uint32_t *word)
{
    uint32_t value;

    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

HEDDLE_HANDLERS_FN void heddle_handlers_release_near(uint32_t *word, uint32_t value)
{
    asm volatile("st.release.gpu.u32 [%0], %1;" : : "l"(word), "r"(value) : "memory");
}

HEDDLE_HANDLERS_FN uint32_t heddle_handlers_add_near(uint32_t *word, uint32_t value)
{
    uint32_t before;

    asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(value) : "memory");
    return before;
}

HEDDLE_HANDLERS_FN uint32_t heddle_handlers_add32(uint32_t *word, uint32_t value)
{
    return atomicAdd_system(word, value);
}

HEDDLE_HANDLERS_FN uint64_t heddle_handlers_add(uint64_t *word, uint64_t value)
{
    return atomicAdd_system((unsigned long long *)word, (unsigned long long)value);
}

HEDDLE_HANDLERS_FN uint64_t heddle_handlers_or(uint64_t *word, uint64_t value)
{
    return atomicOr_system((unsigned long long *)word, (unsigned long long)value);
}

HEDDLE_HANDLERS_FN uint64_t heddle_handlers_and(uint64_t *word, uint64_t value)
{
    return atomicAnd_system((unsigned long long *)word, (unsigned long long)value);
}

HEDDLE_HANDLERS_FN uint64_t heddle_handlers_swap(uint64_t *word, uint64_t expected, uint64_t value)
{
    return atomicCAS_system((unsigned long long *)word, (unsigned long long)expected,
                            (unsigned long long)value);
}

/* The words that only blocks of the same kernel change. */
HEDDLE_HANDLERS_FN uint64_t heddle_handlers_swap_near(uint64_t *word, uint64_t expected, uint64_t value)
{
    return atomicCAS((unsigned long long *)word, (unsigned long long)expected, (unsigned long long)value);
}

HEDDLE_HANDLERS_FN void heddle_handlers_count_near(uint64_t *word)
{
    atomicAdd((unsigned long long *)word, 1ull);
}

/* In front of a store it makes that a release, of system scope. */
HEDDLE_HANDLERS_FN void heddle_handlers_fence(void)
{
    asm volatile("fence.acq_rel.sys;" : : : "memory");
}

/* Of this multiprocessor's clock, which has 2 GHz at most; reading %globaltimer takes longer. */
HEDDLE_HANDLERS_FN uint64_t heddle_handlers_now_ns(void)
{
    return (uint64_t)clock64() / 2;
}

#else /* a program that runs device code on the CPU (a test), and says where device memory is */

#include <sched.h>
#include <time.h>

#define HEDDLE_HANDLERS_FN static inline
#define HEDDLE_HANDLERS_AT(type, address, n_bytes) \
    ((type *)HEDDLE_HANDLERS_ALIAS((uintptr_t)(address), (n_bytes)))
#define HEDDLE_HANDLERS_SYNC() ((void)0)
#define HEDDLE_HANDLERS_PAUSE() ((void)sched_yield())

HEDDLE_HANDLERS_FN uint64_t heddle_handlers_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

HEDDLE_HANDLERS_FN void heddle_handlers_store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE); /* it follows a fence on a GPU */
}

HEDDLE_HANDLERS_FN uint64_t heddle_handlers_acquire(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

HEDDLE_HANDLERS_FN void heddle_handlers_release(uint64_t *word, uint64_t value, int is_near)
{
    (void)is_near;
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

HEDDLE_HANDLERS_FN uint32_t heddle_handlers_acquire_near(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

HEDDLE_HANDLERS_FN void heddle_handlers_release_near(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

HEDDLE_HANDLERS_FN uint32_t heddle_handlers_add_near(uint32_t *word, uint32_t value)
{
    return __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
}

HEDDLE_HANDLERS_FN uint32_t heddle_handlers_add32(uint32_t *word, uint32_t value)
{
    return __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}

HEDDLE_HANDLERS_FN uint64_t heddle_handlers_add(uint64_t *word, uint64_t value)
{
    return __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
}

HEDDLE_HANDLERS_FN uint64_t heddle_handlers_or(uint64_t *word, uint64_t value)
{
    return __atomic_fetch_or(word, value, __ATOMIC_RELAXED);
}

HEDDLE_HANDLERS_FN uint64_t heddle_handlers_and(uint64_t *word, uint64_t value)
{
    return __atomic_fetch_and(word, value, __ATOMIC_RELAXED);
}

HEDDLE_HANDLERS_FN uint64_t heddle_handlers_swap(uint64_t *word, uint64_t expected, uint64_t value)
{
    __atomic_compare_exchange_n(word, &expected, value, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    return expected;
}

HEDDLE_HANDLERS_FN uint64_t heddle_handlers_swap_near(uint64_t *word, uint64_t expected, uint64_t value)
{
    return heddle_handlers_swap(word, expected, value);
}

HEDDLE_HANDLERS_FN void heddle_handlers_count_near(uint64_t *word)
{
    __atomic_fetch_add(word, 1, __ATOMIC_RELEASE); /* it follows a fence on a GPU */
}

HEDDLE_HANDLERS_FN void heddle_handlers_fence(void)
{
    /* The accesses above are acquires and releases. */
}

HEDDLE_HANDLERS_FN uint64_t heddle_handlers_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif

#endif /* HEDDLE_HANDLERS_MEMORY_H */
