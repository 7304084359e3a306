/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Accumulates of all kinds with every predefined operation on every predefined datatype that it is defined for give the
 * result of MPI_Reduce_local and fetch the old elements, with blocks, elements with holes between them at the target, and
 * a reversed origin; datatypes that reductions refuse are refused; MPI_Compare_and_swap takes integers, logicals and bytes.
 */
#include "mrma.h"

enum group {
    INTEGERS = 1,
    FORTRAN_INTEGERS = 2,
    ADDRESSES = 4,
    REALS = 8,
    LOGICALS = 16,
    COMPLEX = 32,
    BYTES = 64,
    PAIRS = 128,
    CHARACTERS = 256,
    NUMBERS = INTEGERS | FORTRAN_INTEGERS | ADDRESSES | REALS,
    BITS = INTEGERS | FORTRAN_INTEGERS | ADDRESSES | BYTES,
    ANY = 511
};

#define TYPE(type, group)                    \
    {                                        \
#type, &(MPI_Datatype){type }, group \
    }
struct kind {
    const char *name;
    const MPI_Datatype *type;
    int group;
};

struct operation {
    const char *name;
    MPI_Op op;
    int groups; /* for which it is defined */
};

enum { N = 5, BYTES_MAX = 64 * 2 * N };

static unsigned char *window;
static MPI_Win win;
static int next;

/* ---- Elements ---- */

static void put_real(unsigned char *at, MPI_Datatype type, int size, int value)
{
    if (type == MPI_LONG_DOUBLE || type == MPI_C_LONG_DOUBLE_COMPLEX || type == MPI_CXX_LONG_DOUBLE_COMPLEX) {
        long double number = value;
        memset(at, 0, (size_t)size);
        memcpy(at, &number, 10); /* the rest of it is padding */
    } else if (size == 2) {      /* 1 or 2 */
        at[0] = 0;
        at[1] = value % 2 ? 0x3c : 0x40;
    } else if (size == 4) {
        float number = (float)value;
        memcpy(at, &number, sizeof number);
    } else if (size == 8) {
        double number = value;
        memcpy(at, &number, sizeof number);
    } else {
        __float128 number = value;
        memcpy(at, &number, sizeof number);
    }
}

static void put_pair(unsigned char *at, MPI_Datatype type, int value, int index)
{
    float floats[2] = {(float)value, (float)index};
    double doubles[2] = {value, index};
    int ints[2] = {value, index};
    short number = (short)value;
    long whole = value;
    MPI_Aint after = 0;

    if (type == MPI_2REAL || type == MPI_2DOUBLE_PRECISION) {
        memcpy(at, type == MPI_2REAL ? (void *)floats : (void *)doubles,
               type == MPI_2REAL ? sizeof floats : sizeof doubles);
        return;
    }
    if (type == MPI_FLOAT_INT)
        memcpy(at, floats, (size_t)(after = sizeof(float)));
    else if (type == MPI_DOUBLE_INT)
        memcpy(at, doubles, (size_t)(after = sizeof(double)));
    else if (type == MPI_LONG_INT)
        memcpy(at, &whole, (size_t)(after = sizeof whole));
    else if (type == MPI_SHORT_INT)
        memcpy(at, &number, sizeof number), after = sizeof(int);
    else if (type == MPI_LONG_DOUBLE_INT)
        put_real(at, MPI_LONG_DOUBLE, 16, value), after = 16;
    else
        memcpy(at, ints, (size_t)(after = sizeof(int)));
    memcpy(at + after, &index, sizeof index);
}

static void put_element(unsigned char *at, const struct kind *kind, int size, int value, int index)
{
    if (kind->group == REALS) {
        put_real(at, *kind->type, size, value);
    } else if (kind->group == COMPLEX) {
        put_real(at, *kind->type, size / 2, value);
        put_real(at + size / 2, *kind->type, size / 2, value - 2);
    } else if (kind->group == PAIRS) {
        put_pair(at, *kind->type, value, index);
    } else {
        int is_number = kind->group & (INTEGERS | FORTRAN_INTEGERS | ADDRESSES | LOGICALS);
        memset(at, is_number ? 0 : value * 17, (size_t)size);
        if (is_number)
            at[0] = (unsigned char)(kind->group == LOGICALS ? value & 1 : value);
    }
}

