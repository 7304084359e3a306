/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where waits in CUDA are not intercepted, more streams of MPI than the GPU has connections are reported, once: waits
 * of some may hold up others.
 */
#include "enqueue.h"

#define STREAMS 20

int main(int argc, char **argv)
{
    MPIX_Stream streams[STREAMS];
    CUstream made[STREAMS];

    mtest_init(&argc, &argv, 2);
    gtest_init();
    for (int i = 0; i < STREAMS; i++) {
        GTEST_CU(cuStreamCreate(&made[i], CU_STREAM_NON_BLOCKING));
        streams[i] = etest_stream(made[i]);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < STREAMS; i++) {
        MTEST_OK(MPIX_Stream_free(&streams[i]));
        GTEST_CU(cuStreamDestroy(made[i]));
    }
    return mtest_end();
}
