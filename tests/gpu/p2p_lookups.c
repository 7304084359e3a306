/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Start of a persistent or partitioned request between ranks of a process looks up no address, once it has been started: the driver is asked
 * nothing, and neither is the cache of its answers. The data is right, also after a buffer was freed and allocated again
 * between two starts; if it was only freed, the start fails with an error of the class MPI_ERR_BUFFER. Host memory may be
 * registered with CUDA and unregistered between starts, types may contain the addresses, and there may be no data at all.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "lookups.h"

#define ROUNDS 8
#define PARTS 4
#define WINDOWS_MAX 40

static int peer;
static int is_near; /* all pairs of ranks are in one process each: the lookups are counted */

static void find_near(void)
{
    int own = (int)syscall(SYS_getpid), other = 0;

    MTEST_OK(MPI_Sendrecv(&own, 1, MPI_INT, peer, 1, &other, 1, MPI_INT, peer, 1, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
    is_near = own == other;
    MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, &is_near, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD));
}

/* One message in each direction. */
struct exchange {
    enum gtest_place from, to;
    struct gtest_data data;
    struct gtest_buffer out, in;
    char *image; /* of out */
    MPI_Request requests[2];
    bool is_partitioned;
};

static void init(struct exchange *x)
{
    const struct gtest_data *data = &x->data;

    if (x->is_partitioned) {
        MTEST_OK(MPI_Precv_init(x->in.data, PARTS, data->count / PARTS, data->type, peer, 3, MPI_COMM_WORLD,
                                MPI_INFO_NULL, &x->requests[0]));
        MTEST_OK(MPI_Psend_init(x->out.data, PARTS, data->count / PARTS, data->type, peer, 3, MPI_COMM_WORLD,
                                MPI_INFO_NULL, &x->requests[1]));
        return;
    }
    MTEST_OK(MPI_Recv_init(x->in.data, data->count, data->type, peer, 2, MPI_COMM_WORLD, &x->requests[0]));
    MTEST_OK(MPI_Send_init(x->out.data, data->count, data->type, peer, 2, MPI_COMM_WORLD, &x->requests[1]));
}

/* In odd rounds, messages come before their receives. */
static void play(struct exchange *x, int round)
{
    int first = round % 2;

    MTEST_OK(MPI_Start(&x->requests[first]));
    if (first == 1 && x->is_partitioned)
        MTEST_OK(MPI_Pready_range(0, PARTS - 1, x->requests[1]));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_OK(MPI_Start(&x->requests[1 - first]));
    if (first == 0 && x->is_partitioned)
        MTEST_OK(MPI_Pready_range(0, PARTS - 1, x->requests[1]));
    MTEST_OK(MPI_Waitall(2, x->requests, MPI_STATUSES_IGNORE));
}

static void check(struct exchange *x, const char *when)
{
    char *sent = mtest_alloc(x->data.span_bytes), *expected;

    mtest_fill(sent, x->data.span_bytes, (unsigned)peer + 7);
    expected = gtest_expected(sent, &x->data, &x->data);
    MTEST_CHECK(gtest_differs(&x->in, expected) == -1, "%s to %s%s: wrong data %s",
                gtest_place_names[x->from], gtest_place_names[x->to],
                x->is_partitioned ? ", partitioned" : "", when);
    gtest_set(&x->in, NULL);
    free(expected);
    free(sent);
}

/* Some rounds of all ranks, during which no rank does anything else. */
static void play_counted(struct exchange *x, unsigned long long *lookups_out, int *queries_out)
{
    unsigned long long lookups;
    int queries;

    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    lookups = lookups_count();
    queries = lookups_queries();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int round = 0; round < ROUNDS; round++)
        play(x, round);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    *lookups_out = lookups_count() - lookups;
    *queries_out = lookups_queries() - queries;
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* When the library first uses a way it makes streams and memory for it, which changes mappings: the counts become 0 after
 * some rounds. */
static void test_counts(struct exchange *x)
{
    unsigned long long lookups;
    int queries, is_any = 1;

    for (int i = 0; i < (is_near ? WINDOWS_MAX : 2) && is_any; i++) {
        play_counted(x, &lookups, &queries);
        check(x, i ? "later" : "at first");
        is_any = lookups > 0 || queries > 0;
        MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, &is_any, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD));
    }
    MTEST_CHECK(!is_near || !is_any, "%s to %s%s, %zu bytes: %llu lookups, %d queries in %d rounds",
                gtest_place_names[x->from], gtest_place_names[x->to],
                x->is_partitioned ? ", partitioned" : "", x->data.span_bytes, lookups, queries, ROUNDS);
}

