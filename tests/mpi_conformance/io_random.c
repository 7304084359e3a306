/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that random programs with files leave in the file, in memory and in statuses what a model says: views and memory types
 * that are nested and have holes, three file pointers, all forms of calls with several in progress, sizes, the end of the file,
 * appending, data representations, hints, communicators in another order, and atomic mode with overlapping writes. Arguments: a
 * seed, a number of files, a folder.
 *
 * An epoch begins with a new view of all ranks and ends with sync, barrier, sync. In it no access touches bytes that another one
 * has touched, unless both are blocking ones of the same rank: accesses that would do so have no data.
 */
#include "io_random_model.h"

static MPI_Comm comm; /* of all ranks, in any order; mtest_rank is its rank */

/* ---- Epochs ---- */

static void settle(MPI_File file)
{
    MTEST_OK(MPI_File_sync(file));
    MPI_Barrier(comm);
    MTEST_OK(MPI_File_sync(file));
}

/* Filetypes of all ranks: the same; interleaved, with room for each other; or independent of each other. */
enum { EQUAL, INTERLEAVED, INDEPENDENT };

static void choose_filetypes(int kind, bool is_wide)
{
    for (int r = 0; r < mtest_size; r++) {
        struct view *view = &views[r];
        if (r > 0 && kind != INDEPENDENT) {
            *view = views[0];
            continue;
        }
        view->filetype = etype;
        MPI_Type_dup(etype.type, &view->filetype.type);
        for (int n = roll(4); n > 0; n--)
            shape_wrap(&view->filetype, is_wide);
        view->disp = roll(3) ? roll(200) : 0;
        if (kind == INTERLEAVED) {
            MPI_Datatype old = view->filetype.type;
            view->filetype.extent *= mtest_size;
            MPI_Type_create_resized(old, 0, view->filetype.extent, &view->filetype.type);
            MPI_Type_free(&old);
        }
    }
    for (int r = 1; kind == INTERLEAVED && r < mtest_size; r++)
        views[r].disp += r * (views[0].filetype.extent / mtest_size);
}

/* The view that the file has. */
static void check_view(MPI_File file)
{
    MPI_Offset disp = -1;
    MPI_Datatype types[2];
    MPI_Count extents[3] = {-1, -1, -1}, lb;
    char name[MPI_MAX_DATAREP_STRING];

    MTEST_OK(MPI_File_get_view(file, &disp, &types[0], &types[1], name));
    MTEST_CHECK(disp == views[mtest_rank].disp && strcmp(name, rep->name) == 0,
                "the view begins at %ld in \"%s\", expected %ld in \"%s\"", (long)disp, name,
                views[mtest_rank].disp, rep->name);
    MTEST_OK(MPI_File_get_type_extent_c(file, basic, &extents[0]));
    MTEST_OK(MPI_File_get_type_extent_c(file, types[1], &extents[1]));
    MTEST_CHECK(extents[0] == file_bytes() && extents[1] == views[mtest_rank].filetype.extent,
                "%s: extents are %ld and %ld, expected %ld and %ld", rep->name, (long)extents[0],
                (long)extents[1], file_bytes(), views[mtest_rank].filetype.extent);
    MPI_Type_get_extent_c(types[1], &lb, &extents[2]);
    MTEST_CHECK(rep->factor > 1 || extents[2] == extents[1], "the filetype has the extent %ld",
                (long)extents[2]);
    for (int i = 0; i < 2; i++) {
        int n_ints, n_aints, n_types, combiner;
        MTEST_OK(MPI_Type_get_envelope(types[i], &n_ints, &n_aints, &n_types, &combiner));
        if (combiner != MPI_COMBINER_NAMED)
            MPI_Type_free(&types[i]);
    }
}

/* Seeks of the shared pointer; nobody writes. */
static void seek_shared(MPI_File file)
{
    static const int names[] = {MPI_SEEK_SET, MPI_SEEK_CUR, MPI_SEEK_END};

    for (int i = 0; i < 3; i++) {
        int whence = roll(3);
        long offset = roll(20), end = etypes_before_end(&views[0]);
        if (whence == 2)
            offset = end < 30 ? roll(20) - end : -end + roll(20);
        shared = whence == 0 ? offset : whence == 1 ? shared + offset : end + offset;
        MTEST_OK(MPI_File_seek_shared(file, offset, names[whence]));
    }
}

