/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mtest.h: common parts of the programs of tests/mpi_conformance.
 *
 * A program calls mtest_init() first and returns mtest_end() last. MTEST_CHECK reports wrong behaviour with
 * rank and line and continues. A rank that saw an error ends the job in mtest_end() with MPI_Abort, so the
 * others cannot hang on it. Exit codes: 0 right, 1 wrong, 77 skipped (too few ranks, or a function that this
 * MPI lacks). Everything here is standard MPI 3.1.
 */
#ifndef MTEST_H
#define MTEST_H

#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MTEST_SKIP_CODE 77
#define MTEST_MAX_REPORTS 10 /* a rank with this many errors gives up at once */

/* Mutable state of one rank: wrong already here when globals are shared between ranks. */
static int mtest_rank = -1;
static int mtest_size = -1;
static int mtest_errors = 0;

static inline void mtest_give_up(void)
{
    fflush(stdout);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

__attribute__((format(printf, 3, 4))) static inline void mtest_fail(const char *file, int line,
                                                                    const char *fmt, ...)
{
    char text[400];
    const char *base = strrchr(file, '/');
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(stderr, "FAIL rank %d of %d, %s:%d: %s\n", mtest_rank, mtest_size, base ? base + 1 : file, line,
            text);
    if (++mtest_errors >= MTEST_MAX_REPORTS) {
        fprintf(stderr, "FAIL rank %d of %d: %d errors, giving up\n", mtest_rank, mtest_size, mtest_errors);
        mtest_give_up();
    }
}

/* The condition must hold; the rest is a printf message saying what was seen. */
#define MTEST_CHECK(cond, ...)                           \
    do {                                                 \
        if (!(cond))                                     \
            mtest_fail(__FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

static inline int mtest_class(int code)
{
    int error_class = -1;
    if (code == MPI_SUCCESS)
        return MPI_SUCCESS;
    MPI_Error_class(code, &error_class);
    return error_class;
}

static inline void mtest_expect_class(int code, int expected, const char *what, const char *file, int line)
{
    char got[MPI_MAX_ERROR_STRING] = "", want[MPI_MAX_ERROR_STRING] = "";
    int len;
    int got_class = mtest_class(code);
    if (got_class == expected)
        return;
    MPI_Error_string(code, got, &len);
    MPI_Error_string(expected, want, &len);
    mtest_fail(file, line, "%.120s: class %d (%.90s), expected %d (%.60s)", what, got_class, got, expected,
               want);
}

/* The call must return MPI_SUCCESS. */
#define MTEST_OK(call) mtest_expect_class((call), MPI_SUCCESS, #call, __FILE__, __LINE__)

/* The call must return an error of this class (the error handler must be MPI_ERRORS_RETURN). */
#define MTEST_CLASS(call, error_class) mtest_expect_class((call), (error_class), #call, __FILE__, __LINE__)

/* The call must return an error, of one of two classes: where the standard leaves the choice. */
#define MTEST_CLASS2(call, class_a, class_b)                                       \
    do {                                                                           \
        int mtest_code_ = (call);                                                  \
        if (mtest_class(mtest_code_) != (class_b))                                 \
            mtest_expect_class(mtest_code_, (class_a), #call, __FILE__, __LINE__); \
    } while (0)

/* Ends a program that cannot run here; MPI must be initialized. */
static inline void mtest_skip(const char *why)
{
    if (mtest_rank == 0)
        printf("SKIP: %s\n", why);
    fflush(stdout);
    MPI_Finalize();
    exit(MTEST_SKIP_CODE);
}

static inline void mtest_learn_world(int min_ranks)
{
    char why[64];
    MPI_Comm_rank(MPI_COMM_WORLD, &mtest_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mtest_size);
    if (mtest_size < min_ranks) {
        snprintf(why, sizeof why, "needs %d ranks, has %d", min_ranks, mtest_size);
        mtest_skip(why);
    }
}

static inline void mtest_init(int *argc, char ***argv, int min_ranks)
{
    MPI_Init(argc, argv);
    mtest_learn_world(min_ranks);
}

/* Skips the program if the ranks are on several nodes, which share no memory. After mtest_init. */
static inline void mtest_need_one_node(void)
{
    MPI_Comm node;
    int n;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &n);
    MPI_Comm_free(&node);
    if (n < mtest_size)
        mtest_skip("the ranks are on several nodes");
}

static inline int mtest_end(void)
{
    if (mtest_errors != 0) {
        fprintf(stderr, "FAIL rank %d of %d: %d errors\n", mtest_rank, mtest_size, mtest_errors);
        mtest_give_up();
    }
    MPI_Finalize();
    return 0;
}

/* A byte pattern that depends on a seed and the position. */
static inline unsigned char mtest_byte(size_t index, unsigned seed)
{
    return (unsigned char)((index * 7 + (index >> 8) * 13 + seed * 31 + 1) & 0xff);
}

/* Each block of the pattern holds the multiples of 7 (mod 256) in order, from another one on; 7 * 183 = 1 (mod 256). */
#define MTEST_BLOCK 256
#define MTEST_TURN 183

/* Two blocks in a row, so that each block of the pattern is in one piece of them. */
static inline void mtest_make_blocks(unsigned char *blocks)
{
    for (size_t i = 0; i < 2 * MTEST_BLOCK; i++)
        blocks[i] = (unsigned char)(i * 7);
}

static inline size_t mtest_block_at(size_t index, unsigned seed)
{
    return mtest_byte(index, seed) * MTEST_TURN % MTEST_BLOCK;
}

static inline void mtest_fill(void *buf, size_t len_bytes, unsigned seed)
{
    unsigned char *bytes = buf, blocks[2 * MTEST_BLOCK];
    size_t i = 0;

    if (len_bytes > 4 * MTEST_BLOCK)
        for (mtest_make_blocks(blocks); len_bytes - i >= MTEST_BLOCK; i += MTEST_BLOCK)
            memcpy(bytes + i, blocks + mtest_block_at(i, seed), MTEST_BLOCK);
    for (; i < len_bytes; i++)
        bytes[i] = mtest_byte(i, seed);
}

/* The first index where buf differs from the pattern, or -1. */
static inline long mtest_differs(const void *buf, size_t len_bytes, unsigned seed)
{
    unsigned char blocks[2 * MTEST_BLOCK];
    const unsigned char *bytes = buf;
    size_t i = 0;

    if (len_bytes > 4 * MTEST_BLOCK)
        for (mtest_make_blocks(blocks);
             len_bytes - i >= MTEST_BLOCK &&
             memcmp(bytes + i, blocks + mtest_block_at(i, seed), MTEST_BLOCK) == 0;)
            i += MTEST_BLOCK;
    for (; i < len_bytes; i++)
        if (bytes[i] != mtest_byte(i, seed))
            return (long)i;
    return -1;
}

/* The first index where buf is not all `value`, or -1: for guard zones. */
static inline long mtest_touched(const void *buf, size_t len_bytes, unsigned char value)
{
    const unsigned char *bytes = buf;
    for (size_t i = 0; i < len_bytes; i++)
        if (bytes[i] != value)
            return (long)i;
    return -1;
}

/* A small generator with its own state: the same numbers on every machine. */
static inline uint32_t mtest_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static inline void *mtest_alloc(size_t len_bytes)
{
    void *mem = malloc(len_bytes ? len_bytes : 1);
    if (mem == NULL) {
        fprintf(stderr, "FAIL rank %d: no memory for %zu bytes\n", mtest_rank, len_bytes);
        mtest_give_up();
    }
    return mem;
}

/* From here on errors on this communicator are returned; also those of MPI_COMM_SELF and of calls without
 * one. */
static inline void mtest_errors_return(MPI_Comm comm)
{
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

#endif
