/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Persistent and partitioned requests that matched before CUDA's first use keep working after it: a receive that is
 * started already gets a message from device memory, the same requests continue with host buffers, and new ones
 * have device buffers.
 */
#include "device.h"

enum { N_BYTES = 4000, PARTS = 4, ROUNDS = 6 };

static char host_out[N_BYTES], host_in[N_BYTES], image[N_BYTES], part_out[N_BYTES], part_in[N_BYTES];
static int peer;
static MPI_Request requests[2], parts[2]; /* receive, send */

static void check(const void *data, int round, const char *what)
{
    mtest_fill(image, N_BYTES, (unsigned)(100 * peer + round));
    MTEST_CHECK(memcmp(data, image, N_BYTES) == 0, "round %d: %s came wrong", round, what);
}

static void exchange(int round)
{
    mtest_fill(host_out, N_BYTES, (unsigned)(100 * mtest_rank + round));
    MTEST_OK(MPI_Start(&requests[0]));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_OK(MPI_Start(&requests[1]));
    MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    check(host_in, round, "persistent data");
}

static void send_partitions(int round)
{
    mtest_fill(part_out, N_BYTES, (unsigned)(100 * mtest_rank + round));
    MTEST_OK(MPI_Start(&parts[1]));
    MTEST_OK(MPI_Pready_range(0, PARTS - 1, parts[1]));
}

static void exchange_parts(int round)
{
    MTEST_OK(MPI_Start(&parts[0]));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    send_partitions(round);
    MTEST_OK(MPI_Waitall(2, parts, MPI_STATUSES_IGNORE));
    check(part_in, round, "partitioned data");
}

static void make(const void *out, void *in, void *part_from, void *part_to)
{
    MTEST_OK(MPI_Recv_init(in, N_BYTES, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[0]));
    MTEST_OK(MPI_Send_init(out, N_BYTES, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[1]));
    MTEST_OK(MPI_Precv_init(part_to, PARTS, N_BYTES / PARTS, MPI_BYTE, peer, 2, MPI_COMM_WORLD, MPI_INFO_NULL,
                            &parts[0]));
    MTEST_OK(MPI_Psend_init(part_from, PARTS, N_BYTES / PARTS, MPI_BYTE, peer, 2, MPI_COMM_WORLD,
                            MPI_INFO_NULL, &parts[1]));
}

static void free_all(void)
{
    for (int i = 0; i < 2; i++) {
        MTEST_OK(MPI_Request_free(&requests[i]));
        MTEST_OK(MPI_Request_free(&parts[i]));
    }
}

/* The first round: both receives are started, and then CUDA is used. */
static void begin_cuda(CUdeviceptr memory[4])
{
    CUdevice device;
    CUcontext context;
    int has_gpu;

    MTEST_OK(MPI_Start(&requests[0]));
    MTEST_OK(MPI_Start(&parts[0]));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    has_gpu = cuInit(0) == CUDA_SUCCESS && cuDeviceGet(&device, 0) == CUDA_SUCCESS &&
              cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS &&
              cuCtxSetCurrent(context) == CUDA_SUCCESS;
    for (int i = 0; i < 4 && has_gpu; i++)
        has_gpu = cuMemAlloc(&memory[i], N_BYTES) == CUDA_SUCCESS;
    if (!has_gpu)
        mtest_skip("there is no GPU here");
    mtest_fill(host_out, N_BYTES, (unsigned)(100 * mtest_rank + 50));
    GTEST_CU(cuMemcpyHtoD(memory[0], host_out, N_BYTES));
    MTEST_OK(MPI_Send((void *)memory[0], N_BYTES, MPI_BYTE, peer, 1, MPI_COMM_WORLD));
    MTEST_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    check(host_in, 50, "a message from the device");
    send_partitions(51);
    MTEST_OK(MPI_Waitall(2, parts, MPI_STATUSES_IGNORE));
    check(part_in, 51, "partitioned data");
}

/* The same with all buffers in device memory. */
static void on_device(const CUdeviceptr memory[4])
{
    make((void *)memory[0], (void *)memory[1], (void *)memory[2], (void *)memory[3]);
    for (int round = 0; round < ROUNDS; round++) {
        mtest_fill(host_out, N_BYTES, (unsigned)(100 * mtest_rank + round));
        GTEST_CU(cuMemcpyHtoD(memory[0], host_out, N_BYTES));
        GTEST_CU(cuMemcpyHtoD(memory[2], host_out, N_BYTES));
        MTEST_OK(MPI_Startall(2, requests));
        MTEST_OK(MPI_Startall(2, parts));
        MTEST_OK(MPI_Pready_range(0, PARTS - 1, parts[1]));
        MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        MTEST_OK(MPI_Waitall(2, parts, MPI_STATUSES_IGNORE));
        GTEST_CU(cuMemcpyDtoH(host_in, memory[1], N_BYTES));
        GTEST_CU(cuMemcpyDtoH(part_in, memory[3], N_BYTES));
        check(host_in, round, "persistent data on the device");
        check(part_in, round, "partitioned data on the device");
    }
    free_all();
}

int main(int argc, char **argv)
{
    CUdeviceptr memory[4] = {0};

    mtest_init(&argc, &argv, 2);
    peer = mtest_rank ^ 1;
    make(host_out, host_in, part_out, part_in);
    for (int round = 0; round < 2 * ROUNDS; round++) {
        if (round == ROUNDS)
            begin_cuda(memory);
        exchange(round);
        exchange_parts(round);
    }
    free_all();
    on_device(memory);
    return mtest_end();
}
