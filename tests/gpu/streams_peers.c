/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A copy between two devices in the default stream follows the earlier work of both, and later work of both follows it:
 * of their default streams and of their blocking streams.
 */
#include <pthread.h>

#include "kernels.h"

#define N 1024
#define BYTES (N * sizeof(unsigned))

static CUdeviceptr near, far; /* memory of GPU 1, where the copies are made, and of GPU 0 */
static CUstream blocking;     /* of GPU 0 */
static volatile unsigned *flag;

static CUresult copy_3d(CUdeviceptr to, CUdeviceptr from)
{
    CUDA_MEMCPY3D what = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = from,
                          .srcPitch = BYTES,
                          .srcHeight = 1,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstDevice = to,
                          .dstPitch = BYTES,
                          .dstHeight = 1,
                          .WidthInBytes = BYTES,
                          .Height = 1,
                          .Depth = 1};

    return cuMemcpy3DAsync(&what, NULL);
}

static const char *const names[] = {"cuMemcpyPeer",      "cuMemcpyPeerAsync", "cuMemcpyDtoD",   "cuMemcpy",
                                    "cuMemcpyDtoDAsync", "cuMemcpyAsync",     "cuMemcpy3DAsync"};

static void copy(int how, CUdeviceptr to, CUdeviceptr from)
{
    CUcontext to_context = gtest_contexts[to == near], from_context = gtest_contexts[from == near];

    GTEST_CU(how == 0   ? cuMemcpyPeer(to, to_context, from, from_context, BYTES)
             : how == 1 ? cuMemcpyPeerAsync(to, to_context, from, from_context, BYTES, NULL)
             : how == 2 ? cuMemcpyDtoD(to, from, BYTES)
             : how == 3 ? cuMemcpy(to, from, BYTES)
             : how == 4 ? cuMemcpyDtoDAsync(to, from, BYTES, NULL)
             : how == 5 ? cuMemcpyAsync(to, from, BYTES, NULL)
                        : copy_3d(to, from));
}

static void *let_go(void *arg)
{
    (void)arg;
    usleep(1000);
    *flag = 1;
    return NULL;
}

static pthread_t hold(CUstream stream)
{
    pthread_t thread;

    *flag = 0;
    gtest_launch_spin((CUdeviceptr)flag, stream);
    MTEST_CHECK(pthread_create(&thread, NULL, let_go, NULL) == 0, "no thread");
    return thread;
}

static void expect(CUdeviceptr memory, unsigned value, const char *name, const char *what)
{
    unsigned numbers[N];

    gtest_select(memory == near ? GTEST_GPU1 : GTEST_GPU0);
    GTEST_CU(cuMemcpyDtoH(numbers, memory, sizeof numbers));
    MTEST_CHECK(numbers[0] == value && numbers[N - 1] == value, "%s %s: %u and %u instead of %u", name, what,
                numbers[0], numbers[N - 1], value);
}

static void set(CUdeviceptr memory, unsigned value)
{
    gtest_select(memory == near ? GTEST_GPU1 : GTEST_GPU0);
    GTEST_CU(cuMemsetD32(memory, value, N));
    GTEST_CU(cuCtxSynchronize());
}

/* stream: of GPU 0 */
static void test(int how, CUstream stream, CUfunction spin[2])
{
    pthread_t thread;

    set(near, 1);
    set(far, 2);
    gtest_select(GTEST_GPU0);
    gtest_spin = spin[0];
    thread = hold(stream);
    GTEST_CU(cuMemsetD32Async(far, 3, N, stream));
    gtest_select(GTEST_GPU1);
    copy(how, near, far);
    expect(near, 3, names[how], "after work of the source's device");
    pthread_join(thread, NULL);

    set(near, 4);
    gtest_spin = spin[1];
    thread = hold(NULL);
    if (how == 0 || how == 3) /* they may wait */
        pthread_join(thread, NULL);
    copy(how, far, near);
    gtest_select(GTEST_GPU0);
    GTEST_CU(cuMemcpyDtoDAsync(far + BYTES, far, BYTES, stream));
    expect(far + BYTES, 4, names[how], "before work of the destination's device");
    if (how != 0 && how != 3)
        pthread_join(thread, NULL);
    expect(far, 4, names[how], "is made");
}

int main(int argc, char **argv)
{
    CUfunction spin[2];

    mtest_init(&argc, &argv, 1);
    gtest_init();
    if (gtest_n_devices < 2)
        mtest_skip("there is one GPU");
    gtest_select(GTEST_GPU1);
    gtest_load_kernels();
    spin[1] = gtest_spin;
    GTEST_CU(cuMemAlloc(&near, BYTES));
    gtest_select(GTEST_GPU0);
    gtest_load_kernels();
    spin[0] = gtest_spin;
    GTEST_CU(cuMemAlloc(&far, 2 * BYTES));
    GTEST_CU(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    flag = gtest_flag();
    for (int how = 0; how < (int)(sizeof names / sizeof names[0]); how++) {
        test(how, NULL, spin);
        test(how, blocking, spin);
    }
    return mtest_end();
}
