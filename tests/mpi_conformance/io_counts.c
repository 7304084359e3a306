/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that all accesses to files with counts of MPI_Count (_c) move the right data to and from the right place and count it in
 * the status: each way of writing, read back in the same way. Also MPI_File_get_type_extent_c, and handles as Fortran's integers.
 */
#include "mio.h"

enum { N = 300 };

static int out[N], in[N];

static void fill(int seed)
{
    for (int i = 0; i < N; i++) {
        out[i] = seed * 10000 + mtest_rank * 1000 + i;
        in[i] = -1;
    }
}

static void check_data(MPI_Status *status, const char *what)
{
    int n_wrong = 0;

    mio_check_count(status, MPI_INT, N, what);
    for (int i = 0; i < N; i++)
        n_wrong += in[i] != out[i];
    MTEST_CHECK(n_wrong == 0, "%s: %d of %d elements are wrong", what, n_wrong, N);
}

/* All ranks are at the start of their view, and what was written is in the file. */
static void begin(MPI_File file, int seed)
{
    fill(seed);
    MTEST_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    MTEST_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
}

static void rewind_all(MPI_File file, MPI_Status *status, const char *what)
{
    mio_check_count(status, MPI_INT, N, what);
    MTEST_OK(MPI_File_sync(file));
    MTEST_OK(MPI_File_seek(file, 0, MPI_SEEK_SET));
    MTEST_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
}

/* WRITE and READ are calls that set `status`. */
#define CHECK_PAIR(what, WRITE, READ)    \
    do {                                 \
        begin(file, ++seed);             \
        WRITE;                           \
        rewind_all(file, &status, what); \
        READ;                            \
        check_data(&status, what);       \
    } while (0)

static void wait_for(MPI_Request *request, MPI_Status *status)
{
    MTEST_OK(MPI_Wait(request, status));
}

static void explicit_offsets(MPI_File file, int seed)
{
    const MPI_Offset at = 7;
    const MPI_Count n = N;
    MPI_Request request;
    MPI_Status status;

    CHECK_PAIR("at", MTEST_OK(MPI_File_write_at_c(file, at, out, n, MPI_INT, &status)),
               MTEST_OK(MPI_File_read_at_c(file, at, in, n, MPI_INT, &status)));
    CHECK_PAIR("at_all", MTEST_OK(MPI_File_write_at_all_c(file, at, out, n, MPI_INT, &status)),
               MTEST_OK(MPI_File_read_at_all_c(file, at, in, n, MPI_INT, &status)));
    CHECK_PAIR("iat", MTEST_OK(MPI_File_iwrite_at_c(file, at, out, n, MPI_INT, &request));
               wait_for(&request, &status), MTEST_OK(MPI_File_iread_at_c(file, at, in, n, MPI_INT, &request));
               wait_for(&request, &status));
    CHECK_PAIR("iat_all", MTEST_OK(MPI_File_iwrite_at_all_c(file, at, out, n, MPI_INT, &request));
               wait_for(&request, &status),
               MTEST_OK(MPI_File_iread_at_all_c(file, at, in, n, MPI_INT, &request));
               wait_for(&request, &status));
    CHECK_PAIR("at_all split", MTEST_OK(MPI_File_write_at_all_begin_c(file, at, out, n, MPI_INT));
               MTEST_OK(MPI_File_write_at_all_end(file, out, &status)),
               MTEST_OK(MPI_File_read_at_all_begin_c(file, at, in, n, MPI_INT));
               MTEST_OK(MPI_File_read_at_all_end(file, in, &status)));
}

