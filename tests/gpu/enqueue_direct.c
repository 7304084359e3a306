/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Small messages between streams of a process go from GPU to GPU without the PE (heddle_gpu_stream_messages counts
 * them), and match like all others: in every order of the calls, beside ordinary messages, wildcards and probes, with any size and
 * alignment, and after their stream is gone. A random program of two ranks gets the data that a model predicts. Arguments: the
 * first seed of it, and the number of programs, or one: all ranks use the same GPU; deadlock: a stream that waits for a message
 * does not hide that all ranks are blocked.
 */
#include "counter.h"
#include "enqueue.h"
#include "mpi-ext.h"

#define SLOTS 256       /* messages of a stream that have not been received */
#define SLOT_WORDS 1024 /* of the largest one */

static int partner;
static int are_alone; /* the GPUs of partners can exchange messages alone */
static unsigned long long n_before;

static void count_from_here(void)
{
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    n_before = gtest_counted();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* All ranks have done n messages since then, and these alone; none if their GPUs cannot. The PE notices them soon. */
static void expect_count(unsigned long long n, const char *what)
{
    n = are_alone ? n : 0;
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    while (gtest_counted() - n_before < n)
        MTEST_OK(AMPI_Yield());
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_CHECK(gtest_counted() - n_before == n, "%s: %llu messages of the GPUs, not %llu", what,
                gtest_counted() - n_before, n);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void expect_status(const MPI_Status *status, int source, int tag, int count)
{
    int got = -1;

    MTEST_OK(MPI_Get_count(status, MPI_BYTE, &got));
    MTEST_CHECK(status->MPI_SOURCE == source && status->MPI_TAG == tag && status->MPI_ERROR == MPI_SUCCESS &&
                    got == count,
                "status: source %d, tag %d, error %d, %d bytes", status->MPI_SOURCE, status->MPI_TAG,
                status->MPI_ERROR, got);
}

/* Kernels change a buffer in turns. The streams are held, so that all is enqueued before the first message. */
static void ping_pong(int is_held)
{
    enum { TURNS = 30 };
    struct etest test = etest_begin(0, 0);
    CUdeviceptr data = etest_alloc(2);
    unsigned value = 0;
    MPI_Status status;

    count_from_here();
    if (is_held)
        etest_hold(&test);
    for (int i = 0; i < TURNS; i++) {
        if (mtest_rank % 2 == 0) {
            gtest_launch_update(data, 2, 3, 1, test.cuda);
            MTEST_OK(MPIX_Send_enqueue((void *)data, 2, MPI_UNSIGNED, partner, 4, test.comm));
            MTEST_OK(MPIX_Recv_enqueue((void *)data, 2, MPI_UNSIGNED, partner, 5, test.comm, &status));
        } else {
            MTEST_OK(MPIX_Recv_enqueue((void *)data, 2, MPI_UNSIGNED, partner, 4, test.comm, &status));
            gtest_launch_update(data, 2, 2, 5, test.cuda);
            MTEST_OK(MPIX_Send_enqueue((void *)data, 2, MPI_UNSIGNED, partner, 5, test.comm));
        }
        value = (3 * value + 1) * 2 + 5;
    }
    *test.flag = 1; /* etest_release needs a held stream */
    GTEST_CU(cuStreamSynchronize(test.cuda));
    etest_expect(data, 2, value, "ping-pong");
    expect_status(&status, partner, mtest_rank % 2 ? 4 : 5, 8);
    expect_count((unsigned long long)mtest_size * TURNS, "ping-pong");
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
}

/* Every number of bytes at every alignment, from device to device; nothing beside it changes. */
static void sizes(void)
{
    enum { N = 40, MAX = SLOT_WORDS * 4 };
    static const int large[] = {127, 128, 129, 511, 512, 2047, MAX - 1, MAX, MAX + 1, MAX + 5};
    const int n_large = (int)(sizeof large / sizeof large[0]);
    struct etest test = etest_begin(0, 0);
    CUdeviceptr from, to;
    unsigned char *host = mtest_alloc(MAX + 64), *got = mtest_alloc(MAX + 64);
    MPI_Request request;
    MPI_Status status;

    GTEST_CU(cuMemAlloc(&from, MAX + 64));
    GTEST_CU(cuMemAlloc(&to, MAX + 64));
    for (int i = 0; i < MAX + 64; i++)
        host[i] = (unsigned char)(i * 7 + i / 256);
    GTEST_CU(cuMemcpyHtoD(from, host, MAX + 64));
    for (int i = 1; i < N + n_large; i++) {
        int n = i < N ? i : large[i - N], at = i % 5, back = i % 3;
        GTEST_CU(cuMemsetD8(to, 0xee, MAX + 64));
        GTEST_CU(cuCtxSynchronize());
        MTEST_OK(MPIX_Irecv_enqueue((void *)(to + 8 + (unsigned)back), n, MPI_BYTE, partner, i, test.comm,
                                    &request));
        MTEST_OK(MPIX_Send_enqueue((void *)(from + (unsigned)at), n - (n > 1 && i % 7 == 0), MPI_BYTE,
                                   partner, i, test.comm));
        MTEST_OK(MPIX_Wait_enqueue(&request, &status));
        GTEST_CU(cuStreamSynchronize(test.cuda));
        n -= n > 1 && i % 7 == 0;
        expect_status(&status, partner, i, n);
        GTEST_CU(cuMemcpyDtoH(got, to, MAX + 64));
        for (int j = 0; j < MAX + 64; j++) {
            int is_in = j >= 8 + back && j < 8 + back + n;
            unsigned char right = is_in ? host[j - 8 - back + at] : 0xee;
            if (got[j] != right)
                MTEST_CHECK(0, "%d bytes: byte %d is %d, not %d", n, j - 8 - back, got[j], right);
        }
    }
    free(host);
    free(got);
    GTEST_CU(cuMemFree(from));
    GTEST_CU(cuMemFree(to));
    etest_end(&test);
}

/* Tags in another order than the sends; waits in another order than the receives; a message to oneself; a message
 * without data; more messages than there are slots; and what the PE has to do instead. */
static void orders(void)
{
    enum { N = SLOTS + 60 };
    struct etest test = etest_begin(0, 0);
    CUdeviceptr data = etest_alloc(N + 8), in = etest_alloc(N + 8);
    MPI_Request requests[6];
    MPI_Status statuses[6], any;
    unsigned got[N];
    static const int tags[4] = {3, 2, 0, MPI_ANY_TAG};

    for (unsigned i = 0; i < N; i++)
        gtest_launch_update(data + 4 * i, 1, 1, 1000 * (unsigned)mtest_rank + i, test.cuda);
    etest_hold(&test);
    for (int i = 0; i < 4; i++)
        MTEST_OK(MPIX_Irecv_enqueue((void *)(in + 4 * (unsigned)i), 1, MPI_UNSIGNED, partner, tags[i],
                                    test.comm, &requests[i]));
    MTEST_OK(MPIX_Irecv_enqueue((void *)(in + 16), 1, MPI_UNSIGNED, mtest_rank, 9, test.comm, &requests[4]));
    MTEST_OK(
        MPIX_Isend_enqueue((void *)(data + 16), 1, MPI_UNSIGNED, mtest_rank, 9, test.comm, &requests[5]));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 4; i++) /* tag 7 goes to the receive with any tag */
        MTEST_OK(MPIX_Send_enqueue((void *)(data + 4 * (unsigned)i), 1, MPI_UNSIGNED, partner, i == 1 ? 7 : i,
                                   test.comm));
    MTEST_OK(MPIX_Wait_enqueue(&requests[3], &any));
    MTEST_OK(MPIX_Waitall_enqueue(2, requests, statuses));
    MTEST_OK(MPIX_Waitall_enqueue(4, requests + 2, statuses + 2));
    etest_release(&test);
    GTEST_CU(cuMemcpyDtoH(got, in, 5 * sizeof(unsigned)));
    statuses[3] = any; /* the second wait had no request for it */
    MTEST_CHECK(got[4] == 1000 * (unsigned)mtest_rank + 4, "to itself: %u", got[4]);
    for (unsigned i = 0; i < 4; i++) {
        static const unsigned sent[4] = {3, 2, 0, 1};
        MTEST_CHECK(got[i] == 1000 * (unsigned)partner + sent[i] && statuses[i].MPI_SOURCE == partner &&
                        statuses[i].MPI_TAG == (i == 3 ? 7 : tags[i]),
                    "receive %u: %u with tag %d", i, got[i], statuses[i].MPI_TAG);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));

    /* No receive is there for any of these, and no slot for the last ones. */
    if (mtest_rank % 2 == 0) {
        for (unsigned i = 0; i < N; i++)
            MTEST_OK(MPIX_Send_enqueue((void *)(data + 4 * i), 1, MPI_UNSIGNED, partner, 1, test.comm));
        GTEST_CU(cuStreamSynchronize(test.cuda));
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (unsigned i = 0; i < N && mtest_rank % 2; i++)
        MTEST_OK(MPIX_Recv_enqueue((void *)(in + 4 * i), 1, MPI_UNSIGNED, i % 3 ? partner : MPI_ANY_SOURCE, 1,
                                   test.comm, MPI_STATUS_IGNORE));
    GTEST_CU(cuStreamSynchronize(test.cuda));
    GTEST_CU(cuMemcpyDtoH(got, in, N * sizeof(unsigned)));
    for (unsigned i = 0; i < N && mtest_rank % 2; i++)
        MTEST_CHECK(got[i] == 1000 * (unsigned)partner + i, "message %u of many is %u", i, got[i]);

    /* Without data, into a buffer with room: still a message that comes after the sender's kernels. */
    if (mtest_rank % 2 == 0) {
        etest_hold(&test);
        MTEST_OK(MPIX_Send_enqueue(NULL, 0, MPI_UNSIGNED, partner, 2, test.comm));
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        etest_release(&test);
    } else {
        MTEST_OK(MPIX_Recv_enqueue((void *)in, 1, MPI_UNSIGNED, partner, 2, test.comm, &statuses[0]));
        MTEST_CHECK(cuStreamQuery(test.cuda) == CUDA_ERROR_NOT_READY, "an empty message overtakes kernels");
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        GTEST_CU(cuStreamSynchronize(test.cuda));
        expect_status(&statuses[0], partner, 2, 0);
    }
    GTEST_CU(cuMemFree(data));
    GTEST_CU(cuMemFree(in));
    etest_end(&test);
}

/* A held stream: what matches meanwhile changes no buffer that earlier kernels still use, and an operation that needs the PE is
 * not overtaken by those that do not. */
static void held_back(void)
{
    enum { LARGE = 4 * SLOT_WORDS };
    struct etest test = etest_begin(0, 0);
    CUdeviceptr in = etest_alloc(LARGE), behind = etest_alloc(2), data = etest_alloc(LARGE);
    unsigned value = 3;
    MPI_Request request;
    MPI_Status statuses[2];

    if (mtest_rank % 2) {
        etest_hold(&test);
        gtest_launch_update(in, 1, 0, 9, test.cuda);
        gtest_launch_update(behind, 1, 0, 9, test.cuda);
        MTEST_OK(MPIX_Recv_enqueue((void *)in, 1, MPI_UNSIGNED, partner, 0, test.comm, MPI_STATUS_IGNORE));
        MTEST_OK(MPIX_Irecv_enqueue((void *)behind, 1, MPI_UNSIGNED, partner, 0, test.comm, &request));
        for (int i = 0; i < 2; i++) /* then the messages are here */
            MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = 0; i < 100; i++)
            MTEST_OK(AMPI_Yield());
        *test.flag = 1;
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        GTEST_CU(cuStreamSynchronize(test.cuda));
        etest_expect(in, 1, 3, "a message that came early");
        etest_expect(behind, 1, 3, "a message that came early, and MPI_Wait");
        etest_hold(&test);
        MTEST_OK(MPIX_Recv_enqueue((void *)in, LARGE, MPI_UNSIGNED, partner, 1, test.comm, &statuses[0]));
        MTEST_OK(MPIX_Recv_enqueue((void *)behind, 1, MPI_UNSIGNED, partner, 1, test.comm, &statuses[1]));
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        etest_release(&test);
        etest_expect(in, 1, 1, "the first message");
        etest_expect(behind, 1, 2, "the second message");
        MTEST_OK(MPIX_Recv_enqueue((void *)in, LARGE, MPI_UNSIGNED, partner, 2, test.comm, &statuses[0]));
        MTEST_OK(MPIX_Recv_enqueue((void *)in, LARGE, MPI_UNSIGNED, partner, 2, test.comm, &statuses[1]));
        GTEST_CU(cuStreamSynchronize(test.cuda));
        expect_status(&statuses[0], partner, 2, 4 * LARGE);
        expect_status(&statuses[1], partner, 2, 4);
    } else {
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = 0; i < 2; i++)
            MTEST_OK(MPI_Send(&value, 1, MPI_UNSIGNED, partner, 0, test.comm));
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = 0; i < 2; i++) {
            gtest_launch_update(data, 1, 1, 1, test.cuda);
            MTEST_OK(MPIX_Send_enqueue((void *)data, 1, MPI_UNSIGNED, partner, 1, test.comm));
        }
        GTEST_CU(cuStreamSynchronize(test.cuda));
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        etest_hold(&test);
        MTEST_OK(MPIX_Isend_enqueue((void *)data, LARGE, MPI_UNSIGNED, partner, 2, test.comm, &request));
        MTEST_OK(MPIX_Send_enqueue((void *)data, 1, MPI_UNSIGNED, partner, 2, test.comm));
        MTEST_OK(MPIX_Wait_enqueue(&request, MPI_STATUS_IGNORE));
        etest_release(&test);
    }
    GTEST_CU(cuMemFree(in));
    GTEST_CU(cuMemFree(behind));
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
}

