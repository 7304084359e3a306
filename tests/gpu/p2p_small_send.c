/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Send of a small device buffer does not wait for its receive: all ranks send many messages to all others
 * before any rank receives. Messages from device and host memory stay in order.
 */
#include "device.h"

#define N_MESSAGES 24

static enum gtest_place place_of(int i)
{
    static const enum gtest_place places[] = {GTEST_GPU0, GTEST_HOST, GTEST_GPU1, GTEST_GPU0};

    return places[i % 4];
}

static int size_of(int i)
{
    static const int sizes[] = {8, 100, 4096, 16384, 1, 0, 12000};

    return sizes[i % 7];
}

int main(int argc, char **argv)
{
    static char image[16384];
    struct gtest_buffer buffers[4], in[2];

    mtest_init(&argc, &argv, 2);
    gtest_init();
    for (int i = 0; i < 4; i++)
        buffers[i] = gtest_alloc(place_of(i), sizeof image, NULL);
    in[0] = gtest_alloc(GTEST_GPU0, sizeof image, NULL);
    in[1] = gtest_alloc(GTEST_HOST, sizeof image, NULL);
    for (int i = 0; i < N_MESSAGES; i++)
        for (int to = 0; to < mtest_size; to++) {
            mtest_fill(image, sizeof image, (unsigned)(mtest_rank * 100 + i));
            gtest_set(&buffers[i % 4], image);
            MTEST_OK(MPI_Send(buffers[i % 4].data, size_of(i), MPI_BYTE, to, 0, MPI_COMM_WORLD));
            gtest_set(&buffers[i % 4], NULL);
        }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int from = 0; from < mtest_size; from++)
        for (int i = 0; i < N_MESSAGES; i++) {
            struct gtest_buffer *to = &in[i / 2 % 2];
            MPI_Status status;
            int n_bytes;
            long differs;
            gtest_set(to, NULL);
            memset(image, GTEST_FILL_BYTE, sizeof image);
            mtest_fill(image, (size_t)size_of(i), (unsigned)(from * 100 + i));
            MTEST_OK(MPI_Recv(to->data, sizeof image, MPI_BYTE, from, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
            MTEST_OK(MPI_Get_count(&status, MPI_BYTE, &n_bytes));
            MTEST_CHECK(n_bytes == size_of(i), "message %d has %d bytes, expected %d", i, n_bytes,
                        size_of(i));
            differs = gtest_differs(to, image);
            MTEST_CHECK(differs == -1, "message %d from %d: wrong at byte %ld", i, from, differs);
        }
    for (int i = 0; i < 4; i++)
        gtest_free(&buffers[i]);
    gtest_free(&in[0]);
    gtest_free(&in[1]);
    return mtest_end();
}
