/* SPDX-License-Identifier: BSD-3-Clause
 *
 * CUDA errors are returned as MPI errors at both ends, and nothing hangs: on the fake driver, copies that
 * fail, and a GPU without memory for packing, which is not an error.
 */
#include "device.h"
#include "fakecuda.h"

#define N_BYTES 3000000

static struct gtest_buffer out, in;

/* One message from each even rank to the next; expects this class at both ends. */
static void message(int n_bytes, int error_class, const char *what)
{
    int partner = mtest_rank ^ 1, got;
    MPI_Request request;

    if (mtest_rank % 2 == 0) {
        MTEST_OK(MPI_Recv(NULL, 0, MPI_BYTE, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        got = MPI_Send(out.data, n_bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD);
    } else {
        MTEST_OK(MPI_Irecv(in.data, n_bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD, &request));
        MTEST_OK(MPI_Send(NULL, 0, MPI_BYTE, partner, 1, MPI_COMM_WORLD));
        got = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MTEST_CHECK(mtest_class(got) == error_class, "%s: class %d, expected %d", what, mtest_class(got),
                error_class);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* The next copy fails, whichever function it is asked of; nth 0: none does. */
static void fail_copies(int nth)
{
    if (!fakecuda_is_here() || mtest_rank != 0)
        return;
    fakecuda_fail("cuMemcpyAsync", nth, CUDA_ERROR_UNKNOWN);
    fakecuda_fail("cuMemcpyDtoDAsync", nth, CUDA_ERROR_UNKNOWN);
}

static void failing_copy(int n_bytes, const char *what)
{
    fail_copies(1);
    message(n_bytes, fakecuda_is_here() ? MPI_ERR_OTHER : MPI_SUCCESS, what);
    fail_copies(0);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void failing_copies(void)
{
    failing_copy(8, "a small copy that fails");
    failing_copy(N_BYTES, "a large copy that fails");
    failing_copy(40000, "a copy that fails");
    message(N_BYTES, MPI_SUCCESS, "a message after errors");
}

/* A layout on one GPU to a layout on another needs memory between them. */
static void out_of_memory(void)
{
    struct gtest_data data = gtest_data(GTEST_VECTOR, 560000);
    char *image = mtest_alloc(data.span_bytes), *expected;
    struct gtest_buffer buffer;
    int partner = mtest_rank ^ 1;

    mtest_fill(image, data.span_bytes, 3);
    expected = gtest_expected(image, &data, &data);
    buffer =
        gtest_alloc(mtest_rank % 2 ? GTEST_GPU1 : GTEST_GPU0, data.span_bytes, mtest_rank % 2 ? NULL : image);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0 && fakecuda_is_here())
        for (int i = 1; i <= 3; i++)
            fakecuda_fail("cuMemAlloc", i, CUDA_ERROR_OUT_OF_MEMORY);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank % 2 == 0) {
        MTEST_OK(MPI_Send(buffer.data, data.count, data.type, partner, 0, MPI_COMM_WORLD));
    } else {
        MTEST_OK(MPI_Recv(buffer.data, data.count, data.type, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MTEST_CHECK(gtest_differs(&buffer, expected) == -1, "out of memory for packing: wrong at byte %ld",
                    gtest_differs(&buffer, expected));
    }
    gtest_free(&buffer);
    gtest_data_free(&data);
    free(image);
    free(expected);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    gtest_init();
    if (mtest_size % 2)
        mtest_skip("an even number of ranks is needed");
    mtest_errors_return(MPI_COMM_WORLD);
    out = gtest_alloc(GTEST_GPU0, N_BYTES, NULL);
    in = gtest_alloc(GTEST_GPU1, N_BYTES, NULL);
    message(N_BYTES, MPI_SUCCESS, "a message");
    failing_copies();
    out_of_memory();
    gtest_free(&out);
    gtest_free(&in);
    return mtest_end();
}