/* The sender's stream and communicator are freed before the message is received, by an ordinary call in some cases. */
static void left_behind(int turn)
{
    struct etest test = etest_begin(0, turn % 2 && mtest_rank % 2);
    CUdeviceptr data = etest_alloc(2);
    unsigned got[2] = {0, 0};
    MPI_Message message;
    int flag = 0, is_sender = mtest_rank % 2 == 0;

    if (is_sender) {
        gtest_launch_update(data, 2, 1, 77, test.cuda);
        MTEST_OK(MPIX_Send_enqueue((void *)data, 2, MPI_UNSIGNED, partner, 3, test.comm));
        gtest_launch_update(data, 2, 5, 1, test.cuda);
        GTEST_CU(cuStreamSynchronize(test.cuda));
        etest_end(&test);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        GTEST_CU(cuMemFree(data));
        return;
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (turn == 0) {
        MTEST_OK(MPIX_Recv_enqueue((void *)data, 2, MPI_UNSIGNED, partner, 3, test.comm, MPI_STATUS_IGNORE));
        GTEST_CU(cuStreamSynchronize(test.cuda));
        etest_expect(data, 2, 77, "a message of a stream that is gone");
    } else if (turn == 1) {
        MTEST_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, test.comm, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Recv(got, 2, MPI_UNSIGNED, partner, 3, test.comm, MPI_STATUS_IGNORE));
    } else {
        while (!flag)
            MTEST_OK(MPI_Improbe(partner, MPI_ANY_TAG, test.comm, &flag, &message, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Mrecv(got, 2, MPI_UNSIGNED, &message, MPI_STATUS_IGNORE));
    }
    MTEST_CHECK(turn == 0 || (got[0] == 77 && got[1] == 77), "turn %d: received %u and %u", turn, got[0],
                got[1]);
    etest_end(&test);
    GTEST_CU(cuMemFree(data));
}

static int n_handled;
static void handle(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    n_handled += mtest_class(*code) == MPI_ERR_TRUNCATE;
}

/* A message that is longer than the receive: its first part arrives, and the receiver alone has an error. */
static void truncated(int is_send_first)
{
    struct etest test = etest_begin(0, 0);
    CUdeviceptr data = etest_alloc(8);
    MPI_Errhandler handler;
    MPI_Status status;

    n_handled = 0;
    memset(&status, 0, sizeof status);
    MTEST_OK(MPI_Comm_create_errhandler(handle, &handler));
    MTEST_OK(MPI_Comm_set_errhandler(test.comm, handler));
    count_from_here();
    if (mtest_rank % 2 == 0) {
        gtest_launch_update(data, 8, 1, 6, test.cuda);
        if (!is_send_first)
            MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        MTEST_OK(MPIX_Send_enqueue((void *)data, 3, MPI_UNSIGNED, partner, 0, test.comm));
        if (is_send_first)
            MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        GTEST_CU(cuStreamSynchronize(test.cuda));
        MTEST_OK(MPIX_Send_enqueue(NULL, 0, MPI_UNSIGNED, MPI_PROC_NULL, 0, test.comm));
    } else {
        if (is_send_first)
            MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        MTEST_OK(MPIX_Recv_enqueue((void *)data, 2, MPI_UNSIGNED, partner, 0, test.comm, &status));
        if (!is_send_first)
            MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        GTEST_CU(cuStreamSynchronize(test.cuda));
        while (n_handled == 0) /* when this rank yields after the PE has looked */
            MTEST_OK(AMPI_Yield());
        MTEST_CHECK(status.MPI_ERROR == MPI_ERR_TRUNCATE && n_handled == 1, "error %d, handled %d times",
                    status.MPI_ERROR, n_handled);
        MTEST_CLASS(MPIX_Send_enqueue(NULL, 0, MPI_UNSIGNED, MPI_PROC_NULL, 0, test.comm), MPI_ERR_TRUNCATE);
        etest_expect(data, 2, 6, "the part that fits");
        etest_expect(data + 8, 6, 0, "what is behind it");
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
    expect_count((unsigned long long)mtest_size / 2, "truncated");
    MTEST_OK(MPI_Errhandler_free(&handler));
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
}

/* Persistent requests, started by the stream again and again, and by MPI_Start between. */
static void persistent(void)
{
    enum { TURNS = 20 };
    struct etest test = etest_begin(0, 0);
    CUdeviceptr data = etest_alloc(4), in = etest_alloc(4);
    MPI_Request requests[2];
    unsigned value = 0;

    MTEST_OK(MPI_Recv_init((void *)in, 4, MPI_UNSIGNED, partner, 1, test.comm, &requests[0]));
    MTEST_OK(MPI_Send_init((void *)data, 4, MPI_UNSIGNED, partner, 1, test.comm, &requests[1]));
    count_from_here();
    for (int i = 0; i < TURNS; i++) {
        gtest_launch_update(data, 4, 3, 1, test.cuda);
        value = 3 * value + 1;
        MTEST_OK(MPIX_Startall_enqueue(2, requests));
        MTEST_OK(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE));
        gtest_launch_mix(data, in, 4, test.cuda);
        value = 6 * value;
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
    expect_count((unsigned long long)mtest_size * TURNS, "persistent requests");
    MTEST_OK(MPI_Startall(2, requests));
    MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    MTEST_OK(MPIX_Startall_enqueue(2, requests));
    MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    etest_expect(in, 4, value, "persistent requests");
    for (int i = 0; i < 2; i++)
        MTEST_OK(MPI_Request_free(&requests[i]));
    GTEST_CU(cuMemFree(data));
    GTEST_CU(cuMemFree(in));
    etest_end(&test);
}

/* ---- A random program: both ranks know all of it ---- */

#define MESSAGES 60
#define ROOM 2000 /* words of a message, at most */
#define BUFFERS 3

enum send_kind { SEND, ISEND, ISEND_MPI_WAIT, ORDINARY_SEND, SEND_PINNED, SEND_KINDS };
enum recv_kind { RECV, RECV_ANY, RECV_LONGER, IRECV, IRECV_MPI_WAIT, ORDINARY_RECV, PROBE, RECV_KINDS };

struct side {
    struct etest test;
    CUdeviceptr out[BUFFERS];
    unsigned *pinned;
    unsigned values[2][BUFFERS]; /* of both ranks' buffers */
    MPI_Request out_requests[BUFFERS];
    CUdeviceptr in; /* MESSAGES * ROOM words */
    MPI_Request requests[MESSAGES];
    int n_requests;
};

static void send_one(struct side *side, enum send_kind kind, int buffer, int n, int tag)
{
    void *data = (void *)side->out[buffer];
    MPI_Request request;

    MTEST_OK(MPIX_Wait_enqueue(&side->out_requests[buffer], MPI_STATUS_IGNORE));
    gtest_launch_update(side->out[buffer], ROOM, 3, (unsigned)mtest_rank + 1, side->test.cuda);
    switch (kind) {
    case SEND:
        MTEST_OK(MPIX_Send_enqueue(data, n, MPI_UNSIGNED, partner, tag, side->test.comm));
        break;
    case ISEND:
        MTEST_OK(MPIX_Isend_enqueue(data, n, MPI_UNSIGNED, partner, tag, side->test.comm,
                                    &side->out_requests[buffer]));
        break;
    case ISEND_MPI_WAIT:
        MTEST_OK(MPIX_Isend_enqueue(data, n, MPI_UNSIGNED, partner, tag, side->test.comm, &request));
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case SEND_PINNED:
        GTEST_CU(cuStreamSynchronize(side->test.cuda));
        for (int i = 0; i < n; i++)
            side->pinned[i] = side->values[mtest_rank % 2][buffer];
        MTEST_OK(MPIX_Send_enqueue(side->pinned, n, MPI_UNSIGNED, partner, tag, side->test.comm));
        GTEST_CU(cuStreamSynchronize(side->test.cuda));
        break;
    default:
        GTEST_CU(cuStreamSynchronize(side->test.cuda));
        MTEST_OK(MPI_Send(data, n, MPI_UNSIGNED, partner, tag, side->test.comm));
        break;
    }
}

static void wait_for_all(struct side *side, int by_stream)
{
    if (by_stream)
        MTEST_OK(MPIX_Waitall_enqueue(side->n_requests, side->requests, MPI_STATUSES_IGNORE));
    else
        MTEST_OK(MPI_Waitall(side->n_requests, side->requests, MPI_STATUSES_IGNORE));
    side->n_requests = 0;
}

static void recv_one(struct side *side, enum recv_kind kind, int i, int n, int tag, unsigned salt)
{
    void *in = (void *)(side->in + (size_t)i * ROOM * sizeof(unsigned));
    MPI_Comm comm = side->test.comm;
    MPI_Request request;
    MPI_Status status;

    switch (kind) {
    case RECV:
        MTEST_OK(MPIX_Recv_enqueue(in, n, MPI_UNSIGNED, partner, tag, comm, MPI_STATUS_IGNORE));
        break;
    case RECV_ANY:
        MTEST_OK(MPIX_Recv_enqueue(in, n, MPI_UNSIGNED, salt % 2 ? partner : MPI_ANY_SOURCE, MPI_ANY_TAG,
                                   comm, MPI_STATUS_IGNORE));
        break;
    case RECV_LONGER:
        MTEST_OK(MPIX_Recv_enqueue(in, ROOM, MPI_UNSIGNED, partner, tag, comm, MPI_STATUS_IGNORE));
        break;
    case IRECV:
        MTEST_OK(
            MPIX_Irecv_enqueue(in, n, MPI_UNSIGNED, partner, tag, comm, &side->requests[side->n_requests]));
        side->n_requests++;
        break;
    case IRECV_MPI_WAIT:
        MTEST_OK(MPIX_Irecv_enqueue(in, n, MPI_UNSIGNED, partner, MPI_ANY_TAG, comm, &request));
        MTEST_OK(MPI_Wait(&request, &status));
        status.MPI_ERROR = MPI_SUCCESS; /* only set by functions with several statuses */
        expect_status(&status, partner, tag, 4 * n);
        break;
    case PROBE:
        GTEST_CU(cuStreamSynchronize(side->test.cuda));
        wait_for_all(side, 0);
        MTEST_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status));
        status.MPI_ERROR = MPI_SUCCESS;
        expect_status(&status, partner, tag, 4 * n);
        MTEST_OK(MPI_Recv(in, n, MPI_UNSIGNED, status.MPI_SOURCE, status.MPI_TAG, comm, MPI_STATUS_IGNORE));
        break;
    default:
        GTEST_CU(cuStreamSynchronize(side->test.cuda));
        wait_for_all(side, 0);
        MTEST_OK(MPI_Recv(in, n, MPI_UNSIGNED, partner, tag, comm, MPI_STATUS_IGNORE));
        break;
    }
}

