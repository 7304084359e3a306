/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows the data representations: external32 is what MPI_Pack_external makes, also through filetypes with holes, whose
 * displacements scale; and the functions of a representation that the program registers are called, with their state.
 */
#include <stddef.h>

#include "mio.h"

enum { N = 20 };

/* Longs have 4 bytes in external32, so the filetype's stride scales. */
static void scaled(MPI_File file, const char *name)
{
    MPI_Datatype vector, filetype;
    MPI_Aint extent = 0, position = 0;
    MPI_Offset disp = -1;
    MPI_Status status;
    long data[N], back[N + 1];
    char packed[4 * N], raw[8 * N];
    int fd, n_wrong = 0;

    for (int i = 0; i < N; i++)
        data[i] = mtest_rank * 1000 + i - 5;
    MPI_Type_vector(2, 1, mtest_size, MPI_LONG, &vector);
    MPI_Type_create_resized(vector, 0, 2 * mtest_size * 4, &filetype); /* bytes stay bytes */
    MPI_Type_free(&vector);
    MPI_Type_commit(&filetype);
    MTEST_OK(MPI_File_set_view(file, 4 * mtest_rank, MPI_LONG, filetype, "external32", MPI_INFO_NULL));
    MTEST_OK(MPI_File_get_type_extent(file, MPI_LONG, &extent));
    MTEST_CHECK(extent == 4, "a long has %ld bytes", (long)extent);
    MTEST_OK(MPI_File_get_byte_offset(file, 3, &disp));
    MTEST_CHECK(disp == 4 * mtest_rank + 12 * mtest_size, "etype 3 is at %lld", (long long)disp);
    MTEST_OK(MPI_File_write_all(file, data, N, MPI_LONG, &status));
    mio_check_count(&status, MPI_LONG, N, "writing external32");
    MTEST_OK(MPI_File_sync(file));
    MTEST_OK(MPI_Pack_external("external32", data, N, MPI_LONG, packed, sizeof packed, &position));
    MPI_Barrier(MPI_COMM_WORLD);
    fd = open(name, O_RDONLY);
    for (int i = 0; i < N; i++) {
        MTEST_CHECK(pread(fd, raw, 4, 4 * (mtest_rank + i * mtest_size)) == 4, "number %d is missing", i);
        n_wrong += memcmp(raw, packed + 4 * i, 4) != 0;
    }
    MTEST_CHECK(n_wrong == 0, "%d numbers in the file are not as packed", n_wrong);
    close(fd);
    memset(back, 0xff, sizeof back);
    MTEST_OK(MPI_File_read_at_all(file, 2, back, N, MPI_LONG, &status));
    mio_check_count(&status, MPI_LONG, N - 2, "reading external32 across the end");
    MTEST_CHECK(memcmp(back, data + 2, (N - 2) * sizeof(long)) == 0 && back[N - 2] == -1,
                "longs do not come back");
    data[0] = 1L << 40;
    MTEST_CLASS(MPI_File_write_at(file, 0, data, 1, MPI_LONG, &status), MPI_ERR_CONVERSION);
    MPI_Type_free(&filetype);
}

