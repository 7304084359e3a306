/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A message that is longer than its receive: the buffer is filled, nothing is written behind it, and the
 * receive returns MPI_ERR_TRUNCATE. The sender gets no error.
 */
#include "device.h"

static void try(enum gtest_place from, enum gtest_place to, int sent, int room, int posted)
{
    int partner = mtest_rank ^ 1;
    char *image = mtest_alloc((size_t)sent);
    MPI_Request request;
    MPI_Status status;
    int n_bytes;
    long differs;

    mtest_fill(image, (size_t)sent, (unsigned)sent);
    if (mtest_rank % 2 == 0) {
        struct gtest_buffer buffer = gtest_alloc(from, (size_t)sent, image);
        if (posted)
            MTEST_OK(MPI_Recv(NULL, 0, MPI_BYTE, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Isend(buffer.data, sent, MPI_BYTE, partner, 0, MPI_COMM_WORLD, &request));
        if (!posted)
            MTEST_OK(MPI_Send(NULL, 0, MPI_BYTE, partner, 1, MPI_COMM_WORLD));
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        gtest_free(&buffer);
    } else {
        struct gtest_buffer buffer = gtest_alloc(to, (size_t)room, NULL);
        if (posted) {
            MTEST_OK(MPI_Irecv(buffer.data, room, MPI_BYTE, partner, 0, MPI_COMM_WORLD, &request));
            MTEST_OK(MPI_Send(NULL, 0, MPI_BYTE, partner, 1, MPI_COMM_WORLD));
            MTEST_CLASS(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE);
        } else {
            MTEST_OK(MPI_Recv(NULL, 0, MPI_BYTE, partner, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MTEST_CLASS(MPI_Recv(buffer.data, room, MPI_BYTE, partner, 0, MPI_COMM_WORLD, &status),
                        MPI_ERR_TRUNCATE);
        }
        MTEST_OK(MPI_Get_count(&status, MPI_BYTE, &n_bytes));
        MTEST_CHECK(n_bytes == room, "the status says %d bytes, the room is %d", n_bytes, room);
        differs = gtest_differs(&buffer, image);
        MTEST_CHECK(differs == -1, "%s -> %s, %d of %d bytes: wrong at byte %ld", gtest_place_names[from],
                    gtest_place_names[to], room, sent, differs);
        gtest_free(&buffer);
    }
    free(image);
}

int main(int argc, char **argv)
{
    static const int sizes[][2] = {{8, 4}, {16384, 100}, {16385, 16384}, {3000000, 2000001}};

    mtest_init(&argc, &argv, 2);
    gtest_init();
    mtest_errors_return(MPI_COMM_WORLD);
    if ((mtest_rank | 1) < mtest_size)
        for (int from = 0; from < GTEST_PLACES; from++)
            for (int to = 0; to < GTEST_PLACES; to++)
                for (int i = 0; i < 4; i++)
                    for (int posted = 0; posted < 2; posted++)
                        try(from, to, sizes[i][0], sizes[i][1], posted);
    return mtest_end();
}
