/* SPDX-License-Identifier: BSD-3-Clause
 *
 * io_random_model.h: the model of io_random.c: representations, the bytes of the file, the views of all ranks, and accesses with what
 * they must leave.
 */
#ifndef IO_RANDOM_MODEL_H
#define IO_RANDOM_MODEL_H

#include "io_random_types.h"

enum { FILE_MAX = 1 << 15, RANKS_MAX = 16, OPS_MAX = 5, N_MAX = 300, USER_BYTE = 0x77, UNTOUCHED = 0xee };

/* ---- Representations ---- */

static struct rep {
    const char *name;
    int factor; /* file bytes of a byte in memory */
    bool is_user;
} reps[] = {{"native", 1, false},
            {"internal", 1, false},
            {"external32", 1, false},
            {"heddle mixed", 1, true},
            {"heddle wide", 2, true}};

/* An element as the file has it. Those of the program turn each byte by itself. */
static void encode(const struct rep *rep, unsigned char *file, const unsigned char *memory, int bytes)
{
    for (int i = 0; i < bytes; i++)
        if (rep->is_user) {
            memset(file + i * rep->factor, USER_BYTE, (size_t)rep->factor);
            file[i * rep->factor] = memory[i] ^ 0x5a;
        } else {
            file[i] = rep->name[0] == 'e' ? memory[bytes - 1 - i] : memory[i];
        }
}

static int convert(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position,
                   const struct rep *rep, bool is_write)
{
    unsigned char packed[N_MAX * 8];
    int size, n = 0;
    MPI_Aint lb, extent;

    MPI_Type_size(type, &size);
    MPI_Type_get_extent(type, &lb, &extent);
    user = (char *)user + position * extent;
    if (is_write) { /* each byte by itself, so elements do not matter */
        MPI_Pack(user, count, type, packed, (int)sizeof packed, &n, MPI_COMM_SELF);
        encode(rep, file, packed, n);
        return MPI_SUCCESS;
    }
    for (int i = 0; i < count * size; i++)
        packed[i] = ((unsigned char *)file)[i * rep->factor] ^ 0x5a;
    return MPI_Unpack(packed, count * size, &n, user, count, type, MPI_COMM_SELF);
}

static int convert_read(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *rep)
{
    return convert(user, type, count, file, position, rep, false);
}

static int convert_write(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position, void *rep)
{
    return convert(user, type, count, file, position, rep, true);
}

static int file_extent(MPI_Datatype type, MPI_Aint *extent, void *rep)
{
    int size;

    MPI_Type_size(type, &size);
    *extent = size * ((struct rep *)rep)->factor;
    return MPI_SUCCESS;
}

/* ---- The model ---- */

static unsigned char model[FILE_MAX + 16], found[FILE_MAX + 16];
static long model_size;
static short claims[FILE_MAX];             /* the access of this epoch that has touched the byte; 0: none */
static long individual[RANKS_MAX], shared; /* pointers, in etypes */

/* Of this epoch. */
static const struct rep *rep;
static MPI_Datatype basic;
static int basic_bytes; /* in memory */
static bool is_equal;   /* all ranks have the same view */
static struct shape etype;
static struct view {
    long disp;
    struct shape filetype;
} views[RANKS_MAX];

static long file_bytes(void)
{
    return (long)basic_bytes * rep->factor;
}

static long place_of(const struct view *view, long element)
{
    return view->disp + element / view->filetype.n * view->filetype.extent +
           view->filetype.at[element % view->filetype.n];
}

/* The end of the file in a view: the first etype that begins there. */
static long etypes_before_end(const struct view *view)
{
    long n = 0;

    while (place_of(view, n * etype.n) < model_size)
        n++;
    return n;
}

struct op {
    enum { AT, INDIVIDUAL, ORDERED } place;
    enum { BLOCKING, NONBLOCKING, SPLIT } form;
    bool is_write, is_collective;
    bool is_large; /* the form with _c */
    long first, n; /* basic elements of the view */
    unsigned tag;
    struct shape memory;
    long shift; /* of the first element in the buffer */
    int count;  /* memory types */
    size_t room;
    unsigned char *buf, *expected;
    long n_expected; /* bytes of the status */
    MPI_Request request;
    bool is_pending;
};

static unsigned char *element(const struct op *op, unsigned char *buf, long i)
{
    return buf + op->shift + i / op->memory.n * op->memory.extent + op->memory.at[i % op->memory.n];
}

