/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a rank has registered with CUDA and not unregistered is registered no more when the rank has ended, as with a process:
 * another rank may register memory that contains it. Argument: how rank 1 ends ("return", "exit", "late": while a kernel of
 * rank 0 runs).
 */
#include <sys/mman.h>

#include "kernels.h"

#define PAGE 65536 /* a multiple of the page's size */

static char left[2 * PAGE] __attribute__((aligned(4096))); /* the rank's own */

/* Rank 1 leaves registrations of two kinds of memory. */
static void leave(char *shared)
{
    GTEST_CU(cuMemHostRegister(shared + PAGE, PAGE, CU_MEMHOSTREGISTER_PORTABLE));
    GTEST_CU(cuMemHostRegister(left, sizeof left, 0));
}

/* All of the memory, a part of which rank 1 has registered. */
static int can_register(char *shared)
{
    return cuMemHostRegister(shared, 3 * PAGE, 0) == CUDA_SUCCESS;
}

int main(int argc, char **argv)
{
    char *shared = NULL;
    volatile unsigned *flag;
    int is_late = argc > 1 && strcmp(argv[1], "late") == 0, result;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_load_kernels();
    flag = gtest_flag();
    if (mtest_rank == 0)
        shared = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MTEST_OK(MPI_Bcast(&shared, sizeof shared, MPI_BYTE, 0, MPI_COMM_WORLD));
    if (mtest_rank == 1)
        leave(shared);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0) {
        MTEST_CHECK(!can_register(shared), "a part of the memory is registered already");
        if (is_late)
            gtest_launch_spin((CUdeviceptr)flag, NULL);
    }
    result = mtest_end();
    if (mtest_rank == 1 && argc > 1 && strcmp(argv[1], "exit") == 0)
        exit(result);
    if (mtest_rank != 0)
        return result;
    usleep(is_late ? 20000 : 0); /* only so that rank 1 meets the kernel */
    *flag = 1;
    for (int i = 0; i < 20000; i++) { /* the limit of a failure */
        if (can_register(shared))
            return cuMemHostUnregister(shared) == CUDA_SUCCESS ? result : 1;
        usleep(1000);
    }
    fprintf(stderr, "memory of a rank that has ended is still registered\n");
    return 1;
}
