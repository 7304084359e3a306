/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank loads CUDA's driver between the start of a collective and its own PE's share of packing: that share is packed
 * nevertheless. Needs two processes of two PEs with a rank each. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "mtest.h"

#define N_BYTES (256 << 10) /* from each to each */

/* The first rank of a process starts the exchange, because the second one has arrived before; then the second one loads
 * CUDA before it calls MPI again. */
struct turns {
    atomic_bool has_arrived, has_begun;
};

/* Not by a function that lets other ranks run. */
static void await(const atomic_bool *flag)
{
    struct timespec pause = {.tv_nsec = 100000};

    while (!atomic_load(flag))
        syscall(SYS_nanosleep, &pause, NULL);
}

static void load_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    static const char *const names[] = {"cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain",
                                        "cuCtxSetCurrent"};
    int (*functions[4])();
    void *context = NULL;
    int device = 0;

    if (!library) {
        MTEST_CHECK(0, "libcuda.so.1 cannot be loaded");
        return;
    }
    for (int i = 0; i < 4; i++) {
        void *found = dlsym(library, names[i]);
        memcpy(&functions[i], &found, sizeof found);
    }
    MTEST_CHECK(functions[0](0) == 0 && functions[1](&device, 0) == 0 &&
                    functions[2](&context, device) == 0 && functions[3](context) == 0,
                "no context");
}

/* Ranks 0 and 1 in one process, 2 and 3 in another, each on a PE, which is a thread, of its own. */
static void check_places(void)
{
    long own[2] = {syscall(SYS_getpid), syscall(SYS_gettid)}, all[4][2];

    MTEST_OK(MPI_Allgather(own, 2, MPI_LONG, all, 2, MPI_LONG, MPI_COMM_WORLD));
    if (all[0][0] != all[1][0] || all[2][0] != all[3][0] || all[0][0] == all[2][0] ||
        all[0][1] == all[1][1] || all[2][1] == all[3][1])
        mtest_skip("needs two processes of two PEs");
}

int main(int argc, char **argv)
{
    static struct turns own;
    struct turns *turns = &own;
    MPI_Request request;
    uint64_t address = (uintptr_t)&own;
    unsigned char *send, *recv;
    bool is_second;

    mtest_init(&argc, &argv, 4);
    check_places();
    is_second = mtest_rank % 2 == 1;
    if (is_second)
        MTEST_OK(MPI_Send(&address, 1, MPI_UINT64_T, mtest_rank - 1, 0, MPI_COMM_WORLD));
    else
        MTEST_OK(MPI_Recv(&address, 1, MPI_UINT64_T, mtest_rank + 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    turns = (struct turns *)(uintptr_t)address;
    send = mtest_alloc((size_t)mtest_size * N_BYTES);
    recv = mtest_alloc((size_t)mtest_size * N_BYTES);
    for (int r = 0; r < mtest_size; r++)
        mtest_fill(send + (size_t)r * N_BYTES, N_BYTES, (unsigned)(mtest_rank * mtest_size + r));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (!is_second)
        await(&turns->has_arrived);
    MTEST_OK(MPI_Ialltoall(send, N_BYTES, MPI_BYTE, recv, N_BYTES, MPI_BYTE, MPI_COMM_WORLD, &request));
    atomic_store(is_second ? &turns->has_arrived : &turns->has_begun, true);
    if (is_second) {
        await(&turns->has_begun);
        load_driver();
    }
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int r = 0; r < mtest_size; r++)
        MTEST_CHECK(
            mtest_differs(recv + (size_t)r * N_BYTES, N_BYTES, (unsigned)(r * mtest_size + mtest_rank)) < 0,
            "the data of rank %d", r);
    free(recv);
    free(send);
    return mtest_end();
}
