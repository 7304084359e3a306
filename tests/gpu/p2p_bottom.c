/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_BOTTOM with a type of absolute addresses on a GPU; a rank's messages to itself; a probe's count; a
 * receive on a GPU that is cancelled.
 */
#include "device.h"

int main(int argc, char **argv)
{
    char image[3000], expected[3000];
    struct gtest_buffer a, b;
    MPI_Datatype type;
    MPI_Request requests[2];
    MPI_Status status;
    MPI_Aint address;
    int lengths[2] = {700, 800}, n_bytes, flag;
    MPI_Aint displs[2];

    mtest_init(&argc, &argv, 1);
    gtest_init();
    mtest_fill(image, sizeof image, (unsigned)mtest_rank);
    a = gtest_alloc(GTEST_GPU0, sizeof image, image);
    b = gtest_alloc(GTEST_GPU1, sizeof image, NULL);
    MTEST_OK(MPI_Get_address(a.data, &address));
    displs[0] = address + 100;
    displs[1] = address + 2000;
    MTEST_OK(MPI_Type_create_hindexed(2, lengths, displs, MPI_BYTE, &type));
    MTEST_OK(MPI_Type_commit(&type));
    MTEST_OK(MPI_Irecv(b.data, 1500, MPI_BYTE, mtest_rank, 3, MPI_COMM_WORLD, &requests[0]));
    MTEST_OK(MPI_Isend(MPI_BOTTOM, 1, type, mtest_rank, 3, MPI_COMM_WORLD, &requests[1]));
    MTEST_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    memset(expected, GTEST_FILL_BYTE, sizeof expected);
    memcpy(expected, image + 100, 700);
    memcpy(expected + 700, image + 2000, 800);
    MTEST_CHECK(gtest_differs(&b, expected) == -1, "MPI_BOTTOM: wrong at byte %ld",
                gtest_differs(&b, expected));
    MTEST_OK(MPI_Type_free(&type));

    MTEST_OK(MPI_Send(a.data, 3000, MPI_BYTE, mtest_rank, 4, MPI_COMM_WORLD));
    MTEST_OK(MPI_Probe(mtest_rank, 4, MPI_COMM_WORLD, &status));
    MTEST_OK(MPI_Get_count(&status, MPI_BYTE, &n_bytes));
    MTEST_CHECK(n_bytes == 3000, "the probe sees %d bytes", n_bytes);
    MTEST_OK(MPI_Recv(b.data, 3000, MPI_BYTE, mtest_rank, 4, MPI_COMM_WORLD, &status));
    MTEST_CHECK(gtest_differs(&b, image) == -1, "to itself: wrong at byte %ld", gtest_differs(&b, image));

    MTEST_OK(MPI_Irecv(b.data, 3000, MPI_BYTE, mtest_rank, 5, MPI_COMM_WORLD, &requests[0]));
    MTEST_OK(MPI_Cancel(&requests[0]));
    MTEST_OK(MPI_Wait(&requests[0], &status));
    MTEST_OK(MPI_Test_cancelled(&status, &flag));
    MTEST_CHECK(flag, "the receive was not cancelled");
    gtest_free(&a);
    gtest_free(&b);
    return mtest_end();
}
