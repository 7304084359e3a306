/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory whose free is put off makes it short for no kind of allocation: of a pool, for mapping, with another size. Each rank frees during
 * captures, where frees are always put off, and allocates most of the GPU's memory next.
 */
#include "enqueue.h"

#define ROUNDS 60
#define N_BYTES ((size_t)4 << 20)

static CUstream stream;

static void take_mapped(void)
{
    CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemGenericAllocationHandle handle;

    GTEST_CU(cuCtxGetDevice(&wanted.location.id));
    GTEST_CU(cuMemCreate(&handle, N_BYTES, &wanted, 0));
    GTEST_CU(cuMemRelease(handle));
}

static void take_of_pool(void)
{
    CUdeviceptr memory;

    GTEST_CU(cuMemAllocAsync(&memory, N_BYTES, stream));
    GTEST_CU(cuMemFreeAsync(memory, stream));
    GTEST_CU(cuStreamSynchronize(stream));
}

static void take_larger(void)
{
    CUdeviceptr memory;

    GTEST_CU(cuMemAlloc(&memory, N_BYTES + 512));
    GTEST_CU(cuMemFree(memory));
}

static void (*const takes[])(void) = {take_mapped, take_of_pool, take_larger};

int main(int argc, char **argv)
{
    struct etest test;
    CUdeviceptr memory;
    CUgraph graph;

    mtest_init(&argc, &argv, 1);
    gtest_init();
    test = etest_begin(0, 0);
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < ROUNDS; i++) {
        GTEST_CU(cuMemAlloc(&memory, N_BYTES));
        GTEST_CU(cuStreamBeginCapture(test.cuda, CU_STREAM_CAPTURE_MODE_RELAXED));
        GTEST_CU(cuMemFree(memory));
        takes[i % 3]();
        GTEST_CU(cuStreamEndCapture(test.cuda, &graph));
        GTEST_CU(cuGraphDestroy(graph));
    }
    GTEST_CU(cuStreamDestroy(stream));
    etest_end(&test);
    return mtest_end();
}
