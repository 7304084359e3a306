/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows what a view is: its types and displacement come back from MPI_File_get_view, committed, offsets count etypes, the end of the file
 * is the first etype behind it, byte offsets skip holes; and which views and accesses are errors.
 */
#include "mio.h"

/* Two ints, a hole of three, one int, a hole of two: three etypes in 32 bytes. */
static MPI_Datatype make_filetype(void)
{
    MPI_Datatype blocks, filetype;

    MPI_Type_indexed(2, (int[]){2, 1}, (int[]){0, 5}, MPI_INT, &blocks);
    MPI_Type_create_resized(blocks, 0, 32, &filetype);
    MPI_Type_commit(&filetype);
    MPI_Type_free(&blocks);
    return filetype;
}

static void check_types(MPI_File file, MPI_Offset disp, MPI_Datatype etype, int combiner, const char *datarep)
{
    MPI_Datatype got_etype, got_filetype;
    MPI_Offset got_disp = -1;
    char got_datarep[MPI_MAX_DATAREP_STRING];
    int n_ints, n_addresses, n_types, got_combiner;

    MTEST_OK(MPI_File_get_view(file, &got_disp, &got_etype, &got_filetype, got_datarep));
    MTEST_CHECK(got_disp == disp, "the displacement is %lld", (long long)got_disp);
    MTEST_CHECK(got_etype == etype, "the etype is another one");
    MTEST_CHECK(strcmp(got_datarep, datarep) == 0, "the data representation is %s", got_datarep);
    MTEST_OK(MPI_File_set_view(file, disp, got_etype, got_filetype, datarep, MPI_INFO_NULL));
    MPI_Type_get_envelope(got_filetype, &n_ints, &n_addresses, &n_types, &got_combiner);
    MTEST_CHECK(got_combiner == combiner, "the filetype's combiner is %d", got_combiner);
    if (combiner != MPI_COMBINER_NAMED)
        MPI_Type_free(&got_filetype);
}

static void check_offset(MPI_File file, MPI_Offset offset, MPI_Offset expected)
{
    MPI_Offset disp = -1;

    MTEST_OK(MPI_File_get_byte_offset(file, offset, &disp));
    MTEST_CHECK(disp == expected, "etype %lld is at %lld, expected %lld", (long long)offset, (long long)disp,
                (long long)expected);
}

static void check_end(MPI_File file, MPI_Offset expected)
{
    MPI_Offset position = -1;

    MTEST_OK(MPI_File_seek(file, 0, MPI_SEEK_END));
    MTEST_OK(MPI_File_get_position(file, &position));
    MTEST_CHECK(position == expected, "the end is at %lld, expected %lld", (long long)position,
                (long long)expected);
}

static void places(MPI_File file)
{
    MPI_Datatype filetype = make_filetype();
    MPI_Offset position = -1;
    MPI_Status status;
    int buf[8];

    check_types(file, 0, MPI_BYTE, MPI_COMBINER_NAMED, "native");
    MTEST_OK(MPI_File_set_view(file, 100, MPI_INT, filetype, "native", MPI_INFO_NULL));
    MPI_Type_free(&filetype);
    check_types(file, 100, MPI_INT, MPI_COMBINER_RESIZED, "native");
    check_offset(file, 0, 100);
    check_offset(file, 1, 104);
    check_offset(file, 2, 120);
    check_offset(file, 3, 132);
    check_offset(file, 3000002, 100 + 32000000 + 20);

    MTEST_OK(MPI_File_set_size(file, 0));
    check_end(file, 0);
    MTEST_OK(MPI_File_set_size(file, 101)); /* in the first etype */
    check_end(file, 1);
    MTEST_OK(MPI_File_set_size(file, 115)); /* in the first hole */
    check_end(file, 2);
    MTEST_OK(MPI_File_set_size(file, 132)); /* behind the last hole */
    check_end(file, 3);
    MTEST_OK(MPI_File_set_size(file, 134));
    check_end(file, 4);

    MTEST_OK(MPI_File_set_size(file, 132 + 8));
    MTEST_OK(MPI_File_seek(file, -3, MPI_SEEK_END));
    MTEST_OK(MPI_File_read(file, buf, 8, MPI_INT, &status));
    mio_check_count(&status, MPI_INT, 3, "reading across the end");
    MTEST_OK(MPI_File_get_position(file, &position));
    MTEST_CHECK(position == 2 + 8, "the pointer has moved to %lld", (long long)position);
    MTEST_OK(MPI_File_seek(file, -4, MPI_SEEK_CUR));
    MTEST_OK(MPI_File_read(file, buf, 1, MPI_INT, &status));
    mio_check_count(&status, MPI_INT, 0, "reading behind the end");
    MTEST_CLASS(MPI_File_seek(file, -8, MPI_SEEK_CUR), MPI_ERR_ARG);
    MTEST_CLASS(MPI_File_seek(file, 0, -1), MPI_ERR_ARG);
    MTEST_CLASS(MPI_File_get_byte_offset(file, -1, &position), MPI_ERR_ARG);
    MTEST_OK(MPI_File_read_at(file, 2, NULL, 0, MPI_INT, &status));
    mio_check_count(&status, MPI_INT, 0, "reading nothing");
}