static void expect_all(struct side *side, const unsigned *expected, const int *sizes_of)
{
    unsigned *got = mtest_alloc(MESSAGES * ROOM * sizeof *got);

    GTEST_CU(cuMemcpyDtoH(got, side->in, MESSAGES * ROOM * sizeof *got));
    for (int i = 0; i < MESSAGES; i++)
        for (int j = 0; j < ROOM; j++)
            if (got[i * ROOM + j] != (j < sizes_of[i] ? expected[i] : 0)) {
                MTEST_CHECK(0, "message %d of %d words: word %d is %u, not %u", i, sizes_of[i], j,
                            got[i * ROOM + j], expected[i]);
                break;
            }
    free(got);
}

static void random_program(unsigned seed)
{
    static const int lengths[] = {0, 1, 2, 3, 7, 31, 100, 513, SLOT_WORDS, SLOT_WORDS + 1, ROOM};
    struct side side = {.test = etest_begin(0, 0), .in = etest_alloc(MESSAGES * ROOM)};
    unsigned state = seed * 2654435761u + (unsigned)(mtest_rank / 2), expected[MESSAGES] = {0};
    int sizes_of[MESSAGES] = {0};

    for (int i = 0; i < BUFFERS; i++) {
        side.out[i] = etest_alloc(ROOM);
        side.out_requests[i] = MPI_REQUEST_NULL;
    }
    GTEST_CU(cuMemHostAlloc((void **)&side.pinned, ROOM * sizeof(unsigned), 0));
    for (int i = 0; i < MESSAGES; i++) {
        unsigned dice[6];
        for (int j = 0; j < 6; j++)
            dice[j] = (state = state * 1664525u + 1013904223u) >> 8;
        int sender = (int)(dice[0] % 2), buffer = (int)(dice[1] % BUFFERS), tag = (int)(dice[2] % 3);
        int n = lengths[dice[3] % (dice[0] / 2 % 4 ? 9 : 11)]; /* mostly small ones */
        unsigned *value = &side.values[sender][buffer];
        *value = 3 * *value + (unsigned)(mtest_rank / 2 * 2 + sender) + 1;
        if (mtest_rank % 2 == sender) {
            send_one(&side, (enum send_kind)(dice[4] % SEND_KINDS), buffer, n, tag);
        } else {
            expected[i] = *value;
            sizes_of[i] = n;
            recv_one(&side, (enum recv_kind)(dice[5] % RECV_KINDS), i, n, tag, dice[1]);
            if (dice[2] / 3 % 4 == 0)
                wait_for_all(&side, dice[2] / 12 % 2);
        }
    }
    wait_for_all(&side, 1);
    MTEST_OK(MPIX_Waitall_enqueue(BUFFERS, side.out_requests, MPI_STATUSES_IGNORE));
    GTEST_CU(cuStreamSynchronize(side.test.cuda));
    expect_all(&side, expected, sizes_of);
    for (int i = 0; i < BUFFERS; i++)
        GTEST_CU(cuMemFree(side.out[i]));
    GTEST_CU(cuMemFree(side.in));
    GTEST_CU(cuMemFreeHost(side.pinned));
    etest_end(&side.test);
}

