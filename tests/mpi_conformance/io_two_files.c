/* SPDX-License-Identifier: BSD-3-Clause */
/* Random programs with two files at a time, one of all ranks and one of a group of them (split, duplicated, reversed, or merged from an
 * intercommunicator): views of darrays and subarrays, in part far behind a hole; accesses of both files and messages are in progress
 * together and are completed in any order; sizes change between epochs, and files are opened again. A model says what is in
 * them. Arguments: a seed, a number of programs, a folder. */
#include "mio.h"

enum { FILES = 2, INTS = 1 << 12, RANKS = 16, TURNS = 6, N_MAX = 200, REQUESTS = FILES * TURNS + 2 };

/* Dice: of one rank, or the same for all ranks of a communicator. */
static unsigned roll(uint64_t *state, unsigned n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33) % n;
}

static struct side {
    MPI_Comm comm;
    MPI_File file;
    int rank, size;
    uint64_t dice; /* of all ranks of the communicator */
    char name[4096];
    MPI_Offset base;    /* the view's displacement */
    int n_ints;         /* of the file, behind base; at least 0 */
    int model[INTS];    /* what they are */
    int written[INTS];  /* in this epoch, by this rank; 0: not */
    int places[INTS];   /* of the elements of this rank's view, ascending */
    int n_places, next; /* next: the first one without an access in this epoch */
    struct access *split;
} sides[FILES];

static struct access {
    struct side *side;
    int first, n, stride; /* elements of the view; ints from one to the next in memory */
    bool is_write;
    int buf[2 * N_MAX];
} accesses[REQUESTS];

static uint64_t dice; /* of this rank */
static MPI_Request requests[REQUESTS];
static int n_accesses, n_requests, owner[REQUESTS], message_in, message_out;

/* ---- Communicators ---- */

static MPI_Comm make_comm(uint64_t *common)
{
    MPI_Comm comm = MPI_COMM_NULL, half, inter;
    int kind = (int)roll(common, 4),
        color = (int)roll(common, 2) ? mtest_rank % 2 : mtest_rank < mtest_size / 2;

    if (mtest_size < 2 || kind == 0)
        MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    else if (kind == 1)
        MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, color, mtest_rank, &comm));
    else if (kind == 2)
        MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -mtest_rank, &comm));
    else {
        color = mtest_rank % 2;
        MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, color, -mtest_rank, &half));
        /* leaders: the last rank of each parity */
        MTEST_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD,
                                      mtest_size - 1 - (mtest_size - 1 + 1 - color) % 2, 7, &inter));
        MTEST_OK(MPI_Intercomm_merge(inter, color, &comm));
        MPI_Comm_free(&inter);
        MPI_Comm_free(&half);
    }
    return comm;
}

/* ---- Views ---- */

