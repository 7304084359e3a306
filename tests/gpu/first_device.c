/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Every rank begins with the GPU of its PE (blocks of PEs, or as assigned by +gpus), including the rank whose
 * code loads CUDA's driver, as a CUDA runtime does at its first call. So does every thread of the rank, also one that uses CUDA
 * before the rank does. A rank keeps the GPU that it has chosen. Arguments: the number of PEs; GPUs by PE if +gpus names them;
 * or "thread": a thread is the first.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "mtest.h"

static void *library;

static int (*symbol(const char *name))()
{
    int (*found)();
    void *address = dlsym(library, name);

    MTEST_CHECK(address != NULL, "libcuda has no %s", name);
    memcpy(&found, &address, sizeof found);
    return found;
}

/* The device of the current context; 0 without one, as the CUDA runtime takes it. */
static int current_device(void)
{
    void *context = NULL;
    int device = 0;

    MTEST_CHECK(symbol("cuCtxGetCurrent")(&context) == 0, "cuCtxGetCurrent");
    if (context)
        MTEST_CHECK(symbol("cuCtxGetDevice")(&device) == 0, "cuCtxGetDevice");
    return device;
}

/* The number of GPUs. */
static int begin(void)
{
    int n_devices = 0;

    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        mtest_skip("no libcuda.so.1");
    if (symbol("cuInit")(0) != 0 || symbol("cuDeviceGetCount")(&n_devices) != 0 || n_devices == 0)
        mtest_skip("there is no GPU here");
    return n_devices;
}

static void *look(void *device)
{
    if (!library)
        begin();
    *(int *)device = current_device();
    return NULL;
}

/* That of a thread that has not chosen one. */
static int device_of_new_thread(void)
{
    pthread_t thread;
    int device = -1;

    MTEST_CHECK(pthread_create(&thread, NULL, look, &device) == 0, "pthread_create");
    pthread_join(thread, NULL);
    return device;
}

int main(int argc, char **argv)
{
    int n_pes, n_devices, expected, seen_first = -1;
    bool is_thread_first, is_listed;
    void *context;

    mtest_init(&argc, &argv, 1);
    n_pes = atoi(argv[1]);
    is_thread_first = argc > 2 && strcmp(argv[2], "thread") == 0;
    is_listed = argc > 2 && !is_thread_first;
    if (is_thread_first)
        seen_first = device_of_new_thread();
    for (int round = 0; round < 2; round++) {
        n_devices = begin();
        expected = is_listed ? argv[2][mtest_rank * n_pes / mtest_size] - '0'
                             : mtest_rank * n_pes / mtest_size * n_devices / n_pes;
        if (expected >= n_devices)
            mtest_skip("there are not so many GPUs here");
        MTEST_CHECK(!is_thread_first || seen_first == expected, "the first thread: GPU %d, expected %d",
                    seen_first, expected);
        MTEST_CHECK(current_device() == expected, "round %d: GPU %d, expected %d", round, current_device(),
                    expected);
        MTEST_CHECK(device_of_new_thread() == expected, "round %d, a thread: GPU %d, expected %d", round,
                    device_of_new_thread(), expected);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        MTEST_CHECK(current_device() == expected, "round %d, later: GPU %d, expected %d", round,
                    current_device(), expected);
    }
    MTEST_CHECK(symbol("cuDevicePrimaryCtxRetain")(&context, n_devices - 1) == 0, "cuDevicePrimaryCtxRetain");
    MTEST_CHECK(symbol("cuCtxSetCurrent")(context) == 0, "cuCtxSetCurrent");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_CHECK(current_device() == n_devices - 1, "what was chosen: GPU %d", current_device());
    MTEST_CHECK(device_of_new_thread() == expected, "a thread, later: GPU %d", device_of_new_thread());
    return mtest_end();
}