static void choose_views(MPI_File file)
{
    static const struct {
        MPI_Datatype type;
        int bytes;
    } basics[] = {{MPI_BYTE, 1}, {MPI_SHORT, 2}, {MPI_INT, 4}, {MPI_DOUBLE, 8}};
    int b = roll(4), kind = roll(3);
    bool is_wide;

    rep = &reps[roll(5)];
    is_wide = rep->factor > 1;
    basic = basics[b].type;
    basic_bytes = basics[b].bytes;
    is_equal = kind == EQUAL;
    shape_basic(&etype, basic, file_bytes(), true);
    for (int n = roll(3); n > 0; n--)
        shape_wrap(&etype, is_wide);
    choose_filetypes(kind, is_wide);
    MPI_Type_commit(&views[mtest_rank].filetype.type);
    MTEST_OK(MPI_File_set_view(file, views[mtest_rank].disp, etype.type, views[mtest_rank].filetype.type,
                               rep->name, MPI_INFO_NULL));
    check_view(file);
    shape_free(&etype);
    for (int r = 0; r < mtest_size; r++)
        if (r == 0 || kind == INDEPENDENT)
            shape_free(&views[r].filetype);
    memset(individual, 0, sizeof individual);
    shared = 0;
    if (is_equal && roll(2))
        seek_shared(file);
}

/* A seek of the rank, perhaps. The end of the file is known only if nobody writes. */
static void seek(MPI_File file, int rank, bool is_read_only)
{
    static const int names[] = {MPI_SEEK_SET, MPI_SEEK_CUR, MPI_SEEK_END};
    int whence = roll(is_read_only ? 3 : 2);
    long offset = roll(30), target = offset;

    if (whence == 1)
        target = individual[rank] + offset;
    if (whence == 2) {
        offset = -offset;
        target = etypes_before_end(&views[rank]) + offset;
    }
    if (target < 0)
        return;
    individual[rank] = target;
    if (rank == mtest_rank)
        MTEST_OK(MPI_File_seek(file, offset, names[whence]));
}

/* What all ranks do next. */
struct turn {
    bool is_read_only; /* in this epoch */
    bool is_collective, is_ordered, is_write;
    int form, place;
    long size;   /* of the file when the epoch began */
    long before; /* etypes of lower ranks */
};

/* The access of a rank: its data is none if it must not touch the bytes. */
static void choose_op(MPI_File file, struct turn *turn, struct op *op, int rank, int number,
                      bool *is_blocking)
{
    const struct view *view = &views[rank];
    long end;

    op->is_collective = turn->is_collective;
    op->place = turn->is_ordered ? ORDERED : turn->is_collective ? turn->place : roll(2);
    op->form = turn->is_collective ? turn->form : roll(2);
    if (turn->is_ordered && op->form == NONBLOCKING)
        op->form = BLOCKING;
    op->is_write = turn->is_collective ? turn->is_write : !turn->is_read_only && roll(4);
    op->tag = (unsigned)roll(1000);
    op->is_large = roll(2);
    is_blocking[number] = op->form == BLOCKING;
    choose_memory(op, rank == mtest_rank);
    if (!op->is_collective && op->place == INDIVIDUAL && roll(3) == 0)
        seek(file, rank, turn->is_read_only);
    choose_first(op, rank, turn->before);
    end = op->n ? place_of(view, op->first + op->n - 1) + file_bytes() : 0;
    if (turn->is_read_only ? end > 2 * FILE_MAX
                           : (!op->is_write && end > turn->size) || !is_free(op, rank, number, is_blocking))
        op->n = op->count = 0;
    if (rank == mtest_rank)
        make_buffers(op);
    if (op->is_write)
        model_write(op, view);
    else if (rank == mtest_rank)
        model_read(op, view);
    if (op->place == INDIVIDUAL)
        individual[rank] += op->n / etype.n;
    if (op->place == ORDERED)
        turn->before += op->n / etype.n;
}

static void check_pointers(MPI_File file)
{
    MPI_Offset at = -1, byte = -1;
    const struct view *view = &views[mtest_rank];

    MTEST_OK(MPI_File_get_position(file, &at));
    MTEST_CHECK(at == individual[mtest_rank], "the file pointer is %ld, expected %ld", (long)at,
                individual[mtest_rank]);
    MTEST_OK(MPI_File_get_byte_offset(file, at, &byte));
    MTEST_CHECK(byte == place_of(view, at * etype.n), "the byte offset is %ld, expected %ld", (long)byte,
                place_of(view, at * etype.n));
    MTEST_OK(MPI_File_get_position_shared(file, &at));
    MTEST_CHECK(at == shared, "the shared file pointer is %ld, expected %ld", (long)at, shared);
}

