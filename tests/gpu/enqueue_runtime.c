/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A process that finds the driver by dlsym, as CUDA's runtimes do: while it waits for a stream in CUDA, the operations of
 * MPI in that stream go on, also if the process has one rank, whose waits are CUDA's own otherwise. The same where it waits
 * for the context, or frees memory, which waits for the GPU.
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

int main(int argc, char **argv)
{
    CUcontext context;
    CUstream cuda;
    CUdeviceptr data, freed;
    MPI_Info info;
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
    MTEST_OK(MPI_Info_create(&info));
    MTEST_OK(MPI_Info_set(info, "type", "cudaStream_t"));
    MTEST_OK(MPIX_Info_set_hex(info, "value", &cuda, sizeof cuda));
    MTEST_OK(MPIX_Stream_create(info, &stream));
    MTEST_OK(MPI_Info_free(&info));
    MTEST_OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm));

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
    return mtest_end();
}