/* A struct and a subarray of doubles, in memory with gaps. */
static void structured(MPI_File file)
{
    struct item {
        char c;
        double d;
        short s[3];
    } items[4], back[4];
    MPI_Datatype item, padded, filetype;
    MPI_Aint disps[3] = {offsetof(struct item, c), offsetof(struct item, d), offsetof(struct item, s)};
    MPI_Request request;
    MPI_Status status;
    double numbers[8], got[8];

    memset(items, 0, sizeof items);
    memset(back, 0, sizeof back);
    for (int i = 0; i < 4; i++)
        items[i] = (struct item){(char)('a' + i), i / 3.0, {(short)i, 2, (short)(256 + mtest_rank)}};
    MPI_Type_create_struct(3, (int[]){1, 1, 3}, disps, (MPI_Datatype[]){MPI_CHAR, MPI_DOUBLE, MPI_SHORT},
                           &item);
    MPI_Type_create_resized(item, 0, sizeof(struct item), &padded);
    MPI_Type_commit(&padded);
    MTEST_OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
    MTEST_OK(MPI_File_iwrite_at(file, 60 * mtest_rank, items, 4, padded, &request));
    MTEST_OK(MPI_Wait(&request, &status));
    mio_check_count(&status, padded, 4, "writing structs");
    MTEST_OK(MPI_File_iread_at(file, 60 * mtest_rank, back, 4, padded, &request));
    MTEST_OK(MPI_Wait(&request, &status));
    mio_check_count(&status, padded, 4, "reading structs");
    for (int i = 0; i < 4; i++)
        MTEST_CHECK(back[i].c == items[i].c && back[i].d == items[i].d &&
                        memcmp(back[i].s, items[i].s, sizeof items[i].s) == 0,
                    "struct %d differs", i);
    MPI_Type_free(&item);
    MPI_Type_free(&padded);

    MPI_Type_create_subarray(2, (int[]){4, 2 * mtest_size}, (int[]){4, 2}, (int[]){0, 2 * mtest_rank},
                             MPI_ORDER_C, MPI_DOUBLE, &filetype);
    MPI_Type_commit(&filetype);
    MTEST_OK(MPI_File_set_view(file, 0, MPI_DOUBLE, filetype, "external32", MPI_INFO_NULL));
    MPI_Type_free(&filetype);
    for (int i = 0; i < 8; i++)
        numbers[i] = mtest_rank + i / 10.0;
    MTEST_OK(MPI_File_write_all(file, numbers, 8, MPI_DOUBLE, &status));
    MTEST_OK(MPI_File_read_at_all(file, 0, got, 8, MPI_DOUBLE, &status));
    MTEST_CHECK(memcmp(got, numbers, sizeof got) == 0, "doubles of a subarray do not come back");
}

/* ---- A representation of the program: ints have 8 bytes, with the state's number added ---- */

static int n_read, n_written;

static int file_extent(MPI_Datatype datatype, MPI_Aint *extent, void *state)
{
    (void)state;
    *extent = datatype == MPI_INT ? 8 : 1;
    return MPI_SUCCESS;
}

static int read_ints(void *userbuf, MPI_Datatype datatype, int count, void *filebuf, MPI_Offset position,
                     void *state)
{
    n_read++;
    if (datatype != MPI_INT)
        return MPI_ERR_TYPE;
    for (int i = 0; i < count; i++)
        ((int *)userbuf)[position + i] = (int)(((int64_t *)filebuf)[i] - *(int *)state);
    return MPI_SUCCESS;
}

static int write_ints(void *userbuf, MPI_Datatype datatype, int count, void *filebuf, MPI_Offset position,
                      void *state)
{
    n_written++;
    if (datatype != MPI_INT)
        return MPI_ERR_TYPE;
    for (int i = 0; i < count; i++)
        ((int64_t *)filebuf)[i] = ((int *)userbuf)[position + i] + *(int *)state;
    return MPI_SUCCESS;
}

static int read_many(void *userbuf, MPI_Datatype datatype, MPI_Count count, void *filebuf,
                     MPI_Offset position, void *state)
{
    return read_ints(userbuf, datatype, (int)count, filebuf, position, state);
}

static int write_many(void *userbuf, MPI_Datatype datatype, MPI_Count count, void *filebuf,
                      MPI_Offset position, void *state)
{
    return write_ints(userbuf, datatype, (int)count, filebuf, position, state);
}

