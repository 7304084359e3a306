/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that random writes and reads through random views, with memory types, pointers and all forms of calls, leave in the
 * file and in memory what a model of the file in memory says. Arguments: a seed, a number of steps.
 *
 * Each step deals the units of a tile out to the ranks, at random. A rank's filetype has its units, and a hole for the others'.
 */
#include "mio.h"

enum { TILE_MAX = 24, FILE_MAX = 1 << 18, COUNT_MAX = 200 };

static unsigned char *model; /* the bytes of the file */
static long model_size;      /* of the file */
static uint64_t seed;        /* the same at all ranks */

static int roll(int n)
{
    return (int)(mtest_random(&seed) % (unsigned)n);
}

/* A rank's view. */
struct view {
    long disp, unit, tile; /* bytes of a unit; units of a tile */
    int n, units[TILE_MAX];
};

/* The place of an etype in the file. */
static long place_of(const struct view *view, long etype)
{
    return view->disp + (etype / view->n * view->tile + view->units[etype % view->n]) * view->unit;
}

/* Deals the units of a tile to the ranks; each gets one at least. */
static void deal(struct view *views)
{
    long unit = 1 + roll(9), disp = roll(100), tile = mtest_size + roll(TILE_MAX - mtest_size + 1);

    for (int r = 0; r < mtest_size; r++)
        views[r] = (struct view){.disp = disp, .unit = unit, .tile = tile};
    for (int u = 0; u < tile; u++) {
        struct view *view = &views[u < mtest_size ? u : roll(mtest_size)];
        view->units[view->n++] = u;
    }
}

static void set_view(MPI_File file, const struct view *view)
{
    MPI_Datatype etype, blocks, filetype;

    MPI_Type_contiguous((int)view->unit, MPI_BYTE, &etype);
    MPI_Type_create_indexed_block(view->n, 1, view->units, etype, &blocks);
    MPI_Type_create_resized(blocks, 0, view->tile * view->unit, &filetype);
    MPI_Type_commit(&filetype);
    MTEST_OK(MPI_File_set_view(file, view->disp, etype, filetype, "native", MPI_INFO_NULL));
    MPI_Type_free(&filetype);
    MPI_Type_free(&blocks);
    MPI_Type_free(&etype);
}

/* A rank's part of a step. */
struct access {
    long offset; /* in etypes */
    int count;   /* etypes */
    int gap;     /* bytes between the etypes in memory */
};

static MPI_Datatype memory_type(const struct view *view, const struct access *access)
{
    MPI_Datatype block, type;

    MPI_Type_contiguous((int)view->unit, MPI_BYTE, &block);
    MPI_Type_create_hvector(access->count, 1, view->unit + access->gap, block, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&block);
    return type;
}

/* One access in a random form, which is the same at all ranks. */
static void move(MPI_File file, bool is_write, int form, const struct access *access, void *buf,
                 MPI_Datatype type, MPI_Status *status)
{
    MPI_Request request = MPI_REQUEST_NULL;

    if (form >= 4)
        MTEST_OK(MPI_File_seek(file, access->offset, MPI_SEEK_SET));
    if (is_write) {
        switch (form) {
        case 0:
            MTEST_OK(MPI_File_write_at(file, access->offset, buf, 1, type, status));
            break;
        case 1:
            MTEST_OK(MPI_File_write_at_all(file, access->offset, buf, 1, type, status));
            break;
        case 2:
            MTEST_OK(MPI_File_iwrite_at(file, access->offset, buf, 1, type, &request));
            break;
        case 3:
            MTEST_OK(MPI_File_iwrite_at_all(file, access->offset, buf, 1, type, &request));
            break;
        case 4:
            MTEST_OK(MPI_File_write(file, buf, 1, type, status));
            break;
        case 5:
            MTEST_OK(MPI_File_write_all(file, buf, 1, type, status));
            break;
        case 6:
            MTEST_OK(MPI_File_write_all_begin(file, buf, 1, type));
            MTEST_OK(MPI_File_write_all_end(file, buf, status));
            break;
        default:
            MTEST_OK(MPI_File_iwrite_all(file, buf, 1, type, &request));
        }
    } else {
        switch (form) {
        case 0:
            MTEST_OK(MPI_File_read_at(file, access->offset, buf, 1, type, status));
            break;
        case 1:
            MTEST_OK(MPI_File_read_at_all(file, access->offset, buf, 1, type, status));
            break;
        case 2:
            MTEST_OK(MPI_File_iread_at(file, access->offset, buf, 1, type, &request));
            break;
        case 3:
            MTEST_OK(MPI_File_iread_at_all(file, access->offset, buf, 1, type, &request));
            break;
        case 4:
            MTEST_OK(MPI_File_read(file, buf, 1, type, status));
            break;
        case 5:
            MTEST_OK(MPI_File_read_all(file, buf, 1, type, status));
            break;
        case 6:
            MTEST_OK(MPI_File_read_all_begin(file, buf, 1, type));
            MTEST_OK(MPI_File_read_all_end(file, buf, status));
            break;
        default:
            MTEST_OK(MPI_File_iread_all(file, buf, 1, type, &request));
        }
    }
    if (request != MPI_REQUEST_NULL)
        MTEST_OK(MPI_Wait(&request, status));
}

