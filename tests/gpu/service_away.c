/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A CUDA call that waits for the GPU first evicts the resident kernel, however the program has found the
 * function (the argument): linked with the driver, dlsym, cuGetProcAddress. All functions that free memory or
 * release a context do so on all PEs, and messages still arrive. With "private" as the second argument,
 * cuCtxSynchronize waits for the rank's streams only and evicts no kernel.
 */
#include <dlfcn.h>

#include "counter.h"
#include "device.h"
#include "fakecuda.h"

#define N_BYTES 1000
#define TRIPS 30
#define ROUNDS_MAX 3000

/* ---- The functions, found one way or another ---- */

static struct {
    CUresult(CUDAAPI *synchronize)(void);
    CUresult(CUDAAPI *free_device)(CUdeviceptr memory);
    CUresult(CUDAAPI *free_host)(void *memory);
    CUresult(CUDAAPI *unregister)(void *memory);
} calls;

static void *library;
static CUresult(CUDAAPI *get_address)(const char *, void **, int, cuuint64_t,
                                      CUdriverProcAddressQueryResult *);

static void *find(const char *way, const char *name, const char *versioned, int version)
{
    void *function = NULL;

    if (strcmp(way, "dlsym") == 0)
        return dlsym(library, versioned);
    GTEST_CU(get_address(name, &function, version, 0, NULL));
    return function;
}

static void find_all(const char *way)
{
    if (strcmp(way, "linked") == 0) {
        calls.synchronize = cuCtxSynchronize;
        calls.free_device = cuMemFree;
        calls.free_host = cuMemFreeHost;
        calls.unregister = cuMemHostUnregister;
        return;
    }
    library = dlopen("libcuda.so.1", RTLD_NOW);
    MTEST_CHECK(library, "%s", dlerror());
    *(void **)&get_address =
        strcmp(way, "linked address") == 0 ? (void *)cuGetProcAddress : dlsym(library, "cuGetProcAddress_v2");
    *(void **)&calls.synchronize = find(way, "cuCtxSynchronize", "cuCtxSynchronize", 2000);
    *(void **)&calls.free_device = find(way, "cuMemFree", "cuMemFree_v2", 12000);
    *(void **)&calls.free_host = find(way, "cuMemFreeHost", "cuMemFreeHost", 12000);
    *(void **)&calls.unregister = find(way, "cuMemHostUnregister", "cuMemHostUnregister", 12000);
}

/* ---- Messages ---- */

enum call { SYNCHRONIZE, FREE_DEVICE, FREE_HOST, UNREGISTER, N_CALLS };

/* One pair at a time: copies that start together do not call the kernel. */
static void exchange(char *buffer, int round)
{
    int partner = mtest_rank ^ 1;

    if (mtest_rank / 2 != round / N_CALLS % (mtest_size / 2))
        return;
    for (int i = 0; i < TRIPS; i++) {
        if (mtest_rank % 2 == 0) {
            MTEST_OK(MPI_Send(buffer, N_BYTES, MPI_BYTE, partner, 0, MPI_COMM_WORLD));
            MTEST_OK(MPI_Recv(buffer, N_BYTES, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else {
            MTEST_OK(MPI_Recv(buffer, N_BYTES, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MTEST_OK(MPI_Send(buffer, N_BYTES, MPI_BYTE, partner, 0, MPI_COMM_WORLD));
        }
    }
}

/* ---- Calls ---- */

/* Is it to send kernels away? */
static int must_send[N_CALLS] = {1, 1, 1, 1};

/* Rank 0, by itself: returns whether a kernel was sent away. */
static int sends_away(enum call call)
{
    static char page[8192];
    CUdeviceptr memory = 0;
    void *host = NULL, *registered = (void *)(((uintptr_t)page + 4095) & ~(uintptr_t)4095);
    unsigned long long before;

    if (call == FREE_DEVICE)
        GTEST_CU(cuMemAlloc(&memory, (size_t)4 << 20));
    else if (call == FREE_HOST)
        GTEST_CU(cuMemAllocHost(&host, (size_t)1 << 20));
    else if (call == UNREGISTER)
        GTEST_CU(cuMemHostRegister(registered, 4096, 0));
    before = gtest_counted();
    GTEST_CU(call == SYNCHRONIZE   ? calls.synchronize()
             : call == FREE_DEVICE ? calls.free_device(memory)
             : call == FREE_HOST   ? calls.free_host(host)
                                   : calls.unregister(registered));
    return gtest_counted() > before;
}

int main(int argc, char **argv)
{
    struct gtest_buffer buffer;
    char image[N_BYTES];
    int is_over = 0, n_seen = 0, seen[N_CALLS] = {0};
    long differs;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_count("heddle_gpu_service_sent_away");
    find_all(argc > 1 ? argv[1] : "linked");
    must_send[SYNCHRONIZE] = argc <= 2 || strcmp(argv[2], "private") != 0;
    mtest_fill(image, N_BYTES, (unsigned)mtest_rank / 2);
    buffer = gtest_alloc(GTEST_GPU0, N_BYTES, mtest_rank % 2 ? NULL : image);
    for (int round = 0; !is_over; round++) {
        enum call call = round % N_CALLS;
        exchange(buffer.data, round);
        if (mtest_rank == 0 && sends_away(call) && !seen[call]) {
            seen[call] = 1;
            n_seen += must_send[call];
        }
        is_over = (n_seen == N_CALLS - !must_send[SYNCHRONIZE] && round >= N_CALLS * (mtest_size / 2)) ||
                  round == ROUNDS_MAX;
        MTEST_OK(MPI_Bcast(&is_over, 1, MPI_INT, 0, MPI_COMM_WORLD));
    }
    for (int i = 0; i < N_CALLS && mtest_rank == 0; i++)
        MTEST_CHECK(seen[i] == must_send[i], "call %d sent %s kernel away", i, seen[i] ? "a" : "no");
    if (mtest_rank / 2 * 2 + 1 < mtest_size) {
        differs = gtest_differs(&buffer, image);
        MTEST_CHECK(differs == -1, "wrong at byte %ld", differs);
    }
    gtest_free(&buffer);
    return mtest_end();
}
