/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Every function that reads or writes a file takes GPU memory: all places in the view, blocking, nonblocking, split, and with
 * counts of MPI_Count; as it is, in external32, in a representation of the program, whose functions get host memory, and in
 * atomic mode.
 */
#include "mio.h"
#include "device.h"

enum { N = 3001, FORMS = 16 };

static bool is_gpu_memory(const void *memory)
{
    unsigned type = 0;

    return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)memory) ==
               CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_DEVICE;
}

/* ---- A representation: ints are stored inverted ---- */

static int n_converted;

static int extent_of(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    MPI_Count lb, wide;

    (void)state;
    MPI_Type_get_extent_c(type, &lb, &wide);
    *extent = (MPI_Aint)wide;
    return MPI_SUCCESS;
}

static int from_file(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *state)
{
    (void)type;
    (void)state;
    if (is_gpu_memory(user) || is_gpu_memory(file))
        return MPI_ERR_BUFFER;
    n_converted++;
    for (int i = 0; i < count; i++)
        ((int *)user)[position + i] = ~((int *)file)[i];
    return MPI_SUCCESS;
}

static int to_file(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *state)
{
    (void)type;
    (void)state;
    if (is_gpu_memory(user) || is_gpu_memory(file))
        return MPI_ERR_BUFFER;
    n_converted++;
    for (int i = 0; i < count; i++)
        ((int *)file)[i] = ~((int *)user)[position + i];
    return MPI_SUCCESS;
}

/* ---- The functions ---- */

/* All ranks' pointers are at the beginning of the view. */
static void rewind_all(MPI_File file)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_File_seek(file, (MPI_Offset)mtest_rank * N, MPI_SEEK_SET));
    MTEST_OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
}

static int finish(int error, MPI_Request *request, MPI_Status *status)
{
    return error ? error : MPI_Wait(request, status);
}

static int write_form(MPI_File file, int form, const void *buf, MPI_Status *status)
{
    MPI_Offset at = (MPI_Offset)mtest_rank * N;
    MPI_Request request;
    int error;

    switch (form) {
    case 0:
        return MPI_File_write_at(file, at, buf, N, MPI_INT, status);
    case 1:
        return MPI_File_write_at_all(file, at, buf, N, MPI_INT, status);
    case 2:
        return finish(MPI_File_iwrite_at(file, at, buf, N, MPI_INT, &request), &request, status);
    case 3:
        return finish(MPI_File_iwrite_at_all(file, at, buf, N, MPI_INT, &request), &request, status);
    case 4:
        error = MPI_File_write_at_all_begin(file, at, buf, N, MPI_INT);
        return error ? error : MPI_File_write_at_all_end(file, buf, status);
    case 5:
        return MPI_File_write(file, buf, N, MPI_INT, status);
    case 6:
        return MPI_File_write_all(file, buf, N, MPI_INT, status);
    case 7:
        return finish(MPI_File_iwrite(file, buf, N, MPI_INT, &request), &request, status);
    case 8:
        return finish(MPI_File_iwrite_all(file, buf, N, MPI_INT, &request), &request, status);
    case 9:
        error = MPI_File_write_all_begin(file, buf, N, MPI_INT);
        return error ? error : MPI_File_write_all_end(file, buf, status);
    case 10:
        return MPI_File_write_ordered(file, buf, N, MPI_INT, status);
    case 11:
        error = MPI_File_write_ordered_begin(file, buf, N, MPI_INT);
        return error ? error : MPI_File_write_ordered_end(file, buf, status);
    case 12:
        return MPI_File_write_shared(file, buf, N, MPI_INT, status);
    case 13:
        return finish(MPI_File_iwrite_shared(file, buf, N, MPI_INT, &request), &request, status);
    case 14:
        return finish(MPI_File_iwrite_at_c(file, at, buf, N, MPI_INT, &request), &request, status);
    default:
        error = MPI_File_write_ordered_begin_c(file, buf, N, MPI_INT);
        return error ? error : MPI_File_write_ordered_end(file, buf, status);
    }
}

