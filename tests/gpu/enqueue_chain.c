/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A chain of enqueued messages through the streams of all ranks, enqueued from its end, arrives although there are more
 * streams than connections to the GPU, of which a waiting stream keeps one from the others. Queries, kernels
 * and copies behind a receive see its data. "invoke": so do requests for the work of the stream, which do not wait for
 * operations that are enqueued later.
 */
#include "mpi-ext.h"

#include "enqueue.h"

#define COUNT_MAX 40000

static struct etest test;
static CUdeviceptr data;

/* The last rank calls first. */
static void wait_for_turn(void)
{
    if (mtest_rank + 1 < mtest_size)
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, mtest_rank + 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void give_turn(void)
{
    if (mtest_rank > 0)
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, mtest_rank - 1, 1, MPI_COMM_WORLD));
}

static void receive(int count)
{
    if (mtest_rank > 0)
        MTEST_OK(MPIX_Recv_enqueue((void *)data, count, MPI_UNSIGNED, mtest_rank - 1, 0, test.comm,
                                   MPI_STATUS_IGNORE));
    else
        gtest_launch_update(data, (unsigned)count, 0, 42, test.cuda);
}

static void forward(int count)
{
    if (mtest_rank + 1 < mtest_size)
        MTEST_OK(MPIX_Send_enqueue((void *)data, count, MPI_UNSIGNED, mtest_rank + 1, 0, test.comm));
}

static void pass_on(int count)
{
    wait_for_turn();
    receive(count);
    forward(count);
    give_turn();
    GTEST_CU(cuStreamSynchronize(test.cuda));
    etest_expect(data, (unsigned)count, 42, "forwarded");
}

/* A kernel behind the receive; the end is asked for. */
static void add_and_pass_on(int count)
{
    wait_for_turn();
    receive(count);
    if (mtest_rank > 0 && count > 4096)
        MTEST_CHECK(cuStreamQuery(test.cuda) == CUDA_ERROR_NOT_READY, "a stream that waits is done");
    give_turn();
    gtest_launch_update(data, (unsigned)count, 1, 1, test.cuda);
    forward(count);
    while (cuStreamQuery(test.cuda) == CUDA_ERROR_NOT_READY)
        ;
    etest_expect(data, (unsigned)count, 43 + (unsigned)mtest_rank, "changed and forwarded");
}

/* In a stream that the default stream waits for. */
static void read_and_pass_on(int count)
{
    wait_for_turn();
    receive(count);
    give_turn();
    etest_expect(data, (unsigned)count, 42, "received");
    forward(count);
    GTEST_CU(cuCtxSynchronize());
}

static void ask_and_pass_on(int count)
{
    MPI_Request done;

    wait_for_turn();
    receive(count);
    forward(count);
    MTEST_OK(AMPI_GPU_Iinvoke(test.cuda, &done));
    give_turn();
    MTEST_OK(MPI_Wait(&done, MPI_STATUS_IGNORE));
    etest_expect(data, (unsigned)count, 42, "asked for");
}

/* The second message is sent after the first one was asked for. */
static void ask_between(void)
{
    MPI_Request first, second;

    if (mtest_rank == 1) {
        MTEST_OK(MPIX_Recv_enqueue((void *)data, 1, MPI_UNSIGNED, 0, 0, test.comm, MPI_STATUS_IGNORE));
        MTEST_OK(AMPI_GPU_Iinvoke(test.cuda, &first));
        MTEST_OK(MPIX_Recv_enqueue((void *)(data + 4), 1, MPI_UNSIGNED, 0, 0, test.comm, MPI_STATUS_IGNORE));
        MTEST_OK(AMPI_GPU_Iinvoke(test.cuda, &second));
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD));
        MTEST_OK(MPI_Wait(&first, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD));
        MTEST_OK(MPI_Wait(&second, MPI_STATUS_IGNORE));
        etest_expect(data, 2, 42, "asked for");
    }
    for (int i = 0; i < 2 && mtest_rank == 0; i++) {
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        gtest_launch_update(data, 1, 0, 42, test.cuda);
        MTEST_OK(MPIX_Send_enqueue((void *)data, 1, MPI_UNSIGNED, 1, 0, test.comm));
        GTEST_CU(cuStreamSynchronize(test.cuda));
    }
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    gtest_init();
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[0]));
    gtest_load_kernels();
    data = etest_alloc(COUNT_MAX);
    test = etest_begin(0, 0);
    for (int count = 200; count <= COUNT_MAX; count *= 200) {
        if (argc > 1)
            ask_and_pass_on(count);
        pass_on(count);
        add_and_pass_on(count);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    etest_end(&test);
    test = etest_begin(1, 0);
    if (argc > 1) {
        ask_and_pass_on(COUNT_MAX);
        ask_between();
    }
    read_and_pass_on(COUNT_MAX);
    etest_end(&test);
    GTEST_CU(cuMemFree(data));
    return mtest_end();
}
