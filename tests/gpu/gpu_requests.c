/* SPDX-License-Identifier: BSD-3-Clause
 *
 * GPU work as MPI requests (AMPI_GPU_Iinvoke, AMPI_GPU_Ievent, AMPI_GPU_Invoke): they complete when the work
 * is done and not before, together with messages in one MPI_Waitany, and other ranks of the PE run meanwhile;
 * NULL is the rank's own default stream; errors have CUDA's message.
 */
#include "kernels.h"
#include "mpi-ext.h"

static CUstream stream;
static CUevent event;
static volatile unsigned *flag; /* pinned: a kernel runs until it is set */

static void set_up(void)
{
    void *address = NULL;

    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    GTEST_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    GTEST_CU(cuMemAllocHost(&address, sizeof *flag));
    flag = address;
    gtest_load_kernels();
}

/* The kernel of the stream runs until the partner's message has arrived: only MPI can show which is first. */
static void wait_for_any(CUstream where, int is_event)
{
    int partner = mtest_rank ^ 1, value = 0, index = -1, done = 0;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status;

    *flag = 0;
    gtest_launch_spin((CUdeviceptr)flag, where);
    if (is_event) {
        GTEST_CU(cuEventRecord(event, where));
        MTEST_OK(AMPI_GPU_Ievent(event, &requests[0]));
    } else {
        MTEST_OK(AMPI_GPU_Iinvoke(where, &requests[0]));
    }
    MTEST_OK(MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE));
    MTEST_CHECK(!done, "the request is complete while the kernel runs");
    MTEST_OK(MPI_Irecv(&value, 1, MPI_INT, partner, 0, MPI_COMM_WORLD, &requests[1]));
    MTEST_OK(MPI_Send(&mtest_rank, 1, MPI_INT, partner, 0, MPI_COMM_WORLD));
    MTEST_OK(MPI_Waitany(2, requests, &index, &status));
    MTEST_CHECK(index == 1 && value == partner, "request %d came first, with %d", index, value);
    *flag = 1;
    MTEST_OK(MPI_Waitany(2, requests, &index, &status));
    MTEST_CHECK(index == 0 && status.MPI_SOURCE == MPI_ANY_SOURCE, "request %d came then", index);
    MTEST_CHECK(cuStreamQuery(where) == CUDA_SUCCESS, "the stream is not done");
}

/* Even ranks wait for their kernels, which end when the odd ranks have their turn. */
static void invoke(CUstream where)
{
    MPI_Aint address = (MPI_Aint)flag;
    int partner = mtest_rank ^ 1;

    if (mtest_rank % 2 == 0) {
        *flag = 0;
        gtest_launch_spin((CUdeviceptr)flag, where);
        MTEST_OK(MPI_Send(&address, 1, MPI_AINT, partner, 1, MPI_COMM_WORLD));
        MTEST_OK(AMPI_GPU_Invoke(where));
        MTEST_CHECK(*flag == 1, "AMPI_GPU_Invoke has not waited");
    } else {
        MTEST_OK(MPI_Recv(&address, 1, MPI_AINT, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        *(volatile unsigned *)address = 1;
    }
}

/* Many at once, completed out of order. */
static void wait_for_many(void)
{
    enum { N = 50 };
    MPI_Request requests[N];

    for (int i = 0; i < N; i++) {
        GTEST_CU(cuMemsetD32Async((CUdeviceptr)flag, (unsigned)i, 1, i % 2 ? stream : NULL));
        MTEST_OK(AMPI_GPU_Iinvoke(i % 2 ? stream : NULL, &requests[i]));
    }
    MTEST_OK(MPI_Request_free(&requests[7]));
    MTEST_OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++)
        MTEST_CHECK(requests[i] == MPI_REQUEST_NULL, "request %d is left", i);
}

static void make_errors(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    CUgraph graph = NULL;

    MTEST_CLASS(AMPI_GPU_Iinvoke(stream, NULL), MPI_ERR_ARG);
    MTEST_CLASS(AMPI_GPU_Ievent(event, NULL), MPI_ERR_ARG);
    GTEST_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    MTEST_CLASS(AMPI_GPU_Iinvoke(stream, &request), MPI_ERR_OTHER);
    MTEST_CHECK(request == MPI_REQUEST_NULL, "a request in spite of the error");
    GTEST_CU(cuStreamEndCapture(stream, &graph));
    GTEST_CU(cuGraphDestroy(graph));
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    gtest_init();
    set_up();
    if (mtest_rank < mtest_size / 2 * 2) {
        wait_for_any(stream, 0);
        wait_for_any(NULL, 0);
        wait_for_any(stream, 1);
        invoke(stream);
        invoke(NULL);
    }
    wait_for_many();
    MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    make_errors();
    return mtest_end();
}
