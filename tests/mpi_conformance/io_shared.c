/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows the shared file pointer: independent accesses get disjoint parts without gaps, ordered ones get them in the order of
 * ranks, blocking, nonblocking and split; its position; and a file that is open for sequential access, with
 * MPI_DISPLACEMENT_CURRENT.
 */
#include "mio.h"

enum { ROUNDS = 20 };

/* Records of the length that they say: the length, then the rank, again and again. */
static int fill_record(int *record, int round)
{
    int len = 2 + (mtest_rank * 3 + round) % 5;

    record[0] = len;
    for (int i = 1; i < len; i++)
        record[i] = mtest_rank;
    return len;
}

static void check_position(MPI_File file, long expected, const char *when)
{
    MPI_Offset position = -1;

    MTEST_OK(MPI_File_get_position_shared(file, &position));
    MTEST_CHECK(position == expected, "the shared pointer %s is %lld, expected %ld", when,
                (long long)position, expected);
}

/* All records of all rounds are in the file, each once. */
static void check_records(const char *name, int n_ranks)
{
    int *all, *n_found = calloc((size_t)n_ranks, sizeof *n_found);
    long n = mio_size(name) / (long)sizeof *all;
    int fd = open(name, O_RDONLY);

    all = malloc((size_t)(n + 1) * sizeof *all);
    MTEST_CHECK(read(fd, all, (size_t)n * sizeof *all) == n * (long)sizeof *all, "cannot read the file");
    for (long at = 0; at < n; at += all[at]) {
        int len = all[at], rank = len >= 2 && at + len <= n ? all[at + 1] : -1;
        if (rank < 0 || rank >= n_ranks) {
            MTEST_CHECK(0, "no record at %ld", at);
            break;
        }
        for (int i = 1; i < len; i++)
            MTEST_CHECK(all[at + i] == rank, "the record at %ld is mixed", at);
        n_found[rank]++;
    }
    for (int r = 0; r < n_ranks; r++)
        MTEST_CHECK(n_found[r] == ROUNDS, "%d records of rank %d", n_found[r], r);
    close(fd);
    free(all);
    free(n_found);
}

static void write_shared(const char *name)
{
    MPI_File file;
    MPI_Request request;
    MPI_Status status;
    int record[8], len;
    long sum = 0, own = 0;

    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MTEST_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int round = 0; round < ROUNDS; round++) {
        own += len = fill_record(record, round);
        if (round % 2) {
            MTEST_OK(MPI_File_iwrite_shared(file, record, len, MPI_INT, &request));
            MTEST_OK(MPI_Wait(&request, &status));
        } else {
            MTEST_OK(MPI_File_write_shared(file, record, len, MPI_INT, &status));
        }
        mio_check_count(&status, MPI_INT, len, "write_shared");
    }
    MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    check_position(file, sum, "after writing");
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == 0)
        check_records(name, mtest_size);
    MTEST_OK(MPI_File_seek_shared(file, -sum, MPI_SEEK_END));
    check_position(file, 0, "after seeking");
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_File_iread_shared(file, record, 1, MPI_INT, &request));
    MTEST_OK(MPI_Wait(&request, &status));
    MTEST_OK(MPI_File_read_shared(file, record, 1, MPI_INT, &status));
    mio_check_count(&status, MPI_INT, 1, "read_shared");
    MPI_Barrier(MPI_COMM_WORLD);
    check_position(file, 2 * mtest_size, "after reading");
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_File_close(&file));
}

/* Reads what the ordered calls wrote: blocks in the order of ranks, of rank + 1 numbers. */
static void check_ordered(MPI_File file, int form)
{
    MPI_Status status;
    int buf[64], n = mtest_rank + 1, n_wrong = 0;

    MTEST_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    if (form == 0) {
        MTEST_OK(MPI_File_read_ordered(file, buf, n, MPI_INT, &status));
    } else {
        MTEST_OK(MPI_File_read_ordered_begin(file, buf, n, MPI_INT));
        MTEST_OK(MPI_File_read_ordered_end(file, buf, &status));
    }
    mio_check_count(&status, MPI_INT, n, "read_ordered");
    for (int i = 0; i < n; i++)
        n_wrong += buf[i] != form * 1000 + mtest_rank;
    MTEST_CHECK(n_wrong == 0, "%d of %d ordered numbers are wrong", n_wrong, n);
    check_position(file, mtest_size * (mtest_size + 1) / 2, "after reading in order");
}