/* Both buffers are freed, and allocated again: the addresses may be the same or not, so they are new requests if not. */
static void test_new_memory(struct exchange *x)
{
    const char *before[2] = {x->out.data, x->in.data};
    int is_elsewhere;

    gtest_free(&x->in);
    gtest_free(&x->out);
    x->out = gtest_alloc(x->from, x->data.span_bytes, x->image);
    x->in = gtest_alloc(x->to, x->data.span_bytes, NULL);
    is_elsewhere = x->out.data != before[0] || x->in.data != before[1];
    MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, &is_elsewhere, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD));
    if (is_elsewhere) {
        for (int i = 0; i < 2; i++)
            MTEST_OK(MPI_Request_free(&x->requests[i]));
        init(x);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int round = 0; round < 2; round++)
        play(x, round);
    check(x, "in new memory");
}

static void test(enum gtest_place from, enum gtest_place to, enum gtest_layout layout, size_t n_bytes,
                 bool is_partitioned)
{
    struct exchange x = {
        .from = from, .to = to, .data = gtest_data(layout, n_bytes), .is_partitioned = is_partitioned};

    x.image = mtest_alloc(x.data.span_bytes);
    mtest_fill(x.image, x.data.span_bytes, (unsigned)mtest_rank + 7);
    x.out = gtest_alloc(from, x.data.span_bytes, x.image);
    x.in = gtest_alloc(to, x.data.span_bytes, NULL);
    init(&x);
    test_counts(&x);
    test_new_memory(&x);
    for (int i = 0; i < 2; i++)
        MTEST_OK(MPI_Request_free(&x.requests[i]));
    gtest_free(&x.out);
    gtest_free(&x.in);
    gtest_data_free(&x.data);
    free(x.image);
}

/* Large enough for copies by a GPU once it is registered. */
static void test_registered(bool is_partitioned)
{
    struct exchange x = {.from = GTEST_HOST,
                         .to = GTEST_HOST,
                         .data = gtest_data(GTEST_CONTIGUOUS, 1 << 20),
                         .is_partitioned = is_partitioned};

    x.image = mtest_alloc(x.data.span_bytes);
    mtest_fill(x.image, x.data.span_bytes, (unsigned)mtest_rank + 7);
    x.out = gtest_alloc(x.from, x.data.span_bytes, x.image);
    x.in = gtest_alloc(x.to, x.data.span_bytes, NULL);
    init(&x);
    for (int i = 0; i < 3; i++) {
        if (i == 1) {
            GTEST_CU(cuMemHostRegister(x.out.memory, x.out.len_bytes + 2 * GTEST_GUARD, 0));
            GTEST_CU(cuMemHostRegister(x.in.memory, x.in.len_bytes + 2 * GTEST_GUARD, 0));
        } else if (i == 2) {
            GTEST_CU(cuMemHostUnregister(x.out.memory));
            GTEST_CU(cuMemHostUnregister(x.in.memory));
        }
        for (int round = 0; round < 4; round++) {
            play(&x, round);
            check(&x, i == 1 ? "while it was registered" : "while it was not registered");
        }
    }
    for (int i = 0; i < 2; i++)
        MTEST_OK(MPI_Request_free(&x.requests[i]));
    gtest_free(&x.out);
    gtest_free(&x.in);
    free(x.image);
}

/* The address of the device's memory is in the type. */
static void test_bottom(void)
{
    char image[64];
    struct gtest_buffer out, in;
    MPI_Datatype types[2];
    MPI_Request requests[2];
    int length = sizeof image;

    mtest_fill(image, sizeof image, (unsigned)mtest_rank);
    out = gtest_alloc(GTEST_GPU0, sizeof image, image);
    in = gtest_alloc(GTEST_GPU1, sizeof image, NULL);
    for (int i = 0; i < 2; i++) {
        MPI_Aint address = (MPI_Aint)(i ? out.data : in.data);
        MTEST_OK(MPI_Type_create_hindexed(1, &length, &address, MPI_BYTE, &types[i]));
        MTEST_OK(MPI_Type_commit(&types[i]));
    }
    MTEST_OK(MPI_Recv_init(MPI_BOTTOM, 1, types[0], peer, 6, MPI_COMM_WORLD, &requests[0]));
    MTEST_OK(MPI_Send_init(MPI_BOTTOM, 1, types[1], peer, 6, MPI_COMM_WORLD, &requests[1]));
    mtest_fill(image, sizeof image, (unsigned)peer);
    for (int round = 0; round < 4; round++) {
        MTEST_OK(MPI_Startall(2, requests));
        MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        MTEST_CHECK(gtest_differs(&in, image) == -1, "wrong data through MPI_BOTTOM in round %d", round);
        gtest_set(&in, NULL);
    }
    for (int i = 0; i < 2; i++) {
        MTEST_OK(MPI_Request_free(&requests[i]));
        MTEST_OK(MPI_Type_free(&types[i]));
    }
    gtest_free(&out);
    gtest_free(&in);
}

