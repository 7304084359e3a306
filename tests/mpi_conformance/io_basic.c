/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that what ranks write into a file by explicit offsets and individual pointers, blocking, nonblocking, collective and
 * split, is there when it is read, with the right status, and that reading stops at the end of the file.
 */
#include "mio.h"

enum { N = 1000 };

/* Writes the rank's block in one of the forms. */
static void write_block(MPI_File file, int form, const int *data, MPI_Offset at)
{
    MPI_Status status;
    MPI_Request request;

    if (form % 2 == 1)
        MTEST_OK(MPI_File_seek(file, at, MPI_SEEK_SET));
    switch (form) {
    case 0:
        MTEST_OK(MPI_File_write_at(file, at, data, N, MPI_INT, &status));
        break;
    case 1:
        MTEST_OK(MPI_File_write(file, data, N, MPI_INT, &status));
        break;
    case 2:
        MTEST_OK(MPI_File_write_at_all(file, at, data, N, MPI_INT, &status));
        break;
    case 3:
        MTEST_OK(MPI_File_write_all(file, data, N, MPI_INT, &status));
        break;
    case 4:
        MTEST_OK(MPI_File_iwrite_at(file, at, data, N, MPI_INT, &request));
        break;
    case 5:
        MTEST_OK(MPI_File_iwrite(file, data, N, MPI_INT, &request));
        break;
    case 6:
        MTEST_OK(MPI_File_iwrite_at_all(file, at, data, N, MPI_INT, &request));
        break;
    case 7:
        MTEST_OK(MPI_File_iwrite_all(file, data, N, MPI_INT, &request));
        break;
    case 8:
        MTEST_OK(MPI_File_write_at_all_begin(file, at, data, N, MPI_INT));
        MTEST_OK(MPI_File_write_at_all_end(file, data, &status));
        break;
    default:
        MTEST_OK(MPI_File_write_all_begin(file, data, N, MPI_INT));
        MTEST_OK(MPI_File_write_all_end(file, data, &status));
    }
    if (form >= 4 && form <= 7)
        MTEST_OK(MPI_Wait(&request, &status));
    mio_check_count(&status, MPI_INT, N, "write");
    if (form % 2 == 1) {
        MPI_Offset position = -1;
        MTEST_OK(MPI_File_get_position(file, &position));
        MTEST_CHECK(position == at + N, "position %lld after writing", (long long)position);
    }
}

static void read_block(MPI_File file, int form, int *data, MPI_Offset at, MPI_Status *status)
{
    MPI_Request request;

    if (form % 2 == 1)
        MTEST_OK(MPI_File_seek(file, at, MPI_SEEK_SET));
    switch (form) {
    case 0:
        MTEST_OK(MPI_File_read_at(file, at, data, N, MPI_INT, status));
        break;
    case 1:
        MTEST_OK(MPI_File_read(file, data, N, MPI_INT, status));
        break;
    case 2:
        MTEST_OK(MPI_File_read_at_all(file, at, data, N, MPI_INT, status));
        break;
    case 3:
        MTEST_OK(MPI_File_read_all(file, data, N, MPI_INT, status));
        break;
    case 4:
        MTEST_OK(MPI_File_iread_at(file, at, data, N, MPI_INT, &request));
        break;
    case 5:
        MTEST_OK(MPI_File_iread(file, data, N, MPI_INT, &request));
        break;
    case 6:
        MTEST_OK(MPI_File_iread_at_all(file, at, data, N, MPI_INT, &request));
        break;
    case 7:
        MTEST_OK(MPI_File_iread_all(file, data, N, MPI_INT, &request));
        break;
    case 8:
        MTEST_OK(MPI_File_read_at_all_begin(file, at, data, N, MPI_INT));
        MTEST_OK(MPI_File_read_at_all_end(file, data, status));
        break;
    default:
        MTEST_OK(MPI_File_read_all_begin(file, data, N, MPI_INT));
        MTEST_OK(MPI_File_read_all_end(file, data, status));
    }
    if (form >= 4 && form <= 7)
        MTEST_OK(MPI_Wait(&request, status));
}

/* The last rank's block is short at the end of the file by half. */
static void check_block(const int *data, int form, int from, const MPI_Status *status)
{
    MPI_Status copy = *status;
    int n = from == mtest_size - 1 ? N / 2 : N, n_wrong = 0;

    mio_check_count(&copy, MPI_INT, n, "read");
    for (int i = 0; i < N; i++)
        n_wrong += data[i] != (i < n ? (form * mtest_size + from) * N + i : -1);
    MTEST_CHECK(n_wrong == 0, "form %d: %d of %d numbers of rank %d are wrong", form, n_wrong, N, from);
}

int main(int argc, char **argv)
{
    char name[64];
    int *data = malloc(N * sizeof *data);
    MPI_File file;
    MPI_Status status;

    mtest_init(&argc, &argv, 1);
    mio_name(name);
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MTEST_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int form = 0; form < 10; form++) {
        int from = (mtest_rank + 1) % mtest_size;
        for (int i = 0; i < N; i++)
            data[i] = (form * mtest_size + mtest_rank) * N + i;
        write_block(file, form, data, mtest_rank * N);
        MPI_Barrier(MPI_COMM_WORLD);
        MTEST_OK(MPI_File_set_size(file, (mtest_size * N - N / 2) * (MPI_Offset)sizeof(int)));
        memset(data, 0xff, N * sizeof *data);
        read_block(file, form, data, from * N, &status);
        check_block(data, form, from, &status);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MTEST_OK(MPI_File_close(&file));
    MTEST_CHECK(file == MPI_FILE_NULL, "the handle is not MPI_FILE_NULL after closing");
    mio_delete(name);
    free(data);
    return mtest_end();
}
