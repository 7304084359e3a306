/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads with stream communicators of their own exchange messages of all sizes, by all kinds of calls: messages of one pair
 * keep their order, errors are returned, requests may be mixed, cancelled, freed, and outlive the communicator. */
#include "mtest_threads.h"

#ifdef MPIX_STREAM_NULL
enum { THREADS = 3, ROUNDS = 40, BATCH = 12, MAX_BYTES = 100000 };

static MPI_Comm worlds[THREADS];

struct thread {
    int number;
    int next, prev;
    unsigned state; /* of the chance; equal in all ranks */
    unsigned own;   /* the same, different in all ranks */
    MPIX_Stream stream;
    MPI_Comm comm;
};

static unsigned draw(unsigned *state, unsigned n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % n;
}

static void expect(const struct thread *thread, int is_right)
{
    mtest_thread_check(thread->number, is_right);
}

static void make(struct thread *thread)
{
    MTEST_OK(MPIX_Stream_create(MPI_INFO_NULL, &thread->stream));
    MTEST_OK(MPIX_Stream_comm_create(worlds[thread->number], thread->stream, &thread->comm));
    MPI_Comm_set_errhandler(thread->comm, MPI_ERRORS_RETURN);
}

static void drop(struct thread *thread)
{
    MTEST_OK(MPI_Comm_free(&thread->comm));
    MTEST_OK(MPIX_Stream_free(&thread->stream));
}

/* ---- Order ---- */

static size_t size_of(struct thread *thread)
{
    static const int sizes[] = {4, 8, 28, 29, 64, 1000, 16384, 16385, MAX_BYTES};

    return (size_t)sizes[draw(&thread->state, sizeof sizes / sizeof sizes[0])];
}

static void send_one(struct thread *thread, const unsigned char *data, size_t n, int may_leave,
                     MPI_Request *request)
{
    switch (draw(&thread->own, may_leave ? 4 : 2)) {
    case 2:
        MPI_Issend(data, (int)n, MPI_BYTE, thread->next, 3, thread->comm, request);
        break;
    case 3:
        MPI_Irsend(data, (int)n, MPI_BYTE, thread->next, 3, thread->comm, request);
        break;
    default:
        MPI_Isend(data, (int)n, MPI_BYTE, thread->next, 3, thread->comm, request);
    }
}

static void await(struct thread *thread, MPI_Request *request, MPI_Status *status)
{
    int flag = 0, index;

    switch (draw(&thread->own, 5)) {
    case 0:
        MPI_Wait(request, status);
        break;
    case 1:
        while (!flag)
            MPI_Test(request, &flag, status);
        break;
    case 2:
        MPI_Waitall(1, request, status);
        break;
    case 3:
        MPI_Waitany(1, request, &index, status);
        break;
    default:
        while (!flag)
            MPI_Testall(1, request, &flag, status);
    }
}

static void receive_one(struct thread *thread, unsigned char *data, int may_leave, MPI_Status *status)
{
    int source = draw(&thread->own, 2) ? thread->prev : MPI_ANY_SOURCE,
        tag = draw(&thread->own, 2) ? 3 : MPI_ANY_TAG;
    MPI_Request request;
    MPI_Message message;

    switch (draw(&thread->own, may_leave ? 5 : 3)) {
    case 0:
        MPI_Recv(data, MAX_BYTES, MPI_BYTE, source, tag, thread->comm, status);
        break;
    case 3:
        MPI_Probe(source, tag, thread->comm, status);
        MPI_Recv(data, MAX_BYTES, MPI_BYTE, status->MPI_SOURCE, status->MPI_TAG, thread->comm, status);
        break;
    case 4:
        MPI_Mprobe(source, tag, thread->comm, &message, status);
        MPI_Mrecv(data, MAX_BYTES, MPI_BYTE, &message, status);
        break;
    default:
        MPI_Irecv(data, MAX_BYTES, MPI_BYTE, source, tag, thread->comm, &request);
        await(thread, &request, status);
    }
}

