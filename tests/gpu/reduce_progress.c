/* SPDX-License-Identifier: BSD-3-Clause
 *
 * While a GPU runs a reduction or a scan, the PE that started it continues: its ranks exchange messages, and
 * MPI_Test returns false. The fake driver holds the kernels meanwhile; a real GPU does not.
 */
#include "device.h"

#include "fakecuda.h"

#define N_LARGE 50000

typedef void (*start_fn)(void *send, void *recv, int n, MPI_Request *request);

static void start_allreduce(void *send, void *recv, int n, MPI_Request *request)
{
    MTEST_OK(MPI_Iallreduce(send, recv, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, request));
}
static void start_reduce(void *send, void *recv, int n, MPI_Request *request)
{
    MTEST_OK(MPI_Ireduce(send, recv, n, MPI_INT, MPI_SUM, mtest_size - 1, MPI_COMM_WORLD, request));
}

static void start_scan(void *send, void *recv, int n, MPI_Request *request)
{
    MTEST_OK(MPI_Iscan(send, recv, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, request));
}
static void start_exscan(void *send, void *recv, int n, MPI_Request *request)
{
    MTEST_OK(MPI_Iexscan(send, recv, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, request));
}

/* The result at a rank is the sum of the contributions of the first `n` ranks; 0: it has none. */
static int n_of_all(void)
{
    return mtest_size;
}
static int n_at_last(void)
{
    return mtest_rank == mtest_size - 1 ? mtest_size : 0;
}
static int n_up_to_this(void)
{
    return mtest_rank + 1;
}
static int n_before_this(void)
{
    return mtest_rank;
}

static const struct {
    const char *name;
    start_fn start;
    int (*n_summed)(void);
} operations[] = {
    {"allreduce", start_allreduce, n_of_all},
    {"reduce", start_reduce, n_at_last},
    {"scan", start_scan, n_up_to_this},
    {"exscan", start_exscan, n_before_this},
};

/* A message around the ring. */
static void ring(int number)
{
    int to = (mtest_rank + 1) % mtest_size, from = (mtest_rank + mtest_size - 1) % mtest_size, got = -1;

    MTEST_OK(MPI_Sendrecv(&number, 1, MPI_INT, to, 1, &got, 1, MPI_INT, from, 1, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
    MTEST_CHECK(got == number, "ring: %d instead of %d", got, number);
}

static void hold(bool is_held)
{
    ring(1000 + is_held); /* all are here */
    if (fakecuda_is_here() && mtest_rank == 0)
        fakecuda_hold_kernels(is_held);
    ring(2000 + is_held);
}

static void run(size_t which, int n)
{
    int *image = mtest_alloc((size_t)n * sizeof *image), flag = 1, summed = operations[which].n_summed();
    struct gtest_buffer send, recv;
    MPI_Request request;

    for (int i = 0; i < n; i++)
        image[i] = mtest_rank + i;
    send = gtest_alloc(mtest_rank % 2 ? GTEST_GPU1 : GTEST_GPU0, (size_t)n * sizeof *image, image);
    recv = gtest_alloc(mtest_rank % 2 ? GTEST_GPU1 : GTEST_GPU0, (size_t)n * sizeof *image, NULL);
    hold(true);
    operations[which].start(send.data, recv.data, n, &request);
    for (int i = 0; i < 20; i++)
        ring(i);
    if (fakecuda_is_here() && summed) {
        MTEST_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        MTEST_CHECK(!flag, "%s of %d elements is over before its kernel has run", operations[which].name, n);
    }
    hold(false);
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < n; i++)
        image[i] = summed * (summed - 1) / 2 + summed * i;
    if (summed)
        MTEST_CHECK(gtest_differs(&recv, image) == -1, "%s of %d elements: wrong", operations[which].name, n);
    gtest_free(&send);
    gtest_free(&recv);
    free(image);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    gtest_init();
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        run(i, 5);
        run(i, N_LARGE);
    }
    return mtest_end();
}
