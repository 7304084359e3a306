/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A capture in CUDA's default mode neither stops messages between device buffers nor is ended by them: by calls of MPI on
 * the capturing thread, nor by progress on another.
 */
#include "kernels.h"

#define N 20000
#define N_LARGE (1 << 20)

static CUdeviceptr from, to;
static CUstream stream;

/* The first message allocates the library's memory and streams. */
static void exchange(unsigned n)
{
    int other = mtest_rank ^ 1;

    MTEST_OK(MPI_Sendrecv((void *)from, (int)n, MPI_UNSIGNED, other, 0, (void *)to, (int)n, MPI_UNSIGNED,
                          other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void begin(void)
{
    GTEST_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    gtest_launch_update(from, 4, 1, 1, stream);
}

static void end(const char *what)
{
    CUgraph graph = NULL;
    CUresult result = cuStreamEndCapture(stream, &graph);

    MTEST_CHECK(result == CUDA_SUCCESS && graph, "%s: the capture ended with %d", what, (int)result);
    if (graph)
        GTEST_CU(cuGraphDestroy(graph));
}

static void expect(unsigned n, unsigned value)
{
    unsigned got = 0;

    GTEST_CU(cuMemcpyDtoH(&got, to + (n - 1) * sizeof got, sizeof got));
    MTEST_CHECK(got == value, "received %u instead of %u", got, value);
    GTEST_CU(cuMemsetD32(to, 0, n));
    GTEST_CU(cuCtxSynchronize());
}

int main(int argc, char **argv)
{
    MPI_Request requests[2];
    int other;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_load_kernels();
    other = mtest_rank ^ 1;
    GTEST_CU(cuMemAlloc(&from, N_LARGE * sizeof(unsigned)));
    GTEST_CU(cuMemAlloc(&to, N_LARGE * sizeof(unsigned)));
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    GTEST_CU(cuMemsetD32(from, 7, N_LARGE));
    GTEST_CU(cuMemsetD32(to, 0, N_LARGE));
    GTEST_CU(cuCtxSynchronize());
    for (unsigned n = 10; n <= N_LARGE; n = n == 10 ? N : n == N ? N_LARGE : N_LARGE + 1) {
        begin();
        exchange(n);
        end("MPI_Sendrecv");
        expect(n, 7);
    }
    for (int i = 0; i < 3; i++) {
        MTEST_OK(MPI_Irecv((void *)to, N_LARGE, MPI_UNSIGNED, other, 1, MPI_COMM_WORLD, &requests[0]));
        MTEST_OK(MPI_Isend((void *)from, N_LARGE, MPI_UNSIGNED, other, 1, MPI_COMM_WORLD, &requests[1]));
        begin();
        usleep(3000); /* a thread that makes progress has its chance */
        end("a message under way");
        MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        expect(N_LARGE, 7);
    }
    return mtest_end();
}