/* A batch goes to the next rank. From a certain message on calls are made that no endpoint knows. */
static void keep_order(struct thread *thread, int leaves)
{
    static unsigned char buffers[THREADS][BATCH + 1][MAX_BYTES];
    unsigned char(*out)[MAX_BYTES] = buffers[thread->number], *in = out[BATCH];
    unsigned from = draw(&thread->own, BATCH);
    MPI_Request requests[BATCH];
    size_t n[BATCH];
    int n_got;

    for (int i = 0; i < BATCH; i++) {
        n[i] = size_of(thread);
        memset(out[i], i, n[i]);
    }
    MPI_Barrier(worlds[thread->number]);
    for (int i = 0; i < BATCH; i++) {
        send_one(thread, out[i], n[i], leaves && (unsigned)i > from, &requests[i]);
        if (i % 3 == 2)
            for (int k = i - 2; k <= i; k++) {
                MPI_Status status;
                receive_one(thread, in, leaves && (unsigned)k > from, &status);
                MPI_Get_count(&status, MPI_BYTE, &n_got);
                expect(thread, (size_t)n_got == n[k] && status.MPI_SOURCE == thread->prev);
                expect(thread, in[0] == k && in[n[k] - 1] == k);
            }
    }
    MPI_Waitall(BATCH, requests, MPI_STATUSES_IGNORE);
}

/* ---- Single behaviours ---- */

static void exchange_columns(struct thread *thread)
{
    int out[3][100], in[100], me;
    MPI_Datatype column;

    MPI_Comm_rank(thread->comm, &me);
    for (int i = 0; i < 300; i++)
        out[i / 100][i % 100] = me * 1000 + i;
    MPI_Type_vector(10, 1, 30, MPI_INT, &column);
    MPI_Type_commit(&column);
    MTEST_OK(MPI_Sendrecv(&out[0][1], 1, column, thread->next, 5, in, 10, MPI_INT, thread->prev, 5,
                          thread->comm, MPI_STATUS_IGNORE));
    for (int i = 0; i < 10; i++)
        expect(thread, in[i] == thread->prev * 1000 + 1 + 30 * i);
    MPI_Type_free(&column);
}

