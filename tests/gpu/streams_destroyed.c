/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A thread of a rank destroys a stream while another one waits for all work of the context: the wait ends without an error,
 * and covers the work of the destroyed stream.
 */
#include <pthread.h>

#include "kernels.h"

static CUdeviceptr data;
static CUstream destroyed, running;
static volatile unsigned *flag;

static void *destroy(void *unused)
{
    (void)unused;
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
    usleep(20000); /* only so that the other thread waits */
    GTEST_CU(cuStreamDestroy(destroyed));
    *flag = 1;
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    unsigned got;

    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_load_kernels();
    flag = gtest_flag();
    GTEST_CU(cuMemAlloc(&data, 64));
    for (unsigned i = 1; i <= 5; i++) {
        *flag = 0;
        GTEST_CU(cuMemsetD32(data, 0, 16)); /* does not wait, and other streams do not wait for it */
        GTEST_CU(cuStreamSynchronize(NULL));
        GTEST_CU(cuStreamCreate(&destroyed, i % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
        GTEST_CU(cuStreamCreate(&running, CU_STREAM_NON_BLOCKING));
        gtest_launch_spin((CUdeviceptr)flag, running); /* waited for first, because it is newer */
        if (i > 2)
            gtest_launch_spin((CUdeviceptr)flag, destroyed);
        gtest_launch_update(data, 4, 1, i, destroyed);
        MTEST_CHECK(pthread_create(&thread, NULL, destroy, NULL) == 0, "no thread");
        GTEST_CU(cuCtxSynchronize());
        pthread_join(thread, NULL);
        GTEST_CU(cuMemcpyDtoH(&got, data, sizeof got));
        MTEST_CHECK(got == i, "the wait ended before the work of the destroyed stream: %u", got);
        GTEST_CU(cuStreamDestroy(running));
    }
    GTEST_CU(cuMemFree(data));
    GTEST_CU(cuMemFreeHost((void *)flag));
    return mtest_end();
}
