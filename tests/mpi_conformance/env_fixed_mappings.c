/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks that map memory with MAP_FIXED at addresses of their own have it for themselves, also after they have mapped it
 * again, and so have threads parts of their stacks, which the C library gives to later threads. With the argument "same" they choose the same address, which is reported, as is which remedy there is.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "mtest.h"

enum { N_BYTES = 1 << 20 };

static int *map(uintptr_t address)
{
    int *memory = mmap((void *)address, N_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

    MTEST_CHECK(memory == (int *)address, "mmap gave %p", (void *)memory);
    return memory;
}

/* Maps a part of the thread's stack below what is in use. */
static void *map_stack(void *arg)
{
    uintptr_t page = ((uintptr_t)&arg - 65536) & ~(uintptr_t)4095;

    return mmap((void *)page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void start_thread(void)
{
    pthread_t thread;
    void *mapped = MAP_FAILED;

    MTEST_CHECK(pthread_create(&thread, NULL, map_stack, NULL) == 0, "pthread_create");
    MTEST_CHECK(pthread_join(thread, &mapped) == 0 && mapped != MAP_FAILED, "a page of a stack");
}

int main(int argc, char **argv)
{
    uintptr_t address = 0x600000000000;
    int is_same, *memory;

    mtest_init(&argc, &argv, 1);
    is_same = argc > 1 && strcmp(argv[1], "same") == 0;
    if (!is_same)
        address += (uintptr_t)mtest_rank * 2 * N_BYTES;
    for (int round = 0; round < 3; round++) {
        memory = map(address);
        *memory = mtest_rank;
        MPI_Barrier(MPI_COMM_WORLD);
        if (!is_same)
            MTEST_CHECK(*memory == mtest_rank, "the memory has another rank's value %d", *memory);
        MPI_Barrier(MPI_COMM_WORLD);
        if (round == 1 && !is_same)
            MTEST_CHECK(munmap(memory, N_BYTES) == 0, "munmap");
    }
    for (int turn = 0; turn < mtest_size && !is_same; turn++) {
        if (turn == mtest_rank)
            start_thread();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return mtest_end();
}
