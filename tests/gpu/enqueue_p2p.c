/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages in the order of CUDA streams (MPIX_Send_enqueue, ...): the host waits for none of them, each stream
 * waits for its own; they match in the order of the calls, also with ordinary messages of ranks without a
 * CUDA stream; data of any size, place and layout arrives behind the kernels that wrote it, and before the
 * kernels that read it. Arguments: default: in the default stream; asked: dlsym gives out a wait that the program does not
 * call, as some libraries do, beside those that it is linked with.
 */
#include <dlfcn.h>

#include "enqueue.h"

#define N_MAX (1 << 18)

static int is_default;

/* Kernels of two ranks change a buffer in turns, and it goes from stream to stream. */
static void ping_pong(unsigned n)
{
    enum { TURNS = 10 };
    struct etest test = etest_begin(is_default, 0);
    CUdeviceptr data = etest_alloc(n);
    int partner = mtest_rank ^ 1;
    unsigned value = 0;
    MPI_Status status;

    memset(&status, 0x7f, sizeof status);
    etest_hold(&test);
    for (int i = 0; i < TURNS; i++) {
        if (mtest_rank % 2 == 0) {
            gtest_launch_update(data, n, 3, 1, test.cuda);
            MTEST_OK(MPIX_Send_enqueue((void *)data, (int)n, MPI_UNSIGNED, partner, 4, test.comm));
            MTEST_OK(MPIX_Recv_enqueue((void *)data, (int)n, MPI_UNSIGNED, partner, 5, test.comm, &status));
        } else {
            MTEST_OK(MPIX_Recv_enqueue_c((void *)data, n, MPI_UNSIGNED, partner, 4, test.comm, &status));
            gtest_launch_update(data, n, 2, 5, test.cuda);
            MTEST_OK(MPIX_Send_enqueue_c((void *)data, n, MPI_UNSIGNED, partner, 5, test.comm));
        }
        value = (3 * value + 1) * 2 + 5;
    }
    etest_release(&test);
    etest_expect(data, n, value, "ping-pong");
    int count = -1;
    MTEST_OK(MPI_Get_count(&status, MPI_UNSIGNED, &count));
    MTEST_CHECK(status.MPI_SOURCE == partner && status.MPI_TAG == 5 - mtest_rank % 2 &&
                    status.MPI_ERROR == MPI_SUCCESS && count == (int)n,
                "status: source %d, tag %d, error %d, count %d", status.MPI_SOURCE, status.MPI_TAG,
                status.MPI_ERROR, count);
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
}

