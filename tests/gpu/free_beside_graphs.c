/* SPDX-License-Identifier: BSD-3-Clause
 *
 * In a process with one rank, cudaFree and cudaDeviceSynchronize wait for what CUDA makes them wait for, not for another GPU,
 * nor for launches that come later. A launch counts in its stream's context, whichever is current, and the driver's queue may be
 * full.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "mtest.h"

#define BUSY_BYTES ((size_t)4 << 20)
#define N_BUSY 20 /* launches under way */

static void *driver;
static CUcontext contexts[2]; /* the same twice with one GPU */
static CUstream stream;
static CUdeviceptr data;
static MPIX_Stream mpi_stream;
static MPI_Comm comm;

/* cuda.h's macros give the names of the current versions. */
#define AS_TEXT(name) AS_TEXT_2(name)
#define AS_TEXT_2(name) #name
#define CALL(name) ((__typeof__(&name))dlsym(driver, AS_TEXT(name)))
#define CU(call) MTEST_CHECK((call) == CUDA_SUCCESS, "%s", #call)

/* Runtimes look waits up at once. */
static void open_driver(void)
{
    int n_devices = 0;

    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        mtest_skip("there is no driver here");
    MTEST_CHECK(CALL(cuStreamSynchronize) && CALL(cuCtxSynchronize), "the driver has no waits");
    if (CALL(cuInit)(0) != CUDA_SUCCESS)
        mtest_skip("there is no GPU here");
    CU(CALL(cuDeviceGetCount)(&n_devices));
    CU(CALL(cuDevicePrimaryCtxRetain)(&contexts[0], 0));
    CU(CALL(cuDevicePrimaryCtxRetain)(&contexts[1], n_devices > 1));
    CU(CALL(cuCtxSetCurrent)(contexts[1]));
}

static void begin(void)
{
    MPI_Info info;

    CU(CALL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
    CU(CALL(cuMemAlloc)(&data, sizeof(int)));
    MTEST_OK(MPI_Info_create(&info));
    MTEST_OK(MPI_Info_set(info, "type", "cudaStream_t"));
    MTEST_OK(MPIX_Info_set_hex(info, "value", &stream, sizeof stream));
    MTEST_OK(MPIX_Stream_create(info, &mpi_stream));
    MTEST_OK(MPI_Info_free(&info));
    MTEST_OK(MPIX_Stream_comm_create(MPI_COMM_SELF, mpi_stream, &comm));
}

static void end(void)
{
    MTEST_OK(MPI_Comm_free(&comm));
    MTEST_OK(MPIX_Stream_free(&mpi_stream));
    CU(CALL(cuMemFree)(data));
    CU(CALL(cuStreamDestroy)(stream));
}

static CUdeviceptr allocate(CUcontext context, size_t n_bytes)
{
    CUdeviceptr made;

    CU(CALL(cuCtxSetCurrent)(context));
    CU(CALL(cuMemAlloc)(&made, n_bytes));
    return made;
}

static CUgraphExec end_capture(CUstream captured)
{
    CUgraph graph;
    CUgraphExec exec;

    CU(CALL(cuStreamEndCapture)(captured, &graph));
    CU(CALL(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    CU(CALL(cuGraphDestroy)(graph));
    return exec;
}

/* A barrier, which the PE serves at each launch. */
static CUgraphExec capture_barrier(void)
{
    CU(CALL(cuStreamBeginCapture)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    MTEST_OK(MPIX_Barrier_enqueue(comm));
    return end_capture(stream);
}

/* A stream of the second GPU waits for a message that is sent after the waits for the first one. */
static void wait_for_other_device(void)
{
    CUdeviceptr freed = allocate(contexts[0], 4096);
    int value = 5;

    CU(CALL(cuCtxSetCurrent)(contexts[1]));
    MTEST_OK(MPIX_Recv_enqueue((void *)data, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE));
    CU(CALL(cuCtxSetCurrent)(contexts[0]));
    CU(CALL(cuCtxSynchronize)());
    CU(CALL(cuMemFree)(freed));
    MTEST_OK(MPI_Send(&value, 1, MPI_INT, 0, 1, comm));
    CU(CALL(cuCtxSetCurrent)(contexts[1]));
    value = 0;
    CU(CALL(cuMemcpyDtoHAsync)(&value, data, sizeof value, stream));
    CU(CALL(cuStreamSynchronize)(stream));
    MTEST_CHECK(value == 5, "%d instead of 5", value);
}

static void launch_from_other_device(CUgraphExec exec)
{
    CUdeviceptr freed = allocate(contexts[1], 4096);

    CU(CALL(cuCtxSetCurrent)(contexts[0]));
    CU(CALL(cuGraphLaunch)(exec, stream));
    CU(CALL(cuCtxSetCurrent)(contexts[1]));
    CU(CALL(cuMemFree)(freed));
    CU(CALL(cuStreamSynchronize)(stream));
}

static void launch_many(CUgraphExec exec)
{
    for (int i = 0; i < 1100; i++)
        CU(CALL(cuGraphLaunch)(exec, stream));
    CU(CALL(cuStreamSynchronize)(stream));
}

/* ---- Launches without an end ---- */

static _Atomic int n_launched;
static _Atomic bool is_over;

static void *keep_busy(void *unused)
{
    CUdeviceptr memory = allocate(contexts[1], BUSY_BYTES);
    CUevent events[N_BUSY];
    CUstream busy;
    CUgraphExec exec;

    (void)unused;
    CU(CALL(cuStreamCreate)(&busy, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < N_BUSY; i++)
        CU(CALL(cuEventCreate)(&events[i], CU_EVENT_DISABLE_TIMING));
    CU(CALL(cuStreamBeginCapture)(busy, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU(CALL(cuMemsetD8Async)(memory, 1, BUSY_BYTES, busy));
    exec = end_capture(busy);
    while (!is_over) {
        CUevent event = events[n_launched % N_BUSY];
        CU(CALL(cuEventSynchronize)(event));
        CU(CALL(cuGraphLaunch)(exec, busy));
        CU(CALL(cuEventRecord)(event, busy));
        n_launched++;
    }
    CU(CALL(cuStreamSynchronize)(busy));
    for (int i = 0; i < N_BUSY; i++)
        CU(CALL(cuEventDestroy)(events[i]));
    CU(CALL(cuGraphExecDestroy)(exec));
    CU(CALL(cuStreamDestroy)(busy));
    CU(CALL(cuMemFree)(memory));
    return NULL;
}

static void free_beside_thread(void)
{
    CUdeviceptr freed = allocate(contexts[1], 4096);
    pthread_t thread;

    MTEST_CHECK(pthread_create(&thread, NULL, keep_busy, NULL) == 0, "no thread");
    while (n_launched < 2 * N_BUSY)
        sched_yield();
    CU(CALL(cuMemFree)(freed));
    CU(CALL(cuCtxSynchronize)());
    is_over = true;
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    CUgraphExec exec;

    mtest_init(&argc, &argv, 1);
    open_driver();
    begin();
    if (contexts[0] != contexts[1])
        wait_for_other_device();
    exec = capture_barrier();
    launch_from_other_device(exec);
    launch_many(exec);
    free_beside_thread();
    CU(CALL(cuGraphExecDestroy)(exec));
    end();
    return mtest_end();
}
