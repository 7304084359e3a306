/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranks that set limits of their GPU (cuCtxSetLimit) beside ranks that launch kernels for the first time: no launch fails, and no
 * rank makes the stacks or the heap of another rank's kernels smaller. Argument "ahead": a rank sets a limit while the others always
 * have a long queue of kernels, until it tells them that it has.
 */
#include "kernels.h"

#define N_ROUNDS 30
#define KIB 1024

static CUstream stream;
static CUdeviceptr memory;

static size_t limit_now(CUlimit limit)
{
    size_t value = 0;

    GTEST_CU(cuCtxGetLimit(&value, limit));
    return value;
}

static void set_limits(void)
{
    for (size_t i = 1; i <= N_ROUNDS; i++) {
        size_t wanted = i * KIB;
        GTEST_CU(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, wanted));
        MTEST_CHECK(limit_now(CU_LIMIT_STACK_SIZE) >= wanted, "stacks of %zu bytes instead of %zu",
                    limit_now(CU_LIMIT_STACK_SIZE), wanted);
    }
}

static void launch_first(void)
{
    for (int i = 0; i < N_ROUNDS; i++) {
        struct gtest_update_args args = {memory, 4, 2, 1, 0};
        CUfunction update;
        CUmodule module;
        GTEST_CU(cuModuleLoadData(&module, gtest_ptx));
        GTEST_CU(cuModuleGetFunction(&update, module, "gtest_update"));
        GTEST_CU(gtest_launch(update, &args, sizeof args, stream));
        GTEST_CU(cuStreamSynchronize(stream));
    }
}

/* Launches kernels for two seconds, in which the other rank cannot set its limit because a third one's kernel runs; then ends that
 * kernel, and launches on. */
static void launch_beside(volatile unsigned *flag)
{
    double until = MPI_Wtime() + 2;

    while (MPI_Wtime() < until)
        gtest_launch_update(memory, 4, 1, 0, stream);
    *flag = 1;
    for (int i = 0; i < 2000; i++)
        gtest_launch_update(memory, 4, 1, 0, stream);
    GTEST_CU(cuStreamSynchronize(stream));
}

static void set_behind_kernel(void)
{
    volatile unsigned *flag = gtest_flag();

    if (mtest_rank == 0) {
        gtest_launch_spin((CUdeviceptr)flag, stream);
        gtest_send_flag(flag, 1);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 1)
        launch_beside(gtest_recv_flag(0));
    if (mtest_rank == 2)
        GTEST_CU(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2 * N_ROUNDS * KIB));
    GTEST_CU(cuStreamSynchronize(stream));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Each rank asks for other sizes; what it has asked for holds until the end. */
static void set_in_turn(void)
{
    const CUlimit limits[] = {CU_LIMIT_STACK_SIZE, CU_LIMIT_MALLOC_HEAP_SIZE, CU_LIMIT_PRINTF_FIFO_SIZE};
    const size_t units[] = {KIB, KIB * KIB, KIB * KIB};

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        size_t wanted = units[i] * (size_t)(40 - 4 * mtest_rank);
        for (int k = 0; k < mtest_size; k++) {
            if (k == mtest_rank)
                GTEST_CU(cuCtxSetLimit(limits[i], wanted));
            MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        }
        MTEST_CHECK(limit_now(limits[i]) >= wanted, "limit %zu is %zu, %zu was set", i, limit_now(limits[i]),
                    wanted);
    }
}

#define AHEAD 60
#define N_SLOW 20000

/* With more kernels in flight than a GPU gets done while it is closed for a quarter of a second. */
static void launch_ahead(CUdeviceptr many)
{
    CUevent events[AHEAD];
    MPI_Request request;
    int is_over = 0;

    for (int i = 0; i < AHEAD; i++)
        GTEST_CU(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
    MTEST_OK(MPI_Irecv(NULL, 0, MPI_INT, 0, 1, MPI_COMM_WORLD, &request));
    for (int i = 0; !is_over; i++) {
        if (i >= AHEAD)
            GTEST_CU(cuEventSynchronize(events[i % AHEAD]));
        if (i == AHEAD)
            MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD));
        gtest_launch_update(many, N_SLOW, 1, 0, stream);
        GTEST_CU(cuEventRecord(events[i % AHEAD], stream));
        MTEST_OK(MPI_Test(&request, &is_over, MPI_STATUS_IGNORE));
    }
    GTEST_CU(cuStreamSynchronize(stream));
    for (int i = 0; i < AHEAD; i++)
        GTEST_CU(cuEventDestroy(events[i]));
}

static int set_beside_queues(void)
{
    CUdeviceptr many;

    GTEST_CU(cuMemAlloc(&many, N_SLOW * sizeof(int)));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank > 0)
        launch_ahead(many);
    for (int i = 1; i < mtest_size && mtest_rank == 0; i++)
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, i, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (mtest_rank == 0)
        GTEST_CU(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2 * N_ROUNDS * KIB));
    for (int i = 1; i < mtest_size && mtest_rank == 0; i++)
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, i, 1, MPI_COMM_WORLD));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuMemFree(many));
    return mtest_end();
}

int main(int argc, char **argv)
{
    unsigned values[4];

    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_load_kernels();
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    GTEST_CU(cuMemAlloc(&memory, sizeof values));
    GTEST_CU(cuMemsetD32(memory, 0, 4));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (argc > 1)
        return set_beside_queues();
    if (mtest_rank % 2 == 0)
        set_limits();
    else
        launch_first();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    set_in_turn();
    set_behind_kernel();
    GTEST_CU(cuMemcpyDtoH(values, memory, sizeof values));
    MTEST_CHECK(mtest_rank % 2 == 0 || values[3] == (1u << N_ROUNDS) - 1, "%u after %d launches", values[3],
                N_ROUNDS);
    return mtest_end();
}
