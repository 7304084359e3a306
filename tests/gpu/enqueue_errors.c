/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Wrong uses of streams and of operations in them are errors of MPICH's classes, and change nothing. An operation
 * that fails when its stream comes to it: its status has the error, the error handler is called, and the next
 * call with that stream returns the error. Argument: fatal: such an operation ends the job.
 */
#include "enqueue.h"
#include "mpi-ext.h"

static void streams(void)
{
    MPI_Info info = etest_info(NULL), wrong;
    MPIX_Stream stream = MPIX_STREAM_NULL, plain = MPIX_STREAM_NULL, freed, found;
    MPI_Comm single, multiplex, none;
    CUstream cuda;

    MTEST_OK(MPI_Info_create(&wrong));
    MTEST_CLASS(MPIX_Info_set_hex(wrong, "value", NULL, 8), MPI_ERR_ARG);
    MTEST_CLASS(MPIX_Info_set_hex(wrong, "value", &cuda, 0), MPI_ERR_INFO_VALUE);
    MTEST_CLASS(MPIX_Info_set_hex(wrong, "", &cuda, 8), MPI_ERR_INFO_KEY);
    MTEST_CLASS(MPIX_Info_set_hex(MPI_INFO_NULL, "value", &cuda, 8), MPI_ERR_INFO);
    MTEST_OK(MPI_Info_set(wrong, "type", "hipStream_t"));
    MTEST_CLASS(MPIX_Stream_create(wrong, &stream), MPI_ERR_OTHER);
    MTEST_OK(MPI_Info_set(wrong, "type", "cudaStream_t"));
    MTEST_CLASS(MPIX_Stream_create(wrong, &stream), MPI_ERR_OTHER);
    MTEST_OK(MPI_Info_set(wrong, "value", "00000000000000zz"));
    MTEST_CLASS(MPIX_Stream_create(wrong, &stream), MPI_ERR_OTHER);
    MTEST_CLASS(MPIX_Stream_create(info, NULL), MPI_ERR_ARG);
    MTEST_CHECK(stream == MPIX_STREAM_NULL, "a stream was made");
    MTEST_OK(MPI_Info_free(&wrong));

    /* A stream of another context than the current one. */
    GTEST_CU(cuStreamCreate(&cuda, CU_STREAM_NON_BLOCKING));
    wrong = etest_info(cuda);
    if (gtest_n_devices > 1) {
        gtest_select(GTEST_GPU1);
        MTEST_CLASS(MPIX_Stream_create(wrong, &stream), MPI_ERR_OTHER);
        gtest_select(GTEST_GPU0);
    }
    MTEST_OK(MPIX_Stream_create(wrong, &stream));
    MTEST_OK(MPI_Info_free(&wrong));
    MTEST_OK(MPI_Info_free(&info));

    MTEST_OK(MPIX_Stream_create(MPI_INFO_NULL, &plain));
    MTEST_CHECK(plain != MPIX_STREAM_NULL, "a stream of no GPU is MPIX_STREAM_NULL");
    MTEST_CLASS(MPIX_Stream_comm_create(MPI_COMM_NULL, stream, &single), MPI_ERR_COMM);
    MTEST_CLASS(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, NULL), MPI_ERR_ARG);
    MTEST_CLASS(MPIX_Stream_comm_create(MPI_COMM_WORLD, (MPIX_Stream)&cuda, &single), MPI_ERR_OTHER);
    MTEST_CLASS(MPIX_Stream_comm_create_multiplex(MPI_COMM_WORLD, -1, &stream, &single), MPI_ERR_COUNT);
    MTEST_OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &single));
    MTEST_OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, plain, &none));
    MTEST_OK(
        MPIX_Stream_comm_create_multiplex(MPI_COMM_WORLD, 2, (MPIX_Stream[]){plain, stream}, &multiplex));
    MTEST_OK(MPIX_Comm_get_stream(multiplex, 1, &found));
    MTEST_CHECK(found == stream, "stream 1 of several");
    MTEST_OK(MPIX_Comm_get_stream(multiplex, 2, &found));
    MTEST_CHECK(found == MPIX_STREAM_NULL, "stream 2 of two");
    MTEST_OK(MPIX_Comm_get_stream(MPI_COMM_WORLD, 0, &found));
    MTEST_CHECK(found == MPIX_STREAM_NULL, "a stream of MPI_COMM_WORLD");
    MTEST_CLASS(MPIX_Comm_get_stream(single, 0, NULL), MPI_ERR_ARG);

    /* Communicators without a CUDA stream, or with several. */
    MTEST_CLASS(MPIX_Send_enqueue(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_OTHER);
    MTEST_CLASS(MPIX_Send_enqueue(NULL, 0, MPI_INT, 0, 0, none), MPI_ERR_OTHER);
    MTEST_CLASS(MPIX_Recv_enqueue(NULL, 0, MPI_INT, 0, 0, multiplex, MPI_STATUS_IGNORE), MPI_ERR_OTHER);
    MTEST_CLASS(MPIX_Send_enqueue(NULL, 0, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM);
    MTEST_CLASS(MPIX_Send_enqueue(NULL, 0, MPI_INT, mtest_size, 0, single), MPI_ERR_RANK);
    MTEST_CLASS(MPIX_Send_enqueue(NULL, 1, MPI_INT, 0, 0, single), MPI_ERR_BUFFER);
    MTEST_CLASS(MPIX_Isend_enqueue(NULL, 0, MPI_INT, 0, 0, single, NULL), MPI_ERR_ARG);
    MTEST_CLASS(MPIX_Irecv_enqueue(NULL, -1, MPI_INT, 0, 0, single, NULL), MPI_ERR_ARG);

    /* Streams in use. */
    MTEST_CLASS(MPIX_Stream_free(&stream), MPI_ERR_OTHER);
    MTEST_OK(MPI_Comm_free(&single));
    MTEST_CLASS(MPIX_Stream_free(&stream), MPI_ERR_OTHER);
    MTEST_OK(MPI_Comm_free(&multiplex));
    freed = stream;
    MTEST_OK(MPIX_Stream_free(&stream));
    MTEST_CLASS(MPIX_Stream_free(&stream), MPI_ERR_OTHER);
    MTEST_CLASS(MPIX_Stream_free(NULL), MPI_ERR_ARG);
    (void)freed;
    MTEST_OK(MPI_Comm_free(&none));
    MTEST_OK(MPIX_Stream_free(&plain));
    GTEST_CU(cuStreamDestroy(cuda));
}

static void waits(void)
{
    struct etest test = etest_begin(0, 0), other = etest_begin(0, 0);
    MPI_Request requests[2];
    char byte = 1, got[2] = {0, 0};

    MTEST_OK(MPI_Isend(&byte, 1, MPI_BYTE, mtest_rank, 0, test.comm, &requests[0]));
    MTEST_CLASS(MPIX_Wait_enqueue(&requests[0], MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    MTEST_OK(MPI_Recv(&got[0], 1, MPI_BYTE, mtest_rank, 0, test.comm, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    MTEST_CLASS(MPIX_Wait_enqueue(NULL, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    MTEST_CLASS(MPIX_Waitall_enqueue(-1, requests, MPI_STATUSES_IGNORE), MPI_ERR_COUNT);

    /* Requests of two streams. */
    MTEST_OK(MPIX_Irecv_enqueue(&got[0], 1, MPI_BYTE, mtest_rank, 1, test.comm, &requests[0]));
    MTEST_OK(MPIX_Irecv_enqueue(&got[1], 1, MPI_BYTE, mtest_rank, 1, other.comm, &requests[1]));
    MTEST_CLASS(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
    MTEST_CLASS(MPIX_Waitall_enqueue(2, (MPI_Request[]){requests[0], requests[0]}, MPI_STATUSES_IGNORE),
                MPI_ERR_REQUEST);
    MTEST_OK(MPI_Send(&byte, 1, MPI_BYTE, mtest_rank, 1, test.comm));
    MTEST_OK(MPI_Send(&byte, 1, MPI_BYTE, mtest_rank, 1, other.comm));
    MTEST_OK(MPIX_Wait_enqueue(&requests[1], MPI_STATUS_IGNORE));
    MTEST_OK(MPIX_Wait_enqueue(&requests[0], MPI_STATUS_IGNORE));
    GTEST_CU(cuStreamSynchronize(test.cuda));
    GTEST_CU(cuStreamSynchronize(other.cuda));
    MTEST_CHECK(got[0] == 1 && got[1] == 1, "the messages did not come");
    etest_end(&test);
    etest_end(&other);
}

static void unsupported(void)
{
    struct etest test;
    char byte = 0;

    if (!fakecuda_is_here())
        return;
    test = etest_begin(0, 0);
    if (mtest_rank == 0) { /* calls are counted for all ranks together */
        fakecuda_fail("cuStreamBatchMemOp", 1, CUDA_ERROR_NOT_SUPPORTED);
        MTEST_CLASS(MPIX_Send_enqueue(&byte, 1, MPI_BYTE, 0, 0, test.comm), MPI_ERR_UNSUPPORTED_OPERATION);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    etest_end(&test);
}

static int n_handled;

static void handle(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    n_handled += mtest_class(*code) == MPI_ERR_TRUNCATE;
}

/* A message that is longer than the receive. */
static void truncated(int is_fatal)
{
    struct etest test = etest_begin(0, 0);
    MPI_Errhandler handler;
    MPI_Status status;
    CUdeviceptr data;

    memset(&status, 0, sizeof status);
    GTEST_CU(cuMemAlloc(&data, 64));
    MTEST_OK(MPI_Comm_create_errhandler(handle, &handler));
    MTEST_OK(MPI_Comm_set_errhandler(test.comm, is_fatal ? MPI_ERRORS_ARE_FATAL : handler));
    MTEST_OK(MPIX_Recv_enqueue((void *)data, 2, MPI_INT, mtest_rank, 0, test.comm, &status));
    MTEST_OK(MPI_Send((void *)(data + 16), 3, MPI_INT, mtest_rank, 0, test.comm));
    GTEST_CU(cuStreamSynchronize(test.cuda));
    MTEST_OK(AMPI_Yield());
    MTEST_CHECK(status.MPI_ERROR == MPI_ERR_TRUNCATE, "the status has error %d", status.MPI_ERROR);
    MTEST_CHECK(n_handled == 1, "the error handler was called %d times", n_handled);
    MTEST_CLASS(MPIX_Send_enqueue(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, test.comm), MPI_ERR_TRUNCATE);
    MTEST_OK(MPIX_Send_enqueue(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, test.comm));
    GTEST_CU(cuStreamSynchronize(test.cuda));
    MTEST_OK(MPI_Errhandler_free(&handler));
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
}

int main(int argc, char **argv)
{
    int is_fatal = argc > 1 && strcmp(argv[1], "fatal") == 0;

    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_load_kernels();
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_CHECK(mtest_size == 1 || getenv("CUDA_DEVICE_MAX_CONNECTIONS"),
                "streams that wait for messages share few connections to the GPU");
    if (!is_fatal)
        streams();
    if (!is_fatal) {
        waits();
        unsupported();
    }
    truncated(is_fatal);
    return mtest_end();
}