/* Accesses of all ranks, one of each at a time. */
static void accesses(MPI_File file, bool is_read_only)
{
    static struct op ops[RANKS_MAX][OPS_MAX];
    static bool is_blocking[RANKS_MAX][OPS_MAX];
    struct op *own = ops[mtest_rank];
    struct turn turn = {.is_read_only = is_read_only, .size = model_size};

    memset(claims, 0, sizeof claims);
    memset(ops, 0, sizeof ops);
    for (int j = 0; j < OPS_MAX; j++) {
        turn.is_collective = roll(2);
        turn.is_ordered = turn.is_collective && is_equal && roll(3) == 0;
        turn.is_write = !is_read_only && roll(4);
        turn.form = roll(3);
        turn.place = roll(2);
        turn.before = 0;
        if (turn.is_collective)
            complete(file, own, false);
        for (int r = 0; r < mtest_size; r++)
            choose_op(file, &turn, &ops[r][j], r, j, is_blocking[r]);
        shared += turn.before;
        call(file, &own[j]);
        if (roll(3) == 0)
            complete(file, own, true);
    }
    complete(file, own, true);
    MPI_Barrier(comm);
    check_pointers(file);
}

/* ---- The shared file pointer, in the order in which ranks come: the file and the buffers show it ---- */

enum { SHARED_OPS = 3, SHARED_MAX = 40 };

static void read_file(const char *name, unsigned char *buf, long n_bytes)
{
    int fd = open(name, O_RDONLY);
    long n = pread(fd, buf, FILE_MAX, 0);

    MTEST_CHECK(n == n_bytes, "the file has %ld bytes, expected %ld", n, n_bytes);
    close(fd);
}

static unsigned char data[RANKS_MAX][SHARED_OPS][SHARED_MAX];

/* True if the bytes are the data of all ranks in an order that keeps each rank's own. */
static bool is_order(long (*lengths)[SHARED_OPS], int *next, const unsigned char *expected, long left)
{
    if (left == 0)
        return true;
    for (int r = 0; r < mtest_size; r++) {
        int old = next[r];
        long n;
        while (next[r] < SHARED_OPS && lengths[r][next[r]] == 0)
            next[r]++;
        if (next[r] == SHARED_OPS)
            continue;
        n = lengths[r][next[r]];
        if (n > left || memcmp(data[r][next[r]], expected, (size_t)n) != 0)
            continue;
        next[r]++;
        if (is_order(lengths, next, expected + n, left - n))
            return true;
        next[r] = old;
    }
    return false;
}

static void move_shared(MPI_File file, bool is_write, const long *lengths)
{
    bool is_nonblocking = roll(2);
    MPI_Request requests[SHARED_OPS];
    MPI_Status statuses[SHARED_OPS];

    for (int i = 0; i < SHARED_OPS; i++) {
        unsigned char *buf = data[mtest_rank][i];
        int n = (int)lengths[i];
        if (is_nonblocking)
            MTEST_OK(is_write ? MPI_File_iwrite_shared(file, buf, n, MPI_BYTE, &requests[i])
                              : MPI_File_iread_shared(file, buf, n, MPI_BYTE, &requests[i]));
        else
            MTEST_OK(is_write ? MPI_File_write_shared(file, buf, n, MPI_BYTE, &statuses[i])
                              : MPI_File_read_shared(file, buf, n, MPI_BYTE, &statuses[i]));
    }
    if (is_nonblocking)
        MTEST_OK(MPI_Waitall(SHARED_OPS, requests, statuses));
    for (int i = 0; i < SHARED_OPS; i++)
        mio_check_count(&statuses[i], MPI_BYTE, (int)lengths[i], "shared");
}

