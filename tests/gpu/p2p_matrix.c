/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A message arrives unchanged from any memory to any memory, from any layout to any layout, at sizes around
 * the thresholds, into a receive that was posted before or after its arrival.
 */
#include "device.h"

static const size_t sizes[] = {0, 56, 4480, 16352, 16408, 65520, 65576, 1048544, 1048600, 5600000};
static const enum gtest_layout layouts[][2] = {
    {GTEST_CONTIGUOUS, GTEST_CONTIGUOUS}, {GTEST_VECTOR, GTEST_CONTIGUOUS}, {GTEST_CONTIGUOUS, GTEST_VECTOR},
    {GTEST_VECTOR, GTEST_VECTOR},         {GTEST_SUBARRAY, GTEST_STRUCT},   {GTEST_STRUCT, GTEST_SUBARRAY},
    {GTEST_INDEXED, GTEST_INDEXED}};

static void send_one(int to, enum gtest_place place, const char *image, struct gtest_data *data, int posted)
{
    struct gtest_buffer buffer = gtest_alloc(place, data->span_bytes, image);
    MPI_Request request;

    if (posted) {
        MTEST_OK(MPI_Recv(NULL, 0, MPI_BYTE, to, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Send(buffer.data, data->count, data->type, to, 0, MPI_COMM_WORLD));
    } else {
        MTEST_OK(MPI_Isend(buffer.data, data->count, data->type, to, 0, MPI_COMM_WORLD, &request));
        MTEST_OK(MPI_Send(NULL, 0, MPI_BYTE, to, 1, MPI_COMM_WORLD));
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    MTEST_CHECK(gtest_differs(&buffer, image) == -1, "the sender's buffer has changed");
    gtest_free(&buffer);
}

static void receive_one(int from, enum gtest_place place, const char *expected, struct gtest_data *data,
                        int posted, const char *what)
{
    struct gtest_buffer buffer = gtest_alloc(place, data->span_bytes, NULL);
    MPI_Request request;
    MPI_Status status;
    long differs;
    int n_bytes, size;

    if (posted) {
        MTEST_OK(MPI_Irecv(buffer.data, data->count, data->type, from, 0, MPI_COMM_WORLD, &request));
        MTEST_OK(MPI_Send(NULL, 0, MPI_BYTE, from, 1, MPI_COMM_WORLD));
        MTEST_OK(MPI_Wait(&request, &status));
    } else {
        MTEST_OK(MPI_Recv(NULL, 0, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Recv(buffer.data, data->count, data->type, from, 0, MPI_COMM_WORLD, &status));
    }
    MTEST_OK(MPI_Get_count(&status, MPI_BYTE, &n_bytes));
    MTEST_OK(MPI_Type_size(data->type, &size));
    MTEST_CHECK(n_bytes == size * data->count, "%s: %d bytes, expected %d", what, n_bytes,
                size * data->count);
    differs = gtest_differs(&buffer, expected);
    MTEST_CHECK(differs == -1, "%s: wrong at byte %ld of %zu", what, differs, data->span_bytes);
    gtest_free(&buffer);
}

static void exchange(enum gtest_place from_place, enum gtest_place to_place, const enum gtest_layout *layout,
                     size_t n_bytes, int posted)
{
    struct gtest_data from = gtest_data(layout[0], n_bytes), to = gtest_data(layout[1], n_bytes);
    int partner = mtest_rank ^ 1;
    char *image = mtest_alloc(from.span_bytes), *expected, what[200];

    mtest_fill(image, from.span_bytes, (unsigned)n_bytes + from_place + 7 * to_place);
    expected = gtest_expected(image, &from, &to);
    snprintf(what, sizeof what, "%s %s -> %s %s, %zu bytes, %s", gtest_place_names[from_place],
             gtest_layout_names[layout[0]], gtest_place_names[to_place], gtest_layout_names[layout[1]],
             n_bytes, posted ? "posted" : "unexpected");
    if (mtest_rank % 2 == 0)
        send_one(partner, from_place, image, &from, posted);
    else
        receive_one(partner, to_place, expected, &to, posted, what);
    free(image);
    free(expected);
    gtest_data_free(&from);
    gtest_data_free(&to);
}

int main(int argc, char **argv)
{
    int step = argc > 1 ? atoi(argv[1]) : 1; /* runs every step-th case */
    size_t max_bytes = argc > 2 ? (size_t)atol(argv[2]) : SIZE_MAX;
    int n = 0;

    mtest_init(&argc, &argv, 2);
    gtest_init();
    if ((mtest_rank | 1) < mtest_size)
        for (int from = 0; from < GTEST_PLACES; from++)
            for (int to = 0; to < GTEST_PLACES; to++)
                for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++)
                    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
                        for (int posted = 0; posted < 2; posted++)
                            if (n++ % step == 0 && sizes[s] <= max_bytes)
                                exchange(from, to, layouts[l], sizes[s], posted);
    return mtest_end();
}
