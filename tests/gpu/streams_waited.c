/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cuCtxSynchronize waits for the per-thread streams of a rank's other threads and for streams of green contexts, and the
 * default stream waits for the former.
 */
#include <pthread.h>

#include "kernels.h"

#define N 64

static CUcontext context;
static CUdeviceptr memory;
static volatile unsigned *flag;
static pthread_barrier_t barrier;

/* A kernel that waits, and one that shows that it has been waited for. */
static void work_in(CUstream stream)
{
    *flag = 0;
    gtest_launch_spin((CUdeviceptr)flag, stream);
    gtest_launch_update(memory, N, 1, 1, stream);
}

/* A wait that is missing ends earlier. */
static void *let_go(void *arg)
{
    (void)arg;
    usleep(5000);
    *flag = 1;
    return NULL;
}

/* Stays, as a thread of OpenMP does, until the main thread has looked. */
static void *use_own_stream(void *arg)
{
    GTEST_CU(cuCtxSetCurrent(context));
    work_in(CU_STREAM_PER_THREAD);
    pthread_barrier_wait(&barrier);
    if (!arg)
        let_go(NULL);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static unsigned value(void)
{
    unsigned *copy, got;

    GTEST_CU(cuMemAllocHost((void **)&copy, sizeof *copy));
    GTEST_CU(cuMemcpyDtoHAsync(copy, memory, sizeof *copy, NULL));
    GTEST_CU(cuStreamSynchronize(NULL));
    got = *copy;
    GTEST_CU(cuMemFreeHost(copy));
    return got;
}

static pthread_t start(void *(*run)(void *), void *arg)
{
    pthread_t thread;

    MTEST_CHECK(pthread_create(&thread, NULL, run, arg) == 0, "no thread");
    return thread;
}

static void test_threads(void)
{
    unsigned before = value();
    pthread_t thread = start(use_own_stream, NULL);

    pthread_barrier_wait(&barrier);
    GTEST_CU(cuCtxSynchronize());
    MTEST_CHECK(*flag == 1, "cuCtxSynchronize did not wait for a thread's stream");
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    thread = start(use_own_stream, NULL);
    pthread_barrier_wait(&barrier);
    MTEST_CHECK(value() == before + 2, "the default stream did not wait for a thread's stream");
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
}

/* The streams of threads that have ended are waited for, too, and used again. */
static void test_ended_threads(void)
{
    unsigned before = value();
    int n_created = fakecuda_is_here() ? fakecuda_calls("cuStreamCreateWithPriority") : 0;
    pthread_t thread;

    for (int i = 0; i < 8; i++) {
        thread = start(use_own_stream, &thread);
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        pthread_join(thread, NULL);
        thread = start(let_go, NULL);
        MTEST_CHECK(value() == before + (unsigned)i + 1,
                    "the default stream did not wait for an ended thread");
        pthread_join(thread, NULL);
    }
    MTEST_CHECK(!fakecuda_is_here() || fakecuda_calls("cuStreamCreateWithPriority") < n_created + 8,
                "threads leave streams behind");
}

static void test_green_context(void)
{
    CUdevResource all, part;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CUstream stream;
    CUdevice device;
    unsigned n = 1;
    pthread_t thread;

    GTEST_CU(cuCtxGetDevice(&device));
    GTEST_CU(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
    GTEST_CU(cuDevSmResourceSplitByCount(&part, &n, &all, NULL, 0, fakecuda_is_here() ? 2 : 16));
    GTEST_CU(cuDevResourceGenerateDesc(&desc, &part, 1));
    GTEST_CU(cuGreenCtxCreate(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM));
    for (int i = 0; i < 3; i++) {
        GTEST_CU(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
        work_in(stream);
        if (i == 1)
            GTEST_CU(cuStreamDestroy(stream)); /* its work continues */
        thread = start(let_go, NULL);
        GTEST_CU(cuCtxSynchronize());
        MTEST_CHECK(*flag == 1, "cuCtxSynchronize did not wait for a green context's stream");
        pthread_join(thread, NULL);
    }
    GTEST_CU(cuGreenCtxDestroy(green));
    GTEST_CU(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_load_kernels();
    GTEST_CU(cuCtxGetCurrent(&context));
    GTEST_CU(cuMemAlloc(&memory, N * sizeof(unsigned)));
    GTEST_CU(cuMemsetD32(memory, 0, N));
    flag = gtest_flag();
    pthread_barrier_init(&barrier, NULL, 2);
    test_threads();
    test_ended_threads();
    test_green_context();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return mtest_end();
}
