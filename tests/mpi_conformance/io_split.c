/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that random rows of split, ordered and nonblocking collective accesses leave what a model says, through views whose etype
 * has gaps, in files of more than 4 GiB with holes; and what MPI_MODE_APPEND and MPI_MODE_SEQUENTIAL change. Arguments: a seed, a
 * number of files.
 */
#include "mio.h"

enum { ETYPE = 6, GAP = 10, ROOM = 40, TURNS = 12, PENDING = 3 };

static uint64_t seed; /* the same at all ranks */

static int roll(int n)
{
    return (int)(mtest_random(&seed) % (unsigned)n);
}

/* A byte of the data of an access. */
static unsigned char byte_of(int turn, int rank, int i)
{
    return (unsigned char)(1 + turn * 37 + rank * 11 + i);
}

static void fill(unsigned char *buf, int turn, int rank, int n_etypes)
{
    for (int i = 0; i < n_etypes * ETYPE; i++)
        buf[i] = byte_of(turn, rank, i);
}

/* An access of which a later turn checks the data in the file. */
struct written {
    MPI_Offset first; /* etype */
    int n, turn, rank;
};

static struct written all[TURNS * 16];
static int n_all;
static MPI_Offset disp; /* of the view */

static void note(MPI_Offset first, int n, int turn, int rank)
{
    all[n_all++] = (struct written){first, n, turn, rank};
}

/* The etypes' data is in the file, and nothing between them. */
static void check_file(const char *name)
{
    int fd = open(name, O_RDONLY);

    for (int w = 0; w < n_all; w++)
        for (int e = 0; e < all[w].n; e++) {
            unsigned char found[GAP] = {0}, expected[GAP] = {0};
            for (int b = 0; b < ETYPE; b++)
                expected[b < 2 ? b : b + 2] = byte_of(all[w].turn, all[w].rank, e * ETYPE + b);
            pread(fd, found, GAP, disp + (all[w].first + e) * GAP);
            MTEST_CHECK(memcmp(found, expected, GAP) == 0, "turn %d, rank %d, etype %d differs in the file",
                        all[w].turn, all[w].rank, e);
        }
    close(fd);
}

/* Two bytes, a gap of two, four bytes, a gap of two. */
static MPI_Datatype gapped(void)
{
    int lengths[] = {2, 4}, places[] = {0, 4};
    MPI_Datatype inner, etype;

    MPI_Type_indexed(2, lengths, places, MPI_BYTE, &inner);
    MPI_Type_create_resized(inner, 0, GAP, &etype);
    MPI_Type_commit(&etype);
    MPI_Type_free(&inner);
    return etype;
}

/* A turn: all ranks write ordered, by split or blocking calls; or by offsets with several requests at a time. */
static void ordered(MPI_File file, int turn, MPI_Offset *shared, unsigned char *buf)
{
    bool is_split = roll(2);
    MPI_Offset before = *shared;
    MPI_Status status;
    int own = 0;

    for (int r = 0; r < mtest_size; r++) {
        int n = roll(ROOM);
        note(*shared, n, turn, r);
        *shared += n;
        own = r == mtest_rank ? n : own;
    }
    fill(buf, turn, mtest_rank, own);
    if (is_split) {
        MPI_Offset at = -1;
        MTEST_OK(MPI_File_write_ordered_begin(file, buf, own * ETYPE, MPI_BYTE));
        MTEST_CLASS(MPI_File_write_all(file, buf, 0, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_IO);
        MTEST_OK(MPI_File_get_position_shared(file, &at));
        MTEST_CHECK(at >= before, "the shared pointer is %lld", (long long)at);
        MTEST_OK(MPI_File_write_ordered_end(file, buf, &status));
    } else {
        MTEST_OK(MPI_File_write_ordered(file, buf, own * ETYPE, MPI_BYTE, &status));
    }
    mio_check_count(&status, MPI_BYTE, own * ETYPE, "ordered");
}

/* Places of their own for all ranks; requests end in another order than they began. */
static void overlapping(MPI_File file, int turn, MPI_Offset *free_place)
{
    unsigned char bufs[PENDING][ROOM * ETYPE];
    MPI_Request requests[PENDING];
    MPI_Status status;
    int own[PENDING], last = roll(PENDING);

    for (int p = 0; p < PENDING; p++) {
        MPI_Offset first = 0;
        for (int r = 0; r < mtest_size; r++) {
            int n = roll(ROOM);
            if (r == mtest_rank) {
                first = *free_place;
                own[p] = n;
            }
            note(*free_place, n, turn + p, r);
            *free_place += n + roll(3);
        }
        fill(bufs[p], turn + p, mtest_rank, own[p]);
        MTEST_OK(MPI_File_iwrite_at_all(file, first, bufs[p], own[p] * ETYPE, MPI_BYTE, &requests[p]));
    }
    for (int p = 0; p < PENDING; p++) {
        int which = (last + p) % PENDING;
        MTEST_OK(MPI_Wait(&requests[which], &status));
        mio_check_count(&status, MPI_BYTE, own[which] * ETYPE, "iwrite_at_all");
    }
}

/* A turn's data is read back in order, if there are no gaps between the ranks' data. */
static void read_back(MPI_File file, unsigned char *buf)
{
    const struct written *row = &all[roll(n_all / mtest_size) * mtest_size], *own = &row[mtest_rank];
    bool is_split = roll(2);
    MPI_Status status;

    for (int r = 1; r < mtest_size; r++)
        if (row[r].first != row[r - 1].first + row[r - 1].n)
            return;
    MTEST_OK(MPI_File_seek_shared(file, row[0].first, MPI_SEEK_SET));
    if (is_split) {
        MTEST_OK(MPI_File_read_ordered_begin(file, buf, own->n * ETYPE, MPI_BYTE));
        MTEST_OK(MPI_File_read_ordered_end(file, buf, &status));
    } else {
        MTEST_OK(MPI_File_read_ordered(file, buf, own->n * ETYPE, MPI_BYTE, &status));
    }
    mio_check_count(&status, MPI_BYTE, own->n * ETYPE, "read_ordered");
    for (int i = 0; i < own->n * ETYPE; i++)
        if (buf[i] != byte_of(own->turn, mtest_rank, i)) {
            MTEST_CHECK(false, "byte %d was read wrongly", i);
            break;
        }
}

static void settle(MPI_File file)
{
    MTEST_OK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_File_sync(file));
}