static void test_empty(void)
{
    struct gtest_buffer in = gtest_alloc(GTEST_GPU0, 64, NULL);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int count;

    MTEST_OK(MPI_Recv_init(in.data, 64, MPI_BYTE, peer, 7, MPI_COMM_WORLD, &requests[0]));
    MTEST_OK(MPI_Send_init(NULL, 0, MPI_BYTE, peer, 7, MPI_COMM_WORLD, &requests[1]));
    for (int round = 0; round < 4; round++) {
        MTEST_OK(MPI_Startall(2, requests));
        MTEST_OK(MPI_Waitall(2, requests, statuses));
        MTEST_OK(MPI_Get_count(&statuses[0], MPI_BYTE, &count));
        MTEST_CHECK(count == 0, "%d bytes came of none", count);
    }
    for (int i = 0; i < 2; i++)
        MTEST_OK(MPI_Request_free(&requests[i]));
    gtest_free(&in);
}

/* Rank 0's buffer is freed between two starts: a program error, which MPI reports. */
static void test_freed(size_t n_bytes)
{
    struct gtest_buffer buffer = gtest_alloc(GTEST_GPU0, n_bytes, NULL);
    MPI_Request request;
    int error;

    if (mtest_rank > 1)
        return;
    if (mtest_rank == 0)
        MTEST_OK(MPI_Send_init(buffer.data, (int)n_bytes, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &request));
    else
        MTEST_OK(MPI_Recv_init(buffer.data, (int)n_bytes, MPI_BYTE, 0, 4, MPI_COMM_WORLD, &request));
    for (int round = 0; round < 4; round++) {
        MTEST_OK(MPI_Start(&request));
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    if (mtest_rank == 0)
        gtest_free(&buffer);
    error = MPI_Start(&request);
    if (error == MPI_SUCCESS)
        error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    MTEST_CHECK(mtest_class(error) == MPI_ERR_BUFFER, "%zu bytes from freed memory: error %d", n_bytes,
                error);
    MTEST_OK(MPI_Request_free(&request));
    if (mtest_rank == 1)
        gtest_free(&buffer);
}

int main(int argc, char **argv)
{
    static const enum gtest_place pairs[][2] = {{GTEST_GPU0, GTEST_GPU0},   {GTEST_GPU0, GTEST_GPU1},
                                                {GTEST_HOST, GTEST_GPU0},   {GTEST_GPU0, GTEST_HOST},
                                                {GTEST_PINNED, GTEST_GPU0}, {GTEST_MANAGED, GTEST_GPU0},
                                                {GTEST_HOST, GTEST_HOST}};

    mtest_init(&argc, &argv, 2);
    peer = mtest_rank ^ 1;
    gtest_init();
    MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    lookups_open();
    find_near();
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        for (int is_partitioned = 0; is_partitioned < 2; is_partitioned++) {
            test(pairs[i][0], pairs[i][1], GTEST_CONTIGUOUS, 8, is_partitioned);
            test(pairs[i][0], pairs[i][1], GTEST_CONTIGUOUS, 60000, is_partitioned);
            test(pairs[i][0], pairs[i][1], GTEST_CONTIGUOUS, 2000000, is_partitioned);
        }
    test(GTEST_GPU0, GTEST_GPU0, GTEST_VECTOR, 5600, false);
    test(GTEST_GPU0, GTEST_GPU1, GTEST_VECTOR, 5600, false);
    test(GTEST_GPU0, GTEST_GPU0, GTEST_STRUCT, 56000, false);
    for (int is_partitioned = 0; is_partitioned < 2; is_partitioned++)
        test_registered(is_partitioned);
    test_bottom();
    test_empty();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (fakecuda_is_here()) { /* on a GPU, the memory of a freed buffer may stay mapped */
        test_freed(64);
        test_freed(100000);
    }
    return mtest_end();
}
