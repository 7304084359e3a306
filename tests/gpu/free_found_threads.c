/* SPDX-License-Identifier: BSD-3-Clause
 *
 * In a process with one rank that finds all functions of the driver by dlsym, as a runtime does: a thread frees memory while another
 * adds operations to a stream whose messages depend on those; both go on.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "found.h"

#define N 3000
#define FREES 200

static CUcontext context;
static MPI_Comm comm;
static atomic_bool is_done;

static void *free_often(void *unused)
{
    FIND(cuCtxSetCurrent);
    FIND(cuMemAlloc);
    FIND(cuMemFree);
    CUdeviceptr memory;

    CU(call_cuCtxSetCurrent(context));
    for (int i = 0; i < FREES; i++) {
        CU(call_cuMemAlloc(&memory, 4096));
        CU(call_cuMemFree(memory));
    }
    is_done = true;
    return unused;
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    found_open();
    FIND(cuInit);
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuCtxSetCurrent);
    FIND(cuStreamCreate);
    FIND(cuStreamSynchronize);
    FIND(cuMemAlloc);
    CUstream cuda;
    CUdeviceptr from, to;
    MPIX_Stream stream;
    pthread_t thread;

    if (call_cuInit(0) != CUDA_SUCCESS)
        mtest_skip("there is no GPU here");
    CU(call_cuDevicePrimaryCtxRetain(&context, 0));
    CU(call_cuCtxSetCurrent(context));
    CU(call_cuStreamCreate(&cuda, CU_STREAM_NON_BLOCKING));
    CU(call_cuMemAlloc(&from, N * 4));
    CU(call_cuMemAlloc(&to, N * 4));
    found_make_stream(&cuda, &stream, &comm);
    MTEST_CHECK(pthread_create(&thread, NULL, free_often, NULL) == 0, "a thread");
    while (!is_done) {
        MTEST_OK(MPIX_Allreduce_enqueue((void *)from, (void *)to, N, MPI_UNSIGNED, MPI_SUM, comm));
        CU(call_cuStreamSynchronize(cuda));
    }
    pthread_join(thread, NULL);
    MTEST_OK(MPI_Comm_free(&comm));
    MTEST_OK(MPIX_Stream_free(&stream));
    return mtest_end();
}