static int read_form(MPI_File file, int form, void *buf, MPI_Status *status)
{
    MPI_Offset at = (MPI_Offset)mtest_rank * N;
    MPI_Request request;
    int error;

    switch (form) {
    case 0:
        return MPI_File_read_at(file, at, buf, N, MPI_INT, status);
    case 1:
        return MPI_File_read_at_all(file, at, buf, N, MPI_INT, status);
    case 2:
        return finish(MPI_File_iread_at(file, at, buf, N, MPI_INT, &request), &request, status);
    case 3:
        return finish(MPI_File_iread_at_all(file, at, buf, N, MPI_INT, &request), &request, status);
    case 4:
        error = MPI_File_read_at_all_begin(file, at, buf, N, MPI_INT);
        return error ? error : MPI_File_read_at_all_end(file, buf, status);
    case 5:
        return MPI_File_read(file, buf, N, MPI_INT, status);
    case 6:
        return MPI_File_read_all(file, buf, N, MPI_INT, status);
    case 7:
        return finish(MPI_File_iread(file, buf, N, MPI_INT, &request), &request, status);
    case 8:
        return finish(MPI_File_iread_all(file, buf, N, MPI_INT, &request), &request, status);
    case 9:
        error = MPI_File_read_all_begin(file, buf, N, MPI_INT);
        return error ? error : MPI_File_read_all_end(file, buf, status);
    case 10:
        return MPI_File_read_ordered(file, buf, N, MPI_INT, status);
    case 11:
        error = MPI_File_read_ordered_begin(file, buf, N, MPI_INT);
        return error ? error : MPI_File_read_ordered_end(file, buf, status);
    case 12:
        return MPI_File_read_shared(file, buf, N, MPI_INT, status);
    case 13:
        return finish(MPI_File_iread_shared(file, buf, N, MPI_INT, &request), &request, status);
    case 14:
        return finish(MPI_File_iread_at_c(file, at, buf, N, MPI_INT, &request), &request, status);
    default:
        error = MPI_File_read_ordered_begin_c(file, buf, N, MPI_INT);
        return error ? error : MPI_File_read_ordered_end(file, buf, status);
    }
}

/* Ranks get parts in any order from these. */
static bool is_unordered(int form)
{
    return form == 12 || form == 13;
}

/* What was written by a form is what all forms read, into memory of this kind. */
static void run(MPI_File file, int form, enum gtest_place from_place, enum gtest_place to_place,
                const char *what)
{
    int *image = mtest_alloc(N * sizeof *image), *found = mtest_alloc(N * sizeof *found);
    struct gtest_buffer from, to;
    MPI_Status status;

    for (int i = 0; i < N; i++)
        image[i] = ((form + 1) * 64 + mtest_rank) * N + i;
    from = gtest_alloc(from_place, N * sizeof *image, image);
    to = gtest_alloc(to_place, N * sizeof *image, NULL);
    rewind_all(file);
    MTEST_OK(write_form(file, form, from.data, &status));
    mio_check_count(&status, MPI_INT, N, what);
    MTEST_CHECK(gtest_differs(&from, image) == -1, "%s, form %d: a write changed its buffer", what, form);
    rewind_all(file);
    MTEST_OK(read_form(file, form, to.data, &status));
    mio_check_count(&status, MPI_INT, N, what);
    if (is_unordered(form)) { /* a whole block of some rank */
        GTEST_CU(cuMemcpy((CUdeviceptr)(uintptr_t)found, (CUdeviceptr)(uintptr_t)to.data, N * sizeof *found));
        MTEST_CHECK(found[0] / N / 64 == form + 1 && found[0] % N == 0, "%s: no block, form %d", what, form);
        for (int i = 0; i < N; i++)
            image[i] = found[0] + i;
    }
    MTEST_CHECK(gtest_differs(&to, image) == -1, "%s, form %d, %s: wrong at byte %ld", what, form,
                gtest_place_names[to_place], gtest_differs(&to, image));
    gtest_free(&from);
    gtest_free(&to);
    free(image);
    free(found);
}

static void run_all(MPI_File file, const char *what)
{
    for (int form = 0; form < FORMS; form++) {
        run(file, form, GTEST_GPU0, GTEST_GPU1, what);
        run(file, form, mtest_rank % 2 ? GTEST_HOST : GTEST_MANAGED,
            mtest_rank % 2 ? GTEST_GPU0 : GTEST_PINNED, what);
    }
}

int main(int argc, char **argv)
{
    static const char *const reps[] = {"native", "external32", "inverted"};
    MPI_File file;
    char name[64];

    mtest_init(&argc, &argv, 1);
    gtest_init();
    mio_name(name);
    MTEST_OK(MPI_Register_datarep("inverted", from_file, to_file, extent_of, NULL));
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    for (int rep = 0; rep < 3; rep++) {
        MTEST_OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, reps[rep], MPI_INFO_NULL));
        run_all(file, reps[rep]);
    }
    MTEST_CHECK(n_converted > 0, "the functions of the representation were not called");
    MTEST_OK(MPI_File_set_atomicity(file, 1));
    run_all(file, "atomic");
    MTEST_OK(MPI_File_close(&file));
    mio_delete(name);
    return mtest_end();
}