static void fill(unsigned char *bytes, const struct kind *kind, int n, int salt)
{
    MPI_Aint lb, extent;
    int size;

    MPI_Type_get_extent(*kind->type, &lb, &extent);
    MPI_Type_size(*kind->type, &size);
    memset(bytes, 0, BYTES_MAX);
    for (int i = 0; i < n; i++)
        put_element(bytes + i * extent, kind, size, (salt * 7 + i * 3) % 5 + 1, i);
}

/* ---- Operations ---- */

enum form {
    ACCUMULATE,
    ACCUMULATE_C,
    RACCUMULATE,
    RACCUMULATE_C,
    GET_ACCUMULATE,
    GET_ACCUMULATE_C,
    RGET_ACCUMULATE,
    RGET_ACCUMULATE_C,
    FETCH_AND_OP,
    FORMS
};
enum layout { BLOCK, SPREAD, REVERSED, LAYOUTS };

static int issue(enum form form, const void *from, int n, MPI_Datatype mine, void *old, int n_old,
                 MPI_Datatype basic, int target, int n_there, MPI_Datatype there, MPI_Op op)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int error;

    switch (form) {
    case ACCUMULATE:
        return MPI_Accumulate(from, n, mine, target, 0, n_there, there, op, win);
    case ACCUMULATE_C:
        return MPI_Accumulate_c(from, n, mine, target, 0, n_there, there, op, win);
    case GET_ACCUMULATE:
        return MPI_Get_accumulate(from, n, mine, old, n_old, basic, target, 0, n_there, there, op, win);
    case GET_ACCUMULATE_C:
        return MPI_Get_accumulate_c(from, n, mine, old, n_old, basic, target, 0, n_there, there, op, win);
    case RACCUMULATE:
        error = MPI_Raccumulate(from, n, mine, target, 0, n_there, there, op, win, &request);
        break;
    case RACCUMULATE_C:
        error = MPI_Raccumulate_c(from, n, mine, target, 0, n_there, there, op, win, &request);
        break;
    case RGET_ACCUMULATE:
        error = MPI_Rget_accumulate(from, n, mine, old, n_old, basic, target, 0, n_there, there, op, win,
                                    &request);
        break;
    case RGET_ACCUMULATE_C:
        error = MPI_Rget_accumulate_c(from, n, mine, old, n_old, basic, target, 0, n_there, there, op, win,
                                      &request);
        break;
    default:
        return MPI_Fetch_and_op(from, old, basic, target, 0, op, win);
    }
    if (!error)
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    return error;
}

/* The datatypes of an operation's sides. */
struct sides {
    const struct kind *kind;
    MPI_Datatype spread, reversed; /* N elements of it */
    MPI_Aint extent;
};

static struct sides make_sides(const struct kind *kind)
{
    struct sides sides = {.kind = kind};
    MPI_Aint lb;

    MPI_Type_get_extent(*kind->type, &lb, &sides.extent);
    MPI_Type_vector(N, 1, 2, *kind->type, &sides.spread);
    MPI_Type_vector(N, 1, -1, *kind->type, &sides.reversed);
    MPI_Type_commit(&sides.spread);
    MPI_Type_commit(&sides.reversed);
    return sides;
}

static void check_elements(const struct kind *kind, const char *what, const unsigned char *got,
                           const unsigned char *wanted, int n)
{
    unsigned char a[BYTES_MAX], b[BYTES_MAX];
    int at_a = 0, at_b = 0;

    MPI_Pack(got, n, *kind->type, a, BYTES_MAX, &at_a, MPI_COMM_SELF);
    MPI_Pack(wanted, n, *kind->type, b, BYTES_MAX, &at_b, MPI_COMM_SELF);
    MTEST_CHECK(memcmp(a, b, (size_t)at_a) == 0, "%s: the %s elements are wrong", kind->name, what);
}

