/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A user-defined reduction on device buffers lets other ranks run during its call (MPI_Iprobe, usleep).
 * Meanwhile they do other collectives on device buffers on the same PE; both results are right.
 */
#include <unistd.h>

#include "device.h"

#define N 600
#define ROUNDS 12

static int n_calls;

/* The last of these is right for any order that MPI allows: it is associative and commutative. */
static void add_and_yield(void *in, void *inout, int *len, MPI_Datatype *type)
{
    int flag;

    (void)type;
    for (int i = 0; i < *len; i++)
        ((int *)inout)[i] += ((const int *)in)[i];
    if (n_calls++ % 3 == 0)
        usleep(200);
    else
        for (int i = 0; i < 5; i++)
            MPI_Iprobe(mtest_rank, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static MPI_Op op;
static MPI_Comm own, all;

/* Collectives of one rank, whose data moves on a GPU, until the request is complete. */
static void busy_until(MPI_Request *request, int round)
{
    int image[N], is_over = 0;
    struct gtest_buffer from, to;

    for (int i = 0; i < N; i++)
        image[i] = mtest_rank * 1000 + round + i;
    from = gtest_alloc(GTEST_GPU0, sizeof image, image);
    to = gtest_alloc(GTEST_GPU1, sizeof image, NULL);
    for (int i = 0; i < 3 || !is_over; i++) {
        MTEST_OK(MPI_Allgather(from.data, N, MPI_INT, to.data, N, MPI_INT, own));
        if (!is_over)
            MTEST_OK(MPI_Test(request, &is_over, MPI_STATUS_IGNORE));
    }
    MTEST_CHECK(gtest_differs(&to, image) == -1, "round %d: wrong data of the rank's own", round);
    gtest_free(&from);
    gtest_free(&to);
}

static void round_of(int round)
{
    int image[N], sums[N], kind = round % 4, n_in_sum = kind == 2 ? mtest_rank + 1 : mtest_size, count = N;
    struct gtest_buffer in, out;
    MPI_Request request;

    for (int i = 0; i < N; i++)
        image[i] = mtest_rank + round * i;
    if (kind == 3)
        count = N / mtest_size;
    in = gtest_alloc(GTEST_GPU0, sizeof image, image);
    out = gtest_alloc(round % 3 ? GTEST_GPU1 : GTEST_GPU0, (size_t)count * sizeof(int), NULL);
    for (int i = 0; i < count; i++) {
        int at = kind == 3 ? mtest_rank * count + i : i;
        sums[i] = n_in_sum * (n_in_sum - 1) / 2 + n_in_sum * round * at;
    }
    if (kind == 0)
        MTEST_OK(MPI_Iallreduce(in.data, out.data, N, MPI_INT, op, all, &request));
    else if (kind == 1)
        MTEST_OK(MPI_Ireduce(in.data, out.data, N, MPI_INT, op, round % mtest_size, all, &request));
    else if (kind == 2)
        MTEST_OK(MPI_Iscan(in.data, out.data, N, MPI_INT, op, all, &request));
    else
        MTEST_OK(MPI_Ireduce_scatter_block(in.data, out.data, count, MPI_INT, op, all, &request));
    busy_until(&request, round);
    if (kind != 1 || mtest_rank == round % mtest_size)
        MTEST_CHECK(gtest_differs(&out, sums) == -1, "round %d: wrong result of reduction %d", round, kind);
    gtest_free(&in);
    gtest_free(&out);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    gtest_init();
    MTEST_OK(MPI_Op_create(add_and_yield, 1, &op));
    MTEST_OK(MPI_Comm_dup(MPI_COMM_SELF, &own));
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &all));
    for (int round = 0; round < ROUNDS; round++)
        round_of(round);
    MTEST_OK(MPI_Comm_free(&own));
    MTEST_OK(MPI_Comm_free(&all));
    MTEST_OK(MPI_Op_free(&op));
    return mtest_end();
}
