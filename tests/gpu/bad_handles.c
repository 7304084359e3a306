/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Each function of mpi-ext.h that takes streams, stream communicators, prequests or handlers returns an error, and nothing
 * else happens, if a handle is null, is memory of the program, is of another kind, or has been freed; if an address for a
 * result is NULL; and if a request is of the wrong kind or in the wrong state.
 */
#include "device.h"

#include "mpi-ext.h"

static long long garbage[64]; /* no handle */
static float *data;
static MPI_Comm plain, freed_comm;
static MPI_Request persistent, partitioned, generalized;
static int n_calls;

#define BAD(call)                                                                                          \
    do {                                                                                                   \
        int error_ = (call), class_ = MPI_SUCCESS;                                                         \
        n_calls++;                                                                                         \
        MTEST_CHECK(error_ != MPI_SUCCESS, "no error: %s", #call);                                         \
        if (error_ != MPI_SUCCESS)                                                                         \
            MPI_Error_class(error_, &class_);                                                              \
        MTEST_CHECK(class_ != MPI_ERR_INTERN && class_ != MPI_ERR_UNKNOWN, "%s: class %d", #call, class_); \
    } while (0)

/* Handles that are not of the wanted kind. */
static void *const *wrong_handles(int *n_out)
{
    static void *list[8];
    int n = 0;

    list[n++] = NULL;
    list[n++] = garbage;
    list[n++] = (char *)garbage + 3;
    list[n++] = (void *)plain;
    list[n++] = (void *)persistent;
    list[n++] = (void *)MPI_FLOAT;
    *n_out = n;
    return list;
}

static void test_streams(void)
{
    MPIX_Stream stream = MPIX_STREAM_NULL, freed;
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Info info;
    int n;
    void *const *wrong = wrong_handles(&n);

    MTEST_OK(MPIX_Stream_create(MPI_INFO_NULL, &stream));
    freed = stream;
    MTEST_OK(MPIX_Stream_free(&stream));
    MTEST_OK(MPI_Info_create(&info));
    BAD(MPIX_Info_set_hex(info, NULL, garbage, 8));
    BAD(MPIX_Info_set_hex(info, "value", NULL, 8));
    BAD(MPIX_Info_set_hex(info, "value", garbage, -1));
    MTEST_OK(MPI_Info_set(info, "type", "no such stream"));
    BAD(MPIX_Stream_create(info, &stream));
    MTEST_OK(MPI_Info_set(info, "type", "cudaStream_t"));
    BAD(MPIX_Stream_create(info, &stream)); /* without a value */
    MTEST_OK(MPI_Info_set(info, "value", "not hexadecimal"));
    BAD(MPIX_Stream_create(info, &stream));
    MTEST_OK(MPI_Info_free(&info));
    BAD(MPIX_Stream_create(MPI_INFO_NULL, NULL));
    BAD(MPIX_Stream_free(NULL));
    BAD(MPIX_Stream_free(&freed));
    BAD(MPIX_Stream_comm_create(plain, freed, &made));
    BAD(MPIX_Stream_comm_create(plain, MPIX_STREAM_NULL, NULL));
    BAD(MPIX_Stream_comm_create_multiplex(plain, -1, NULL, &made));
    BAD(MPIX_Stream_comm_create_multiplex(plain, 1, NULL, &made));
    BAD(MPIX_Stream_comm_create_multiplex(plain, 1, &freed, &made));
    for (int i = -1; i < 2; i++) {
        stream = (MPIX_Stream)garbage;
        MTEST_OK(MPIX_Comm_get_stream(plain, i, &stream));
        MTEST_CHECK(stream == MPIX_STREAM_NULL, "stream %d of a communicator without any", i);
    }
    BAD(MPIX_Comm_get_stream(plain, 0, NULL));
    for (int i = 0; i < n; i++) {
        MPIX_Stream other = wrong[i];
        MPI_Comm comm = wrong[i];
        BAD(MPIX_Stream_free(&other));
        if (other)
            BAD(MPIX_Stream_comm_create(plain, other, &made));
        if (comm != plain) {
            BAD(MPIX_Stream_comm_create(comm, MPIX_STREAM_NULL, &made));
            BAD(MPIX_Comm_get_stream(comm, 0, &stream));
        }
    }
}

/* On a communicator without a stream of CUDA, and on none. */
static void test_enqueue_on(MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;

    BAD(MPIX_Send_enqueue(data, 1, MPI_FLOAT, 0, 0, comm));
    BAD(MPIX_Send_enqueue_c(data, 1, MPI_FLOAT, 0, 0, comm));
    BAD(MPIX_Recv_enqueue(data, 1, MPI_FLOAT, 0, 0, comm, MPI_STATUS_IGNORE));
    BAD(MPIX_Recv_enqueue_c(data, 1, MPI_FLOAT, 0, 0, comm, MPI_STATUS_IGNORE));
    BAD(MPIX_Isend_enqueue(data, 1, MPI_FLOAT, 0, 0, comm, &request));
    BAD(MPIX_Isend_enqueue_c(data, 1, MPI_FLOAT, 0, 0, comm, &request));
    BAD(MPIX_Irecv_enqueue(data, 1, MPI_FLOAT, 0, 0, comm, &request));
    BAD(MPIX_Irecv_enqueue_c(data, 1, MPI_FLOAT, 0, 0, comm, &request));
    BAD(MPIX_Isend_enqueue(data, 1, MPI_FLOAT, 0, 0, comm, NULL));
    BAD(MPIX_Irecv_enqueue(data, 1, MPI_FLOAT, 0, 0, comm, NULL));
    BAD(MPIX_Barrier_enqueue(comm));
    BAD(MPIX_Bcast_enqueue(data, 1, MPI_FLOAT, 0, comm));
    BAD(MPIX_Bcast_enqueue_c(data, 1, MPI_FLOAT, 0, comm));
    BAD(MPIX_Reduce_enqueue(data, data + 1, 1, MPI_FLOAT, MPI_SUM, 0, comm));
    BAD(MPIX_Reduce_enqueue_c(data, data + 1, 1, MPI_FLOAT, MPI_SUM, 0, comm));
    BAD(MPIX_Allreduce_enqueue(data, data + 1, 1, MPI_FLOAT, MPI_SUM, comm));
    BAD(MPIX_Allreduce_enqueue_c(data, data + 1, 1, MPI_FLOAT, MPI_SUM, comm));
    BAD(MPIX_Allgather_enqueue(data, 1, MPI_FLOAT, data + 1, 1, MPI_FLOAT, comm));
    BAD(MPIX_Allgather_enqueue_c(data, 1, MPI_FLOAT, data + 1, 1, MPI_FLOAT, comm));
    BAD(MPIX_Alltoall_enqueue(data, 1, MPI_FLOAT, data + 1, 1, MPI_FLOAT, comm));
    BAD(MPIX_Alltoall_enqueue_c(data, 1, MPI_FLOAT, data + 1, 1, MPI_FLOAT, comm));
}

static void test_requests(void)
{
    MPIX_Prequest prequest = MPIX_PREQUEST_NULL, freed;
    int n;
    void *const *wrong = wrong_handles(&n);

    BAD(MPIX_Start_enqueue(NULL));
    BAD(MPIX_Startall_enqueue(-1, NULL));
    BAD(MPIX_Startall_enqueue(1, NULL));
    BAD(MPIX_Wait_enqueue(NULL, MPI_STATUS_IGNORE));
    BAD(MPIX_Waitall_enqueue(-1, NULL, MPI_STATUSES_IGNORE));
    BAD(MPIX_Waitall_enqueue(1, NULL, MPI_STATUSES_IGNORE));
    BAD(MPIX_Start_enqueue(&persistent)); /* of a communicator without a stream */
    BAD(MPIX_Start_enqueue(&partitioned));
    BAD(MPIX_Start_enqueue(&generalized));
    BAD(MPIX_Wait_enqueue(&generalized, MPI_STATUS_IGNORE));
    BAD(MPIX_Prequest_create(persistent, &prequest));
    BAD(MPIX_Prequest_create(generalized, &prequest));
    BAD(MPIX_Prequest_create(partitioned, NULL));
    BAD(MPIX_Pbuf_prepare(persistent));
    BAD(MPIX_Pbuf_prepare(partitioned)); /* not started */
    BAD(MPIX_Pbuf_prepareall(-1, NULL));
    BAD(MPIX_Pbuf_prepareall(1, NULL));
    BAD(MPIX_Pbuf_prepareall(1, &persistent));
    MTEST_OK(MPIX_Prequest_create(partitioned, &prequest));
    BAD(MPIX_Prequest_create(partitioned, &(MPIX_Prequest){NULL})); /* it has one */
    freed = prequest;
    MTEST_OK(MPIX_Prequest_free(&prequest));
    BAD(MPIX_Prequest_free(&freed));
    BAD(MPIX_Prequest_free(NULL));
    for (int i = 0; i < n; i++) {
        MPI_Request request = wrong[i];
        MPIX_Prequest other = wrong[i];
        BAD(MPIX_Prequest_free(&other));
        if (request == persistent)
            continue;
        BAD(MPIX_Prequest_create(request, &prequest));
        BAD(MPIX_Pbuf_prepare(request));
        if (request != NULL && request != MPI_REQUEST_NULL) {
            BAD(MPIX_Start_enqueue(&request));
            BAD(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
        }
    }
}

static void test_handlers(void)
{
    AMPI_GPU_Handlers handlers = AMPI_GPU_HANDLERS_NULL, freed;
    AMPI_GPU_Device device;
    MPI_Info info;
    int n;
    void *const *wrong = wrong_handles(&n);

    BAD(AMPI_GPU_Handlers_create(plain, MPI_INFO_NULL, NULL));
    MTEST_OK(MPI_Info_create(&info));
    MTEST_OK(MPI_Info_set(info, "blocks", "many"));
    BAD(AMPI_GPU_Handlers_create(plain, info, &handlers));
    MTEST_OK(MPI_Info_free(&info));
    MTEST_OK(AMPI_GPU_Handlers_create(plain, MPI_INFO_NULL, &handlers));
    BAD(AMPI_GPU_Register_entry(-1, AMPI_GPU_BY_BLOCK, 1, NULL, garbage, garbage, handlers));
    BAD(AMPI_GPU_Register_entry(256, AMPI_GPU_BY_BLOCK, 1, NULL, garbage, garbage, handlers));
    BAD(AMPI_GPU_Register_entry(0, 7, 1, NULL, garbage, garbage, handlers));
    BAD(AMPI_GPU_Register_entry(0, AMPI_GPU_BY_BLOCK, 0, NULL, garbage, garbage, handlers));
    BAD(AMPI_GPU_Send(data, 4, 0, 0, handlers)); /* not started */
    BAD(AMPI_GPU_Handlers_device(handlers, NULL));
    freed = handlers;
    MTEST_OK(AMPI_GPU_Handlers_free(&handlers));
    BAD(AMPI_GPU_Handlers_free(&freed));
    BAD(AMPI_GPU_Handlers_free(NULL));
    BAD(AMPI_GPU_Handlers_start(freed));
    BAD(AMPI_GPU_Handlers_wait(freed));
    for (int i = 0; i < n; i++) {
        AMPI_GPU_Handlers other = wrong[i];
        BAD(AMPI_GPU_Register_entry(0, AMPI_GPU_BY_BLOCK, 1, NULL, garbage, garbage, other));
        BAD(AMPI_GPU_Handlers_start(other));
        BAD(AMPI_GPU_Handlers_device(other, &device));
        BAD(AMPI_GPU_Send(NULL, 0, 0, 0, other));
        BAD(AMPI_GPU_Handlers_wait(other));
        BAD(AMPI_GPU_Handlers_free(&other));
        if ((MPI_Comm)wrong[i] != plain)
            BAD(AMPI_GPU_Handlers_create((MPI_Comm)wrong[i], MPI_INFO_NULL, &handlers));
    }
}

static void test_work(void)
{
    MPI_Request request;

    BAD(AMPI_GPU_Iinvoke(NULL, NULL));
    BAD(AMPI_GPU_Ievent(NULL, NULL));
    BAD(AMPI_GPU_Ievent(NULL, &request)); /* CUDA has no event NULL */
}

static int answer(void *state, MPI_Status *status)
{
    (void)state, (void)status;
    return MPI_SUCCESS;
}

static int nothing(void *state)
{
    (void)state;
    return MPI_SUCCESS;
}

static int no_cancel(void *state, int is_complete)
{
    (void)state, (void)is_complete;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    struct gtest_buffer buffer;
    int n;
    void *const *wrong;

    mtest_init(&argc, &argv, 1);
    gtest_init();
    MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    MTEST_OK(MPI_Comm_dup(MPI_COMM_SELF, &plain));
    MTEST_OK(MPI_Comm_dup(MPI_COMM_SELF, &freed_comm));
    buffer = gtest_alloc(GTEST_GPU0, 64, NULL);
    data = (float *)buffer.data;
    MTEST_OK(MPI_Send_init(data, 1, MPI_FLOAT, 0, 0, plain, &persistent));
    MTEST_OK(MPI_Psend_init(data, 2, 1, MPI_FLOAT, MPI_PROC_NULL, 0, plain, MPI_INFO_NULL, &partitioned));
    MTEST_OK(MPI_Grequest_start(answer, nothing, no_cancel, NULL, &generalized));
    test_streams();
    wrong = wrong_handles(&n);
    for (int i = 0; i < n; i++)
        test_enqueue_on((MPI_Comm)wrong[i]); /* one of them is a valid communicator without a stream */
    {
        MPI_Comm dead = freed_comm;
        MTEST_OK(MPI_Comm_free(&freed_comm));
        test_enqueue_on(dead);
    }
    test_requests();
    test_handlers();
    test_work();
    MTEST_CHECK(n_calls > 200, "only %d calls", n_calls);
    MTEST_OK(MPI_Grequest_complete(generalized));
    MTEST_OK(MPI_Wait(&generalized, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Request_free(&persistent));
    MTEST_OK(MPI_Request_free(&partitioned));
    gtest_free(&buffer);
    MTEST_OK(MPI_Comm_free(&plain));
    return mtest_end();
}
