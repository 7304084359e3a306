/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A job ends correctly while a CUDA call of a rank, made on another thread, waits in the driver for a running
 * kernel: by MPI_Abort or exit of another rank, by exit on a thread of the rank itself, and by a signal. The
 * argument chooses the way. CUDA itself would let the kernel finish a few seconds later.
 */
#include <pthread.h>
#include <signal.h>

#include "kernels.h"

static volatile unsigned *flag;

static void *end_of_thread(void *arg)
{
    (void)arg;
    usleep(100000); /* the call has begun, most likely; if not, it begins within the end */
    exit(3);
}

/* The kernel does not end by itself. */
static void wait_in_driver(bool has_thread)
{
    CUdeviceptr memory;
    pthread_t thread;

    GTEST_CU(cuMemAlloc(&memory, 64));
    gtest_launch_spin((CUdeviceptr)flag, NULL);
    if (has_thread)
        pthread_create(&thread, NULL, end_of_thread, NULL);
    else
        gtest_send_flag(flag, 1);
    (void)cuMemFree(memory);
    MTEST_CHECK(false, "cuMemFree has not waited for the kernel");
}

int main(int argc, char **argv)
{
    const char *end = argc > 1 ? argv[1] : "abort";

    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_load_kernels();
    flag = gtest_flag();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0)
        wait_in_driver(strcmp(end, "thread") == 0);
    if (strcmp(end, "thread") == 0)
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    (void)gtest_recv_flag(0);
    if (strcmp(end, "abort") == 0)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (strcmp(end, "exit") == 0)
        exit(4);
    raise(SIGTERM);
    return 0;
}
