/* SPDX-License-Identifier: BSD-3-Clause
 *
 * enqueue.h: common parts of the tests of operations in streams: streams and their communicators, and a
 * kernel that keeps a stream from going on.
 */
#ifndef GPU_TEST_ENQUEUE_H
#define GPU_TEST_ENQUEUE_H

#include <sys/stat.h>

#include "kernels.h"
#include "mpi-ext.h"

static inline MPI_Info etest_info(CUstream stream)
{
    MPI_Info info;

    MTEST_OK(MPI_Info_create(&info));
    MTEST_OK(MPI_Info_set(info, "type", "cudaStream_t"));
    MTEST_OK(MPIX_Info_set_hex(info, "value", &stream, sizeof stream));
    return info;
}

static inline MPIX_Stream etest_stream(CUstream stream)
{
    MPI_Info info = etest_info(stream);
    MPIX_Stream made = MPIX_STREAM_NULL;

    MTEST_OK(MPIX_Stream_create(info, &made));
    MTEST_OK(MPI_Info_free(&info));
    return made;
}

/* A stream, as CUDA and MPI have it, with a communicator of all ranks. */
struct etest {
    CUstream cuda;
    MPIX_Stream stream;
    MPI_Comm comm;
    volatile unsigned *flag; /* lets a held stream go on */
};

/* is_default: the default stream; is_null: this rank has no CUDA stream. Collective. */
static inline struct etest etest_begin(int is_default, int is_null)
{
    struct etest test = {.flag = gtest_flag()};

    if (!is_default)
        GTEST_CU(cuStreamCreate(&test.cuda, CU_STREAM_NON_BLOCKING));
    test.stream = is_null ? MPIX_STREAM_NULL : etest_stream(test.cuda);
    MTEST_OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, test.stream, &test.comm));
    return test;
}

/* Collective. */
static inline void etest_end(struct etest *test)
{
    MTEST_OK(MPI_Comm_free(&test->comm));
    if (test->stream != MPIX_STREAM_NULL)
        MTEST_OK(MPIX_Stream_free(&test->stream));
    MTEST_CHECK(test->stream == MPIX_STREAM_NULL, "the handle of a freed stream");
    if (test->cuda)
        GTEST_CU(cuStreamDestroy(test->cuda));
    GTEST_CU(cuMemFreeHost((void *)test->flag));
}

/* A kernel that runs until etest_release. */
static inline void etest_hold(struct etest *test)
{
    *test->flag = 0;
    gtest_launch_spin((CUdeviceptr)test->flag, test->cuda);
}

/* All that was enqueued since etest_hold was enqueued without waiting for it; and now waits for it. */
static inline void etest_release(struct etest *test)
{
    MTEST_CHECK(cuStreamQuery(test->cuda) == CUDA_ERROR_NOT_READY, "the held stream is done");
    *test->flag = 1;
    GTEST_CU(cuStreamSynchronize(test->cuda));
}

/* Device memory of n zeros. */
static inline CUdeviceptr etest_alloc(unsigned n)
{
    CUdeviceptr address;

    GTEST_CU(cuMemAlloc(&address, n * sizeof(unsigned)));
    GTEST_CU(cuMemsetD32(address, 0, n));
    GTEST_CU(cuCtxSynchronize());
    return address;
}

/* Checks that all n elements have this value. */
static inline void etest_expect(CUdeviceptr address, unsigned n, unsigned value, const char *what)
{
    unsigned *got = mtest_alloc(n * sizeof *got), wrong = 0;

    GTEST_CU(cuMemcpyDtoH(got, address, n * sizeof *got));
    while (wrong < n && got[wrong] == value)
        wrong++;
    MTEST_CHECK(wrong == n, "%s: element %u of %u is %u, not %u", what, wrong, n, got[wrong], value);
    free(got);
}

/* The values of all ranks of a ring after a step: each changes its own, and mixes in those of its left and right neighbors. */
static inline void etest_halo_step(unsigned *values)
{
    unsigned *next = mtest_alloc((size_t)mtest_size * sizeof *values);

    for (int i = 0; i < mtest_size; i++)
        values[i] = 3 * values[i] + (unsigned)i + 1;
    for (int i = 0; i < mtest_size; i++)
        next[i] =
            5 * (5 * values[i] + values[(i + mtest_size - 1) % mtest_size]) + values[(i + 1) % mtest_size];
    memcpy(values, next, (size_t)mtest_size * sizeof *values);
    free(next);
}

/* Lets the other ranks of the PE run for some time, in which the library writes a report; longer if stderr is a file, as it is in
 * tests, that is still empty: on a busy machine a report may be late. */
static inline void etest_yield_until_report(double usual_s)
{
    struct stat file;

    for (double since = MPI_Wtime(), limit_s = usual_s; MPI_Wtime() - since < limit_s;) {
        MTEST_OK(AMPI_Yield());
        limit_s = fstat(STDERR_FILENO, &file) == 0 && S_ISREG(file.st_mode) && file.st_size == 0
                      ? 10 * usual_s
                      : usual_s;
    }
}

#endif
