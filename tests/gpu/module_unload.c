/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A rank unloads a module, or a library, while another rank's stream waits for a message that follows the call: the call waits for
 * the rank's own streams only. The handle cannot be used any more, and what was loaded is unloaded when no stream waits. A library
 * whose image may go ("kept") is unloaded within the call. "capture": the rank captures meanwhile.
 */
#include "enqueue.h"

#define N 500
#define ROUNDS 3

enum kind { MODULE, LIBRARY, KINDS };

static struct etest test;
static CUdeviceptr memory;
static int is_capture;

struct loaded {
    enum kind kind;
    CUmodule module;
    CUlibrary library;
    CUdeviceptr variable; /* 0: the driver is not the fake one */
};

static void load(struct loaded *loaded, enum kind kind, int is_kept)
{
    CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
    void *value = (void *)1;
    size_t n_bytes;

    *loaded = (struct loaded){.kind = kind};
    if (kind == MODULE)
        GTEST_CU(cuModuleLoadData(&loaded->module, gtest_ptx));
    else
        GTEST_CU(cuLibraryLoadData(&loaded->library, gtest_ptx, NULL, NULL, 0, is_kept ? &option : NULL,
                                   is_kept ? &value : NULL, is_kept));
    if (fakecuda_is_here() && kind == MODULE)
        GTEST_CU(cuModuleGetGlobal(&loaded->variable, &n_bytes, loaded->module, "numbers"));
    else if (fakecuda_is_here())
        GTEST_CU(cuLibraryGetGlobal(&loaded->variable, &n_bytes, loaded->library, "numbers"));
}

static CUresult unload(const struct loaded *loaded)
{
    return loaded->kind == MODULE ? cuModuleUnload(loaded->module) : cuLibraryUnload(loaded->library);
}

static int is_there(const struct loaded *loaded)
{
    CUmemorytype type;

    return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, loaded->variable) == CUDA_SUCCESS;
}

static void expect_refusal(CUresult result, const char *what)
{
    MTEST_CHECK(result == CUDA_ERROR_INVALID_HANDLE, "%s of an unloaded handle returns %d", what,
                (int)result);
}

/* While it waits to be unloaded. */
static void use_again(const struct loaded *loaded)
{
    CUfunction function;
    CUkernel kernel;
    CUdeviceptr variable;

    expect_refusal(unload(loaded), "unloading");
    if (loaded->kind == MODULE) {
        expect_refusal(cuModuleGetFunction(&function, loaded->module, "gtest_update"), "a function");
        expect_refusal(cuModuleGetGlobal(&variable, NULL, loaded->module, "numbers"), "a variable");
    } else {
        expect_refusal(cuLibraryGetKernel(&kernel, loaded->library, "gtest_update"), "a kernel");
        expect_refusal(cuLibraryGetGlobal(&variable, NULL, loaded->library, "numbers"), "a variable");
    }
}

static void unload_beside(const struct loaded *loaded)
{
    CUstream captured = NULL;
    CUgraph graph;

    if (is_capture) {
        GTEST_CU(cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING));
        GTEST_CU(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
    }
    GTEST_CU(cuMemsetD32Async(memory, 1, N, test.cuda));
    GTEST_CU(unload(loaded));
    MTEST_CHECK(cuStreamQuery(test.cuda) == CUDA_SUCCESS, "the rank's own stream has work");
    MTEST_CHECK(!loaded->variable || is_there(loaded), "the driver has not waited for streams");
    use_again(loaded);
    if (is_capture) {
        GTEST_CU(cuStreamEndCapture(captured, &graph));
        GTEST_CU(cuGraphDestroy(graph));
        GTEST_CU(cuStreamDestroy(captured));
    }
}

/* Rank 1's stream waits for rank 0, and that for the last rank, which unloads. */
static void run(enum kind kind, unsigned value)
{
    int unloader = mtest_size > 2 ? 2 : 0;
    struct loaded loaded;

    if (mtest_rank == unloader)
        load(&loaded, kind, 0);
    GTEST_CU(cuMemsetD32(memory, 0, N));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 1) {
        MTEST_OK(MPIX_Recv_enqueue((void *)memory, N, MPI_UNSIGNED, 0, 0, test.comm, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, unloader, 1, MPI_COMM_WORLD));
    }
    if (mtest_rank == unloader) {
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        unload_beside(&loaded);
        if (unloader != 0)
            MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD));
    }
    if (mtest_rank == 0) {
        if (unloader != 0)
            MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, unloader, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        GTEST_CU(cuMemsetD32Async(memory, value, N, test.cuda));
        MTEST_OK(MPIX_Send_enqueue((void *)memory, N, MPI_UNSIGNED, 1, 0, test.comm));
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
    if (mtest_rank == 1)
        etest_expect(memory, N, value, "a message");
    while (mtest_rank == unloader && loaded.variable && is_there(&loaded))
        MTEST_OK(AMPI_Yield());
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* The last rank unloads a library whose image it keeps until then. The message does not wait for that. */
static void run_kept(unsigned value)
{
    struct loaded loaded;

    if (mtest_rank == 2)
        load(&loaded, LIBRARY, 1);
    GTEST_CU(cuMemsetD32(memory, 0, N));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == 1) {
        MTEST_OK(MPIX_Recv_enqueue((void *)memory, N, MPI_UNSIGNED, 0, 0, test.comm, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 2, 1, MPI_COMM_WORLD));
    } else if (mtest_rank == 2) {
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Send(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD));
        GTEST_CU(unload(&loaded));
        MTEST_CHECK(!loaded.variable || !is_there(&loaded), "the library is still there");
    } else if (mtest_rank == 0) {
        MTEST_OK(MPI_Recv(NULL, 0, MPI_INT, 2, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = 0; i < 100;
             i++) /* lets the other rank unload it before the message, if that is possible */
            MTEST_OK(AMPI_Yield());
        GTEST_CU(cuMemsetD32Async(memory, value, N, test.cuda));
        MTEST_OK(MPIX_Send_enqueue((void *)memory, N, MPI_UNSIGNED, 1, 0, test.comm));
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
    if (mtest_rank == 1)
        etest_expect(memory, N, value, "a message");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    int is_kept = argc > 1 && strcmp(argv[1], "kept") == 0;

    is_capture = argc > 1 && strcmp(argv[1], "capture") == 0;
    mtest_init(&argc, &argv, 2);
    gtest_init();
    if (fakecuda_is_here() && mtest_rank == 0)
        fakecuda_add_variable("numbers", sizeof(unsigned));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    gtest_load_kernels();
    test = etest_begin(0, 0);
    memory = etest_alloc(N);
    for (unsigned i = 0; i < ROUNDS * KINDS; i++)
        if (is_kept)
            run_kept(i + 7);
        else
            run(i % KINDS, i + 7);
    GTEST_CU(cuMemFree(memory));
    etest_end(&test);
    return mtest_end();
}