/* The GPUs that ranks use, and whether they can access each other. */
static void choose_gpus(int is_one)
{
    int last = is_one ? 0 : gtest_n_devices - 1, there = 1, back = 1;

    if (last > 0) {
        GTEST_CU(cuDeviceCanAccessPeer(&there, 0, last));
        GTEST_CU(cuDeviceCanAccessPeer(&back, last, 0));
    }
    are_alone = there && back && !getenv("CUDA_LAUNCH_BLOCKING");
    gtest_select(gtest_gpu(mtest_rank % 2 ? last : 0));
}

static void deadlock(void)
{
    struct etest test = etest_begin(0, 0);
    CUdeviceptr data = etest_alloc(1);
    int got;

    if (mtest_rank == 0)
        MTEST_OK(MPIX_Recv_enqueue((void *)data, 1, MPI_UNSIGNED, partner, 7, test.comm, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Recv(&got, 1, MPI_INT, partner, 5, test.comm, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    unsigned first = argc > 2 ? (unsigned)atoi(argv[1]) : 1, n = argc > 2 ? (unsigned)atoi(argv[2]) : 12;
    const char *mode = argc == 2 ? argv[1] : "";

    mtest_init(&argc, &argv, 2);
    gtest_init();
    choose_gpus(strcmp(mode, "one") == 0);
    gtest_load_kernels();
    gtest_count("heddle_gpu_stream_messages");
    partner = mtest_rank ^ 1;
    if (strcmp(mode, "deadlock") == 0)
        deadlock();
    ping_pong(0);
    ping_pong(1);
    sizes();
    orders();
    held_back();
    for (int turn = 0; turn < 3; turn++)
        left_behind(turn);
    truncated(0);
    truncated(1);
    persistent();
    for (unsigned seed = first; seed < first + n; seed++)
        random_program(seed);
    return mtest_end();
}
