/* SPDX-License-Identifier: BSD-3-Clause */
/* Put, get and accumulate reach memory that the kernel does not copy for other processes, although the program can access it:
 * secret memory (memfd_secret), and memory that was mapped for writing alone, which x86 reads nevertheless. The
 * memory of devices is of this kind as well. */
#include <stdbool.h>
#include <sys/mman.h>

#include "msecret.h"

#define N_BYTES ((size_t)1 << 20)

static void move(char *memory, bool has_put)
{
    int next = (mtest_rank + 1) % mtest_size, before = (mtest_rank + mtest_size - 1) % mtest_size;
    char *data = mtest_alloc(N_BYTES);
    MPI_Request request;
    MPI_Win win;

    mtest_fill(memory, N_BYTES, (unsigned)mtest_rank);
    mtest_fill(data, N_BYTES, (unsigned)mtest_rank + 100);
    MTEST_OK(MPI_Win_create(memory, N_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    if (!has_put && mprotect(memory, N_BYTES, PROT_WRITE) != 0)
        MTEST_CHECK(0, "mprotect failed");
    MTEST_OK(MPI_Win_fence(0, win));
    if (has_put)
        MTEST_OK(MPI_Put(data, N_BYTES, MPI_BYTE, next, 0, N_BYTES, MPI_BYTE, win));
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Get(data, N_BYTES, MPI_BYTE, next, 0, N_BYTES, MPI_BYTE, win));
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_CHECK(mtest_differs(data, N_BYTES, (unsigned)(has_put ? mtest_rank + 100 : next)) < 0, "get");
    if (has_put)
        MTEST_CHECK(mtest_differs(memory, N_BYTES, (unsigned)before + 100) < 0, "put");
    memset(data, 0, N_BYTES);
    MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win));
    MTEST_OK(MPI_Rget(data, N_BYTES, MPI_BYTE, next, 0, N_BYTES, MPI_BYTE, win, &request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Win_unlock(next, win));
    MTEST_CHECK(mtest_differs(data, N_BYTES, (unsigned)(has_put ? mtest_rank + 100 : next)) < 0, "Rget");
    MTEST_OK(MPI_Win_free(&win));
    free(data);
}

/* Adds to the next rank's memory from memory of which the kernel refuses everything behind the first bytes. */
static void add(char *from, size_t n_readable)
{
    int next = (mtest_rank + 1) % mtest_size, before = (mtest_rank + mtest_size - 1) % mtest_size;
    int n = (int)(N_BYTES / sizeof(long));
    long *memory = mtest_alloc(N_BYTES), *data = (long *)(void *)from;
    MPI_Win win;

    for (int i = 0; i < n; i++) {
        data[i] = i + mtest_rank;
        memory[i] = 1000000;
    }
    MTEST_OK(MPI_Win_create(memory, N_BYTES, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    if (n_readable < N_BYTES && mprotect(from + n_readable, N_BYTES - n_readable, PROT_WRITE) != 0)
        MTEST_CHECK(0, "mprotect failed");
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Accumulate(data, n, MPI_LONG, next, 0, n, MPI_LONG, MPI_SUM, win));
    MTEST_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < n; i++)
        if (memory[i] != 1000000 + i + before) {
            MTEST_CHECK(0, "element %d is %ld, not %d", i, memory[i], 1000000 + i + before);
            break;
        }
    if (n_readable < N_BYTES)
        mprotect(from, N_BYTES, PROT_READ | PROT_WRITE);
    MTEST_OK(MPI_Win_free(&win));
    free(memory);
}

int main(int argc, char **argv)
{
    char *memory;
    int has_secret, all_have;

    mtest_init(&argc, &argv, 1);
    memory = mmap(NULL, N_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MTEST_CHECK(memory != MAP_FAILED, "mmap failed");
    add(memory, 0);
    add(memory, N_BYTES / 4);
    move(memory, false);
    munmap(memory, N_BYTES);
    memory = msecret_map(N_BYTES);
    has_secret = memory != NULL;
    MTEST_OK(MPI_Allreduce(&has_secret, &all_have, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD));
    if (all_have) {
        move(memory, true);
        add(memory, N_BYTES);
    }
    if (mtest_rank == 0 && !all_have)
        printf("no secret memory on this machine\n");
    return mtest_end();
}
