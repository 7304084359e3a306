/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI is first given memory that cuMemsetD32 sets on the default stream, behind a stream that waits for a message: it does not
 * wait for the memory with the PE that has to deliver the message. The enqueued send is behind the call anyway, and the host
 * receives into another part of the memory.
 */
#include "enqueue.h"

#define N 1000
#define ROUNDS 5

static CUdeviceptr memory, fresh[ROUNDS]; /* new: MPI has never seen their addresses */
static CUstream stream;
static MPI_Comm comm;

static void wait_and_send(unsigned value)
{
    MPI_Request request;
    unsigned got;

    MTEST_OK(MPIX_Recv_enqueue((void *)memory, N, MPI_UNSIGNED, 1, 1, comm, MPI_STATUS_IGNORE));
    GTEST_CU(cuMemAlloc(&fresh[value], 2 * N * sizeof(unsigned)));
    GTEST_CU(cuMemsetD32(fresh[value], value, N));
    MTEST_OK(MPI_Irecv((void *)(fresh[value] + N * sizeof(unsigned)), 1, MPI_UNSIGNED, 1, 3, MPI_COMM_WORLD,
                       &request));
    MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD));
    MTEST_OK(MPIX_Send_enqueue((void *)fresh[value], N, MPI_UNSIGNED, 1, 2, comm));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    GTEST_CU(cuStreamSynchronize(stream));
    GTEST_CU(cuMemcpyDtoH(&got, fresh[value] + N * sizeof(unsigned), sizeof got));
    MTEST_CHECK(got == value, "%u instead of %u", got, value);
}

static void release_and_receive(unsigned value)
{
    static unsigned got[N];

    MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Send(&value, 1, MPI_UNSIGNED, 0, 3, MPI_COMM_WORLD));
    MTEST_OK(MPIX_Send_enqueue((void *)memory, N, MPI_UNSIGNED, 0, 1, comm));
    MTEST_OK(MPIX_Recv_enqueue((void *)memory, N, MPI_UNSIGNED, 0, 2, comm, MPI_STATUS_IGNORE));
    GTEST_CU(cuStreamSynchronize(stream));
    GTEST_CU(cuMemcpyDtoH(got, memory, sizeof got));
    MTEST_CHECK(got[0] == value && got[N - 1] == value, "%u and %u instead of %u", got[0], got[N - 1], value);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    gtest_init();
    memory = etest_alloc(N);
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    MTEST_OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, etest_stream(stream), &comm));
    for (unsigned round = 0; round < ROUNDS; round++) {
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (mtest_rank == 0)
            wait_and_send(round);
        else
            release_and_receive(round);
    }
    for (int i = 0; i < ROUNDS && mtest_rank == 0; i++)
        GTEST_CU(cuMemFree(fresh[i]));
    MTEST_OK(MPI_Comm_free(&comm));
    return mtest_end();
}