/* True if the bytes of the access are in the file's limits, and free for it. */
static bool is_free(const struct op *op, int rank, int number, const bool *is_blocking)
{
    for (long i = 0; i < op->n; i++) {
        long at = place_of(&views[rank], op->first + i), end = at + file_bytes();
        if (end > FILE_MAX)
            return false;
        for (; at < end; at++)
            if (claims[at] && ((claims[at] - 1) / OPS_MAX != rank || op->form != BLOCKING ||
                               !is_blocking[(claims[at] - 1) % OPS_MAX]))
                return false;
    }
    for (long i = 0; i < op->n; i++)
        for (long b = 0, at = place_of(&views[rank], op->first + i); b < file_bytes(); b++)
            claims[at + b] = (short)(1 + rank * OPS_MAX + number);
    return true;
}

static void model_write(const struct op *op, const struct view *view)
{
    for (long i = 0; i < op->n; i++) {
        unsigned char data[8];
        long at = place_of(view, op->first + i);
        for (int b = 0; b < basic_bytes; b++)
            data[b] = mtest_byte((size_t)(i * basic_bytes + b), op->tag);
        encode(rep, model + at, data, basic_bytes);
        model_size = at + file_bytes() > model_size ? at + file_bytes() : model_size;
    }
}

/* What a read finds: its buffer, and the bytes of its status. */
static void model_read(struct op *op, const struct view *view)
{
    long n_avail = 0, step = rep->is_user          ? op->memory.n
                             : rep->name[0] == 'e' ? 1
                                                   : 0; /* converted together */

    for (long i = 0; i < op->n; i++) {
        long left = model_size - place_of(view, op->first + i);
        n_avail += left < 0 ? 0 : left < file_bytes() ? left : file_bytes();
        if (left < file_bytes())
            break;
    }
    op->n_expected =
        step ? n_avail / (step * file_bytes()) * step * basic_bytes : n_avail; /* whole ones if converted */
    for (long i = 0; i * basic_bytes < op->n_expected; i++) {
        unsigned char data[8];
        const unsigned char *from = model + place_of(view, op->first + i);
        long n = op->n_expected - i * basic_bytes;
        for (int b = 0; b < basic_bytes; b++)
            data[b] = rep->is_user          ? from[b * rep->factor] ^ 0x5a
                      : rep->name[0] == 'e' ? from[basic_bytes - 1 - b]
                                            : from[b];
        memcpy(element(op, op->expected, i), data, (size_t)(n < basic_bytes ? n : basic_bytes));
    }
}

/* ---- Accesses ---- */

/* A random memory type and a count that make whole etypes. */
static void choose_memory(struct op *op, bool is_made)
{
    int each, step = etype.n;
    long last = 0;

    shape_basic(&op->memory, basic, basic_bytes, is_made);
    for (int n = roll(4); n > 0; n--)
        shape_wrap(&op->memory, false);
    if (roll(4) == 0 && op->memory.n * 2 <= ELEMENTS_MAX) { /* the second copy lies before the first one */
        struct copies copies = {.n = 2, .at = {0, -op->memory.extent}};
        MPI_Datatype made = MPI_DATATYPE_NULL;
        if (is_made)
            MPI_Type_create_hvector(2, 1, -op->memory.extent, op->memory.type, &made);
        op->shift = op->memory.extent;
        if (is_made)
            shape_free(&op->memory);
        shape_repeat(&op->memory, &copies, 2 * op->memory.extent, made);
    }
    for (each = op->memory.n; step > 1 && each % step != 0; each += op->memory.n)
        ;
    each /= op->memory.n; /* memory types of whole etypes */
    op->count = roll(5) * each;
    if ((long)op->count * op->memory.n > N_MAX)
        op->count = 0;
    op->n = (long)op->count * op->memory.n;
    for (int i = 0; i < op->memory.n; i++)
        last = op->memory.at[i] > last ? op->memory.at[i] : last;
    op->room = (size_t)(op->shift + (op->count + 1) * op->memory.extent + last + 64);
}

/* Where it begins: moves the model's pointers. */
static void choose_first(struct op *op, int rank, long ordered_before)
{
    long at = op->place == AT           ? roll(40)
              : op->place == INDIVIDUAL ? individual[rank]
                                        : shared + ordered_before;

    op->first = at * etype.n;
}

static void make_buffers(struct op *op)
{
    op->buf = mtest_alloc(op->room);
    op->expected = mtest_alloc(op->room);
    memset(op->buf, UNTOUCHED, op->room);
    memset(op->expected, UNTOUCHED, op->room);
    MPI_Type_commit(&op->memory.type);
    for (long i = 0; op->is_write && i < op->n; i++)
        for (int b = 0; b < basic_bytes; b++)
            element(op, op->buf, i)[b] = mtest_byte((size_t)(i * basic_bytes + b), op->tag);
    if (op->is_write) {
        memcpy(op->expected, op->buf, op->room);
        op->n_expected = op->n * basic_bytes;
    }
}

