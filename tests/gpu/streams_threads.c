/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Threads that a rank starts have streams of their own (CU_STREAM_PER_THREAD, and NULL of functions *_ptsz):
 * while a kernel runs in one thread's stream, the other threads' and the other ranks' work is done.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "kernels.h"

#define N 200
#define N_THREADS 3
#define ROUNDS 20
#define ADDITIONS 200

/* Names that cuda.h has only for programs that are compiled for streams of threads. */
static CUresult(CUDAAPI *synchronize_ptsz)(CUstream stream);
static CUresult(CUDAAPI *set_ptsz)(CUdeviceptr to, unsigned value, size_t n, CUstream stream);

static CUcontext context;
static CUdeviceptr sum;
static volatile unsigned *flag;
static pthread_barrier_t barrier;

struct thread {
    pthread_t handle;
    CUdeviceptr memory;
    int number; /* 1: it uses functions *_ptsz */
    unsigned wrong;
};

static CUresult wait_for(const struct thread *thread)
{
    return thread->number == 1 ? synchronize_ptsz(NULL) : cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

static void use_stream(struct thread *thread)
{
    static const unsigned expected = 15;
    unsigned numbers[N];

    for (int i = 0; i < ROUNDS; i++) {
        GTEST_CU(thread->number == 1 ? set_ptsz(thread->memory, 3, N, NULL)
                                     : cuMemsetD32Async(thread->memory, 3, N, CU_STREAM_PER_THREAD));
        gtest_launch_update(thread->memory, N, 2, 1, CU_STREAM_PER_THREAD);
        gtest_launch_update(thread->memory, N, 2, 1, CU_STREAM_PER_THREAD);
        GTEST_CU(wait_for(thread));
        GTEST_CU(cuMemcpyDtoHAsync(numbers, thread->memory, sizeof numbers, CU_STREAM_PER_THREAD));
        thread->wrong += numbers[0] != expected || numbers[N - 1] != expected;
    }
}

/* The first thread's kernel runs until the others have done all their work. */
static void *run_thread(void *arg)
{
    struct thread *thread = arg;

    GTEST_CU(cuCtxSetCurrent(context));
    if (thread->number == 0)
        gtest_launch_spin((CUdeviceptr)flag, CU_STREAM_PER_THREAD);
    pthread_barrier_wait(&barrier);
    if (thread->number != 0)
        use_stream(thread);
    pthread_barrier_wait(&barrier);
    if (thread->number == 0) {
        MTEST_CHECK(cuStreamQuery(CU_STREAM_PER_THREAD) == CUDA_ERROR_NOT_READY, "the kernel is over");
        *flag = 1;
        GTEST_CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
        use_stream(thread);
    }
    for (int i = 0; i < ADDITIONS; i++) /* all threads, in the stream NULL that they share */
        gtest_launch_update(sum, 1, 1, 1, NULL);
    if (thread->number == 1)
        GTEST_CU(cuStreamSynchronize(NULL));
    return NULL;
}

static void find_functions(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);

    MTEST_CHECK(driver, "%s", dlerror());
    *(void **)&synchronize_ptsz = dlsym(driver, "cuStreamSynchronize_ptsz");
    *(void **)&set_ptsz = dlsym(driver, "cuMemsetD32Async_ptsz");
    MTEST_CHECK(synchronize_ptsz && set_ptsz, "the driver lacks functions");
}

int main(int argc, char **argv)
{
    static struct thread threads[N_THREADS];
    unsigned total = 0;

    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_load_kernels();
    find_functions();
    GTEST_CU(cuCtxGetCurrent(&context));
    flag = gtest_flag();
    GTEST_CU(cuMemAlloc(&sum, sizeof total));
    GTEST_CU(cuMemsetD32(sum, 0, 1));
    GTEST_CU(cuCtxSynchronize());
    pthread_barrier_init(&barrier, NULL, N_THREADS);
    for (int i = 0; i < N_THREADS; i++) {
        threads[i].number = i;
        GTEST_CU(cuMemAlloc(&threads[i].memory, N * sizeof(unsigned)));
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < N_THREADS; i++)
        MTEST_CHECK(pthread_create(&threads[i].handle, NULL, run_thread, &threads[i]) == 0, "no thread");
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i].handle, NULL);
        MTEST_CHECK(threads[i].wrong == 0, "thread %d: %u of %d rounds are wrong", i, threads[i].wrong,
                    ROUNDS);
    }
    GTEST_CU(cuMemcpyDtoH(&total, sum, sizeof total));
    MTEST_CHECK(total == N_THREADS * ADDITIONS, "%u additions instead of %d", total, N_THREADS * ADDITIONS);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    return mtest_end();
}