static void write_ordered(const char *name)
{
    MPI_File file;
    MPI_Status status;
    int buf[64], n = mtest_rank + 1;

    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    for (int form = 0; form < 2; form++) {
        MTEST_OK(MPI_File_set_view(file, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        check_position(file, 0, "after setting the view");
        for (int i = 0; i < n; i++)
            buf[i] = form * 1000 + mtest_rank;
        if (form == 0) {
            MTEST_OK(MPI_File_write_ordered(file, buf, n, MPI_INT, &status));
        } else {
            MTEST_OK(MPI_File_write_ordered_begin(file, buf, n, MPI_INT));
            MTEST_OK(MPI_File_write_ordered_end(file, buf, &status));
        }
        mio_check_count(&status, MPI_INT, n, "write_ordered");
        MPI_Barrier(MPI_COMM_WORLD);
        check_ordered(file, form);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MTEST_OK(MPI_File_close(&file));
}

/* The view begins at the shared pointer. */
static void check_current(MPI_File file, long expected)
{
    MPI_Offset disp = -1;
    MPI_Datatype etype, filetype;
    char datarep[MPI_MAX_DATAREP_STRING];

    MTEST_OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MTEST_OK(MPI_File_get_view(file, &disp, &etype, &filetype, datarep));
    MTEST_CHECK(disp == expected, "the view begins at %lld, not at %ld", (long long)disp, expected);
}

static void sequential(const char *name)
{
    MPI_File file;
    MPI_Offset offset;
    int value = mtest_rank, n_later = mtest_size - 1;

    MTEST_OK(
        MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file));
    MTEST_CLASS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    check_current(file, 0);
    MTEST_OK(MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    check_current(file, 4 * mtest_size);
    if (mtest_rank > 0) /* after rank 0 has come to set the view */
        MTEST_OK(MPI_File_write_shared(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
    check_current(file, 4 * (mtest_size + n_later));
    MTEST_CLASS(MPI_File_get_byte_offset(file, 0, &offset), MPI_ERR_UNSUPPORTED_OPERATION);
    MTEST_CLASS(MPI_File_write_at(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE),
                MPI_ERR_UNSUPPORTED_OPERATION);
    MTEST_CLASS(MPI_File_write(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
    MTEST_CLASS(MPI_File_seek(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    MTEST_CLASS(MPI_File_get_position(file, &offset), MPI_ERR_UNSUPPORTED_OPERATION);
    MTEST_CLASS(MPI_File_get_position_shared(file, &offset), MPI_ERR_UNSUPPORTED_OPERATION);
    MTEST_CLASS(MPI_File_set_size(file, 0), MPI_ERR_UNSUPPORTED_OPERATION);
    MTEST_OK(MPI_File_close(&file));
}

/* The end of the file is that after the writes of ranks that come to the seek later than rank 0. */
static void seek_end(const char *name)
{
    MPI_File file;

    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MTEST_OK(MPI_File_set_size(file, 0));
    if (mtest_rank == 0) {
        for (int i = 1; i < mtest_size; i++)
            MPI_Send(NULL, 0, MPI_INT, i, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MTEST_OK(MPI_File_write_at(file, 10 * mtest_rank, "0123456789", 10, MPI_CHAR, MPI_STATUS_IGNORE));
    }
    MTEST_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_END));
    check_position(file, mtest_size > 1 ? 10 * mtest_size : 0, "at the end");
    MTEST_OK(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    char name[64];

    mtest_init(&argc, &argv, 1);
    if (mtest_size > 60)
        mtest_skip("blocks are longer than the buffer");
    mio_name(name);
    write_shared(name);
    write_ordered(name);
    sequential(name);
    seek_end(name);
    mio_delete(name);
    return mtest_end();
}
