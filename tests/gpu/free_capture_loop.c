/* SPDX-License-Identifier: BSD-3-Clause
 *
 * All ranks allocate and free during captures, again and again: the memory of frees that are put off does not make it short.
 */
#include "enqueue.h"

#define ROUNDS 300
#define N_BYTES ((size_t)4 << 20)

int main(int argc, char **argv)
{
    struct etest test;
    CUdeviceptr memory;
    CUstream stream;
    CUgraph graph;

    mtest_init(&argc, &argv, 1);
    gtest_init();
    test = etest_begin(0, 0);
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < ROUNDS; i++) {
        GTEST_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
        GTEST_CU(cuMemAlloc(&memory, N_BYTES));
        GTEST_CU(cuMemFree(memory));
        GTEST_CU(cuStreamEndCapture(stream, &graph));
        GTEST_CU(cuGraphDestroy(graph));
    }
    GTEST_CU(cuStreamDestroy(stream));
    etest_end(&test);
    return mtest_end();
}