/* The padding of a long double is not part of its value, but loads and stores may copy it. */
static void clear_padding(const struct kind *kind, unsigned char *bytes)
{
    MPI_Datatype type = *kind->type;

    if (type == MPI_LONG_DOUBLE || type == MPI_LONG_DOUBLE_INT || type == MPI_C_LONG_DOUBLE_COMPLEX ||
        type == MPI_CXX_LONG_DOUBLE_COMPLEX)
        for (int i = 0; i + 16 <= BYTES_MAX; i += 16)
            if (type != MPI_LONG_DOUBLE_INT || i % 32 == 0)
                memset(bytes + i + 10, 0, 6);
}

static int can_reduce(const struct kind *kind, const struct operation *operation)
{
    _Alignas(16) unsigned char in[BYTES_MAX], inout[BYTES_MAX];

    fill(in, kind, 1, 1);
    fill(inout, kind, 1, 2);
    return operation->op == MPI_REPLACE || operation->op == MPI_NO_OP ||
           MPI_Reduce_local(in, inout, 1, *kind->type, operation->op) == MPI_SUCCESS;
}

static void check(const struct sides *sides, const struct operation *operation, enum form form,
                  enum layout layout)
{
    _Alignas(16) unsigned char in[BYTES_MAX], old[BYTES_MAX], wanted[BYTES_MAX], was[BYTES_MAX],
        now[BYTES_MAX];
    const struct kind *kind = sides->kind;
    MPI_Datatype type = *kind->type;
    int n = form == FETCH_AND_OP ? 1 : N, step = layout == SPREAD ? 2 : 1, is_reversed = layout == REVERSED;
    int error;

    fill(window, kind, 2 * N, 2);
    fill(in, kind, N, 4 + mtest_rank);
    memset(old, 0, sizeof old);
    memset(was, 0, sizeof was);
    MTEST_OK(MPI_Win_sync(win));
    MPI_Barrier(MPI_COMM_WORLD);
    error = issue(form, is_reversed ? in + (N - 1) * sides->extent : in, is_reversed ? 1 : n,
                  is_reversed ? sides->reversed : type, old, n, type, next, step == 2 ? 1 : n,
                  step == 2 ? sides->spread : type, operation->op);
    MTEST_OK(MPI_Win_flush(next, win));
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_sync(win));
    MTEST_CHECK(!error || !(operation->groups & kind->group), "%s of %s, form %d: class %d", operation->name,
                kind->name, (int)form, mtest_class(error));
    MTEST_CHECK((error == MPI_SUCCESS) == can_reduce(kind, operation),
                "%s of %s, form %d: class %d, unlike a reduction", operation->name, kind->name, (int)form,
                mtest_class(error));
    fill(wanted, kind, 2 * N, 2);
    fill(in, kind, N, 4 + (mtest_rank + mtest_size - 1) % mtest_size);
    for (int i = 0; i < n && !error; i++) {
        unsigned char *at = wanted + i * step * sides->extent;
        const unsigned char *from = in + (is_reversed ? N - 1 - i : i) * sides->extent;
        memcpy(was + i * sides->extent, at, (size_t)sides->extent);
        if (operation->op == MPI_REPLACE)
            memcpy(at, from, (size_t)sides->extent);
        else if (operation->op != MPI_NO_OP)
            MTEST_OK(MPI_Reduce_local(from, at, 1, type, operation->op));
    }
    memcpy(now, window, BYTES_MAX);
    clear_padding(kind, now);
    clear_padding(kind, wanted);
    clear_padding(kind, old);
    clear_padding(kind, was);
    check_elements(kind, operation->name, now, wanted, 2 * N);
    if (form >= GET_ACCUMULATE && !error)
        check_elements(kind, "fetched", old, was, n);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void check_swap(const struct kind *kind)
{
    _Alignas(16) unsigned char first[BYTES_MAX], second[BYTES_MAX], old[BYTES_MAX];
    int size, can = kind->group & (INTEGERS | FORTRAN_INTEGERS | ADDRESSES | LOGICALS | BYTES);

    MPI_Type_size(*kind->type, &size);
    fill(first, kind, 1, 1);
    fill(second, kind, 1, 3);
    second[0] = !first[0];
    memcpy(window, first, (size_t)size);
    MTEST_OK(MPI_Win_sync(win));
    MPI_Barrier(MPI_COMM_WORLD);
    if (!can) {
        MTEST_CLASS(MPI_Compare_and_swap(second, first, old, *kind->type, next, 0, win), MPI_ERR_TYPE);
        return;
    }
    MTEST_OK(MPI_Compare_and_swap(first, second, old, *kind->type, next, 0, win));
    MTEST_OK(MPI_Win_flush(next, win));
    MTEST_CHECK(memcmp(old, first, (size_t)size) == 0, "%s: another element was fetched", kind->name);
    MTEST_OK(MPI_Compare_and_swap(second, first, old, *kind->type, next, 0, win));
    MTEST_OK(MPI_Win_flush(next, win));
    MTEST_CHECK(memcmp(old, first, (size_t)size) == 0, "%s: it was swapped although it differs", kind->name);
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_sync(win));
    MTEST_CHECK(memcmp(window, second, (size_t)size) == 0, "%s: it was not swapped", kind->name);
    MPI_Barrier(MPI_COMM_WORLD);
}

