/* SPDX-License-Identifier: BSD-3-Clause
 *
 * During collectives through NCCL, ranks and threads of the program continuously make calls that wait for a
 * GPU: cudaMalloc, cudaFree and cudaDeviceSynchronize. Nothing hangs and sums are right. Argument: seconds;
 * default 1.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "nccl.h"

#define COUNT 1000000
#define THREADS 3

static atomic_bool is_over;
static CUcontext context;
static long n_calls[THREADS];

static void call_some(unsigned *seed)
{
    CUdeviceptr memory;

    GTEST_CU(cuMemAlloc(&memory, (size_t)4096 << rand_r(seed) % 12));
    GTEST_CU(cuMemFree(memory));
    if (rand_r(seed) % 4 == 0)
        GTEST_CU(cuCtxSynchronize());
}

static void *call_all_the_time(void *arg)
{
    long index = (long)arg;
    unsigned seed = (unsigned)index + 1;

    GTEST_CU(cuCtxSetCurrent(context));
    while (!is_over) {
        call_some(&seed);
        n_calls[index]++;
        usleep((useconds_t)(rand_r(&seed) % 200));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    double limit_s, began;
    struct gtest_buffer buffer;
    unsigned seed;
    int n_rounds = 0, is_more = 1, *image;
    long n_all = 0;

    mtest_init(&argc, &argv, 2);
    limit_s = argc > 1 ? atof(argv[1]) : 1;
    nccl_init(0);
    seed = (unsigned)mtest_rank * 99 + 1;
    image = mtest_alloc(COUNT * sizeof *image);
    buffer = gtest_alloc(nccl_place, COUNT * sizeof *image, NULL);
    gtest_select(nccl_place);
    GTEST_CU(cuCtxGetCurrent(&context));
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, call_all_the_time, (void *)i) != 0)
            abort();
    began = MPI_Wtime();
    while (is_more) {
        MPI_Request request;
        for (int i = 0; i < COUNT; i++)
            image[i] = i % 1000 + n_rounds % 7;
        gtest_set(&buffer, image);
        MTEST_OK(
            MPI_Iallreduce(MPI_IN_PLACE, buffer.data, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
        for (int i = 0; i < 3; i++) /* blocks the PE */
            call_some(&seed);
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (int i = 0; i < COUNT; i++)
            image[i] *= mtest_size;
        MTEST_CHECK(gtest_differs(&buffer, image) == -1, "round %d: the sum is wrong", n_rounds);
        n_rounds++;
        is_more = MPI_Wtime() - began < limit_s;
        MTEST_OK(MPI_Bcast(&is_more, 1, MPI_INT, 0, MPI_COMM_WORLD));
    }
    is_over = true;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        n_all += n_calls[i];
    }
    MTEST_CHECK(nccl_count() > 0, "NCCL has done nothing");
    if (mtest_rank == 0)
        printf("# %d rounds, %llu operations through NCCL, %ld allocations of rank 0's threads\n", n_rounds,
               nccl_count(), n_all);
    return mtest_end();
}