/* A type for the calling rank's share of rows x columns ints. */
static MPI_Datatype make_filetype(struct side *side, int *extent_ints)
{
    int sizes[2] = {1 + (int)roll(&side->dice, 9), 1 + (int)roll(&side->dice, 25)}, dims[2] = {0, 0};
    int distributions[2], arguments[2];
    MPI_Datatype type;

    if (roll(&side->dice, 3) == 0) { /* columns of equal width, as subarrays */
        int width = 1 + (int)roll(&side->dice, 5), full[2] = {sizes[0], width * side->size},
            own[2] = {sizes[0], width}, start[2] = {0, width * side->rank};
        MTEST_OK(MPI_Type_create_subarray(2, full, own, start, MPI_ORDER_C, MPI_INT, &type));
        *extent_ints = full[0] * full[1];
        return type;
    }
    MTEST_OK(MPI_Dims_create(side->size, 2, dims));
    for (int i = 0; i < 2; i++) {
        bool is_cyclic = roll(&side->dice, 2);
        distributions[i] = is_cyclic ? MPI_DISTRIBUTE_CYCLIC : MPI_DISTRIBUTE_BLOCK;
        arguments[i] = is_cyclic ? 1 + (int)roll(&side->dice, 4) : MPI_DISTRIBUTE_DFLT_DARG;
    }
    MTEST_OK(MPI_Type_create_darray(side->size, side->rank, 2, sizes, distributions, arguments, dims,
                                    roll(&side->dice, 2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, MPI_INT, &type));
    *extent_ints = sizes[0] * sizes[1];
    return type;
}

/* Sets a view, and finds the places of its elements: where MPI_Unpack puts marks. */
static void set_view(struct side *side)
{
    static int marks[INTS], area[INTS];
    int extent, n, position = 0;
    MPI_Datatype type = make_filetype(side, &extent);

    MTEST_OK(MPI_Type_commit(&type));
    MTEST_OK(MPI_File_set_view(side->file, side->base, MPI_INT, type, "native", MPI_INFO_NULL));
    MTEST_OK(MPI_Type_size(type, &n));
    n /= (int)sizeof(int);
    for (int i = 0; i < n; i++)
        marks[i] = 1;
    memset(area, 0, sizeof area);
    MTEST_OK(MPI_Unpack(marks, n * (int)sizeof(int), &position, area, 1, type, MPI_COMM_SELF));
    MTEST_OK(MPI_Type_free(&type));
    side->n_places = side->next = 0;
    for (int tile = 0; n > 0 && (tile + 1) * extent <= INTS; tile++)
        for (int i = 0; i < extent; i++)
            if (area[i])
                side->places[side->n_places++] = tile * extent + i;
}

/* ---- Accesses ---- */

/* Elements of the access that the file has. */
static int count_before_end(const struct access *access)
{
    int n = 0;

    while (n < access->n && access->side->places[access->first + n] < access->side->n_ints)
        n++;
    return access->is_write ? access->n : n;
}

static void check_done(const struct access *access, MPI_Status *status)
{
    int n = count_before_end(access), count;

    MTEST_OK(MPI_Get_count(status, MPI_INT, &count));
    MTEST_CHECK(count == n, "%s %d elements, expected %d", access->is_write ? "wrote" : "read", count, n);
    for (int i = 0; !access->is_write && i < n; i++) {
        int expected = access->side->model[access->side->places[access->first + i]];
        MTEST_CHECK(access->buf[i * access->stride] == expected, "int %d is %d, expected %d",
                    access->side->places[access->first + i], access->buf[i * access->stride], expected);
    }
}

/* Completes requests in any order, all or some of them. */
static void complete(bool is_all)
{
    static const char *const names[] = {"any", "some", "all"};
    int kind = (int)roll(&dice, 3), done = 0, index, indices[REQUESTS], n;
    MPI_Status statuses[REQUESTS];

    while (is_all || done == 0) {
        if (kind == 2)
            MTEST_OK(MPI_Waitall(n_requests, requests, statuses));
        else if (kind == 1)
            MTEST_OK(MPI_Waitsome(n_requests, requests, &n, indices, statuses));
        else
            MTEST_OK(MPI_Waitany(n_requests, requests, &index, statuses));
        if (kind == 2)
            n = n_requests;
        else if (kind == 0)
            n = index == MPI_UNDEFINED ? MPI_UNDEFINED : 1;
        if (n == MPI_UNDEFINED || n == 0)
            break;
        for (int i = 0; i < n; i++) {
            int at = kind == 2 ? i : kind == 1 ? indices[i] : index;
            MTEST_CHECK(at >= 0 && at < n_requests, "wait %s: index %d", names[kind], at);
            if (owner[at] >= 0)
                check_done(&accesses[owner[at]], &statuses[i]);
            owner[at] = -1;
        }
        done++;
        if (kind == 2)
            break;
    }
    if (is_all || kind == 2)
        n_requests = 0;
}

static void end_split(struct side *side)
{
    MPI_Status status;

    if (side->split) {
        MTEST_OK(side->split->is_write ? MPI_File_write_all_end(side->file, side->split->buf, &status)
                                       : MPI_File_read_all_end(side->file, side->split->buf, &status));
        check_done(side->split, &status);
    }
    side->split = NULL;
}

static struct access *choose_access(struct side *side, bool is_write)
{
    struct access *access = &accesses[n_accesses++];
    int left = side->n_places - side->next;

    access->side = side;
    access->is_write = is_write;
    access->n = (int)roll(&dice, N_MAX);
    access->n = roll(&dice, 5) == 0 ? 0 : access->n < left ? access->n : left;
    access->first = side->next;
    side->next += access->n;
    access->stride = 1 + (int)roll(&dice, 2);
    for (int i = 0; i < 2 * N_MAX; i++)
        access->buf[i] = -5;
    for (int i = 0; is_write && i < access->n; i++)
        side->written[side->places[access->first + i]] = access->buf[i * access->stride] =
            1 + (int)roll(&dice, 1 << 30);
    return access;
}

/* An access of this rank, or of all ranks of the file. */
static void start(struct side *side, bool is_write)
{
    enum { AT, AT_ALL, SPLIT, IALL, IAT, INDIVIDUAL };
    bool is_collective = roll(&side->dice, 2);
    int form = is_collective ? 1 + (int)roll(&side->dice, 3) : (int)roll(&dice, 3) * 2;
    struct access *access = choose_access(side, is_write);
    MPI_Datatype type;
    MPI_Status status;
    int *buf = access->buf;

    if (!is_collective)
        form = form == 0 ? AT : form == 2 || side->split ? IAT : INDIVIDUAL;
    if (is_collective)
        end_split(side);
    MPI_Type_vector(access->n, 1, access->stride, MPI_INT, &type);
    MPI_Type_commit(&type);
    if (form == SPLIT || form == INDIVIDUAL)
        MTEST_OK(MPI_File_seek(side->file, access->first, MPI_SEEK_SET));
    owner[n_requests] = (int)(access - accesses);
    if (form == AT || form == AT_ALL) {
        if (form == AT)
            MTEST_OK(is_write ? MPI_File_write_at(side->file, access->first, buf, 1, type, &status)
                              : MPI_File_read_at(side->file, access->first, buf, 1, type, &status));
        else
            MTEST_OK(is_write ? MPI_File_write_at_all(side->file, access->first, buf, 1, type, &status)
                              : MPI_File_read_at_all(side->file, access->first, buf, 1, type, &status));
        check_done(access, &status);
    } else if (form == SPLIT) {
        MTEST_OK(is_write ? MPI_File_write_all_begin(side->file, buf, 1, type)
                          : MPI_File_read_all_begin(side->file, buf, 1, type));
        side->split = access;
    } else if (form == IALL) {
        MTEST_OK(is_write
                     ? MPI_File_iwrite_at_all(side->file, access->first, buf, 1, type, &requests[n_requests])
                     : MPI_File_iread_at_all(side->file, access->first, buf, 1, type, &requests[n_requests]));
        n_requests++;
    } else if (form == IAT) {
        MTEST_OK(is_write
                     ? MPI_File_iwrite_at(side->file, access->first, buf, 1, type, &requests[n_requests])
                     : MPI_File_iread_at(side->file, access->first, buf, 1, type, &requests[n_requests]));
        n_requests++;
    } else {
        MTEST_OK(is_write ? MPI_File_iwrite(side->file, buf, 1, type, &requests[n_requests])
                          : MPI_File_iread(side->file, buf, 1, type, &requests[n_requests]));
        n_requests++;
    }
    MPI_Type_free(&type);
}

/* A ring of messages in the same list of requests. */
static void start_messages(int epoch)
{
    message_out = mtest_rank * 100 + epoch;
    owner[0] = owner[1] = -1;
    MTEST_OK(MPI_Irecv(&message_in, 1, MPI_INT, (mtest_rank + 1) % mtest_size, epoch, MPI_COMM_WORLD,
                       &requests[0]));
    MTEST_OK(MPI_Isend(&message_out, 1, MPI_INT, (mtest_rank + mtest_size - 1) % mtest_size, epoch,
                       MPI_COMM_WORLD, &requests[1]));
    n_requests = 2;
}

/* ---- Epochs ---- */

static void open_side(struct side *side, int mode)
{
    MTEST_OK(MPI_File_open(side->comm, side->name, mode, MPI_INFO_NULL, &side->file));
}

/* Ranks agree on what is in the file now. */
static void settle(struct side *side, bool was_write)
{
    MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, side->written, INTS, MPI_INT, MPI_MAX, side->comm));
    for (int i = 0; was_write && i < INTS; i++) {
        if (side->written[i]) {
            side->model[i] = side->written[i];
            side->n_ints = i + 1 > side->n_ints ? i + 1 : side->n_ints;
        }
    }
    memset(side->written, 0, sizeof side->written);
    MTEST_OK(MPI_File_sync(side->file));
    MPI_Barrier(side->comm);
    MTEST_OK(MPI_File_sync(side->file));
}

