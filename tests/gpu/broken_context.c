/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A kernel of the program that accesses invalid memory breaks its GPU: every MPI call that needs this GPU
 * then returns CUDA's error and does not hang, messages in host memory still arrive, and MPI_Finalize ends
 * the job. With an argument the error is fatal: the message names the rank, the call and CUDA's error.
 */
#include "device.h"
#include "fakecuda.h"

#define N_BYTES 100000

/* Writes to an address without memory. */
static const char ptx[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
                          ".visible .entry stray()\n{\n"
                          "  .reg .b64 %a;\n  .reg .b32 %v;\n"
                          "  mov.u64 %a, 4096;\n  mov.u32 %v, 1;\n  st.global.u32 [%a], %v;\n  ret;\n}\n";

static void stray(const void *args)
{
    (void)args;
    fakecuda_alias(4096, 4);
}

static void break_gpu(void)
{
    char no_args[8] = {0};
    size_t n_bytes = sizeof no_args;
    void *options[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, no_args, CU_LAUNCH_PARAM_BUFFER_SIZE, &n_bytes,
                       CU_LAUNCH_PARAM_END};
    CUmodule module;
    CUfunction function;

    gtest_select(GTEST_GPU0);
    if (fakecuda_is_here())
        fakecuda_add_kernel("stray", stray);
    GTEST_CU(cuModuleLoadData(&module, ptx));
    GTEST_CU(cuModuleGetFunction(&function, module, "stray"));
    GTEST_CU(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, fakecuda_is_here() ? options : NULL));
    MTEST_CHECK(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS, "the kernel has not broken the GPU");
}

static void expect_failed(int got, const char *what)
{
    MTEST_CHECK(mtest_class(got) == MPI_ERR_OTHER, "%s: class %d, expected MPI_ERR_OTHER", what,
                mtest_class(got));
}

int main(int argc, char **argv)
{
    static int host[N_BYTES / sizeof(int)], result[2];
    struct gtest_buffer buffer;
    MPI_Datatype vector;
    int partner, position = 0;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    if (mtest_size % 2)
        mtest_skip("an even number of ranks is needed");
    partner = mtest_rank ^ 1;
    MTEST_OK(MPI_Type_vector(10, 1, 2, MPI_INT, &vector));
    MTEST_OK(MPI_Type_commit(&vector));
    buffer = gtest_alloc(GTEST_GPU0, N_BYTES, NULL);
    MTEST_OK(MPI_Sendrecv(buffer.data, 8, MPI_BYTE, partner, 0, host, 8, MPI_BYTE, partner, 0, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 0)
        break_gpu();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (argc > 1)
        MPI_Send(buffer.data, 8, MPI_BYTE, partner, 0, MPI_COMM_WORLD);
    mtest_errors_return(MPI_COMM_WORLD);
    mtest_errors_return(MPI_COMM_SELF);
    for (int n = 8; n <= N_BYTES; n *= 100) {
        expect_failed(MPI_Sendrecv(buffer.data, n, MPI_BYTE, partner, 0, host, n, MPI_BYTE, partner, 0,
                                   MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                      "MPI_Sendrecv to the host");
        expect_failed(MPI_Sendrecv(host, n, MPI_BYTE, partner, 0, buffer.data, n, MPI_BYTE, partner, 0,
                                   MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                      "MPI_Sendrecv from the host");
    }
    expect_failed(MPI_Sendrecv(buffer.data, 1, vector, partner, 0, buffer.data + 1000, 1, vector, partner, 0,
                               MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                  "MPI_Sendrecv of a vector");
    expect_failed(MPI_Pack(buffer.data, 1, vector, host, N_BYTES, &position, MPI_COMM_SELF), "MPI_Pack");
    expect_failed(MPI_Allreduce(buffer.data, host, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
    host[0] = mtest_rank;
    MTEST_OK(MPI_Allreduce(host, result, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    MTEST_CHECK(result[0] == mtest_size - 1, "a reduction of the host's memory: %d", result[0]);
    MTEST_OK(MPI_Type_free(&vector));
    return mtest_end();
}