/* Its functions have counts of MPI_Count; the same representation but for the state. */
static void registered_large(MPI_File file)
{
    static int state = 7, none;
    int data[N], back[N] = {0};
    int64_t raw[N];

    MTEST_OK(MPI_Register_datarep_c("large", read_many, write_many, file_extent, &state));
    MTEST_CLASS(MPI_Register_datarep_c("large", read_many, write_many, file_extent, &none),
                MPI_ERR_DUP_DATAREP);
    for (int i = 0; i < N; i++)
        data[i] = mtest_rank * N + i;
    MTEST_OK(MPI_File_set_view(file, 8 * N * mtest_rank, MPI_INT, MPI_INT, "large", MPI_INFO_NULL));
    MTEST_OK(MPI_File_write_all(file, data, N, MPI_INT, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_File_read_at_all_c(file, 0, back, N, MPI_INT, MPI_STATUS_IGNORE));
    MTEST_CHECK(memcmp(back, data, sizeof data) == 0, "ints do not come back");
    MTEST_OK(MPI_File_set_view(file, 8 * N * mtest_rank, MPI_INT64_T, MPI_INT64_T, "native", MPI_INFO_NULL));
    MTEST_OK(MPI_File_read_all(file, raw, N, MPI_INT64_T, MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++)
        MTEST_CHECK(raw[i] == data[i] + state, "int %d is not converted in the file", i);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void registered(MPI_File file, const char *name)
{
    static int state = 100;
    int data[N], back[N] = {0};
    int64_t raw[N];
    MPI_Aint extent = 0;
    MPI_Datatype vector, filetype;
    MPI_Status status;
    MPI_Request request;
    int fd;

    MTEST_OK(MPI_Register_datarep("wide", read_ints, write_ints, file_extent, &state));
    MTEST_CLASS(MPI_Register_datarep("wide", read_ints, write_ints, file_extent, &state),
                MPI_ERR_DUP_DATAREP);
    MTEST_CLASS(MPI_Register_datarep("native", read_ints, write_ints, file_extent, &state),
                MPI_ERR_DUP_DATAREP);
    MPI_Type_vector(1, 1, mtest_size, MPI_INT, &vector);
    MPI_Type_create_resized(vector, 0, 8 * mtest_size, &filetype);
    MPI_Type_free(&vector);
    MPI_Type_commit(&filetype);
    MTEST_OK(MPI_File_set_view(file, 8 * mtest_rank, MPI_INT, filetype, "wide", MPI_INFO_NULL));
    MPI_Type_free(&filetype);
    MTEST_OK(MPI_File_get_type_extent(file, MPI_INT, &extent));
    MTEST_CHECK(extent == 8, "an int has %ld bytes", (long)extent);
    for (int i = 0; i < N; i++)
        data[i] = mtest_rank * N + i;
    MTEST_OK(MPI_File_write_all(file, data, N, MPI_INT, &status));
    mio_check_count(&status, MPI_INT, N, "writing converted ints");
    MTEST_CLASS(MPI_File_write_at(file, 0, data, 1, MPI_FLOAT, &status), MPI_ERR_IO); /* 1 byte is no etype */
    MTEST_CLASS(MPI_File_write_at(file, 0, data, 8, MPI_FLOAT, &status),
                MPI_ERR_CONVERSION); /* not its code */
    MTEST_OK(MPI_File_iread_at(file, 0, back, N, MPI_INT, &request));
    MTEST_OK(MPI_Wait(&request, &status));
    mio_check_count(&status, MPI_INT, N, "reading converted ints");
    MTEST_CHECK(memcmp(back, data, sizeof data) == 0, "converted ints do not come back");
    MTEST_CHECK(n_read > 0 && n_written > 0, "the functions were not called");
    fd = open(name, O_RDONLY);
    for (int i = 0; i < N; i++)
        MTEST_CHECK(pread(fd, &raw[i], 8, 8 * (mtest_rank + i * mtest_size)) == 8 && raw[i] == data[i] + 100,
                    "int %d is not converted in the file", i);
    close(fd);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Without a conversion function a direction is native, whatever the extents are; without both, the extents are, too. */
static void unconverted(MPI_File file)
{
    static int state;
    int data[3] = {1, 2, 3}, back[3] = {-1, -1, -1};
    MPI_Aint extent = 0;
    MPI_Status status;

    MTEST_OK(
        MPI_Register_datarep("both", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, file_extent, &state));
    MTEST_OK(MPI_Register_datarep("write", MPI_CONVERSION_FN_NULL, write_ints, file_extent, &state));
    MTEST_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "both", MPI_INFO_NULL));
    MTEST_OK(MPI_File_get_type_extent(file, MPI_INT, &extent));
    MTEST_CHECK(extent == sizeof(int), "a native int has %ld bytes", (long)extent);
    MTEST_OK(MPI_File_write_at_all(file, 0, data, 3, MPI_INT, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "write", MPI_INFO_NULL));
    MTEST_OK(MPI_File_read_at_all(file, 0, back, 2, MPI_INT, &status));
    mio_check_count(&status, MPI_INT, 2, "reading ints without conversion");
    MTEST_CHECK(back[0] == 1 && back[1] == 2 && back[2] == -1, "got %d %d %d", back[0], back[1], back[2]);
}

int main(int argc, char **argv)
{
    char name[64];
    MPI_File file;

    mtest_init(&argc, &argv, 1);
    mio_name(name);
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    scaled(file, name);
    MPI_Barrier(MPI_COMM_WORLD);
    structured(file);
    MPI_Barrier(MPI_COMM_WORLD);
    registered(file, name);
    registered_large(file);
    unconverted(file);
    MTEST_OK(MPI_File_close(&file));
    mio_delete(name);
    return mtest_end();
}
