/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Random traffic between all ranks, from and to all memories and layouts, many messages at a time, in any
 * order of posting: everything arrives where it belongs.
 */
#include "device.h"

#define N_ROUNDS 6
#define N_AT_ONCE 8

struct message {
    struct gtest_data data;
    struct gtest_buffer buffer;
    char *image;
};

/* The argument: other seeds give other messages. */
static uint64_t first_seed;

/* Properties of message number k of a round between two ranks: the same on both sides. */
static void describe(int round, int from, int to, int k, size_t *n_bytes_out, enum gtest_layout *layouts,
                     enum gtest_place *places, unsigned *seed_out)
{
    uint64_t state = first_seed + (uint64_t)(round * 1000003 + from * 10007 + to * 101 + k + 1);

    for (int i = 0; i < 4; i++)
        mtest_random(&state);
    *n_bytes_out = 56 * (size_t)(mtest_random(&state) % (mtest_random(&state) % 3 ? 200 : 6000));
    for (int i = 0; i < 2; i++) {
        layouts[i] = (enum gtest_layout)(mtest_random(&state) % GTEST_LAYOUTS);
        places[i] = (enum gtest_place)(mtest_random(&state) % GTEST_PLACES);
    }
    *seed_out = mtest_random(&state);
}

static void prepare(struct message *message, int round, int from, int to, int k, int is_send)
{
    enum gtest_layout layouts[2];
    enum gtest_place places[2];
    size_t n_bytes;
    unsigned seed;
    struct gtest_data source;
    char *image;

    describe(round, from, to, k, &n_bytes, layouts, places, &seed);
    source = gtest_data(layouts[0], n_bytes);
    image = mtest_alloc(source.span_bytes);
    mtest_fill(image, source.span_bytes, seed);
    if (is_send) {
        message->data = source;
        message->image = image;
        message->buffer = gtest_alloc(places[0], source.span_bytes, image);
        return;
    }
    message->data = gtest_data(layouts[1], n_bytes);
    message->image = gtest_expected(image, &source, &message->data);
    message->buffer = gtest_alloc(places[1], message->data.span_bytes, NULL);
    free(image);
    gtest_data_free(&source);
}

static void finish(struct message *message, int from, int k)
{
    long differs = gtest_differs(&message->buffer, message->image);

    MTEST_CHECK(differs == -1, "message %d of rank %d in %s: wrong at byte %ld", k, from,
                gtest_place_names[message->buffer.place], differs);
    gtest_free(&message->buffer);
    gtest_data_free(&message->data);
    free(message->image);
}

static void run_round(int round)
{
    int n = mtest_size * N_AT_ONCE;
    struct message *out = mtest_alloc((size_t)n * sizeof *out), *in = mtest_alloc((size_t)n * sizeof *in);
    MPI_Request *requests = mtest_alloc(2 * (size_t)n * sizeof *requests);
    int first_sends = (round + mtest_rank) % 2;

    for (int half = 0; half < 2; half++)
        for (int peer = 0; peer < mtest_size; peer++)
            for (int k = 0; k < N_AT_ONCE; k++) {
                int i = peer * N_AT_ONCE + k;
                if (half == first_sends) {
                    prepare(&out[i], round, mtest_rank, peer, k, 1);
                    MTEST_OK(MPI_Isend(out[i].buffer.data, out[i].data.count, out[i].data.type, peer, k % 3,
                                       MPI_COMM_WORLD, &requests[i]));
                } else {
                    prepare(&in[i], round, peer, mtest_rank, k, 0);
                    MTEST_OK(MPI_Irecv(in[i].buffer.data, in[i].data.count, in[i].data.type, peer, k % 3,
                                       MPI_COMM_WORLD, &requests[n + i]));
                }
            }
    MTEST_OK(MPI_Waitall(2 * n, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < n; i++) {
        finish(&out[i], mtest_rank, i % N_AT_ONCE);
        finish(&in[i], i / N_AT_ONCE, i % N_AT_ONCE);
    }
    free(out);
    free(in);
    free(requests);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    first_seed = argc > 1 ? strtoull(argv[1], NULL, 10) << 32 : 0;
    gtest_init();
    for (int round = 0; round < N_ROUNDS; round++)
        run_round(round);
    return mtest_end();
}