static void one_file(const char *name)
{
    static const char *const choices[] = {"automatic", "enable", "disable"};
    static unsigned char buf[ROOM * ETYPE];
    MPI_Datatype etype = gapped();
    MPI_Offset place = 0, at = -1;
    MPI_Info info;
    MPI_File file;

    n_all = 0;
    disp = roll(2) ? roll(100) : ((MPI_Offset)5 << 30) + roll(100);
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", choices[roll(3)]);
    MPI_Info_set(info, "cb_buffer_size", roll(2) ? "65536" : "1000000");
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, info, &file));
    MTEST_OK(MPI_File_set_size(file, 0));
    MTEST_OK(MPI_File_set_view(file, disp, etype, etype, "native", MPI_INFO_NULL));
    for (int turn = 0; turn < TURNS - PENDING; turn++) {
        int kind = roll(3);
        MTEST_OK(MPI_File_set_atomicity(file, roll(8) == 0));
        MTEST_OK(MPI_File_seek_shared(file, place, MPI_SEEK_SET));
        if (kind == 0 && n_all) {
            settle(file);
            read_back(file, buf);
        } else if (kind == 1) {
            overlapping(file, turn, &place);
            turn += PENDING - 1;
        } else {
            ordered(file, turn, &place, buf);
            MTEST_OK(MPI_File_get_position_shared(file, &at));
            MPI_Barrier(MPI_COMM_WORLD);
            MTEST_CHECK(at == place, "the shared pointer is %lld, expected %lld", (long long)at,
                        (long long)place);
        }
    }
    settle(file);
    if (mtest_rank == 0)
        check_file(name);
    MTEST_OK(MPI_File_close(&file));
    MPI_Info_free(&info);
    MPI_Type_free(&etype);
}

/* Pointers begin at the end of the file; a sequential file is written and read by the shared pointer only. */
static void modes(const char *name)
{
    unsigned char found[3 * 16] = {0}, bytes[3];
    MPI_Offset at = -1;
    MPI_File file;
    int n = mtest_size;

    memset(bytes, mtest_rank + 1, 3);
    MTEST_OK(
        MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, MPI_INFO_NULL, &file));
    MTEST_OK(MPI_File_write_ordered(file, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MTEST_OK(MPI_File_write_ordered(file, bytes, 2, MPI_BYTE, MPI_STATUS_IGNORE));
    MTEST_CLASS(MPI_File_write_at(file, 0, bytes, 1, MPI_BYTE, MPI_STATUS_IGNORE),
                MPI_ERR_UNSUPPORTED_OPERATION);
    MTEST_OK(MPI_File_close(&file));
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_APPEND, MPI_INFO_NULL, &file));
    MTEST_OK(MPI_File_get_position(file, &at));
    MTEST_CHECK(at == 3 * n, "appending begins at %lld", (long long)at);
    MTEST_OK(MPI_File_write_ordered(file, bytes, 3, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_File_get_size(file, &at));
    MTEST_CHECK(at == 6 * n, "the size is %lld", (long long)at);
    MTEST_OK(MPI_File_close(&file));
    MTEST_OK(MPI_File_open(MPI_COMM_WORLD, name,
                           MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                           &file));
    MTEST_OK(MPI_File_read_ordered(file, found, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_File_read_ordered(file, found + 1, 2, MPI_BYTE, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_File_read_ordered(file, found + 3, 3, MPI_BYTE, MPI_STATUS_IGNORE));
    MTEST_CHECK(mtest_touched(found, 6, mtest_rank + 1) < 0, "a sequential file was read wrongly");
    MTEST_OK(MPI_File_close(&file));
    MTEST_CHECK(mio_size(name) < 0, "the file is still there");
}

int main(int argc, char **argv)
{
    int n_files = argc > 2 ? atoi(argv[2]) : 4;
    char name[64];

    mtest_init(&argc, &argv, 1);
    if (mtest_size > 16)
        mtest_skip("too many ranks");
    mio_name(name);
    for (int i = 0; i < n_files && !mtest_errors; i++) {
        seed = (argc > 1 ? (uint64_t)atoi(argv[1]) : 1) * 1000003 + (uint64_t)i;
        one_file(name);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == 0)
        close(open(name, O_RDWR | O_TRUNC));
    MPI_Barrier(MPI_COMM_WORLD);
    modes(name);
    return mtest_end();
}