static void check_op(struct op *op, MPI_Status *status)
{
    MPI_Count n_bytes = -1;
    long at = 0;

    MPI_Get_elements_x(status, MPI_BYTE, &n_bytes);
    MTEST_CHECK(n_bytes == op->n_expected,
                "%s, place %d, form %d, collective %d, %s: the status has %ld bytes of %ld, expected %ld",
                op->is_write ? "write" : "read", op->place, op->form, op->is_collective, rep->name,
                (long)n_bytes, op->n * basic_bytes, op->n_expected);
    while (at < (long)op->room && op->buf[at] == op->expected[at])
        at++;
    MTEST_CHECK(at == (long)op->room,
                "%s, place %d, form %d, collective %d, %s: byte %ld of the buffer is %d, expected %d",
                op->is_write ? "write" : "read", op->place, op->form, op->is_collective, rep->name, at,
                op->buf[at], op->expected[at]);
    free(op->buf);
    free(op->expected);
    shape_free(&op->memory);
    op->is_pending = false;
}

/* Calls the form with an int or with _c. */
#define CALL(name, ...) \
    MTEST_OK(op->is_large ? MPI_File_##name##_c(__VA_ARGS__) : MPI_File_##name(__VA_ARGS__))
#define FILE_ARGS op->buf + op->shift, op->count, op->memory.type

/* The calls of one direction. */
#define CASES(base, direction)                                          \
    case base + 0:                                                      \
        CALL(direction, file, FILE_ARGS, &status);                      \
        break;                                                          \
    case base + 1:                                                      \
        CALL(i##direction, file, FILE_ARGS, &op->request);              \
        break;                                                          \
    case base + 2:                                                      \
        CALL(direction##_at, file, at, FILE_ARGS, &status);             \
        break;                                                          \
    case base + 3:                                                      \
        CALL(i##direction##_at, file, at, FILE_ARGS, &op->request);     \
        break;                                                          \
    case base + 4:                                                      \
        if (op->form == SPLIT && op->place == ORDERED)                  \
            CALL(direction##_ordered_begin, file, FILE_ARGS);           \
        else if (op->place == ORDERED)                                  \
            CALL(direction##_ordered, file, FILE_ARGS, &status);        \
        else if (op->form == SPLIT)                                     \
            CALL(direction##_all_begin, file, FILE_ARGS);               \
        else                                                            \
            CALL(direction##_all, file, FILE_ARGS, &status);            \
        break;                                                          \
    case base + 5:                                                      \
        CALL(i##direction##_all, file, FILE_ARGS, &op->request);        \
        break;                                                          \
    case base + 6:                                                      \
        if (op->form == SPLIT)                                          \
            CALL(direction##_at_all_begin, file, at, FILE_ARGS);        \
        else                                                            \
            CALL(direction##_at_all, file, at, FILE_ARGS, &status);     \
        break;                                                          \
    case base + 7:                                                      \
        CALL(i##direction##_at_all, file, at, FILE_ARGS, &op->request); \
        break;

/* The access: checks it if it is over. */
static void call(MPI_File file, struct op *op)
{
    MPI_Offset at = op->first / etype.n;
    MPI_Status status;
    int kind = op->is_write * 8 + op->is_collective * 4 + (op->place == AT) * 2 + (op->form == NONBLOCKING);

    op->is_pending = true;
    switch (kind) {
        CASES(0, read)
        CASES(8, write)
    default:
        break;
    }
    if (op->form == BLOCKING)
        check_op(op, &status);
}

static void end_split(MPI_File file, struct op *op)
{
    MPI_Status status;

    if (op->place == ORDERED)
        MTEST_OK(op->is_write ? MPI_File_write_ordered_end(file, op->buf, &status)
                              : MPI_File_read_ordered_end(file, op->buf, &status));
    else if (op->place == AT)
        MTEST_OK(op->is_write ? MPI_File_write_at_all_end(file, op->buf, &status)
                              : MPI_File_read_at_all_end(file, op->buf, &status));
    else
        MTEST_OK(op->is_write ? MPI_File_write_all_end(file, op->buf, &status)
                              : MPI_File_read_all_end(file, op->buf, &status));
    check_op(op, &status);
}

/* Ends the accesses in progress: the split one, or all. */
static void complete(MPI_File file, struct op *ops, bool has_all)
{
    for (int j = OPS_MAX - 1; j >= 0; j--) {
        MPI_Status status;
        if (ops[j].is_pending && ops[j].form == SPLIT)
            end_split(file, &ops[j]);
        if (!ops[j].is_pending || !has_all)
            continue;
        MTEST_OK(MPI_Wait(&ops[j].request, &status));
        check_op(&ops[j], &status);
    }
}

#endif
