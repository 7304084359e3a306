/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Host functions in a stream call MPI for the rank that launched them (CUDA forbids them only calls of CUDA): each rank
 * sends to the next from a function.
 */
#include "kernels.h"

#define ROUNDS 10

struct message {
    int number, error;
};

static void CUDA_CB send_next(void *arg)
{
    struct message *message = arg;

    message->error = MPI_Send(&message->number, 1, MPI_INT, (mtest_rank + 1) % mtest_size, 3, MPI_COMM_WORLD);
}

static void CUDA_CB call_back(CUstream stream, CUresult result, void *arg)
{
    (void)stream;
    (void)result;
    send_next(arg);
}

int main(int argc, char **argv)
{
    CUstream stream;
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mtest_learn_world(2);
    gtest_init();
    gtest_load_kernels();
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < ROUNDS; i++) {
        struct message sent = {.number = 100 * i + mtest_rank};
        int got = -1;
        GTEST_CU(i % 2 ? cuStreamAddCallback(stream, call_back, &sent, 0)
                       : cuLaunchHostFunc(stream, send_next, &sent));
        MTEST_OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        GTEST_CU(cuStreamSynchronize(stream));
        MTEST_OK(sent.error);
        MTEST_CHECK(got == 100 * i + (mtest_rank + mtest_size - 1) % mtest_size, "round %d: got %d", i, got);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    return mtest_end();
}