static void truncate(struct thread *thread)
{
    int out[4] = {1, 2, 3, 4}, in[2];
    MPI_Request requests[2];
    MPI_Status statuses[2];

    MPI_Isend(out, 4, MPI_INT, thread->next, 6, thread->comm, &requests[0]);
    MTEST_CLASS(MPI_Recv(in, 2, MPI_INT, thread->prev, 6, thread->comm, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    MTEST_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    MPI_Irecv(in, 2, MPI_INT, thread->prev, 6, thread->comm, &requests[0]);
    MPI_Isend(out, 4, MPI_INT, thread->next, 6, thread->comm, &requests[1]);
    MTEST_CLASS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    expect(thread,
           mtest_class(statuses[0].MPI_ERROR) == MPI_ERR_TRUNCATE && statuses[1].MPI_ERROR == MPI_SUCCESS);
    expect(thread, requests[0] == MPI_REQUEST_NULL);
}

static void cancel(struct thread *thread)
{
    int in = -1, out = 5, is_cancelled = 0;
    MPI_Request request;
    MPI_Status status;

    MPI_Irecv(&in, 1, MPI_INT, thread->prev, 7, thread->comm, &request);
    MTEST_OK(MPI_Cancel(&request));
    MTEST_OK(MPI_Wait(&request, &status));
    MPI_Test_cancelled(&status, &is_cancelled);
    MPI_Barrier(worlds[thread->number]);
    MTEST_OK(MPI_Sendrecv(&out, 1, MPI_INT, thread->next, 7, &in, 1, MPI_INT, thread->prev, 7, thread->comm,
                          MPI_STATUS_IGNORE));
    expect(thread, is_cancelled && in == 5);
}

/* While the thread waits for an ordinary message, its neighbour waits until this thread's receive has the data. */
static void progress(struct thread *thread)
{
    static char out[THREADS][MAX_BYTES], in[THREADS][MAX_BYTES];
    MPI_Comm world = worlds[thread->number];
    MPI_Request requests[2];
    int index, size, me;

    MPI_Comm_size(world, &size);
    MPI_Comm_rank(world, &me);
    MPI_Irecv(in[thread->number], MAX_BYTES, MPI_BYTE, thread->prev, 8, thread->comm, &requests[0]);
    MPI_Barrier(world);
    if (size > 1 && me % 2 == 0) {
        MPI_Send(out[thread->number], MAX_BYTES, MPI_BYTE, thread->next, 8, thread->comm);
        MPI_Sendrecv(NULL, 0, MPI_BYTE, thread->next, 9, NULL, 0, MPI_BYTE, thread->prev, 9, world,
                     MPI_STATUS_IGNORE);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        return;
    }
    MPI_Irecv(NULL, 0, MPI_BYTE, thread->prev, 9, world, &requests[1]);
    if (size == 1)
        MPI_Send(NULL, 0, MPI_BYTE, 0, 9, world);
    MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    MPI_Send(out[thread->number], MAX_BYTES, MPI_BYTE, thread->next, 8, thread->comm);
    if (size > 1)
        MPI_Send(NULL, 0, MPI_BYTE, thread->next, 9, world);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

/* The communicator is freed, its requests complete later. */
static void free_early(struct thread *thread)
{
    static int out[THREADS][8000], in[THREADS][8000];
    int small = thread->number, got = -1, *data = out[thread->number];
    MPI_Request requests[4];

    data[0] = data[7999] = 77;
    MPI_Irecv(&got, 1, MPI_INT, thread->prev, 10, thread->comm, &requests[0]);
    MPI_Isend(data, 8000, MPI_INT, thread->next, 11, thread->comm, &requests[1]);
    MPI_Irecv(in[thread->number], 8000, MPI_INT, thread->prev, 11, thread->comm, &requests[2]);
    MPI_Isend(&small, 1, MPI_INT, thread->next, 10, thread->comm, &requests[3]);
    MTEST_OK(MPI_Comm_free(&thread->comm));
    MTEST_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Waitall(3, requests + 1, MPI_STATUSES_IGNORE));
    expect(thread, got == small && in[thread->number][7999] == 77);
    MTEST_OK(MPIX_Stream_free(&thread->stream));
}

/* Requests that are freed before they are complete. */
static void free_requests(struct thread *thread)
{
    static int out[THREADS][8000], in[THREADS][8000];
    MPI_Request request;

    out[thread->number][7999] = 78;
    MPI_Isend(out[thread->number], 8000, MPI_INT, thread->next, 12, thread->comm, &request);
    MTEST_OK(MPI_Request_free(&request));
    MPI_Recv(in[thread->number], 8000, MPI_INT, thread->prev, 12, thread->comm, MPI_STATUS_IGNORE);
    expect(thread, in[thread->number][7999] == 78);
    MPI_Barrier(thread->comm);
}

static void *run(void *arg)
{
    int number = mtest_thread_number(arg);
    struct thread thread = {.number = number,
                            .next = (mtest_rank + 1) % mtest_size,
                            .prev = (mtest_rank + mtest_size - 1) % mtest_size,
                            .state = (unsigned)number,
                            .own = (unsigned)(number + 100 * mtest_rank)};

    for (int round = 0; round < ROUNDS; round++) {
        make(&thread);
        keep_order(&thread, 0);
        exchange_columns(&thread);
        truncate(&thread);
        progress(&thread);
        free_requests(&thread);
        if (round % 2)
            cancel(&thread);
        keep_order(&thread, 1);
        keep_order(&thread, 0);
        drop(&thread);
        make(&thread);
        free_early(&thread);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    mtest_init_threads(&argc, &argv, 1);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &worlds[i]);
    mtest_run_threads(argc > 1 && strcmp(argv[1], "main") == 0, THREADS, run);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&worlds[i]);
    return mtest_end();
}
#else
int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_skip("streams of MPICH 4.1 are not available");
    return mtest_end();
}
#endif
