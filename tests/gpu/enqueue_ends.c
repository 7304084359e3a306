/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The end of what enqueued operations need, while they are pending: their communicator and MPIX_Stream are freed, their requests are
 * freed, or cancelled in vain; they complete with the right data, in device and host memory, before their stream comes to them or after it.
 * Argument: finalize: MPI_Finalize with operations that the stream comes to later, or that nobody matches.
 */
#include "enqueue.h"
#include "mpi-ext.h"

enum { N = 64 };

enum way { SMALL, HOST, LARGE, WAYS }; /* small messages in device memory match at the call (early.h) */

static unsigned count_of(enum way way)
{
    return way == LARGE ? 5000 : N;
}

/* The buffers of a message to the next rank and one from the rank before. */
struct buffers {
    enum way way;
    unsigned *out, *in;
};

static struct buffers alloc(enum way way)
{
    struct buffers made = {.way = way};
    unsigned n = count_of(way), *image = mtest_alloc(n * sizeof *image);

    for (unsigned i = 0; i < n; i++)
        image[i] = (unsigned)mtest_rank + 1;
    made.out = way == HOST ? mtest_alloc(n * sizeof(unsigned)) : (unsigned *)etest_alloc(n);
    made.in = way == HOST ? mtest_alloc(n * sizeof(unsigned)) : (unsigned *)etest_alloc(n);
    if (way == HOST)
        memcpy(made.out, image, n * sizeof *image);
    else
        GTEST_CU(cuMemcpyHtoD((CUdeviceptr)made.out, image, n * sizeof *image));
    GTEST_CU(cuCtxSynchronize()); /* copies from pageable memory may return early, and no stream waits */
    free(image);
    return made;
}

static int rank_before(void)
{
    return (mtest_rank + mtest_size - 1) % mtest_size;
}

/* The received data; the caller frees it. */
static unsigned *read_in(const struct buffers *buffers)
{
    size_t n_bytes = count_of(buffers->way) * sizeof(unsigned);
    unsigned *got = mtest_alloc(n_bytes);

    if (buffers->way == HOST)
        memcpy(got, buffers->in, n_bytes);
    else
        GTEST_CU(cuMemcpyDtoH(got, (CUdeviceptr)buffers->in, n_bytes));
    return got;
}

/* Nothing else says that a receive is complete whose request was freed. */
static void await_data(const struct buffers *buffers)
{
    unsigned n = count_of(buffers->way), n_right = 0;

    while (n_right < n) {
        unsigned *got = read_in(buffers);
        for (n_right = 0; n_right < n && got[n_right] == (unsigned)rank_before() + 1;)
            n_right++;
        free(got);
        MTEST_OK(AMPI_Yield());
    }
}

static void check_and_free(struct buffers *buffers, const char *what)
{
    unsigned n = count_of(buffers->way), *got = read_in(buffers);

    for (unsigned i = 0; i < n; i++)
        MTEST_CHECK(got[i] == (unsigned)rank_before() + 1, "%s: element %u is %u", what, i, got[i]);
    free(got);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (buffers->way == HOST) {
        free(buffers->out);
        free(buffers->in);
    } else {
        GTEST_CU(cuMemFree((CUdeviceptr)buffers->out));
        GTEST_CU(cuMemFree((CUdeviceptr)buffers->in));
    }
}

/* Held streams enqueue both, requests[0]: the receive. */
static void enqueue(struct etest *test, const struct buffers *buffers, MPI_Request requests[2])
{
    int n = (int)count_of(buffers->way);

    MTEST_OK(MPIX_Irecv_enqueue(buffers->in, n, MPI_UNSIGNED, rank_before(), 0, test->comm, &requests[0]));
    MTEST_OK(MPIX_Isend_enqueue(buffers->out, n, MPI_UNSIGNED, (mtest_rank + 1) % mtest_size, 0, test->comm,
                                &requests[1]));
}

static void end(struct etest *test)
{
    GTEST_CU(cuStreamDestroy(test->cuda));
    GTEST_CU(cuMemFreeHost((void *)test->flag));
}