static void change_size(struct side *side)
{
    int n = (int)roll(&side->dice, INTS);
    MPI_Offset size, bytes = side->base + n * (MPI_Offset)sizeof(int);

    if (roll(&side->dice, 2)) {
        MTEST_OK(MPI_File_set_size(side->file, bytes));
        for (int i = n; i < side->n_ints; i++)
            side->model[i] = 0;
        side->n_ints = n;
    } else if (side->base == 0) { /* else it fills the hole */
        MTEST_OK(MPI_File_preallocate(side->file, bytes));
        side->n_ints = n > side->n_ints ? n : side->n_ints;
    }
    MTEST_OK(MPI_File_get_size(side->file, &size));
    bytes = side->base + side->n_ints * (MPI_Offset)sizeof(int);
    MTEST_CHECK(size == bytes || (side->n_ints == 0 && size == 0), "the size is %lld, expected %lld",
                (long long)size, (long long)bytes);
}

static void epoch(int number, bool is_write)
{
    n_accesses = 0;
    for (int i = 0; i < FILES; i++) {
        struct side *side = &sides[i];
        if (roll(&side->dice, 3) == 0) {
            bool is_read_only = !is_write && roll(&side->dice, 2);
            MTEST_OK(MPI_File_close(&side->file));
            open_side(side, is_read_only ? MPI_MODE_RDONLY : MPI_MODE_RDWR);
        }
        set_view(side);
    }
    start_messages(number);
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < FILES; i++) {
            start(&sides[i], is_write);
            if (roll(&dice, 4) == 0)
                complete(false);
        }
    for (int i = 0; i < FILES; i++)
        end_split(&sides[i]);
    complete(true);
    MTEST_CHECK(message_in == (mtest_rank + 1) % mtest_size * 100 + number, "the message is %d", message_in);
    for (int i = 0; i < FILES; i++) {
        settle(&sides[i], is_write);
        if (is_write && roll(&sides[i].dice, 3) == 0) {
            change_size(&sides[i]);
            settle(&sides[i], false);
        }
        if (!is_write) { /* it may be read-only now */
            MTEST_OK(MPI_File_close(&sides[i].file));
            open_side(&sides[i], MPI_MODE_RDWR);
        }
    }
}

