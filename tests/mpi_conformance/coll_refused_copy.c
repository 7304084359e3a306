/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives move data from and to memory that the kernel does not copy for other processes, although the program can
 * access it: secret memory (memfd_secret), and memory that was mapped for writing alone, which x86 reads
 * nevertheless. */
#include <stdbool.h>
#include <sys/mman.h>

#include "msecret.h"

#define BLOCK ((size_t)96 << 10)
#define RANKS_MAX 8
#define N_BYTES (BLOCK * RANKS_MAX)

/* The block of a rank for another one has this seed. */
static unsigned seed_of(int from, int to)
{
    return (unsigned)(from * RANKS_MAX + to);
}

static void fill(char *blocks)
{
    for (int to = 0; to < mtest_size; to++)
        mtest_fill(blocks + (size_t)to * BLOCK, BLOCK, seed_of(mtest_rank, to));
}

static void check(const char *call, const char *blocks, int i, unsigned seed)
{
    MTEST_CHECK(mtest_differs(blocks + (size_t)i * BLOCK, BLOCK, seed) < 0, "%s: block %d", call, i);
}

/* All calls, from `out`, which has been filled, to `in`. */
static void move(const char *out, char *in)
{
    int n = (int)BLOCK;

    for (int root = 0; root < mtest_size; root++) {
        void *data = mtest_rank == root ? (void *)(uintptr_t)out : in;
        memset(in, 0, N_BYTES);
        MTEST_OK(MPI_Bcast(data, n, MPI_BYTE, root, MPI_COMM_WORLD));
        check("MPI_Bcast", data, 0, seed_of(root, 0));
        MTEST_OK(MPI_Scatter(out, n, MPI_BYTE, in, n, MPI_BYTE, root, MPI_COMM_WORLD));
        check("MPI_Scatter", in, 0, seed_of(root, mtest_rank));
        MTEST_OK(MPI_Gather(out, n, MPI_BYTE, in, n, MPI_BYTE, root, MPI_COMM_WORLD));
        for (int i = 0; i < mtest_size && mtest_rank == root; i++)
            check("MPI_Gather", in, i, seed_of(i, 0));
    }
    MTEST_OK(MPI_Allgather(out, n, MPI_BYTE, in, n, MPI_BYTE, MPI_COMM_WORLD));
    for (int i = 0; i < mtest_size; i++)
        check("MPI_Allgather", in, i, seed_of(i, 0));
    MTEST_OK(MPI_Alltoall(out, n, MPI_BYTE, in, n, MPI_BYTE, MPI_COMM_WORLD));
    for (int i = 0; i < mtest_size; i++)
        check("MPI_Alltoall", in, i, seed_of(i, mtest_rank));
}

int main(int argc, char **argv)
{
    char *memory, *data;
    int has_secret, all_have;

    mtest_init(&argc, &argv, 1);
    memory = mmap(NULL, N_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MTEST_CHECK(memory != MAP_FAILED, "mmap failed");
    data = mtest_alloc(N_BYTES);
    fill(memory);
    if (mprotect(memory, N_BYTES, PROT_WRITE) != 0)
        MTEST_CHECK(0, "mprotect failed");
    move(memory, data);
    munmap(memory, N_BYTES);
    memory = msecret_map(N_BYTES);
    has_secret = memory != NULL;
    MTEST_OK(MPI_Allreduce(&has_secret, &all_have, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD));
    if (all_have) {
        fill(memory);
        move(memory, data);
        fill(data);
        move(data, memory);
    }
    if (mtest_rank == 0 && !all_have)
        printf("no secret memory on this machine\n");
    free(data);
    return mtest_end();
}