/* is_awaited: the stream waits for them, else the program. */
static void freed_communicator(enum way way, int is_awaited)
{
    struct etest test = etest_begin(0, 0);
    struct buffers buffers = alloc(way);
    MPI_Request requests[2];
    MPI_Status statuses[2];

    etest_hold(&test);
    enqueue(&test, &buffers, requests);
    if (is_awaited)
        MTEST_OK(MPIX_Waitall_enqueue(2, requests, statuses));
    MTEST_OK(MPI_Comm_free(&test.comm));
    MTEST_OK(MPIX_Stream_free(&test.stream)); /* operations need it still */
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    etest_release(&test);
    if (!is_awaited)
        MTEST_OK(MPI_Waitall(2, requests, statuses));
    MTEST_CHECK(statuses[0].MPI_SOURCE == rank_before(), "the source is %d", statuses[0].MPI_SOURCE);
    check_and_free(&buffers, "the communicator was freed");
    end(&test);
}

static void freed_requests(enum way way)
{
    struct etest test = etest_begin(0, 0);
    struct buffers buffers = alloc(way);
    MPI_Request requests[2];
    char byte = 0;

    etest_hold(&test);
    enqueue(&test, &buffers, requests);
    for (int i = 0; i < 2; i++)
        MTEST_OK(MPI_Request_free(&requests[i]));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    etest_release(&test);
    MTEST_OK(MPIX_Irecv_enqueue(&byte, 1, MPI_BYTE, rank_before(), 1, test.comm, &requests[0]));
    MTEST_OK(MPIX_Send_enqueue(&byte, 1, MPI_BYTE, (mtest_rank + 1) % mtest_size, 1, test.comm));
    MTEST_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    await_data(&buffers);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_OK(MPI_Comm_free(&test.comm));
    MTEST_OK(MPIX_Stream_free(&test.stream));
    GTEST_CU(cuStreamSynchronize(test.cuda));
    end(&test);
    check_and_free(&buffers, "the requests were freed");
}

/* There is nothing to cancel. */
static void cancelled(enum way way)
{
    struct etest test = etest_begin(0, 0);
    struct buffers buffers = alloc(way);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int flag = 1;

    etest_hold(&test);
    enqueue(&test, &buffers, requests);
    for (int i = 0; i < 2; i++)
        MTEST_OK(MPI_Cancel(&requests[i]));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    etest_release(&test);
    MTEST_OK(MPI_Waitall(2, requests, statuses));
    for (int i = 0; i < 2; i++) {
        MTEST_OK(MPI_Test_cancelled(&statuses[i], &flag));
        MTEST_CHECK(!flag, "operation %d was cancelled", i);
    }
    check_and_free(&buffers, "MPI_Cancel was called");
    etest_end(&test);
}

/* Operations that are pending at the end of MPI: the program does not wait for them. */
static void unfinished(void)
{
    struct etest test = etest_begin(0, 0), held = etest_begin(0, 0);
    struct buffers buffers = alloc(SMALL), host = alloc(HOST);
    MPI_Request requests[4];

    enqueue(&test, &buffers, requests);
    MTEST_OK(MPIX_Irecv_enqueue(buffers.in, N, MPI_UNSIGNED, rank_before(), 7, test.comm, &requests[0]));
    MTEST_OK(MPIX_Irecv_enqueue(host.in, N, MPI_UNSIGNED, rank_before(), 7, test.comm, &requests[1]));
    etest_hold(&held);
    enqueue(&held, &host, &requests[2]);
    *held.flag = 1; /* the stream comes to them at any time from now on */
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_select(gtest_gpu(mtest_rank % gtest_n_devices));
    gtest_load_kernels();
    mtest_errors_return(MPI_COMM_SELF);
    mtest_errors_return(MPI_COMM_WORLD);
    if (argc > 1 && strcmp(argv[1], "finalize") == 0) {
        unfinished();
        return mtest_end();
    }
    for (enum way way = 0; way < WAYS; way++) {
        freed_communicator(way, 0);
        freed_communicator(way, 1);
        freed_requests(way);
        cancelled(way);
    }
    return mtest_end();
}