static const struct kind kinds[] = {
    TYPE(MPI_SIGNED_CHAR, INTEGERS),
    TYPE(MPI_UNSIGNED_CHAR, INTEGERS),
    TYPE(MPI_SHORT, INTEGERS),
    TYPE(MPI_UNSIGNED_SHORT, INTEGERS),
    TYPE(MPI_INT, INTEGERS),
    TYPE(MPI_UNSIGNED, INTEGERS),
    TYPE(MPI_LONG, INTEGERS),
    TYPE(MPI_UNSIGNED_LONG, INTEGERS),
    TYPE(MPI_LONG_LONG, INTEGERS),
    TYPE(MPI_UNSIGNED_LONG_LONG, INTEGERS),
    TYPE(MPI_INT8_T, INTEGERS),
    TYPE(MPI_INT16_T, INTEGERS),
    TYPE(MPI_INT32_T, INTEGERS),
    TYPE(MPI_INT64_T, INTEGERS),
    TYPE(MPI_UINT8_T, INTEGERS),
    TYPE(MPI_UINT16_T, INTEGERS),
    TYPE(MPI_UINT32_T, INTEGERS),
    TYPE(MPI_UINT64_T, INTEGERS),
    TYPE(MPI_INTEGER, FORTRAN_INTEGERS),
    TYPE(MPI_INTEGER1, FORTRAN_INTEGERS),
    TYPE(MPI_INTEGER2, FORTRAN_INTEGERS),
    TYPE(MPI_INTEGER4, FORTRAN_INTEGERS),
    TYPE(MPI_INTEGER8, FORTRAN_INTEGERS),
    TYPE(MPI_INTEGER16, FORTRAN_INTEGERS),
    TYPE(MPI_AINT, ADDRESSES),
    TYPE(MPI_COUNT, ADDRESSES),
    TYPE(MPI_OFFSET, ADDRESSES),
    TYPE(MPI_FLOAT, REALS),
    TYPE(MPI_DOUBLE, REALS),
    TYPE(MPI_LONG_DOUBLE, REALS),
    TYPE(MPI_REAL, REALS),
    TYPE(MPI_DOUBLE_PRECISION, REALS),
    TYPE(MPI_REAL2, REALS),
    TYPE(MPI_REAL4, REALS),
    TYPE(MPI_REAL8, REALS),
    TYPE(MPI_REAL16, REALS),
    TYPE(MPI_LOGICAL, LOGICALS),
    TYPE(MPI_C_BOOL, LOGICALS),
    TYPE(MPI_CXX_BOOL, LOGICALS),
    TYPE(MPI_LOGICAL1, LOGICALS),
    TYPE(MPI_LOGICAL2, LOGICALS),
    TYPE(MPI_LOGICAL4, LOGICALS),
    TYPE(MPI_LOGICAL8, LOGICALS),
    TYPE(MPI_LOGICAL16, LOGICALS),
    TYPE(MPI_COMPLEX, COMPLEX),
    TYPE(MPI_DOUBLE_COMPLEX, COMPLEX),
    TYPE(MPI_C_FLOAT_COMPLEX, COMPLEX),
    TYPE(MPI_C_DOUBLE_COMPLEX, COMPLEX),
    TYPE(MPI_C_LONG_DOUBLE_COMPLEX, COMPLEX),
    TYPE(MPI_CXX_FLOAT_COMPLEX, COMPLEX),
    TYPE(MPI_CXX_DOUBLE_COMPLEX, COMPLEX),
    TYPE(MPI_CXX_LONG_DOUBLE_COMPLEX, COMPLEX),
    TYPE(MPI_COMPLEX4, COMPLEX),
    TYPE(MPI_COMPLEX8, COMPLEX),
    TYPE(MPI_COMPLEX16, COMPLEX),
    TYPE(MPI_COMPLEX32, COMPLEX),
    TYPE(MPI_BYTE, BYTES),
    TYPE(MPI_FLOAT_INT, PAIRS),
    TYPE(MPI_DOUBLE_INT, PAIRS),
    TYPE(MPI_LONG_INT, PAIRS),
    TYPE(MPI_2INT, PAIRS),
    TYPE(MPI_SHORT_INT, PAIRS),
    TYPE(MPI_LONG_DOUBLE_INT, PAIRS),
    TYPE(MPI_2REAL, PAIRS),
    TYPE(MPI_2DOUBLE_PRECISION, PAIRS),
    TYPE(MPI_2INTEGER, PAIRS),
    TYPE(MPI_CHARACTER, CHARACTERS),
    TYPE(MPI_WCHAR, CHARACTERS),
};

