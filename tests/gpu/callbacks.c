/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Host functions in a stream, also in stream NULL, run once each, after the preceding and before the
 * following work; callbacks get the stream that the program passed, and a rank that waits for them sees their
 * effects.
 */
#include "kernels.h"

#define N 64
#define ROUNDS 40

struct seen {
    const unsigned *numbers; /* pinned */
    unsigned expected, wrong, calls;
    CUstream stream;
    bool has_other_stream;
};

static void look(struct seen *seen)
{
    seen->calls++;
    for (int i = 0; i < N; i++)
        seen->wrong += seen->numbers[i] != seen->expected;
    seen->expected = 2 * seen->expected + 1;
}

static void CUDA_CB look_as_function(void *arg)
{
    look(arg);
}

static void CUDA_CB look_as_callback(CUstream stream, CUresult result, void *arg)
{
    struct seen *seen = arg;

    seen->has_other_stream |= stream != seen->stream;
    seen->wrong += result != CUDA_SUCCESS;
    look(arg);
}

static void run(CUstream stream, const char *name)
{
    struct seen seen = {.expected = 3, .stream = stream};
    CUdeviceptr memory;
    void *pinned;

    GTEST_CU(cuMemAlloc(&memory, N * sizeof(unsigned)));
    GTEST_CU(cuMemAllocHost(&pinned, N * sizeof(unsigned)));
    seen.numbers = pinned;
    GTEST_CU(cuMemsetD32Async(memory, 1, N, stream));
    for (int i = 0; i < ROUNDS; i++) {
        gtest_launch_update(memory, N, 2, 1, stream);
        GTEST_CU(cuMemcpyDtoHAsync(pinned, memory, N * sizeof(unsigned), stream));
        GTEST_CU(i % 2 ? cuLaunchHostFunc(stream, look_as_function, &seen)
                       : cuStreamAddCallback(stream, look_as_callback, &seen, 0));
        if (i % 8 == 7)
            MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    GTEST_CU(cuStreamSynchronize(stream));
    MTEST_CHECK(seen.calls == ROUNDS && seen.wrong == 0, "%s: %u calls, %u wrong numbers", name, seen.calls,
                seen.wrong);
    MTEST_CHECK(!seen.has_other_stream, "%s: a callback was given another stream", name);
    GTEST_CU(cuMemFreeHost(pinned));
    GTEST_CU(cuMemFree(memory));
}

int main(int argc, char **argv)
{
    CUstream blocking, own;

    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_load_kernels();
    GTEST_CU(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    GTEST_CU(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    run(NULL, "NULL");
    run(CU_STREAM_LEGACY, "legacy");
    run(CU_STREAM_PER_THREAD, "per-thread");
    run(blocking, "blocking");
    run(own, "non-blocking");
    return mtest_end();
}
