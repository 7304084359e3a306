/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Stream queries answer as in plain CUDA, although each rank has its own default streams and none blocks the
 * driver's: flags and priorities are the requested ones, NULL is the legacy stream and has no other stream's
 * number, attributes are kept and copied, memory is attached in order, contexts and devices are right, and calls that CUDA refuses are
 * refused. On each GPU.
 */
#include "kernels.h"

static void check_one(CUstream stream, unsigned flags, int priority, int device, const char *name)
{
    unsigned got_flags = 99;
    int got_priority = 99;
    CUcontext context = NULL;

    GTEST_CU(cuStreamGetFlags(stream, &got_flags));
    GTEST_CU(cuStreamGetPriority(stream, &got_priority));
    GTEST_CU(cuStreamGetCtx(stream, &context));
    MTEST_CHECK(got_flags == flags, "%s: flags %u instead of %u", name, got_flags, flags);
    MTEST_CHECK(got_priority == priority, "%s: priority %d instead of %d", name, got_priority, priority);
    MTEST_CHECK(context == gtest_contexts[device], "%s: another context", name);
    GTEST_CU(cuStreamQuery(stream));
    GTEST_CU(cuStreamSynchronize(stream));
}

static unsigned long long id_of(CUstream stream)
{
    unsigned long long id = 0;

    GTEST_CU(cuStreamGetId(stream, &id));
    return id;
}

static void check_ids(CUstream first, CUstream second)
{
    unsigned long long ids[4] = {id_of(NULL), id_of(CU_STREAM_PER_THREAD), id_of(first), id_of(second)};

    MTEST_CHECK(id_of(CU_STREAM_LEGACY) == ids[0], "NULL and CU_STREAM_LEGACY are two streams");
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            MTEST_CHECK(ids[i] != ids[j], "streams %d and %d are one", i, j);
}

static void check_attributes(CUstream first, CUstream second)
{
    CUstreamAttrValue spin = {.syncPolicy = CU_SYNC_POLICY_SPIN}, got;

    GTEST_CU(cuStreamSetAttribute(first, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &spin));
    GTEST_CU(cuStreamCopyAttributes(second, first));
    memset(&got, 0, sizeof got);
    GTEST_CU(cuStreamGetAttribute(second, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &got));
    MTEST_CHECK(got.syncPolicy == CU_SYNC_POLICY_SPIN, "the attribute is %d", (int)got.syncPolicy);
    GTEST_CU(cuStreamGetAttribute(NULL, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &got));
    MTEST_CHECK(got.syncPolicy != CU_SYNC_POLICY_SPIN, "NULL has another stream's attribute");
}

static void check_refused(CUstream gone)
{
    CUstream stream;
    CUevent event;

    GTEST_CU(cuEventCreate(&event, 0));
    MTEST_CHECK(cuStreamCreate(&stream, 77) == CUDA_ERROR_INVALID_VALUE, "flags 77 are taken");
    MTEST_CHECK(cuStreamDestroy(NULL) != CUDA_SUCCESS, "NULL could be destroyed");
    MTEST_CHECK(cuStreamWaitEvent(NULL, event, 99) == CUDA_ERROR_INVALID_VALUE, "flags 99 are taken");
    MTEST_CHECK(cuMemcpyDtoDAsync(8, 16, 4, NULL) == CUDA_ERROR_INVALID_VALUE,
                "a copy from nowhere is taken");
    if (fakecuda_is_here()) /* the real driver need not notice */
        MTEST_CHECK(cuStreamQuery(gone) == CUDA_ERROR_INVALID_HANDLE, "a destroyed stream answers");
    GTEST_CU(cuEventDestroy(event));
}

/* Memory is attached in the order of the rank's default stream, and not to that stream alone. */
static void check_attached(CUstream stream)
{
    const char *name = "cuStreamAttachMemAsync";
    int n_legacy = fakecuda_is_here() ? fakecuda_calls_for(name, FAKECUDA_LEGACY) : 0;
    volatile unsigned *flag = gtest_flag();
    CUdeviceptr memory;

    GTEST_CU(cuMemAllocManaged(&memory, 4096, CU_MEM_ATTACH_GLOBAL));
    gtest_launch_spin((CUdeviceptr)flag, NULL);
    GTEST_CU(cuStreamAttachMemAsync(NULL, memory, 0, CU_MEM_ATTACH_GLOBAL));
    MTEST_CHECK(cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY, "the default stream did not wait");
    if (fakecuda_is_here() && mtest_size > 1)
        MTEST_CHECK(fakecuda_calls_for(name, FAKECUDA_LEGACY) == n_legacy,
                    "memory was attached in the default stream of the process");
    *flag = 1;
    GTEST_CU(cuStreamSynchronize(NULL));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD)); /* no rank counts any more */
    MTEST_CHECK(cuStreamAttachMemAsync(NULL, memory, 0, CU_MEM_ATTACH_SINGLE) == CUDA_ERROR_INVALID_VALUE,
                "memory was attached to NULL alone");
    GTEST_CU(cuStreamAttachMemAsync(stream, memory, 0, CU_MEM_ATTACH_SINGLE));
    GTEST_CU(cuStreamSynchronize(stream));
    GTEST_CU(cuMemFree(memory));
    GTEST_CU(cuMemFreeHost((void *)(uintptr_t)flag));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void check_device(int device)
{
    CUstream blocking, urgent;
    int least, greatest;

    GTEST_CU(cuCtxSetCurrent(gtest_contexts[device]));
    GTEST_CU(cuCtxGetStreamPriorityRange(&least, &greatest));
    GTEST_CU(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    GTEST_CU(cuStreamCreateWithPriority(&urgent, CU_STREAM_NON_BLOCKING, greatest));
    for (int i = 0; i < 3; i++) {
        check_one(NULL, CU_STREAM_DEFAULT, 0, device, "NULL");
        check_one(CU_STREAM_LEGACY, CU_STREAM_DEFAULT, 0, device, "legacy");
        check_one(CU_STREAM_PER_THREAD, CU_STREAM_DEFAULT, 0, device, "per-thread");
        check_one(blocking, CU_STREAM_DEFAULT, 0, device, "blocking");
        check_one(urgent, CU_STREAM_NON_BLOCKING, greatest, device, "urgent");
        check_ids(blocking, urgent);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    check_attributes(blocking, urgent);
    if (device == 0) /* where the kernel is */
        check_attached(blocking);
    GTEST_CU(cuStreamDestroy(urgent));
    GTEST_CU(cuStreamDestroy(blocking));
    check_refused(blocking);
}

/* No two ranks have a stream in common. */
static void check_ranks(void)
{
    unsigned long long own[2] = {id_of(NULL), id_of(CU_STREAM_PER_THREAD)};
    unsigned long long *all = mtest_alloc((size_t)mtest_size * sizeof own);

    MTEST_OK(MPI_Allgather(own, 2, MPI_UNSIGNED_LONG_LONG, all, 2, MPI_UNSIGNED_LONG_LONG, MPI_COMM_WORLD));
    for (int i = 0; i < 2 * mtest_size; i++)
        for (int j = 0; j < i; j++)
            MTEST_CHECK(all[i] != all[j], "ranks %d and %d have one stream", i / 2, j / 2);
    free(all);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_load_kernels();
    for (int i = 0; i < gtest_n_devices; i++)
        check_device((i + mtest_rank) % gtest_n_devices);
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
    check_ranks();
    return mtest_end();
}