static void write_step(MPI_File file, const struct view *views, int form)
{
    size_t room = (size_t)COUNT_MAX * 32;
    unsigned char *buf = mtest_alloc(room);

    for (int r = 0; r < mtest_size; r++) {
        struct access access = {roll(50), roll(COUNT_MAX), roll(5)};
        unsigned tag = (unsigned)roll(1000);
        for (int i = 0; i < access.count; i++) {
            long at = place_of(&views[r], access.offset + i);
            for (long b = 0; b < views[r].unit; b++)
                model[at + b] = mtest_byte((size_t)(i * views[r].unit + b), tag);
            model_size = at + views[r].unit > model_size ? at + views[r].unit : model_size;
        }
        if (r == mtest_rank) {
            MPI_Datatype type = memory_type(&views[r], &access);
            MPI_Status status;
            MPI_Count n_bytes = -1;
            for (int i = 0; i < access.count; i++)
                for (long b = 0; b < views[r].unit; b++)
                    buf[i * (views[r].unit + access.gap) + b] =
                        mtest_byte((size_t)(i * views[r].unit + b), tag);
            move(file, true, form, &access, buf, type, &status);
            MPI_Get_elements_x(&status, MPI_BYTE, &n_bytes);
            MTEST_CHECK(n_bytes == access.count * views[r].unit, "wrote %lld bytes", (long long)n_bytes);
            MPI_Type_free(&type);
        }
    }
    free(buf);
}

static void read_step(MPI_File file, const struct view *views, int form)
{
    const struct view *view = &views[mtest_rank];
    size_t room = (size_t)COUNT_MAX * 32;
    unsigned char *buf = mtest_alloc(room);

    for (int r = 0; r < mtest_size; r++) {
        struct access access = {roll(150), roll(COUNT_MAX), roll(5)};
        MPI_Datatype type;
        MPI_Status status;
        MPI_Count n_bytes = -1, expected = 0;
        int n_wrong = 0;
        if (r != mtest_rank)
            continue;
        type = memory_type(view, &access);
        memset(buf, 0xee, room);
        move(file, false, form, &access, buf, type, &status);
        for (int i = 0; i < access.count; i++)
            for (long b = 0; b < view->unit + access.gap; b++) {
                long at = place_of(view, access.offset + i) + b;
                bool is_data = b < view->unit && at < model_size;
                expected += is_data;
                n_wrong += buf[i * (view->unit + access.gap) + b] != (is_data ? model[at] : 0xee);
            }
        MPI_Get_elements_x(&status, MPI_BYTE, &n_bytes);
        MTEST_CHECK(n_bytes == expected, "form %d read %lld bytes, expected %lld", form, (long long)n_bytes,
                    (long long)expected);
        MTEST_CHECK(n_wrong == 0, "form %d: %d bytes are wrong", form, n_wrong);
        MPI_Type_free(&type);
    }
    free(buf);
}

int main(int argc, char **argv)
{
    char name[64];
    struct view views[TILE_MAX];
    int n_steps = argc > 2 ? atoi(argv[2]) : 100;
    MPI_File file;

    seed = argc > 1 ? (uint64_t)atoi(argv[1]) : 1;
    mtest_init(&argc, &argv, 1);
    if (mtest_size > TILE_MAX)
        mtest_skip("too many ranks for a tile");
    model = calloc(FILE_MAX, 1);
    mio_name(name);
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    for (int step = 0; step < n_steps; step++) {
        MTEST_OK(MPI_File_set_atomicity(file, roll(8) == 0));
        deal(views);
        set_view(file, &views[mtest_rank]);
        write_step(file, views, roll(8));
        MTEST_OK(MPI_File_sync(file));
        MPI_Barrier(MPI_COMM_WORLD);
        deal(views);
        set_view(file, &views[mtest_rank]);
        read_step(file, views, roll(8));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MTEST_OK(MPI_File_close(&file));
    MTEST_CHECK(mio_size(name) == model_size, "the file has %lld bytes, expected %ld", mio_size(name),
                model_size);
    mio_delete(name);
    free(model);
    return mtest_end();
}
