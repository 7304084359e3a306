/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The other threads of a rank use its default stream and its blocking streams inside MPI as outside: what they
 * enqueue there follows their kernels, a message follows a synchronous copy, and no thread leaves a stream behind.
 */
#include <pthread.h>

#include "enqueue.h"

#define N 4096
#define ROUNDS 5
#define N_THREADS 6

static CUcontext context;
static CUdeviceptr memory;
static struct etest by_default, blocking;

/* Gives a message that does not wait for the stream the time to overtake. */
static void make_progress(void)
{
    int flag;

    for (int i = 0; i < 300; i++)
        MTEST_OK(MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
}

static void send_behind_kernels(void)
{
    for (unsigned round = 1; round <= ROUNDS; round++) {
        if (mtest_rank == 0) {
            etest_hold(&by_default);
            GTEST_CU(cuMemsetD32Async(memory, 10 * round, N, NULL));
            MTEST_OK(MPIX_Send_enqueue((void *)memory, N, MPI_UNSIGNED, 1, 0, by_default.comm));
            make_progress();
            etest_release(&by_default);
        } else if (mtest_rank == 1) {
            MTEST_OK(
                MPIX_Recv_enqueue((void *)memory, N, MPI_UNSIGNED, 0, 0, by_default.comm, MPI_STATUS_IGNORE));
            GTEST_CU(cuStreamSynchronize(NULL));
            etest_expect(memory, N, 10 * round, "sent in the default stream");
        }
    }
}

/* The default stream waits for the blocking stream, and so for the message. */
static void receive_in_blocking(void)
{
    for (unsigned round = 1; round <= ROUNDS; round++) {
        if (mtest_rank == 0) {
            GTEST_CU(cuMemsetD32Async(memory, round, N, blocking.cuda));
            GTEST_CU(cuStreamSynchronize(blocking.cuda));
            MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MTEST_OK(MPIX_Send_enqueue((void *)memory, N, MPI_UNSIGNED, 1, 0, blocking.comm));
            GTEST_CU(cuStreamSynchronize(blocking.cuda));
        } else if (mtest_rank == 1) {
            MTEST_OK(
                MPIX_Recv_enqueue((void *)memory, N, MPI_UNSIGNED, 0, 0, blocking.comm, MPI_STATUS_IGNORE));
            MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD));
            etest_expect(memory, N, round, "received in a blocking stream");
        }
    }
}

/* The first message from memory, just after a copy that may return before it is done. The memory is not freed: that would
 * wait for streams of other ranks. */
static void send_fresh_memory(void)
{
    unsigned numbers[N];
    CUdeviceptr fresh;

    for (unsigned round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < N; i++)
            numbers[i] = mtest_rank == 0 ? round : 0;
        if (mtest_rank == 0) {
            GTEST_CU(cuMemAlloc(&fresh, (2 << 20) + 4096 * round));
            GTEST_CU(cuMemcpyHtoD(fresh, numbers, sizeof numbers));
            MTEST_OK(MPI_Send((void *)fresh, N, MPI_UNSIGNED, 1, 2, MPI_COMM_WORLD));
        } else if (mtest_rank == 1) {
            MTEST_OK(MPI_Recv(numbers, N, MPI_UNSIGNED, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MTEST_CHECK(numbers[0] == round && numbers[N - 1] == round, "round %u: sent %u", round,
                        numbers[0]);
        }
    }
}

static void *run_thread(void *arg)
{
    (void)arg;
    GTEST_CU(cuCtxSetCurrent(context));
    send_behind_kernels();
    receive_in_blocking();
    send_fresh_memory();
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, n_streams = 0;
    pthread_t thread;

    MTEST_OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    mtest_learn_world(2);
    gtest_init();
    gtest_load_kernels();
    GTEST_CU(cuCtxGetCurrent(&context));
    memory = etest_alloc(N);
    by_default = etest_begin(1, 0);
    blocking = (struct etest){.flag = gtest_flag()};
    GTEST_CU(cuStreamCreate(&blocking.cuda, CU_STREAM_DEFAULT));
    blocking.stream = etest_stream(blocking.cuda);
    MTEST_OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, blocking.stream, &blocking.comm));
    run_thread(NULL);
    for (int i = 0; i < N_THREADS; i++) {
        MTEST_CHECK(pthread_create(&thread, NULL, run_thread, NULL) == 0, "no thread");
        pthread_join(thread, NULL);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (fakecuda_is_here() && i == 0)
            n_streams = fakecuda_calls("cuStreamCreateWithPriority");
    }
    /* The library may still create some for its own work. */
    MTEST_CHECK(!fakecuda_is_here() ||
                    fakecuda_calls("cuStreamCreateWithPriority") < n_streams + N_THREADS - 1,
                "threads leave streams behind");
    etest_end(&by_default);
    etest_end(&blocking);
    return mtest_end();
}