static void individual_pointers(MPI_File file, int seed)
{
    const MPI_Count n = N;
    MPI_Request request;
    MPI_Status status;

    CHECK_PAIR("write", MTEST_OK(MPI_File_write_c(file, out, n, MPI_INT, &status)),
               MTEST_OK(MPI_File_read_c(file, in, n, MPI_INT, &status)));
    CHECK_PAIR("write_all", MTEST_OK(MPI_File_write_all_c(file, out, n, MPI_INT, &status)),
               MTEST_OK(MPI_File_read_all_c(file, in, n, MPI_INT, &status)));
    CHECK_PAIR("iwrite", MTEST_OK(MPI_File_iwrite_c(file, out, n, MPI_INT, &request));
               wait_for(&request, &status), MTEST_OK(MPI_File_iread_c(file, in, n, MPI_INT, &request));
               wait_for(&request, &status));
    CHECK_PAIR("iwrite_all", MTEST_OK(MPI_File_iwrite_all_c(file, out, n, MPI_INT, &request));
               wait_for(&request, &status), MTEST_OK(MPI_File_iread_all_c(file, in, n, MPI_INT, &request));
               wait_for(&request, &status));
    CHECK_PAIR("all split", MTEST_OK(MPI_File_write_all_begin_c(file, out, n, MPI_INT));
               MTEST_OK(MPI_File_write_all_end(file, out, &status)),
               MTEST_OK(MPI_File_read_all_begin_c(file, in, n, MPI_INT));
               MTEST_OK(MPI_File_read_all_end(file, in, &status)));
}

/* The order of ranks is given only for the ordered forms: the others have a file per rank. */
static void shared_pointer(MPI_File file, int seed)
{
    const MPI_Count n = N;
    MPI_Request request;
    MPI_Status status;

    CHECK_PAIR("shared", MTEST_OK(MPI_File_write_shared_c(file, out, n, MPI_INT, &status)),
               MTEST_OK(MPI_File_read_shared_c(file, in, n, MPI_INT, &status)));
    CHECK_PAIR("ishared", MTEST_OK(MPI_File_iwrite_shared_c(file, out, n, MPI_INT, &request));
               wait_for(&request, &status), MTEST_OK(MPI_File_iread_shared_c(file, in, n, MPI_INT, &request));
               wait_for(&request, &status));
}

static void ordered(MPI_File file, int seed)
{
    const MPI_Count n = N;
    MPI_Status status;

    CHECK_PAIR("ordered", MTEST_OK(MPI_File_write_ordered_c(file, out, n, MPI_INT, &status)),
               MTEST_OK(MPI_File_read_ordered_c(file, in, n, MPI_INT, &status)));
    CHECK_PAIR("ordered split", MTEST_OK(MPI_File_write_ordered_begin_c(file, out, n, MPI_INT));
               MTEST_OK(MPI_File_write_ordered_end(file, out, &status)),
               MTEST_OK(MPI_File_read_ordered_begin_c(file, in, n, MPI_INT));
               MTEST_OK(MPI_File_read_ordered_end(file, in, &status)));
}

static void others(MPI_File file)
{
    MPI_Count extent = 0;
    MPI_Aint address = 0;

    MTEST_OK(MPI_File_get_type_extent_c(file, MPI_DOUBLE, &extent));
    MTEST_CHECK(extent == (MPI_Count)sizeof(double), "the extent (_c) is %lld", (long long)extent);
    MTEST_OK(MPI_File_get_type_extent(file, MPI_DOUBLE, &address));
    MTEST_CHECK(address == (MPI_Aint)sizeof(double), "the extent is %lld", (long long)address);
    MTEST_CHECK(MPI_File_f2c(MPI_File_c2f(file)) == file, "a handle changes on its way to Fortran and back");
    MTEST_CHECK(MPI_File_fromint(MPI_File_toint(file)) == file, "a handle changes as an integer");
}

int main(int argc, char **argv)
{
    char name[64], own_name[80];
    MPI_File file;

    mtest_init(&argc, &argv, 1);
    mio_name(name);
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    ordered(file, 100);
    MTEST_OK(MPI_File_set_view(file, mtest_rank * (N + 7) * (MPI_Offset)sizeof(int), MPI_INT, MPI_INT,
                               "native", MPI_INFO_NULL));
    explicit_offsets(file, 200);
    MTEST_OK(MPI_File_close(&file));

    snprintf(own_name, sizeof own_name, "%s_%d", name, mtest_rank);
    MTEST_OK(MPI_File_open(MPI_COMM_SELF, own_name,
                           MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    individual_pointers(file, 300);
    shared_pointer(file, 400);
    others(file);
    MTEST_OK(MPI_File_close(&file));
    mio_delete(name);
    return mtest_end();
}
