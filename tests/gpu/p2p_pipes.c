/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Many large device messages at once, both ways between all pairs of ranks: posted and unexpected, some of
 * them cut by a smaller receive, some synchronous, into layouts, and into host memory.
 */
#include "device.h"

#define N_MESSAGES 10
#define STEP 300007

struct message {
    struct gtest_buffer out, in;
    MPI_Request requests[2];
};

static size_t size_of(int i)
{
    return (size_t)(i + 1) * STEP;
}

/* The size of the receive's buffer. */
static size_t room_of(int i)
{
    return i % 5 == 3 ? size_of(i) / 3 : size_of(i);
}

static enum gtest_place place_of(int i)
{
    static const enum gtest_place places[] = {GTEST_GPU0, GTEST_GPU1, GTEST_HOST, GTEST_GPU0};

    return places[i % 4];
}

static void receive(struct message *message, int from, int i)
{
    message->in = gtest_alloc(place_of(i + 1), room_of(i), NULL);
    MTEST_OK(MPI_Irecv(message->in.data, (int)room_of(i), MPI_BYTE, from, i, MPI_COMM_WORLD,
                       &message->requests[0]));
}

static void send(struct message *message, int to, int i, char *image)
{
    mtest_fill(image, size_of(i), (unsigned)(mtest_rank * 100 + i));
    message->out = gtest_alloc(place_of(i), size_of(i), image);
    MTEST_OK((i % 3 ? MPI_Isend : MPI_Issend)(message->out.data, (int)size_of(i), MPI_BYTE, to, i,
                                              MPI_COMM_WORLD, &message->requests[1]));
}

static void check(struct message *message, int from, int i, char *image)
{
    int error = MPI_Wait(&message->requests[0], MPI_STATUS_IGNORE);
    int is_cut = room_of(i) < size_of(i);
    long differs;

    MTEST_CHECK(mtest_class(error) == (is_cut ? MPI_ERR_TRUNCATE : MPI_SUCCESS),
                "message %d from %d: class %d", i, from, mtest_class(error));
    MTEST_OK(MPI_Wait(&message->requests[1], MPI_STATUS_IGNORE));
    mtest_fill(image, size_of(i), (unsigned)(from * 100 + i));
    differs = gtest_differs(&message->in, image);
    MTEST_CHECK(differs == -1, "message %d from %d: wrong at byte %ld", i, from, differs);
    gtest_free(&message->in);
    gtest_free(&message->out);
}

int main(int argc, char **argv)
{
    char *image = mtest_alloc(size_of(N_MESSAGES));
    struct message *messages;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    messages = mtest_alloc((size_t)mtest_size * N_MESSAGES * sizeof *messages);
    for (int i = 0; i < N_MESSAGES; i += 2) /* posted */
        for (int r = 0; r < mtest_size; r++)
            receive(&messages[r * N_MESSAGES + i], r, i);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = N_MESSAGES - 1; i >= 0; i--)
        for (int r = 0; r < mtest_size; r++)
            send(&messages[r * N_MESSAGES + i], r, i, image);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 1; i < N_MESSAGES; i += 2)
        for (int r = 0; r < mtest_size; r++)
            receive(&messages[r * N_MESSAGES + i], r, i);
    for (int i = 0; i < N_MESSAGES; i++)
        for (int r = 0; r < mtest_size; r++)
            check(&messages[r * N_MESSAGES + i], r, i, image);
    free(messages);
    free(image);
    return mtest_end();
}