/* A ring: each rank's stream receives from both neighbors and sends to both, several times over. */
static void halo(unsigned n)
{
    enum { STEPS = 6 };
    struct etest test = etest_begin(is_default, 0);
    int left = (mtest_rank + mtest_size - 1) % mtest_size, right = (mtest_rank + 1) % mtest_size;
    CUdeviceptr own = etest_alloc(n), from_left = etest_alloc(n), from_right = etest_alloc(n);
    unsigned *values = mtest_alloc((size_t)mtest_size * sizeof *values);

    for (int i = 0; i < mtest_size; i++)
        values[i] = 0;
    etest_hold(&test);
    for (int step = 0; step < STEPS; step++) {
        MPI_Request requests[5] = {[4] = MPI_REQUEST_NULL};
        MPI_Status statuses[5];
        gtest_launch_update(own, n, 3, (unsigned)mtest_rank + 1, test.cuda);
        MTEST_OK(
            MPIX_Irecv_enqueue((void *)from_left, (int)n, MPI_UNSIGNED, left, 1, test.comm, &requests[0]));
        MTEST_OK(
            MPIX_Irecv_enqueue_c((void *)from_right, n, MPI_UNSIGNED, right, 2, test.comm, &requests[1]));
        MTEST_OK(MPIX_Isend_enqueue((void *)own, (int)n, MPI_UNSIGNED, left, 2, test.comm, &requests[2]));
        MTEST_OK(MPIX_Isend_enqueue_c((void *)own, n, MPI_UNSIGNED, right, 1, test.comm, &requests[3]));
        MTEST_OK(MPIX_Waitall_enqueue(5, requests, step % 2 ? statuses : MPI_STATUSES_IGNORE));
        for (int i = 0; i < 5; i++)
            MTEST_CHECK(requests[i] == MPI_REQUEST_NULL, "the stream waits, but the program has request %d",
                        i);
        gtest_launch_mix(own, from_left, n, test.cuda);
        gtest_launch_mix(own, from_right, n, test.cuda);
        etest_halo_step(values);
        if (step == 1)
            etest_release(&test); /* statuses is about to go */
        if (step == 1)
            MTEST_CHECK(statuses[0].MPI_SOURCE == left && statuses[1].MPI_SOURCE == right &&
                            statuses[1].MPI_TAG == 2 && statuses[4].MPI_SOURCE == MPI_ANY_SOURCE,
                        "statuses: sources %d, %d, tag %d", statuses[0].MPI_SOURCE, statuses[1].MPI_SOURCE,
                        statuses[1].MPI_TAG);
        GTEST_CU(step > 1 ? cuStreamSynchronize(test.cuda) : CUDA_SUCCESS);
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
    etest_expect(own, n, values[mtest_rank], "halo");
    free(values);
    GTEST_CU(cuMemFree(own));
    GTEST_CU(cuMemFree(from_left));
    GTEST_CU(cuMemFree(from_right));
    etest_end(&test);
}

/* Receives from any rank, with any tag, get one sender's messages in the order of its calls. */
static void order(void)
{
    enum { N = 40 };
    struct etest test = etest_begin(is_default, 0);
    CUdeviceptr data = etest_alloc(N);
    unsigned got[N];
    MPI_Status statuses[N];

    etest_hold(&test);
    for (int i = 0; i < N; i++) {
        void *at = (void *)(data + (size_t)i * sizeof(unsigned));
        if (mtest_rank == 0) {
            gtest_launch_update((CUdeviceptr)at, 1, 1, 100 + (unsigned)i, test.cuda);
            MTEST_OK(MPIX_Send_enqueue(at, 1, MPI_UNSIGNED, 1, i % 3, test.comm));
        } else if (mtest_rank == 1) {
            MTEST_OK(
                MPIX_Recv_enqueue(at, 1, MPI_UNSIGNED, MPI_ANY_SOURCE, MPI_ANY_TAG, test.comm, &statuses[i]));
        }
    }
    etest_release(&test);
    GTEST_CU(cuMemcpyDtoH(got, data, sizeof got));
    for (int i = 0; i < N && mtest_rank == 1; i++)
        MTEST_CHECK(got[i] == 100 + (unsigned)i && statuses[i].MPI_TAG == i % 3 &&
                        statuses[i].MPI_SOURCE == 0,
                    "message %d is %u with tag %d", i, got[i], statuses[i].MPI_TAG);
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
}

/* Odd ranks have no CUDA stream on the communicator: their messages are ordinary ones, from host memory. */
static void mixed(void)
{
    enum { N = 5000 };
    struct etest test = etest_begin(is_default, mtest_rank % 2);
    CUdeviceptr data = etest_alloc(N);
    int partner = mtest_rank ^ 1;
    unsigned *host = mtest_alloc(N * sizeof *host);
    MPIX_Stream found = MPIX_STREAM_NULL;

    MTEST_OK(MPIX_Comm_get_stream(test.comm, 0, &found));
    MTEST_CHECK(found == test.stream, "the communicator has another stream");
    if (mtest_rank % 2 == 0) {
        etest_hold(&test);
        gtest_launch_update(data, N, 1, 7, test.cuda);
        MTEST_OK(MPIX_Send_enqueue((void *)data, N, MPI_UNSIGNED, partner, 0, test.comm));
        MTEST_OK(MPIX_Recv_enqueue((void *)data, N, MPI_UNSIGNED, partner, 0, test.comm, MPI_STATUS_IGNORE));
        gtest_launch_update(data, N, 10, 1, test.cuda);
        etest_release(&test);
        etest_expect(data, N, 141, "a rank without a stream answers");
    } else {
        MTEST_OK(MPI_Recv(host, N, MPI_UNSIGNED, partner, 0, test.comm, MPI_STATUS_IGNORE));
        for (int i = 0; i < N; i++)
            host[i] *= 2;
        MTEST_OK(MPI_Send(host, N, MPI_UNSIGNED, partner, 0, test.comm));
    }
    free(host);
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
}

/* From any place to any, and from layout to layout. */
static void places(void)
{
    struct etest test = etest_begin(is_default, 0);
    struct gtest_buffer buffers[GTEST_PLACES];
    struct gtest_data from = gtest_data(GTEST_VECTOR, 5600), to = gtest_data(GTEST_STRUCT, 5600);
    char *image = mtest_alloc(from.span_bytes), *expected;

    mtest_fill(image, from.span_bytes, 3);
    expected = gtest_expected(image, &from, &to);
    for (int place = 0; place < GTEST_PLACES; place++) {
        buffers[place] =
            gtest_alloc((enum gtest_place)place, mtest_rank % 2 ? to.span_bytes : from.span_bytes,
                        mtest_rank % 2 ? NULL : image);
        gtest_select(GTEST_GPU0);
        if (mtest_rank % 2 == 0) {
            MTEST_OK(
                MPIX_Send_enqueue(buffers[place].data, from.count, from.type, mtest_rank + 1, 0, test.comm));
        } else {
            MTEST_OK(MPIX_Recv_enqueue(buffers[place].data, to.count, to.type, mtest_rank - 1, 0, test.comm,
                                       MPI_STATUS_IGNORE));
        }
        GTEST_CU(cuStreamSynchronize(test.cuda));
        if (mtest_rank % 2)
            MTEST_CHECK(gtest_differs(&buffers[place], expected) == -1, "wrong data in %s",
                        gtest_place_names[place]);
    }
    /* Freeing memory waits for all streams of the GPU, also for those that wait for this rank's messages. */
    for (int place = 0; place < GTEST_PLACES; place++)
        gtest_free(&buffers[place]);
    gtest_select(GTEST_GPU0);
    gtest_data_free(&from);
    gtest_data_free(&to);
    free(image);
    free(expected);
    etest_end(&test);
}

/* Requests of the I-forms: the host waits for one by MPI_Wait, and frees another; a message to and from
 * MPI_PROC_NULL; the communicator is freed before its operations are done. */
static void requests(void)
{
    enum { N = 300 };
    struct etest test = etest_begin(is_default, 0);
    CUdeviceptr data = etest_alloc(N);
    int partner = mtest_rank ^ 1, is_done = 1;
    MPI_Request request, nothing = MPI_REQUEST_NULL;
    MPI_Status status;

    etest_hold(&test);
    MTEST_OK(MPIX_Recv_enqueue(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, test.comm, MPI_STATUS_IGNORE));
    if (mtest_rank % 2 == 0) {
        gtest_launch_update(data, N, 1, 9, test.cuda);
        MTEST_OK(MPIX_Isend_enqueue((void *)data, N, MPI_UNSIGNED, partner, 0, test.comm, &request));
        MTEST_OK(MPI_Request_free(&request));
        MTEST_OK(MPIX_Isend_enqueue((void *)data, N, MPI_UNSIGNED, partner, 1, test.comm, &request));
        MTEST_OK(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
        MTEST_OK(MPIX_Wait_enqueue(&nothing, &status));
        MTEST_CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE, "the status of no request");
        MTEST_OK(MPI_Comm_free(&test.comm));
        etest_release(&test);
    } else {
        MTEST_OK(MPIX_Irecv_enqueue((void *)data, N, MPI_UNSIGNED, partner, 0, test.comm, &request));
        MTEST_OK(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE));
        MTEST_CHECK(!is_done, "a receive is complete although its stream is held");
        *test.flag = 1;
        MTEST_OK(MPI_Wait(&request, &status));
        MTEST_CHECK(status.MPI_SOURCE == partner, "MPI_Wait: source %d", status.MPI_SOURCE);
        etest_expect(data, N, 9, "a receive that MPI_Wait waits for");
        GTEST_CU(cuMemsetD32(data, 0, N));
        MTEST_OK(MPIX_Recv_enqueue((void *)data, N, MPI_UNSIGNED, partner, 1, test.comm, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Comm_free(&test.comm));
        GTEST_CU(cuStreamSynchronize(test.cuda));
        etest_expect(data, N, 9, "a receive of a freed communicator");
    }
    MTEST_OK(MPIX_Stream_free(&test.stream));
    if (test.cuda)
        GTEST_CU(cuStreamDestroy(test.cuda));
    GTEST_CU(cuMemFreeHost((void *)test.flag));
    GTEST_CU(cuMemFree(data));
}

/* A rank whose call is delayed, because another rank frees memory of the GPU: its operation completes meanwhile. */
static void beside_frees(void)
{
    enum { TURNS = 60 };
    struct etest test = etest_begin(is_default, 0);
    MPI_Request request;
    void *memory;
    int got;

    for (int i = 0; i < TURNS; i++) {
        if (mtest_rank % 2) {
            GTEST_CU(cuMemHostAlloc(&memory, 64, 0));
            GTEST_CU(cuMemFreeHost(memory));
            continue;
        }
        got = -1;
        MTEST_OK(MPIX_Irecv_enqueue(&got, 1, MPI_INT, mtest_rank, 1, test.comm, &request));
        MTEST_OK(MPI_Send(&i, 1, MPI_INT, mtest_rank, 1, test.comm));
        MTEST_OK(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
        GTEST_CU(cuStreamSynchronize(test.cuda));
        MTEST_CHECK(got == i, "turn %d: received %d", i, got);
    }
    etest_end(&test);
}

/* More operations than a stream of the driver has room for; duplicates of the communicator have its stream. */
static void many(void)
{
    enum { N = 1500 };
    struct etest test = etest_begin(is_default, 0);
    CUdeviceptr data = etest_alloc(1);
    MPI_Comm dup, idup;
    MPI_Request request;
    int partner = mtest_rank ^ 1;

    MTEST_OK(MPI_Comm_dup(test.comm, &dup));
    MTEST_OK(MPI_Comm_idup(test.comm, &idup, &request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++) {
        MPI_Comm comm = i % 3 == 0 ? test.comm : i % 3 == 1 ? dup : idup;
        if (mtest_rank % 2 == 0) {
            gtest_launch_update(data, 1, 1, 1, test.cuda);
            MTEST_OK(MPIX_Send_enqueue((void *)data, 1, MPI_UNSIGNED, partner, 0, comm));
        } else {
            MTEST_OK(MPIX_Recv_enqueue((void *)data, 1, MPI_UNSIGNED, partner, 0, comm, MPI_STATUS_IGNORE));
        }
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
    etest_expect(data, 1, N, "many messages");
    MTEST_OK(MPI_Comm_free(&dup));
    MTEST_OK(MPI_Comm_free(&idup));
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
}

/* An ordinary send after a wait for the stream does not overtake an enqueued one, also if the wait returns at once. */
static void behind_a_wait(void)
{
    enum { TURNS = 20, N = 30000 };
    struct etest test = etest_begin(is_default, 0);
    CUdeviceptr data = etest_alloc(N);
    volatile unsigned *seen;
    unsigned *host = mtest_alloc(N * sizeof *host);
    int partner = mtest_rank ^ 1, count;
    MPI_Request request;
    MPI_Status status;

    GTEST_CU(cuMemHostAlloc((void **)&seen, sizeof *seen, 0));
    *seen = 0;
    for (unsigned i = 0; i < TURNS; i++) {
        if (mtest_rank % 2) {
            MTEST_OK(MPI_Recv(host, N, MPI_UNSIGNED, partner, 0, test.comm, &status));
            MTEST_OK(MPI_Get_count(&status, MPI_UNSIGNED, &count));
            MTEST_CHECK(count == N, "turn %u: a message of %d elements comes first", i, count);
            MTEST_OK(MPI_Recv(host, N, MPI_UNSIGNED, partner, 0, test.comm, MPI_STATUS_IGNORE));
            continue;
        }
        MTEST_OK(MPIX_Isend_enqueue((void *)data, N, MPI_UNSIGNED, partner, 0, test.comm, &request));
        gtest_launch_update((CUdeviceptr)seen, 1, 1, 1, test.cuda);
        while (*seen != i + 1) /* the stream has come to the send, but the PE has not looked */
            ;
        GTEST_CU(i % 2 ? cuStreamSynchronize(test.cuda) : CUDA_SUCCESS);
        while (i % 2 == 0 && cuStreamQuery(test.cuda) != CUDA_SUCCESS)
            ;
        MTEST_OK(MPI_Send(&i, 1, MPI_UNSIGNED, partner, 0, test.comm));
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    free(host);
    GTEST_CU(cuMemFreeHost((void *)seen));
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 2);
    gtest_init();
    gtest_load_kernels();
    is_default = argc > 1 && strcmp(argv[1], "default") == 0;
    if (argc > 1 && strcmp(argv[1], "asked") == 0)
        MTEST_CHECK(dlsym(RTLD_DEFAULT, "cuStreamSynchronize"), "the driver has no such function");
    if (mtest_size % 2 == 0) {
        for (unsigned n = 1; n <= N_MAX; n *= 64)
            ping_pong(n);
        mixed();
        places();
        requests();
        many();
        behind_a_wait();
        beside_frees();
    }
    for (unsigned n = 2; n <= N_MAX; n *= 512)
        halo(n);
    order();
    return mtest_end();
}
