/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Files are written from GPU memory and read into it: contiguous and with gaps, by blocking, nonblocking and collective calls,
 * through views with holes, and in external32. Large enough for several chunks of the staging memory.
 */
#include <unistd.h>

#include "mio.h"
#include "device.h"

enum { N = 100003 };

/* A rank's ints are every size-th int of the file. */
static void set_view(MPI_File file, const char *datarep)
{
    MPI_Datatype one, filetype;

    MPI_Type_contiguous(1, MPI_INT, &one);
    MPI_Type_create_resized(one, 0, (MPI_Aint)sizeof(int) * mtest_size, &filetype);
    MPI_Type_commit(&filetype);
    MTEST_OK(MPI_File_set_view(file, (MPI_Offset)sizeof(int) * mtest_rank, MPI_INT, filetype, datarep,
                               MPI_INFO_NULL));
    MPI_Type_free(&filetype);
    MPI_Type_free(&one);
}

/* Writes from the one buffer and reads into the other one. */
static void move(MPI_File file, bool is_collective, void *from, void *to, int count, MPI_Datatype type)
{
    MPI_Request request;
    MPI_Status status;

    if (is_collective) {
        MTEST_OK(MPI_File_write_at_all(file, 0, from, count, type, &status));
        mio_check_count(&status, type, count, "writing");
        MPI_Barrier(MPI_COMM_WORLD);
        MTEST_OK(MPI_File_read_at_all(file, 0, to, count, type, &status));
    } else {
        MTEST_OK(MPI_File_iwrite_at(file, 0, from, count, type, &request));
        MTEST_OK(MPI_Wait(&request, &status));
        mio_check_count(&status, type, count, "writing");
        MTEST_OK(MPI_File_read_at(file, 0, to, count, type, &status));
    }
    mio_check_count(&status, type, count, "reading");
}

static void run(MPI_File file, bool is_collective, MPI_Datatype type, int count)
{
    int *image = mtest_alloc(2 * N * sizeof *image), *expected = mtest_alloc(2 * N * sizeof *expected);
    struct gtest_buffer from, to;

    for (int i = 0; i < 2 * N; i++)
        image[i] = mtest_rank * 1000000 + i;
    memset(expected, GTEST_FILL_BYTE, 2 * N * sizeof *expected);
    for (int i = 0; i < count; i++) { /* the elements are every second int, or all */
        int at = type == MPI_INT ? i : 2 * i;
        expected[at] = image[at];
    }
    from = gtest_alloc(GTEST_GPU0, 2 * N * sizeof *image, image);
    to = gtest_alloc(GTEST_GPU0, 2 * N * sizeof *image, NULL);
    move(file, is_collective, from.data, to.data, count, type);
    MTEST_CHECK(gtest_differs(&to, expected) == -1, "wrong at byte %ld", gtest_differs(&to, expected));
    gtest_free(&from);
    gtest_free(&to);
    free(image);
    free(expected);
}

int main(int argc, char **argv)
{
    static const char *const reps[] = {"native", "external32"};
    MPI_Datatype spaced;
    MPI_File file;
    char name[64];

    mtest_init(&argc, &argv, 1);
    gtest_init();
    mio_name(name);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spaced);
    MPI_Type_commit(&spaced);
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    for (int rep = 0; rep < 2; rep++) {
        set_view(file, reps[rep]);
        for (int is_collective = 0; is_collective < 2; is_collective++) {
            run(file, is_collective, MPI_INT, N);
            run(file, is_collective, spaced, 1000);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    MPI_Type_free(&spaced);
    MTEST_OK(MPI_File_close(&file));
    mio_delete(name);
    return mtest_end();
}