static int set_view(MPI_File file, MPI_Offset disp, MPI_Datatype etype, MPI_Datatype filetype,
                    const char *rep)
{
    MPI_Type_commit(&filetype);
    int error = MPI_File_set_view(file, disp, etype, filetype, rep, MPI_INFO_NULL);
    MPI_Type_free(&filetype);
    return error;
}

static void wrong_views(MPI_File file)
{
    MPI_Datatype type;
    int buf[4];

    MTEST_CLASS(MPI_File_set_view(file, -5, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    MTEST_CLASS(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL),
                MPI_ERR_ARG);
    MTEST_CLASS(MPI_File_set_view(file, 0, MPI_DATATYPE_NULL, MPI_INT, "native", MPI_INFO_NULL),
                MPI_ERR_TYPE);
    MTEST_CLASS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "no such one", MPI_INFO_NULL),
                MPI_ERR_UNSUPPORTED_DATAREP);
    MTEST_CLASS(MPI_File_set_view(file, 0, MPI_INT, MPI_SHORT, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    if (mtest_size > 1) {
        MTEST_CLASS(
            MPI_File_set_view(file, 0, MPI_INT, MPI_INT, mtest_rank ? "native" : "external32", MPI_INFO_NULL),
            MPI_ERR_NOT_SAME);
        MTEST_CHECK(MPI_File_set_view(file, mtest_rank ? 0 : -5, MPI_INT, MPI_INT, "native", MPI_INFO_NULL) !=
                        MPI_SUCCESS,
                    "an error of rank 0 is not one of all");
    }
    MPI_Type_create_hindexed_block(2, 1, (MPI_Aint[]){-8, 8}, MPI_INT, &type);
    MTEST_CLASS(set_view(file, 0, MPI_INT, type, "native"), MPI_ERR_IO);
    MPI_Type_create_hindexed_block(2, 1, (MPI_Aint[]){8, 0}, MPI_INT, &type);
    MTEST_CLASS(set_view(file, 0, MPI_INT, type, "native"), MPI_ERR_IO);
    MPI_Type_create_hindexed_block(2, 1, (MPI_Aint[]){0, 2}, MPI_INT, &type);
    MTEST_CLASS(set_view(file, 0, MPI_INT, type, "native"), MPI_ERR_IO);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MTEST_CLASS(MPI_File_set_view(file, 0, MPI_INT, type, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    MTEST_CLASS(MPI_File_write_at(file, 0, buf, 1, type, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    MPI_Type_free(&type);
    check_types(file, 100, MPI_INT, MPI_COMBINER_RESIZED, "native"); /* no call had an effect */

    MTEST_CLASS(MPI_File_write_at(file, 0, buf, 1, MPI_SHORT, MPI_STATUS_IGNORE), MPI_ERR_IO);
    MTEST_CLASS(MPI_File_write_at(file, -1, buf, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    MTEST_CLASS(MPI_File_write_at(file, 0, buf, -1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
    MTEST_CLASS(MPI_File_write_at(file, 0, NULL, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_BUFFER);
    MTEST_CLASS(MPI_File_read(file, buf, 1, MPI_DATATYPE_NULL, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
    /* The others must not wait for a rank whose arguments are wrong. */
    if (mtest_rank == 0)
        MTEST_CLASS(MPI_File_write_ordered(file, buf, -1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
    else
        MTEST_OK(MPI_File_write_ordered(file, buf, 1, MPI_INT, MPI_STATUS_IGNORE));
}

/* A rank with an empty filetype takes part in collective calls without data. */
static void empty(MPI_File file)
{
    MPI_Datatype filetype;
    int value = 5, got = 0;
    MPI_Status status;

    MPI_Type_indexed(mtest_rank ? 0 : 1, (int[]){1}, (int[]){0}, MPI_INT, &filetype);
    MPI_Type_commit(&filetype);
    MTEST_OK(MPI_File_set_view(file, 4, MPI_INT, filetype, "native", MPI_INFO_NULL));
    MPI_Type_free(&filetype);
    MTEST_OK(MPI_File_write_all(file, &value, mtest_rank ? 0 : 1, MPI_INT, &status));
    mio_check_count(&status, MPI_INT, mtest_rank ? 0 : 1, "writing with some empty filetypes");
    MTEST_OK(MPI_File_read_at_all(file, 0, &got, mtest_rank ? 0 : 1, MPI_INT, &status));
    MTEST_CHECK(mtest_rank || got == value, "%d was read", got);
    if (mtest_rank)
        MTEST_CLASS(MPI_File_read_at(file, 0, &got, 1, MPI_INT, &status), MPI_ERR_IO);
}

static void wrong_splits(MPI_File file)
{
    int buf[2] = {1, 2};

    MTEST_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    MTEST_CLASS(MPI_File_write_all_end(file, buf, MPI_STATUS_IGNORE), MPI_ERR_IO);
    MTEST_OK(MPI_File_write_all_begin(file, buf, 1, MPI_INT));
    MTEST_CLASS(MPI_File_write_all_begin(file, buf, 1, MPI_INT), MPI_ERR_IO);
    MTEST_CLASS(MPI_File_read_all(file, buf, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_IO);
    MTEST_CLASS(MPI_File_read_all_end(file, buf, MPI_STATUS_IGNORE), MPI_ERR_IO);
    MTEST_CLASS(MPI_File_write_at_all_end(file, buf, MPI_STATUS_IGNORE), MPI_ERR_IO);
    MTEST_OK(MPI_File_write_at(file, 10 + mtest_rank, buf, 1, MPI_INT, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_File_write_all_end(file, buf, MPI_STATUS_IGNORE));
}

/* Places that 63 bits do not hold are errors. */
static void too_far(MPI_File file)
{
    MPI_Datatype filetype;
    MPI_Offset disp = -1;
    int value;

    MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint)1 << 40, &filetype);
    MPI_Type_commit(&filetype);
    MTEST_OK(MPI_File_set_view(file, 0, MPI_INT, filetype, "native", MPI_INFO_NULL));
    check_offset(file, 1 << 20, (MPI_Offset)1 << 60);
    MTEST_CLASS(MPI_File_get_byte_offset(file, 1 << 24, &disp), MPI_ERR_ARG);
    MTEST_CLASS(MPI_File_read_at(file, 1 << 24, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    MTEST_OK(MPI_File_seek(file, INT64_MAX - 1, MPI_SEEK_SET));
    MTEST_CLASS(MPI_File_read(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    MTEST_OK(MPI_File_get_position(file, &disp));
    MTEST_CHECK(disp == INT64_MAX - 1, "a refused access moved the pointer to %lld", (long long)disp);
    MTEST_CLASS(MPI_File_set_view(file, INT64_MAX, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    MPI_Type_free(&filetype);
}

int main(int argc, char **argv)
{
    char name[64];
    MPI_File file;

    mtest_init(&argc, &argv, 1);
    mio_name(name);
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    places(file);
    wrong_views(file);
    empty(file);
    wrong_splits(file);
    too_far(file);
    MTEST_OK(MPI_File_close(&file));
    mio_delete(name);
    return mtest_end();
}
