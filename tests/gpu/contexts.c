/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank has its own CUDA context state: the context stack (push, pop, create, destroy, interleaved with
 * other ranks), retain counts, peer access, and resets. After a reset or too many releases, other ranks'
 * memory and small device messages still work, also at the end. So do messages after a rank has destroyed the context in which the
 * earlier ones began.
 */
#include <pthread.h>

#include "device.h"
#include "fakecuda.h"

#define ROUNDS 40
#define N_BYTES 8
#define TRIPS 60

/* ---- The stack ---- */

static CUcontext current(void)
{
    CUcontext context = NULL;

    GTEST_CU(cuCtxGetCurrent(&context));
    return context;
}

/* Lets the other ranks run. */
static void let_others_run(void)
{
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Each rank pushes and pops other contexts than its neighbor, and switches at every step. */
static void stacks(void)
{
    CUcontext own[3], popped, before = gtest_contexts[mtest_rank % gtest_n_devices];

    GTEST_CU(cuCtxSetCurrent(before));
    for (int i = 0; i < 3; i++) {
        GTEST_CU(cuCtxCreate(&own[i], NULL, 0, (mtest_rank + i) % gtest_n_devices));
        let_others_run();
        MTEST_CHECK(current() == own[i], "context %d is not current after it was made", i);
    }
    for (int i = 2; i >= 0; i--) {
        GTEST_CU(cuCtxPopCurrent(&popped));
        MTEST_CHECK(popped == own[i], "%d: another context was popped", i);
        let_others_run();
        MTEST_CHECK(current() == (i > 0 ? own[i - 1] : before), "%d: another context came up", i);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int depth = (mtest_rank * 3 + round) % 5;
        for (int i = 0; i < depth; i++) {
            GTEST_CU(cuCtxPushCurrent(own[(i + mtest_rank) % 3]));
            let_others_run();
        }
        for (int i = depth; i < 5; i++)
            let_others_run();
        for (int i = depth - 1; i >= 0; i--) {
            MTEST_CHECK(current() == own[(i + mtest_rank) % 3], "round %d, depth %d: not what was pushed",
                        round, i);
            GTEST_CU(i % 2 ? cuCtxSetCurrent(NULL) : cuCtxPopCurrent(&popped));
            let_others_run();
        }
        for (int i = depth; i < 5; i++)
            let_others_run();
        MTEST_CHECK(current() == before, "round %d: not what was below", round);
    }
    GTEST_CU(cuCtxPushCurrent(own[0]));
    let_others_run();
    GTEST_CU(cuCtxDestroy(own[0]));
    MTEST_CHECK(current() == before, "a destroyed context has not given way");
    GTEST_CU(cuCtxDestroy(own[1]));
    GTEST_CU(cuCtxDestroy(own[2]));
    GTEST_CU(cuCtxSetCurrent(NULL));
    let_others_run();
    MTEST_CHECK(current() == NULL && cuCtxPopCurrent(&popped) == CUDA_ERROR_INVALID_CONTEXT,
                "an empty stack has a context");
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
}

/* The first destruction of a context fails (FAKECUDA_FAIL): it stays current. */
static void fail(void)
{
    CUcontext own;

    if (!fakecuda_is_here())
        mtest_skip("needs the fake driver");
    let_others_run();
    if (mtest_rank == 0) {
        GTEST_CU(cuCtxCreate(&own, NULL, 0, 0));
        MTEST_CHECK(cuCtxDestroy(own) == CUDA_ERROR_UNKNOWN, "a destruction does not fail");
        MTEST_CHECK(current() == own, "a context that was not destroyed is not current");
        GTEST_CU(cuCtxDestroy(own));
    }
    let_others_run();
}

/* ---- Primary contexts ---- */

/* Small messages between GPU buffers: the kernel that stays does them, if it is there. */
static void exchange(char *buffer)
{
    int partner = mtest_rank ^ 1;

    for (int i = 0; i < TRIPS && partner < mtest_size; i++) {
        if (mtest_rank % 2 == 0) {
            MTEST_OK(MPI_Send(buffer, N_BYTES, MPI_BYTE, partner, 0, MPI_COMM_WORLD));
            MTEST_OK(MPI_Recv(buffer, N_BYTES, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else {
            MTEST_OK(MPI_Recv(buffer, N_BYTES, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MTEST_OK(MPI_Send(buffer, N_BYTES, MPI_BYTE, partner, 0, MPI_COMM_WORLD));
        }
    }
}

static void check_wrong_devices(void)
{
    static const CUdevice wrong[] = {-1, -2, -3, 63, 64, 65, 1000, 1 << 30};

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CUresult released = cuDevicePrimaryCtxRelease(wrong[i]), reset = cuDevicePrimaryCtxReset(wrong[i]);
        MTEST_CHECK(released == CUDA_ERROR_INVALID_DEVICE && reset == CUDA_ERROR_INVALID_DEVICE,
                    "device %d: released %d, reset %d", wrong[i], released, reset);
    }
}

/* Not a rank: calls that a runtime makes at the end. */
static void *release_in_thread(void *result_out)
{
    *(CUresult *)result_out = cuDevicePrimaryCtxRelease(0);
    return NULL;
}

static void release_all(void)
{
    CUresult result = CUDA_ERROR_UNKNOWN;
    pthread_t thread;

    MTEST_CHECK(pthread_create(&thread, NULL, release_in_thread, &result) == 0, "no thread");
    pthread_join(thread, NULL);
    MTEST_CHECK(result == CUDA_SUCCESS, "a thread could not release what the rank has retained: %d", result);
    GTEST_CU(cuDevicePrimaryCtxRelease(0));
    MTEST_CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_ERROR_INVALID_CONTEXT,
                "a device could be released more often than it was retained");
}

/* Enabling peer access succeeds once at each rank, and disabling it, too, without taking it from others. */
static void peers(void)
{
    int can = 0;

    if (gtest_n_devices > 1)
        GTEST_CU(cuDeviceCanAccessPeer(&can, 0, 1));
    if (!can)
        return;
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
    let_others_run();
    GTEST_CU(cuCtxEnablePeerAccess(gtest_contexts[1], 0));
    let_others_run();
    MTEST_CHECK(cuCtxEnablePeerAccess(gtest_contexts[1], 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
                "peer access could be enabled twice");
    let_others_run();
    GTEST_CU(cuCtxDisablePeerAccess(gtest_contexts[1]));
    let_others_run();
    MTEST_CHECK(cuCtxDisablePeerAccess(gtest_contexts[1]) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
                "peer access could be disabled twice");
}

/* A function with a stream that the library does not know is reported (with +v). */
static void look_for_unknown(void)
{
    void *function = NULL;

    GTEST_CU(cuGetProcAddress("cuFutureAsync", &function, CUDA_VERSION, 0, NULL));
}

/* Between memory of the host and of a GPU in a context of the rank's own. A GPU needs up to a second for a context. */
static void exchange_in_own(size_t n_bytes)
{
    int other = mtest_rank ^ 1, n_rounds = fakecuda_is_here() ? ROUNDS : 2;
    char *data = mtest_alloc(n_bytes), *got = mtest_alloc(n_bytes);
    CUcontext own;
    CUdeviceptr memory;

    for (int i = 0; i < n_rounds; i++) {
        memset(data, mtest_rank + i, n_bytes);
        GTEST_CU(cuCtxCreate(&own, NULL, 0, 0));
        GTEST_CU(cuMemAlloc(&memory, n_bytes));
        MTEST_OK(MPI_Sendrecv(data, (int)n_bytes, MPI_BYTE, other, 0, (void *)memory, (int)n_bytes, MPI_BYTE,
                              other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        GTEST_CU(cuMemcpyDtoH(got, memory, n_bytes));
        MTEST_CHECK(got[n_bytes - 1] == other + i, "round %d: received %d", i, got[n_bytes - 1]);
        GTEST_CU(cuMemFree(memory));
        GTEST_CU(cuCtxDestroy(own));
    }
    free(data);
    free(got);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "stacks";
    struct gtest_buffer buffer;
    char image[N_BYTES] = "message";
    int resets;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    if (strcmp(what, "stacks") == 0) {
        stacks();
        peers();
        return mtest_end();
    }
    if (strcmp(what, "own") == 0) {
        for (size_t n_bytes = 1000; n_bytes <= 1000000 && mtest_rank < 2; n_bytes *= 10)
            exchange_in_own(n_bytes);
        return mtest_end();
    }
    if (strcmp(what, "fail") == 0) {
        fail();
        return mtest_end();
    }
    if (strcmp(what, "unknown") == 0) {
        if (!fakecuda_is_here())
            mtest_skip("needs the fake driver");
        look_for_unknown();
        return mtest_end();
    }
    resets = strcmp(what, "all") == 0 || mtest_rank == 1;
    buffer = gtest_alloc(GTEST_GPU0, N_BYTES, image);
    exchange(buffer.data);
    check_wrong_devices();
    exchange(buffer.data);
    if (resets && strcmp(what, "all") != 0)
        GTEST_CU(cuDevicePrimaryCtxReset(0));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (strcmp(what, "release") == 0)
        release_all();
    exchange(buffer.data);
    MTEST_CHECK(resets || gtest_differs(&buffer, image) == -1, "this rank's memory was changed");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (resets)
        GTEST_CU(cuDevicePrimaryCtxReset(0));
    return mtest_end();
}