static void program(int seed, const char *folder)
{
    uint64_t common = (uint64_t)seed * 77777;

    dice = common + (uint64_t)mtest_rank * 997 + 13;
    for (int i = 0; i < FILES; i++) {
        struct side *side = &sides[i];
        int first = mtest_rank;
        memset(side, 0, sizeof *side);
        if (i == 0)
            MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &side->comm));
        else
            side->comm = make_comm(&common);
        MPI_Comm_rank(side->comm, &side->rank);
        MPI_Comm_size(side->comm, &side->size);
        MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, side->comm));
        side->dice = common + (uint64_t)(i * RANKS + first) * 31;
        side->base = roll(&side->dice, 3) == 0 ? ((MPI_Offset)5 << 30) + 12 : 0;
        snprintf(side->name, sizeof side->name, "%s/two_files.%d.%d.%d", folder, seed, i, first);
        if (side->rank == 0)
            unlink(side->name);
        MPI_Barrier(side->comm);
        open_side(side, MPI_MODE_RDWR | MPI_MODE_CREATE);
    }
    for (int number = 0; number < 6; number++)
        epoch(number, number % 2 == 0);
    for (int i = 0; i < FILES; i++) {
        MTEST_OK(MPI_File_close(&sides[i].file));
        open_side(&sides[i], MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
        MTEST_OK(MPI_File_close(&sides[i].file));
        MTEST_CHECK(access(sides[i].name, F_OK) != 0, "%s is still there", sides[i].name);
        MPI_Comm_free(&sides[i].comm);
    }
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    int seed = argc > 1 ? atoi(argv[1]) : 1, n = argc > 2 ? atoi(argv[2]) : 3;
    for (int i = 0; i < n && mtest_errors == 0; i++)
        program(seed + i, argc > 3 ? argv[3] : ".");
    return mtest_end();
}
