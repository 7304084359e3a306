/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Dynamic windows: operations go to addresses that the target has attached, may span adjacent regions or,
 * with a type of absolute addresses, several regions, and go nowhere else (argument "errors": memory that is
 * not attached is refused, by the call or the next synchronisation, which also ends the epoch for the others).
 */
#include "mtest.h"

enum { N = 64 };

static int next, previous;

static void check_reach(MPI_Win win)
{
    int *first = mtest_alloc(N * sizeof(int)), *second = mtest_alloc(N * sizeof(int)), mine[2 * N];
    int lengths[2] = {N, N};
    MPI_Aint at[2], theirs[2];
    MPI_Datatype both;

    for (int i = 0; i < N; i++)
        first[i] = second[i] = -1;
    for (int i = 0; i < 2 * N; i++)
        mine[i] = mtest_rank * 1000 + i;
    MTEST_OK(MPI_Win_attach(win, first, N / 2 * sizeof(int)));
    MTEST_OK(MPI_Win_attach(win, first + N / 2, N / 2 * sizeof(int)));
    MTEST_OK(MPI_Win_attach(win, second, N * sizeof(int)));
    MPI_Get_address(first, &at[0]);
    MPI_Get_address(second, &at[1]);
    MPI_Sendrecv(at, 2, MPI_AINT, previous, 0, theirs, 2, MPI_AINT, next, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MTEST_OK(MPI_Win_lock_all(0, win));
    MTEST_OK(MPI_Put(mine, N, MPI_INT, next, theirs[0], N, MPI_INT, win));
    MTEST_OK(MPI_Win_flush(next, win));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < N; i++)
        MTEST_CHECK(first[i] == previous * 1000 + i, "element %d is %d", i, first[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Type_create_hindexed(2, lengths, theirs, MPI_INT, &both);
    MPI_Type_commit(&both);
    MTEST_OK(MPI_Accumulate(mine, 2 * N, MPI_INT, next, (MPI_Aint)MPI_BOTTOM, 1, both, MPI_SUM, win));
    MTEST_OK(MPI_Win_flush(next, win));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < N; i++) {
        MTEST_CHECK(first[i] == 2 * (previous * 1000 + i), "element %d is %d", i, first[i]);
        MTEST_CHECK(second[i] == -1 + previous * 1000 + N + i, "element %d of the second is %d", i,
                    second[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_unlock_all(win));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Type_free(&both);
    MTEST_OK(MPI_Win_detach(win, first));
    MTEST_OK(MPI_Win_detach(win, second));
    MTEST_OK(MPI_Win_detach(win, first + N / 2));
    free(first);
    free(second);
}

/* Empty regions may be anywhere, and do not part others. */
static void check_empty(MPI_Win win)
{
    int cells[N], mine[N], part[N / 8];
    MPI_Aint at, theirs;

    for (int i = 0; i < N; i++)
        cells[i] = mtest_rank * 1000 + i;
    MTEST_OK(MPI_Win_attach(win, cells, 0));
    MTEST_OK(MPI_Win_attach(win, cells, N / 2 * sizeof(int)));
    MTEST_OK(MPI_Win_attach(win, cells + N / 4, 0));
    MTEST_OK(MPI_Win_attach(win, cells + N / 2, N / 2 * sizeof(int)));
    MTEST_OK(MPI_Win_attach(win, cells + N / 2, 0));
    MPI_Get_address(cells, &at);
    MPI_Sendrecv(&at, 1, MPI_AINT, previous, 0, &theirs, 1, MPI_AINT, next, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win));
    MTEST_OK(MPI_Get(mine, N, MPI_INT, next, theirs, N, MPI_INT, win));
    MTEST_OK(
        MPI_Get(part, N / 8, MPI_INT, next, theirs + N / 4 * (MPI_Aint)sizeof(int), N / 8, MPI_INT, win));
    MTEST_OK(MPI_Win_unlock(next, win));
    for (int i = 0; i < N; i++)
        MTEST_CHECK(mine[i] == next * 1000 + i && (i >= N / 8 || part[i] == next * 1000 + i + N / 4),
                    "element %d is %d", i, mine[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2; i++)
        MTEST_OK(MPI_Win_detach(win, cells));
    for (int i = 0; i < 2; i++)
        MTEST_OK(MPI_Win_detach(win, cells + N / 2));
    MTEST_OK(MPI_Win_detach(win, cells + N / 4));
}

static void check_refused(MPI_Win win)
{
    int memory[4] = {1, 1, 1, 1}, mine[4] = {7, 7, 7, 7};
    MPI_Aint at, theirs;
    int error;

    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MTEST_OK(MPI_Win_attach(win, memory + 1, 2 * sizeof(int)));
    MPI_Get_address(memory, &at);
    MPI_Sendrecv(&at, 1, MPI_AINT, previous, 0, &theirs, 1, MPI_AINT, next, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < 4; i++) {
        int is_attached = i == 1 || i == 2;
        MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win));
        error = MPI_Put(mine, 1, MPI_INT, next, theirs + i * (MPI_Aint)sizeof(int), 1, MPI_INT, win);
        if (error)
            MTEST_OK(MPI_Win_unlock(next, win));
        else
            error = MPI_Win_unlock(next, win);
        MTEST_CHECK(mtest_class(error) == (is_attached ? MPI_SUCCESS : MPI_ERR_RMA_RANGE),
                    "class %d for element %d", mtest_class(error), i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_CHECK(memory[0] == 1 && memory[1] == 7 && memory[2] == 7 && memory[3] == 1,
                "other memory was written");
    MTEST_OK(MPI_Win_detach(win, memory + 1));
}

/* Only rank 0 makes the mistake: the fences of all go on together. */
static void check_refused_fence(MPI_Win win)
{
    int memory[2] = {-1, -1}, mine = mtest_rank, error = MPI_SUCCESS, fence_error;
    MPI_Aint at, theirs;

    MTEST_OK(MPI_Win_attach(win, memory, sizeof(int)));
    MPI_Get_address(memory, &at);
    MPI_Sendrecv(&at, 1, MPI_AINT, previous, 0, &theirs, 1, MPI_AINT, next, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int round = 0; round < 2; round++) {
        MTEST_OK(MPI_Win_fence(round ? 0 : MPI_MODE_NOPRECEDE, win));
        if (mtest_rank == 0)
            error = MPI_Put(&mine, 1, MPI_INT, next, theirs + (MPI_Aint)sizeof(int), 1, MPI_INT, win);
        fence_error = MPI_Win_fence(0, win);
        MTEST_CLASS(error ? error : fence_error, mtest_rank == 0 ? MPI_ERR_RMA_RANGE : MPI_SUCCESS);
        mine = mtest_rank + 10 * round;
        MTEST_OK(MPI_Put(&mine, 1, MPI_INT, next, theirs, 1, MPI_INT, win));
        MTEST_OK(MPI_Win_fence(round ? MPI_MODE_NOSUCCEED : 0, win));
        MTEST_CHECK(memory[0] == previous + 10 * round && memory[1] == -1, "%d and %d", memory[0], memory[1]);
    }
    MTEST_OK(MPI_Win_detach(win, memory));
}

int main(int argc, char **argv)
{
    MPI_Win win;

    mtest_init(&argc, &argv, 1);
    next = (mtest_rank + 1) % mtest_size;
    previous = (mtest_rank + mtest_size - 1) % mtest_size;
    MTEST_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    check_reach(win);
    check_empty(win);
    if (argc > 1 && strcmp(argv[1], "errors") == 0)
        check_refused(win), check_refused_fence(win);
    MTEST_OK(MPI_Win_free(&win));
    return mtest_end();
}
