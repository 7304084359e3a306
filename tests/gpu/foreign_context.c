/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of a context that the program has created itself: Heddle's kernels cannot use it, copies can.
 * Messages with any layout, MPI_Pack and reductions have the usual results. A rank whose current context another rank
 * destroys gets neither that rank's nor a new context with the same handle; its stack goes on below.
 */
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device.h"

#define N_BYTES 5600

static CUcontext own;

static CUdeviceptr allocate(const void *image, size_t n_bytes)
{
    CUdeviceptr address;

    GTEST_CU(cuCtxSetCurrent(own));
    GTEST_CU(cuMemAlloc(&address, n_bytes));
    GTEST_CU(cuMemcpyHtoD(address, image, n_bytes));
    GTEST_CU(cuCtxSynchronize()); /* the bytes may be on their way yet */
    return address;
}

static void release(CUdeviceptr address)
{
    GTEST_CU(cuCtxSetCurrent(own));
    GTEST_CU(cuMemFree(address));
}

static void read_back(void *to, CUdeviceptr from, size_t n_bytes)
{
    GTEST_CU(cuCtxSetCurrent(own));
    GTEST_CU(cuMemcpyDtoH(to, from, n_bytes));
}

/* From a layout to another, of rank 0 and 1; is_to: the receiver's memory is the other context's, else the
 * sender's. */
static void message(enum gtest_layout from_layout, enum gtest_layout to_layout, bool is_to)
{
    struct gtest_data from = gtest_data(from_layout, N_BYTES), to = gtest_data(to_layout, N_BYTES);
    char *image = mtest_alloc(from.span_bytes), *got = mtest_alloc(to.span_bytes), *expected;
    struct gtest_buffer usual;
    CUdeviceptr foreign;

    mtest_fill(image, from.span_bytes, 5);
    memset(got, GTEST_FILL_BYTE, to.span_bytes);
    expected = gtest_expected(image, &from, &to);
    if (mtest_rank == 0) {
        foreign = allocate(image, from.span_bytes);
        usual = gtest_alloc(GTEST_GPU0, from.span_bytes, image);
        MTEST_OK(MPI_Send(is_to ? usual.data : (char *)foreign, from.count, from.type, 1, 0, MPI_COMM_WORLD));
    } else {
        foreign = allocate(got, to.span_bytes);
        usual = gtest_alloc(GTEST_GPU0, to.span_bytes, NULL);
        MTEST_OK(MPI_Recv(is_to ? (char *)foreign : usual.data, to.count, to.type, 0, 0, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
        if (is_to)
            read_back(got, foreign, to.span_bytes);
        MTEST_CHECK(is_to ? memcmp(got, expected, to.span_bytes) == 0 : gtest_differs(&usual, expected) == -1,
                    "%s to %s, the %s's context: wrong data", gtest_layout_names[from_layout],
                    gtest_layout_names[to_layout], is_to ? "receiver" : "sender");
    }
    release(foreign);
    gtest_free(&usual);
    gtest_data_free(&from);
    gtest_data_free(&to);
    free(image);
    free(got);
    free(expected);
}

static void reductions(void)
{
    int in[4] = {1, 2, 3, mtest_rank}, out[4] = {0}, sum = mtest_size * (mtest_size - 1) / 2;
    CUdeviceptr foreign = allocate(in, sizeof in);
    struct gtest_buffer usual = gtest_alloc(GTEST_GPU0, sizeof in, in);

    MTEST_OK(MPI_Allreduce((void *)foreign, usual.data, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    GTEST_CU(cuMemcpyDtoH(out, (CUdeviceptr)usual.data, sizeof out));
    MTEST_CHECK(out[0] == mtest_size && out[3] == sum, "a sum from another context: %d %d", out[0], out[3]);
    MTEST_OK(MPI_Allreduce(in, (void *)foreign, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    read_back(out, foreign, sizeof out);
    MTEST_CHECK(out[1] == 2 * mtest_size && out[3] == sum, "a sum to another context: %d %d", out[1], out[3]);
    release(foreign);
    gtest_free(&usual);
}

/* A rank whose current context another rank destroys never gets that rank's. */
static void destroy_for_others(void)
{
    CUcontext made = NULL, again = NULL, now = NULL, popped;
    long thread = syscall(SYS_gettid);

    if (mtest_rank == 0)
        GTEST_CU(cuCtxCreate(&made, NULL, 0, 0));
    MTEST_OK(MPI_Bcast(&made, sizeof made, MPI_BYTE, 0, MPI_COMM_WORLD));
    GTEST_CU(cuCtxSetCurrent(own));
    for (int i = 0; i < 2 && mtest_rank == 1; i++)
        GTEST_CU(cuCtxPushCurrent(made));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0)
        GTEST_CU(cuCtxDestroy(made));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 1 && cuCtxGetCurrent(&now) == CUDA_SUCCESS)
        MTEST_CHECK(now == NULL || now == made, "the context of another rank is current");
    if (mtest_rank == 0)
        GTEST_CU(cuCtxCreate(&again, NULL, 0, 0));
    MTEST_OK(MPI_Bcast(&thread, 1, MPI_LONG, 0, MPI_COMM_WORLD));
    MTEST_OK(MPI_Bcast(&again, sizeof again, MPI_BYTE, 0, MPI_COMM_WORLD));
    if (mtest_rank == 1 && cuCtxGetCurrent(&now) == CUDA_SUCCESS)
        MTEST_CHECK(now == NULL || now != again || thread != syscall(SYS_gettid), "a new context is current");
    if (mtest_rank == 1) {
        GTEST_CU(cuCtxPopCurrent(&popped));
        GTEST_CU(cuCtxGetCurrent(&now));
        MTEST_CHECK(now == own, "a destroyed context hides those below");
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0)
        GTEST_CU(cuCtxDestroy(again));
    GTEST_CU(cuCtxSetCurrent(own));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    gtest_init();
    GTEST_CU(cuCtxCreate(&own, NULL, 0, 0));
    for (enum gtest_layout from = 0; from < GTEST_LAYOUTS; from++)
        for (enum gtest_layout to = 0; to < GTEST_LAYOUTS && mtest_rank < 2; to++)
            for (int is_to = 0; is_to < 2; is_to++)
                message(from, to, is_to);
    reductions();
    destroy_for_others();
    GTEST_CU(cuCtxDestroy(own));
    return mtest_end();
}