int main(int argc, char **argv)
{
    const struct operation operations[] = {
        {"MPI_MAX", MPI_MAX, NUMBERS},
        {"MPI_MIN", MPI_MIN, NUMBERS},
        {"MPI_SUM", MPI_SUM, NUMBERS | COMPLEX},
        {"MPI_PROD", MPI_PROD, NUMBERS | COMPLEX},
        {"MPI_LAND", MPI_LAND, INTEGERS | LOGICALS},
        {"MPI_LOR", MPI_LOR, INTEGERS | LOGICALS},
        {"MPI_LXOR", MPI_LXOR, INTEGERS | LOGICALS},
        {"MPI_BAND", MPI_BAND, BITS},
        {"MPI_BOR", MPI_BOR, BITS},
        {"MPI_BXOR", MPI_BXOR, BITS},
        {"MPI_MAXLOC", MPI_MAXLOC, PAIRS},
        {"MPI_MINLOC", MPI_MINLOC, PAIRS},
        {"MPI_REPLACE", MPI_REPLACE, ANY},
        {"MPI_NO_OP", MPI_NO_OP, ANY},
    };
    enum { N_KINDS = sizeof kinds / sizeof *kinds, N_OPERATIONS = sizeof operations / sizeof *operations };

    mtest_init(&argc, &argv, 1);
    mrma_init(&argc, argv);
    next = (mtest_rank + 1) % mtest_size;
    MTEST_OK(mrma_window(BYTES_MAX, 1, &window, &win));
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < N_KINDS; i++) {
        struct sides sides = make_sides(&kinds[i]);
        for (int k = 0; k < N_OPERATIONS; k++)
            for (int form = 0; form < FORMS; form++)
                for (int layout = 0; layout < (form == FETCH_AND_OP ? 1 : LAYOUTS); layout++)
                    if (operations[k].op != MPI_NO_OP || form >= GET_ACCUMULATE)
                        check(&sides, &operations[k], (enum form)form, (enum layout)layout);
        check_swap(&kinds[i]);
        MPI_Type_free(&sides.spread);
        MPI_Type_free(&sides.reversed);
    }
    MTEST_OK(MPI_Win_unlock_all(win));
    MTEST_OK(mrma_free(window, &win));
    return mtest_end();
}