static void in_any_order(MPI_File file, const char *name)
{
    long lengths[RANKS_MAX][SHARED_OPS], all = 0, disp = roll(500), start = roll(20), from = disp + start;
    bool is_write = roll(2);
    int next[RANKS_MAX] = {0};

    MTEST_OK(MPI_File_set_view(file, disp, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MTEST_OK(MPI_File_seek_shared(file, start, MPI_SEEK_SET));
    for (int r = 0; r < mtest_size; r++)
        for (int i = 0; i < SHARED_OPS; i++) {
            lengths[r][i] = roll(SHARED_MAX);
            all += lengths[r][i];
            for (int b = 0; is_write && b < lengths[r][i]; b++)
                data[r][i][b] = (unsigned char)(r * 50 + i * 10 + b);
        }
    for (long i = 0; !is_write && i < all; i++) /* data that differs from place to place */
        model[from + i] = (unsigned char)roll(256);
    if (all > 0 && from + all > model_size)
        model_size = from + all;
    if (!is_write && mtest_rank == 0)
        MTEST_OK(MPI_File_write_at(file, start, model + from, (int)all, MPI_BYTE, MPI_STATUS_IGNORE));
    settle(file);
    move_shared(file, is_write, lengths[mtest_rank]);
    settle(file);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, sizeof data[0], MPI_BYTE, comm);
    if (is_write) {
        read_file(name, found, model_size);
        memcpy(model + from, found + from, (size_t)all);
    }
    MTEST_CHECK(is_order(lengths, next, model + from, all), "%s by the shared pointer are in no order",
                is_write ? "writes" : "reads");
}

/* ---- Atomic mode: overlapping writes leave what some order of them leaves ---- */

enum { WRITES = 2, WRITES_MAX = RANKS_MAX * WRITES };

static unsigned char covered[FILE_MAX][WRITES_MAX]; /* the write has the byte */

/* A rank's write: all its bytes are its number + 1. */
static void choose_overlapping(struct op *op, int rank, int number, bool is_collective, int form)
{
    const struct view *view = &views[rank];

    op->is_write = true;
    op->is_collective = is_collective;
    op->form = is_collective ? form : roll(2);
    op->is_large = roll(2);
    choose_memory(op, rank == mtest_rank);
    op->first = roll(10) * etype.n;
    if (op->n && place_of(view, op->first + op->n - 1) + file_bytes() > FILE_MAX)
        op->n = op->count = 0;
    if (rank == mtest_rank) {
        make_buffers(op);
        for (long i = 0; i < op->n; i++)
            memset(element(op, op->buf, i), 1 + number, (size_t)basic_bytes);
        memcpy(op->expected, op->buf, op->room);
    }
    for (long i = 0; i < op->n; i++)
        for (long b = 0, at = place_of(view, op->first + i); b < file_bytes(); b++) {
            covered[at + b][number] = 1;
            model_size = at + b + 1 > model_size ? at + b + 1 : model_size;
        }
}

/* The last write of each byte came after the others: that must be an order. */
static void check_order(void)
{
    static bool is_before[WRITES_MAX][WRITES_MAX];
    int n = mtest_size * WRITES;

    memset(is_before, 0, sizeof is_before);
    for (int a = 0; a < n; a += WRITES)
        is_before[a][a + 1] = true;
    for (long at = 0; at < model_size; at++) {
        int last = (rep->is_user ? found[at] ^ 0x5a : found[at]) - 1;
        if (!memchr(covered[at], 1, (size_t)n))
            continue;
        if (last < 0 || last >= n || !covered[at][last]) {
            MTEST_CHECK(false, "byte %ld was written by nobody", at);
            return;
        }
        for (int a = 0; a < n; a++)
            is_before[a][last] |= covered[at][a] && a != last;
        model[at] = found[at];
    }
    for (int k = 0; k < n; k++)
        for (int a = 0; a < n; a++)
            for (int b = 0; b < n; b++)
                is_before[a][b] |= is_before[a][k] && is_before[k][b];
    for (int a = 0; a < n; a++)
        MTEST_CHECK(!is_before[a][a], "atomic writes are in no order");
}

static void overlapping(MPI_File file, const char *name)
{
    static struct op ops[RANKS_MAX][OPS_MAX];

    memset(covered, 0, sizeof covered);
    memset(ops, 0, sizeof ops);
    MTEST_OK(MPI_File_set_atomicity(file, 1));
    for (int j = 0; j < WRITES; j++) {
        bool is_collective = roll(2);
        int form = roll(3);
        for (int r = 0; r < mtest_size; r++)
            choose_overlapping(&ops[r][j], r, r * WRITES + j, is_collective, form);
        call(file, &ops[mtest_rank][j]);
        complete(file, ops[mtest_rank], true);
    }
    MPI_Barrier(comm);
    read_file(name, found, model_size);
    check_order();
    MTEST_OK(MPI_File_set_atomicity(file, 0));
}

/* ---- The whole ---- */

static void resize(MPI_File file)
{
    long size = roll(FILE_MAX);

    if (roll(2)) {
        MTEST_OK(MPI_File_set_size(file, size));
        if (size < model_size)
            memset(model + size, 0, (size_t)(model_size - size));
        model_size = size;
    } else {
        size /= 4;
        MTEST_OK(MPI_File_preallocate(file, size));
        model_size = size > model_size ? size : model_size;
    }
}

static void check_file(MPI_File file, const char *name)
{
    MPI_Offset size = -1;

    settle(file);
    MTEST_OK(MPI_File_get_size(file, &size));
    MTEST_CHECK(size == model_size, "the size is %ld, expected %ld", (long)size, model_size);
    if (mtest_rank == 0) {
        long at = 0;
        read_file(name, found, model_size);
        while (at < model_size && found[at] == model[at])
            at++;
        MTEST_CHECK(at == model_size, "byte %ld of the file is %d, expected %d", at, found[at], model[at]);
    }
    MPI_Barrier(comm);
}

static MPI_Info hints(void)
{
    static const char *const choices[] = {"enable", "disable", "automatic"};
    static const char *const sizes[] = {"100", "5000", "70000", "1000000"};
    static const char *const keys[] = {"romio_cb_write",     "romio_cb_read",     "romio_ds_write",
                                       "romio_ds_read",      "cb_nodes",          "cb_buffer_size",
                                       "ind_rd_buffer_size", "ind_wr_buffer_size"};
    MPI_Info info;

    MPI_Info_create(&info);
    for (int i = 0; i < 8; i++)
        if (roll(2))
            MPI_Info_set(info, keys[i],
                         i < 4    ? choices[roll(3)]
                         : i == 4 ? (roll(2) ? "1" : "2")
                                  : sizes[roll(4)]);
    return info;
}

/* Closes the file and opens it for appending: pointers begin at its end. */
static void reopen(MPI_File *file, const char *name)
{
    MPI_Offset at = -1, at_shared = -1;
    MPI_Info info = hints();

    MTEST_OK(MPI_File_close(file));
    MTEST_OK(MPI_File_open(comm, name, MPI_MODE_RDWR | MPI_MODE_APPEND, info, file));
    MPI_Info_free(&info);
    MTEST_OK(MPI_File_get_position(*file, &at));
    MTEST_OK(MPI_File_get_position_shared(*file, &at_shared));
    MTEST_CHECK(at == model_size && at_shared == model_size, "pointers begin at %ld and %ld, expected %ld",
                (long)at, (long)at_shared, model_size);
}

static void epoch(MPI_File *file, const char *name)
{
    int kind = roll(8);

    if (kind == 0)
        resize(*file);
    if (roll(6) == 0)
        reopen(file, name);
    choose_views(*file);
    if (roll(6) == 0)
        MTEST_OK(MPI_File_set_atomicity(*file, roll(2)));
    if (kind == 1)
        in_any_order(*file, name);
    else if (kind == 2 && rep->factor == 1)
        overlapping(*file, name);
    else
        accesses(*file, kind < 5);
    check_file(*file, name);
}

static void one_file(const char *folder)
{
    char name[80];
    MPI_File file;
    MPI_Info info = hints();
    int n_epochs = 4 + roll(8);

    snprintf(name, sizeof name, "%s/heddle_io_XXXXXX", folder);
    if (mtest_rank == 0)
        close(mkstemp(name));
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, comm);
    memset(model, 0, sizeof model);
    model_size = 0;
    MTEST_OK(MPI_File_open(comm, name, MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    for (int i = 0; i < n_epochs; i++)
        epoch(&file, name);
    MTEST_OK(MPI_File_close(&file));
    mio_delete(name);
}

int main(int argc, char **argv)
{
    int n_files = argc > 2 ? atoi(argv[2]) : 20, world_rank;

    mtest_init(&argc, &argv, 1);
    if (mtest_size > RANKS_MAX)
        mtest_skip("too many ranks");
    for (int i = 3; i < 5; i++)
        MTEST_OK(MPI_Register_datarep(reps[i].name, convert_read, convert_write, file_extent, &reps[i]));
    for (int i = 0; i < n_files && !mtest_errors; i++) {
        seed = (argc > 1 ? (uint64_t)atoi(argv[1]) : 1) * 1000003 + (uint64_t)i;
        world_rank = mtest_rank;
        MPI_Comm_split(MPI_COMM_WORLD, 0, roll(2) ? world_rank : -world_rank, &comm);
        MPI_Comm_rank(comm, &mtest_rank);
        one_file(argc > 3 ? argv[3] : "/tmp");
        MPI_Comm_free(&comm);
        mtest_rank = world_rank;
    }
    return mtest_end();
}
