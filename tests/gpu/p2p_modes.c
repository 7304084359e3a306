/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Every send mode and every way to receive takes device buffers: standard, synchronous, ready, buffered,
 * nonblocking and persistent sends; wildcards, probes, matched probes, persistent and partitioned receives.
 */
#include "device.h"

#define N_BYTES_MAX 200000

static struct gtest_buffer out, in;
static char *image;

static void start(size_t n_bytes, unsigned seed)
{
    mtest_fill(image, N_BYTES_MAX, seed);
    gtest_set(&out, image);
    gtest_set(&in, NULL);
    memset(image + n_bytes, GTEST_FILL_BYTE, N_BYTES_MAX - n_bytes); /* the expected data at the receiver */
}

static void check(const char *what, size_t n_bytes)
{
    long differs = gtest_differs(&in, image);

    MTEST_CHECK(differs == -1, "%s, %zu bytes: wrong at byte %ld", what, n_bytes, differs);
}

static void blocking_sends(int n, int sends)
{
    int partner = mtest_rank ^ 1;
    static const char *const names[] = {"Send", "Ssend", "Rsend", "Bsend"};

    for (int mode = 0; mode < 4; mode++) {
        start((size_t)n, (unsigned)(mode + n));
        if (sends) {
            if (mode == 2)
                MTEST_OK(MPI_Recv(NULL, 0, MPI_BYTE, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            if (mode == 0)
                MTEST_OK(MPI_Send(out.data, n, MPI_BYTE, partner, 0, MPI_COMM_WORLD));
            else if (mode == 1)
                MTEST_OK(MPI_Ssend(out.data, n, MPI_BYTE, partner, 0, MPI_COMM_WORLD));
            else if (mode == 2)
                MTEST_OK(MPI_Rsend(out.data, n, MPI_BYTE, partner, 0, MPI_COMM_WORLD));
            else
                MTEST_OK(MPI_Bsend(out.data, n, MPI_BYTE, partner, 0, MPI_COMM_WORLD));
            gtest_set(&out, NULL); /* the buffer may be changed now */
        } else {
            MPI_Request request;
            MTEST_OK(MPI_Irecv(in.data, n, MPI_BYTE, partner, 0, MPI_COMM_WORLD, &request));
            if (mode == 2)
                MTEST_OK(MPI_Send(NULL, 0, MPI_BYTE, partner, 1, MPI_COMM_WORLD));
            MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            check(names[mode], (size_t)n);
        }
    }
}

static void nonblocking_sends(int n, int sends)
{
    int partner = mtest_rank ^ 1;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;

    for (int mode = 0; mode < 5; mode++) {
        start((size_t)n, (unsigned)(mode + n + 5));
        if (!sends) {
            if (mode % 2 == 0)
                MTEST_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
            MTEST_OK(MPI_Recv(in.data, n, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
            MTEST_CHECK(status.MPI_SOURCE == partner && status.MPI_TAG == 10 + mode, "source %d, tag %d",
                        status.MPI_SOURCE, status.MPI_TAG);
            check("nonblocking send", (size_t)n);
            continue;
        }
        if (mode == 0)
            MTEST_OK(MPI_Isend(out.data, n, MPI_BYTE, partner, 10, MPI_COMM_WORLD, &request));
        else if (mode == 1)
            MTEST_OK(MPI_Issend(out.data, n, MPI_BYTE, partner, 11, MPI_COMM_WORLD, &request));
        else if (mode == 2)
            MTEST_OK(MPI_Ibsend(out.data, n, MPI_BYTE, partner, 12, MPI_COMM_WORLD, &request));
        else if (mode == 3)
            MTEST_OK(MPI_Send_init(out.data, n, MPI_BYTE, partner, 13, MPI_COMM_WORLD, &request));
        else
            MTEST_OK(MPI_Ssend_init(out.data, n, MPI_BYTE, partner, 14, MPI_COMM_WORLD, &request));
        if (mode >= 3)
            MTEST_OK(MPI_Start(&request));
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (mode >= 3)
            MTEST_OK(MPI_Request_free(&request));
    }
}

static void receives(int n, int sends)
{
    int partner = mtest_rank ^ 1;

    for (int way = 0; way < 5; way++) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Status status;
        int flag = 0, n_bytes;
        start((size_t)n, (unsigned)(way + n + 20));
        if (sends) {
            MTEST_OK(MPI_Send(out.data, n, MPI_BYTE, partner, way, MPI_COMM_WORLD));
            continue;
        }
        if (way == 0) {
            MTEST_OK(MPI_Mprobe(MPI_ANY_SOURCE, way, MPI_COMM_WORLD, &message, &status));
            MTEST_OK(MPI_Mrecv(in.data, n, MPI_BYTE, &message, &status));
        } else if (way == 1) {
            while (!flag)
                MTEST_OK(MPI_Improbe(partner, way, MPI_COMM_WORLD, &flag, &message, &status));
            MTEST_OK(MPI_Imrecv(in.data, n, MPI_BYTE, &message, &request));
            MTEST_OK(MPI_Wait(&request, &status));
        } else if (way == 2) {
            MTEST_OK(MPI_Recv_init(in.data, n, MPI_BYTE, MPI_ANY_SOURCE, way, MPI_COMM_WORLD, &request));
            MTEST_OK(MPI_Start(&request));
            MTEST_OK(MPI_Wait(&request, &status));
            MTEST_OK(MPI_Request_free(&request));
        } else if (way == 3) {
            while (!flag)
                MTEST_OK(MPI_Iprobe(partner, way, MPI_COMM_WORLD, &flag, &status));
            MTEST_OK(MPI_Recv(in.data, n, MPI_BYTE, partner, way, MPI_COMM_WORLD, &status));
        } else {
            MTEST_OK(MPI_Irecv(in.data, n, MPI_BYTE, partner, way, MPI_COMM_WORLD, &request));
            while (!flag)
                MTEST_OK(MPI_Test(&request, &flag, &status));
        }
        MTEST_OK(MPI_Get_count(&status, MPI_BYTE, &n_bytes));
        MTEST_CHECK(n_bytes == n, "%d bytes, expected %d", n_bytes, n);
        check("receive", (size_t)n);
    }
}

static void both_ways(int n)
{
    int partner = mtest_rank ^ 1;
    MPI_Request request;
    char *before = mtest_alloc(N_BYTES_MAX);

    start((size_t)n, (unsigned)n + 30);
    MTEST_OK(MPI_Sendrecv(out.data, n, MPI_BYTE, partner, 0, in.data, n, MPI_BYTE, partner, 0, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
    check("Sendrecv", (size_t)n);
    gtest_set(&in, NULL);
    MTEST_OK(MPI_Isendrecv(out.data, n, MPI_BYTE, partner, 0, in.data, n, MPI_BYTE, partner, 0,
                           MPI_COMM_WORLD, &request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    check("Isendrecv", (size_t)n);
    for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
        mtest_fill(before, N_BYTES_MAX, (unsigned)mtest_rank);
        gtest_set(&in, before);
        mtest_fill(image, N_BYTES_MAX, (unsigned)partner);
        memcpy(image + n, before + n, (size_t)(N_BYTES_MAX - n));
        if (nonblocking) {
            MTEST_OK(MPI_Isendrecv_replace(in.data, n, MPI_BYTE, partner, 0, partner, 0, MPI_COMM_WORLD,
                                           &request));
            MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            MTEST_OK(MPI_Sendrecv_replace(in.data, n, MPI_BYTE, partner, 0, partner, 0, MPI_COMM_WORLD,
                                          MPI_STATUS_IGNORE));
        }
        check("Sendrecv_replace", (size_t)n);
    }
    free(before);
}

static void partitioned(int n, int sends)
{
    int partner = mtest_rank ^ 1;
    MPI_Request request;

    n = n / 4 * 4;
    if (n == 0)
        return;
    for (int round = 0; round < 2; round++) {
        start((size_t)n, (unsigned)(n + 40 + round));
        if (sends) {
            MTEST_OK(MPI_Psend_init(out.data, 4, n / 4, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                                    &request));
            MTEST_OK(MPI_Start(&request));
            for (int i = 3; i >= 0; i--)
                MTEST_OK(MPI_Pready(i, request));
        } else {
            MTEST_OK(MPI_Precv_init(in.data, 2, n / 2, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                                    &request));
            MTEST_OK(MPI_Start(&request));
        }
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Request_free(&request));
        if (!sends)
            check("partitioned", (size_t)n);
    }
}

#define ATTACHED_BYTES (N_BYTES_MAX + MPI_BSEND_OVERHEAD)

static struct gtest_buffer attached;

/* The buffer for buffered sends may be a GPU's, too. */
static void attach(enum gtest_place place)
{
    attached = gtest_alloc(place, ATTACHED_BYTES, NULL);
    MTEST_OK(MPI_Buffer_attach(attached.data, ATTACHED_BYTES));
}

static void detach(void)
{
    void *address;
    int n_bytes;

    MTEST_OK(MPI_Buffer_detach(&address, &n_bytes));
    MTEST_CHECK(address == attached.data && n_bytes == ATTACHED_BYTES,
                "detached %p, %d bytes, not what was attached", address, n_bytes);
    gtest_free(&attached);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0, 8, 5000, 16384, 16392, 200000};

    mtest_init(&argc, &argv, 2);
    gtest_init();
    image = mtest_alloc(N_BYTES_MAX);
    for (int pair = 0; pair < 6 && (mtest_rank | 1) < mtest_size; pair++) {
        static const enum gtest_place places[][2] = {{GTEST_GPU0, GTEST_GPU1},    {GTEST_GPU0, GTEST_GPU0},
                                                     {GTEST_HOST, GTEST_GPU1},    {GTEST_GPU1, GTEST_HOST},
                                                     {GTEST_MANAGED, GTEST_GPU0}, {GTEST_PINNED, GTEST_GPU1}};
        out = gtest_alloc(places[pair][0], N_BYTES_MAX, NULL);
        in = gtest_alloc(places[pair][1], N_BYTES_MAX, NULL);
        attach(places[pair][0]);
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (int sends = 0; sends < 2; sends++) {
                int i_send = (mtest_rank % 2 == 0) == sends;
                blocking_sends(sizes[i], i_send);
                nonblocking_sends(sizes[i], i_send);
                receives(sizes[i], i_send);
                both_ways(sizes[i]);
                partitioned(sizes[i], i_send);
            }
        detach();
        gtest_free(&out);
        gtest_free(&in);
    }
    free(image);
    return mtest_end();
}
