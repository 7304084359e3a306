/* SPDX-License-Identifier: BSD-3-Clause
 *
 * base.h: the few language helpers that every module uses. Independent of ranks and MPI.
 */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define BASE_LIKELY(x) __builtin_expect(!!(x), 1)
#define BASE_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define BASE_MUST_CHECK __attribute__((warn_unused_result))
#define BASE_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define BASE_COLD __attribute__((cold, noinline))
#define BASE_NOINLINE __attribute__((noinline))
/* Disables the stack-protector check, for the few functions on the critical path of a message or a small
 * collective. Their frames hold no array that could overflow; -fstack-protector-strong would still check
 * them because they take addresses of locals. clang inlines no checked function into such a function. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11
#define BASE_UNCHECKED_FRAME __attribute__((no_stack_protector))
#else
#define BASE_UNCHECKED_FRAME
#endif
/* The same, and inlines every callee. */
#define BASE_FLATTEN __attribute__((flatten)) BASE_UNCHECKED_FRAME
#define BASE_NORETURN __attribute__((noreturn))
/* For code that runs before a sanitizer is initialised. */
#define BASE_NO_SANITIZE __attribute__((no_sanitize("address", "thread", "undefined")))
#define BASE_CACHE_LINE 64
#define BASE_CACHE_ALIGNED __attribute__((aligned(BASE_CACHE_LINE)))

/* The stack of a thread of the library. glibc takes the thread-local variables of the program and of all libraries from
 * it. */
#define BASE_THREAD_STACK_BYTES ((size_t)1 << 20)
#define BASE_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The struct of the given type whose member is at ptr. */
#define BASE_CONTAINER(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* Assertion levels: 0 none, 1 cheap ones (the default), 2 also those that walk structures. */
#ifndef BASE_ASSERT_LEVEL
#define BASE_ASSERT_LEVEL 1
#endif
#define BASE_ASSERT(cond) base_assert_at_level(1, cond)
#define BASE_ASSERT_FULL(cond) base_assert_at_level(2, cond)
#define base_assert_at_level(level, cond)                       \
    ((void)((level) > BASE_ASSERT_LEVEL || BASE_LIKELY(cond) || \
            (base_assert_failed(#cond, __FILE__, __LINE__), 0)))

/* Prints the condition and its file and line, and aborts. */
void base_assert_failed(const char *cond, const char *file, int line) BASE_NORETURN BASE_COLD;

static inline size_t base_round_up(size_t n, size_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* Hashes an address; the low bits of the result are well mixed. */
static inline unsigned base_hash_address(const void *address)
{
    return (unsigned)((uint64_t)(uintptr_t)address * 0x9e3779b97f4a7c15u >> 40);
}

/* Fetches the cache line of an address that this core will write soon, and takes it away from other cores. */
static inline void base_own_line(void *addr)
{
#if defined(__x86_64__)
    /* The builtin is a prefetch for reading unless the compiler is told of this instruction, which every 64-bit CPU
     * executes or ignores. */
    __asm__ volatile("prefetchw %0" ::"m"(*(char *)addr));
#else
    __builtin_prefetch(addr, 1);
#endif
}

static inline uint64_t base_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t base_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

#endif
