/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A process that finds the driver by dlsym, as CUDA's runtimes do: while it waits for a stream in CUDA, the operations of
 * MPI in that stream go on, also if the process has one rank, whose waits are CUDA's own otherwise. The same where it waits
 * for the context, or frees memory, which waits for the GPU. But cuMemsetD32 of memory that MPI does not know returns behind a
 * stream that waits for a message, as CUDA's own does: the message comes only then.
 */
#include <cuda.h>
#include <dlfcn.h>

#include "mtest.h"

static void *driver;

/* cuda.h's macros give the names of the current versions. */
#define AS_TEXT(name) AS_TEXT_2(name)
#define AS_TEXT_2(name) #name
#define FIND(name) __typeof__(&name) call_##name = (__typeof__(&name))dlsym(driver, AS_TEXT(name))
#define CU(call) MTEST_CHECK((call) == CUDA_SUCCESS, "%s", #call)

static MPI_Comm stream_comm(CUstream cuda, MPIX_Stream *stream)
{
    MPI_Info info;
    MPI_Comm comm;

    MTEST_OK(MPI_Info_create(&info));
    MTEST_OK(MPI_Info_set(info, "type", "cudaStream_t"));
    MTEST_OK(MPIX_Info_set_hex(info, "value", &cuda, sizeof cuda));
    MTEST_OK(MPIX_Stream_create(info, stream));
    MTEST_OK(MPI_Info_free(&info));
    MTEST_OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, *stream, &comm));
    return comm;
}

/* Rank 1 sends what the blocking stream of rank 0 waits for when the default stream of rank 0 has a memset behind that. */
static void memset_behind_wait(void)
{
    FIND(cuStreamCreate);
    FIND(cuStreamSynchronize);
    FIND(cuStreamDestroy);
    FIND(cuMemAlloc);
    FIND(cuMemFree);
    FIND(cuMemsetD32);
    FIND(cuMemcpyDtoH);
    CUstream blocking;
    CUdeviceptr data, fresh;
    MPIX_Stream stream;
    MPI_Comm comm;
    int value = 0;

    CU(call_cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    CU(call_cuMemAlloc(&data, sizeof(int)));
    comm = stream_comm(blocking, &stream);
    if (mtest_rank == 0) {
        MTEST_OK(MPIX_Recv_enqueue((void *)data, 1, MPI_INT, 1, 1, comm, MPI_STATUS_IGNORE));
        CU(call_cuMemAlloc(&fresh, sizeof(int)));
        CU(call_cuMemsetD32(fresh, 42, 1));
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 1, 2, MPI_COMM_WORLD));
        CU(call_cuMemcpyDtoH(&value, fresh, sizeof value));
        MTEST_CHECK(value == 42, "%d instead of 42", value);
        CU(call_cuMemFree(fresh));
    } else if (mtest_rank == 1) {
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MTEST_OK(MPIX_Send_enqueue((void *)data, 1, MPI_INT, 0, 1, comm));
    }
    CU(call_cuStreamSynchronize(blocking));
    MTEST_OK(MPI_Comm_free(&comm));
    MTEST_OK(MPIX_Stream_free(&stream));
    CU(call_cuMemFree(data));
    CU(call_cuStreamDestroy(blocking));
}

int main(int argc, char **argv)
{
    CUcontext context;
    CUstream cuda;
    CUdeviceptr data, freed;
    MPIX_Stream stream;
    MPI_Comm comm;
    int next, before, value = 0;

    mtest_init(&argc, &argv, 1);
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        mtest_skip("there is no driver here");
    FIND(cuInit);
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuCtxSetCurrent);
    FIND(cuStreamCreate);
    FIND(cuStreamSynchronize);
    FIND(cuCtxSynchronize);
    FIND(cuMemAlloc);
    FIND(cuMemFree);
    FIND(cuMemsetD32Async);
    FIND(cuMemcpyDtoHAsync);
    if (call_cuInit(0) != CUDA_SUCCESS)
        mtest_skip("there is no GPU here");
    CU(call_cuDevicePrimaryCtxRetain(&context, 0));
    CU(call_cuCtxSetCurrent(context));
    CU(call_cuStreamCreate(&cuda, CU_STREAM_NON_BLOCKING));
    CU(call_cuMemAlloc(&data, 2 * sizeof(int)));
    comm = stream_comm(cuda, &stream);

    next = (mtest_rank + 1) % mtest_size;
    before = (mtest_rank + mtest_size - 1) % mtest_size;
    for (int i = 0; i < 20; i++) {
        MPI_Request request;
        CU(call_cuMemsetD32Async(data, (unsigned)(100 * i + mtest_rank), 1, cuda));
        MTEST_OK(MPIX_Isend_enqueue((void *)data, 1, MPI_INT, next, 0, comm, &request));
        MTEST_OK(
            MPIX_Recv_enqueue((char *)data + sizeof(int), 1, MPI_INT, before, 0, comm, MPI_STATUS_IGNORE));
        MTEST_OK(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
        if (i % 3 == 1)
            CU(call_cuCtxSynchronize());
        if (i % 3 == 2) {
            CU(call_cuMemAlloc(&freed, 4096));
            CU(call_cuMemFree(freed));
        }
        CU(call_cuMemcpyDtoHAsync(&value, data + sizeof(int), sizeof value, cuda));
        CU(call_cuStreamSynchronize(cuda));
        MTEST_CHECK(value == 100 * i + before, "round %d: %d came from rank %d", i, value, before);
    }
    MTEST_OK(MPI_Comm_free(&comm));
    MTEST_OK(MPIX_Stream_free(&stream));
    if (mtest_size > 1)
        memset_behind_wait();
    return mtest_end();
}
