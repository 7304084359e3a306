/* SPDX-License-Identifier: BSD-3-Clause */
/* A limit of the size of files (ulimit -f) does not end the job, although memory that processes share is in files:
 * large data arrives, and windows larger than the limit have memory, or raise an error if it has to be shared. */
#include <sys/resource.h>

#include "mtest.h"

#define LIMIT_BYTES ((MPI_Aint)64 << 20)
#define WINDOW_BYTES (LIMIT_BYTES + (16 << 20))
#define BLOCK_BYTES (256 << 10)

static void limit_files(void)
{
    struct rlimit limit;

    MTEST_CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0, "getrlimit failed");
    limit.rlim_cur = LIMIT_BYTES;
    MTEST_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit failed");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void gather_large(void)
{
    char *mine = mtest_alloc(BLOCK_BYTES), *all = mtest_alloc((size_t)mtest_size * BLOCK_BYTES);

    mtest_fill(mine, BLOCK_BYTES, (unsigned)mtest_rank);
    for (int round = 0; round < 4; round++) { /* the first ones would create the shared memory */
        MTEST_OK(MPI_Allgather(mine, BLOCK_BYTES, MPI_BYTE, all, BLOCK_BYTES, MPI_BYTE, MPI_COMM_WORLD));
        for (int r = 0; r < mtest_size; r++)
            MTEST_CHECK(mtest_differs(all + (size_t)r * BLOCK_BYTES, BLOCK_BYTES, (unsigned)r) < 0, "rank %d",
                        r);
    }
    free(all);
    free(mine);
}

static void use_window(void)
{
    int next = (mtest_rank + 1) % mtest_size, before = (mtest_rank + mtest_size - 1) % mtest_size;
    char *base, data[1000];
    MPI_Win win;

    MTEST_OK(MPI_Win_allocate(WINDOW_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    mtest_fill(data, sizeof data, (unsigned)mtest_rank);
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Put(data, sizeof data, MPI_BYTE, next, WINDOW_BYTES - (MPI_Aint)sizeof data, sizeof data,
                     MPI_BYTE, win));
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_CHECK(mtest_differs(base + WINDOW_BYTES - sizeof data, sizeof data, (unsigned)before) < 0, "put");
    MTEST_OK(MPI_Win_free(&win));
}

static void ask_for_shared(void)
{
    MPI_Win win = MPI_WIN_NULL;
    char *base;
    int error;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    error = MPI_Win_allocate_shared(WINDOW_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    if (error) {
        MTEST_CLASS2(error, MPI_ERR_NO_MEM, MPI_ERR_RMA_SHARED);
        return;
    }
    base[WINDOW_BYTES - 1] = 1;
    MTEST_OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    limit_files();
    gather_large();
    use_window();
    ask_for_shared();
    return mtest_end();
}
