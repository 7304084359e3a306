/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that requests of files are requests: many at once, waited for in any way, freed before they end, mixed with messages;
 * that closing a file does not lose what was requested; and that two handles of one file are independent.
 */
#include "mio.h"

enum { N = 64, BLOCK = 5000 };

static void many(MPI_File file)
{
    unsigned char *data = mtest_alloc((size_t)N * BLOCK), *back = mtest_alloc((size_t)N * BLOCK);
    MPI_Request requests[N + 2];
    MPI_Status statuses[N + 2];
    MPI_Offset at = (MPI_Offset)mtest_rank * N * BLOCK;
    int token = mtest_rank, got = -1, n_done = 0, indices[N + 2];

    mtest_fill(data, (size_t)N * BLOCK, (unsigned)mtest_rank);
    for (int i = 0; i < N; i++)
        MTEST_OK(MPI_File_iwrite_at(file, at + i * BLOCK, data + i * BLOCK, BLOCK, MPI_BYTE, &requests[i]));
    MPI_Irecv(&got, 1, MPI_INT, (mtest_rank + 1) % mtest_size, 0, MPI_COMM_WORLD, &requests[N]);
    MPI_Isend(&token, 1, MPI_INT, (mtest_rank + mtest_size - 1) % mtest_size, 0, MPI_COMM_WORLD,
              &requests[N + 1]);
    MTEST_OK(MPI_Waitall(N + 2, requests, statuses));
    for (int i = 0; i < N; i++)
        mio_check_count(&statuses[i], MPI_BYTE, BLOCK, "writing");
    MTEST_CHECK(got == (mtest_rank + 1) % mtest_size, "got the message %d", got);
    for (int i = 0; i < N; i++)
        MTEST_OK(MPI_File_iread_at(file, at + i * BLOCK, back + i * BLOCK, BLOCK, MPI_BYTE, &requests[i]));
    while (n_done < N) {
        int n = 0;
        MTEST_OK(MPI_Testsome(N, requests, &n, indices, statuses));
        for (int i = 0; i < n; i++)
            mio_check_count(&statuses[i], MPI_BYTE, BLOCK, "reading");
        n_done += n;
    }
    MTEST_CHECK(memcmp(data, back, (size_t)N * BLOCK) == 0, "the data does not come back");
    free(data);
    free(back);
}

static void freed(MPI_File file, const char *name)
{
    static char data[BLOCK];
    MPI_Request request;
    MPI_Status status;
    MPI_File second;
    char back[BLOCK];
    int flag = 0;

    memset(data, 'x', BLOCK);
    MTEST_OK(MPI_File_iwrite_at(file, mtest_rank * BLOCK, data, BLOCK, MPI_BYTE, &request));
    MTEST_OK(MPI_Request_free(&request));
    MTEST_OK(MPI_File_close(&file));
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    MTEST_OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &second));
    MTEST_OK(MPI_File_seek(second, mtest_rank * BLOCK, MPI_SEEK_SET));
    MTEST_OK(MPI_File_iread(second, back, BLOCK, MPI_BYTE, &request));
    while (!flag)
        MTEST_OK(MPI_Request_get_status(request, &flag, &status));
    mio_check_count(&status, MPI_BYTE, BLOCK, "looking at the status");
    MTEST_OK(MPI_Wait(&request, &status));
    mio_check_count(&status, MPI_BYTE, BLOCK, "waiting");
    MTEST_CHECK(mtest_touched(back, BLOCK, 'x') < 0, "what a freed request wrote is lost");
    MTEST_OK(MPI_File_read_all(file, back, 1, MPI_BYTE, &status));
    MTEST_OK(MPI_File_close(&second));
    MTEST_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    char name[64];
    MPI_File file;

    mtest_init(&argc, &argv, 1);
    mio_name(name);
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    many(file);
    MPI_Barrier(MPI_COMM_WORLD);
    freed(file, name);
    mio_delete(name);
    return mtest_end();
}
