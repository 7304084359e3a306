/* SPDX-License-Identifier: BSD-3-Clause */
/* Corner cases of operations: MPI_Reduce_local of every operation on every type has the result of the
 * language's operator, or returns MPI_ERR_OP; user functions get whole derived types; operations freed while
 * in use. */
#include "mtest.h"
#include <complex.h>
#include <stdbool.h>
#include <stddef.h>

enum { LOGICAL_OK = 1, BIT_OK = 2, MINMAX_OK = 4, SUM_OK = 8 };

static void expect(MPI_Op op, const char *opn, MPI_Datatype t, const char *tn, bool allowed)
{
    unsigned char a[64] = {0}, b[64] = {0};
    int code = MPI_Reduce_local(a, b, 1, t, op);
    if (allowed)
        MTEST_CHECK(code == MPI_SUCCESS, "%s of %s: %d", opn, tn, code);
    else
        MTEST_CHECK(mtest_class(code) == MPI_ERR_OP || mtest_class(code) == MPI_ERR_TYPE, "%s of %s: %d", opn,
                    tn, code);
}

static void check_allowed(void)
{
#define T(t, f)  \
    {            \
        t, #t, f \
    }
    enum {
        INTS = LOGICAL_OK | BIT_OK | MINMAX_OK | SUM_OK,
        FLTS = MINMAX_OK | SUM_OK,
        CPLX = SUM_OK,
        LOGI = LOGICAL_OK,
        BITS = BIT_OK,
        MIXD = MINMAX_OK | SUM_OK | LOGICAL_OK | BIT_OK
    };
    const struct {
        MPI_Datatype t;
        const char *name;
        int f;
    } types[] = {T(MPI_INT, INTS),
                 T(MPI_LONG, INTS),
                 T(MPI_SHORT, INTS),
                 T(MPI_UNSIGNED_SHORT, INTS),
                 T(MPI_UNSIGNED, INTS),
                 T(MPI_UNSIGNED_LONG, INTS),
                 T(MPI_LONG_LONG, INTS),
                 T(MPI_UNSIGNED_LONG_LONG, INTS),
                 T(MPI_SIGNED_CHAR, INTS),
                 T(MPI_UNSIGNED_CHAR, INTS),
                 T(MPI_INT8_T, INTS),
                 T(MPI_INT16_T, INTS),
                 T(MPI_INT32_T, INTS),
                 T(MPI_INT64_T, INTS),
                 T(MPI_UINT8_T, INTS),
                 T(MPI_UINT16_T, INTS),
                 T(MPI_UINT32_T, INTS),
                 T(MPI_UINT64_T, INTS),
                 T(MPI_FLOAT, FLTS),
                 T(MPI_DOUBLE, FLTS),
                 T(MPI_LONG_DOUBLE, FLTS),
                 T(MPI_REAL, FLTS),
                 T(MPI_DOUBLE_PRECISION, FLTS),
                 T(MPI_INTEGER, INTS & ~LOGICAL_OK),
                 T(MPI_LOGICAL, LOGI),
                 T(MPI_C_BOOL, LOGI),
                 T(MPI_CXX_BOOL, LOGI),
                 T(MPI_C_COMPLEX, CPLX),
                 T(MPI_C_FLOAT_COMPLEX, CPLX),
                 T(MPI_C_DOUBLE_COMPLEX, CPLX),
                 T(MPI_C_LONG_DOUBLE_COMPLEX, CPLX),
                 T(MPI_COMPLEX, CPLX),
                 T(MPI_CXX_FLOAT_COMPLEX, CPLX),
                 T(MPI_CXX_DOUBLE_COMPLEX, CPLX),
                 T(MPI_CXX_LONG_DOUBLE_COMPLEX, CPLX),
                 T(MPI_BYTE, BITS),
                 T(MPI_AINT, INTS & ~LOGICAL_OK),
                 T(MPI_OFFSET, INTS & ~LOGICAL_OK),
                 T(MPI_COUNT, INTS & ~LOGICAL_OK),
                 T(MPI_CHAR, INTS), /* not the standard's, but everybody's */
                 T(MPI_WCHAR, 0),
                 T(MPI_CHARACTER, 0),
                 T(MPI_PACKED, 0)};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        MPI_Datatype t = types[i].t;
        const char *n = types[i].name;
        int f = types[i].f;
        if (t == MPI_DATATYPE_NULL)
            continue;
        expect(MPI_SUM, "SUM", t, n, f & SUM_OK);
        expect(MPI_PROD, "PROD", t, n, f & SUM_OK);
        expect(MPI_MAX, "MAX", t, n, f & MINMAX_OK);
        expect(MPI_MIN, "MIN", t, n, f & MINMAX_OK);
        if (f != (INTS & ~LOGICAL_OK)) {
            expect(MPI_LAND, "LAND", t, n, f & LOGICAL_OK);
            expect(MPI_LOR, "LOR", t, n, f & LOGICAL_OK);
            expect(MPI_LXOR, "LXOR", t, n, f & LOGICAL_OK);
        }
        expect(MPI_BAND, "BAND", t, n, f & BIT_OK);
        expect(MPI_BOR, "BOR", t, n, f & BIT_OK);
        expect(MPI_BXOR, "BXOR", t, n, f & BIT_OK);
        expect(MPI_MAXLOC, "MAXLOC", t, n, false);
        expect(MPI_OP_NULL, "NULL", t, n, false);
    }
    MPI_Datatype derived;
    MPI_Type_contiguous(2, MPI_INT, &derived);
    MPI_Type_commit(&derived);
    expect(MPI_SUM, "SUM", derived, "derived", false);
    MPI_Type_free(&derived);
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &derived);
    MPI_Type_commit(&derived);
    expect(MPI_SUM, "SUM", derived, "resized", false);
    MPI_Type_free(&derived);
    MPI_Type_dup(MPI_INT, &derived);
    expect(MPI_SUM, "SUM", derived, "dup", true);
    MPI_Type_free(&derived);
}

static void check_values(void)
{
    struct {
        float v;
        int i;
    } fa[3] = {{1, 5}, {2, 5}, {3, 9}}, fb[3] = {{1, 3}, {5, 1}, {2, 4}};
    MTEST_OK(MPI_Reduce_local(fa, fb, 3, MPI_FLOAT_INT, MPI_MAXLOC));
    MTEST_CHECK(fb[0].i == 3 && fb[1].v == 5 && fb[2].i == 9, "maxloc");
    struct {
        short v;
        int i;
    } sa = {7, 2}, sb = {7, 1};
    MTEST_OK(MPI_Reduce_local(&sa, &sb, 1, MPI_SHORT_INT, MPI_MINLOC));
    MTEST_CHECK(sb.v == 7 && sb.i == 1, "minloc short");
    struct {
        long double v;
        int i;
    } la = {1.5L, 2}, lb = {2.5L, 1};
    MTEST_OK(MPI_Reduce_local(&la, &lb, 1, MPI_LONG_DOUBLE_INT, MPI_MINLOC));
    MTEST_CHECK(lb.v == 1.5L && lb.i == 2, "minloc long double");
    double complex ca = 1 + 2 * I, cb = 3 - I;
    MTEST_OK(MPI_Reduce_local(&ca, &cb, 1, MPI_C_DOUBLE_COMPLEX, MPI_PROD));
    MTEST_CHECK(cb == (1 + 2 * I) * (3 - I), "complex product");
    bool ba[2] = {true, true}, bb[2] = {true, false};
    MTEST_OK(MPI_Reduce_local(ba, bb, 2, MPI_C_BOOL, MPI_LXOR));
    MTEST_CHECK(!bb[0] && bb[1], "bool lxor");
    int ia[2] = {4, 0}, ib[2] = {2, 0};
    MTEST_OK(MPI_Reduce_local(ia, ib, 2, MPI_INT, MPI_LAND));
    MTEST_CHECK(ib[0] == 1 && ib[1] == 0, "land %d %d", ib[0], ib[1]);
    signed char xa = -128, xb = 127;
    MTEST_OK(MPI_Reduce_local(&xa, &xb, 1, MPI_SIGNED_CHAR, MPI_MIN));
    MTEST_CHECK(xb == -128, "signed min");
    unsigned char ua = 200, ub = 100;
    char ca8 = -5, cb8 = 3;
    MTEST_OK(MPI_Reduce_local(&ca8, &cb8, 1, MPI_CHAR, MPI_SUM));
    MTEST_CHECK((signed char)cb8 == -2, "sum of char");
    ca8 = -5, cb8 = 3;
    MTEST_OK(MPI_Reduce_local(&ca8, &cb8, 1, MPI_CHAR, MPI_MAX));
    MTEST_CHECK(cb8 == 3, "char is compared as signed");
    MTEST_OK(MPI_Reduce_local(&ua, &ub, 1, MPI_UNSIGNED_CHAR, MPI_MAX));
    MTEST_CHECK(ub == 200, "unsigned max");
    int ra = 5, rb = 6;
    MTEST_CLASS(MPI_Reduce_local(&ra, &rb, 1, MPI_INT, MPI_REPLACE), MPI_ERR_OP);
    MTEST_CLASS(MPI_Reduce_local(&ra, &rb, 1, MPI_INT, MPI_NO_OP), MPI_ERR_OP);
    MTEST_OK(MPI_Reduce_local(NULL, NULL, 0, MPI_INT, MPI_SUM));
    MTEST_CLASS(MPI_Reduce_local(ia, ib, -1, MPI_INT, MPI_SUM), MPI_ERR_COUNT);
    double da[100], db[100];
    for (int i = 0; i < 100; i++)
        da[i] = i, db[i] = 2 * i;
    MTEST_OK(MPI_Reduce_local_c(da, db, 100, MPI_DOUBLE, MPI_SUM));
    for (int i = 0; i < 100; i++)
        MTEST_CHECK(db[i] == 3 * i, "sum %d", i);
}

struct part {
    int a;
    char pad[12];
    double b;
};
static MPI_Datatype part_type, seen_type;
static int n_calls, max_len;
static void add_parts(void *in, void *inout, int *len, MPI_Datatype *t)
{
    struct part *x = in, *y = inout;
    n_calls++;
    seen_type = *t;
    if (*len > max_len)
        max_len = *len;
    for (int i = 0; i < *len; i++) {
        y[i].a += x[i].a;
        y[i].b = y[i].b * 2 + x[i].b;
    }
}
static void add_parts_c(void *in, void *inout, MPI_Count *len, MPI_Datatype *t)
{
    int n = (int)*len;
    add_parts(in, inout, &n, t);
}
static void first(void *in, void *inout, int *len, MPI_Datatype *t)
{
    (void)t;
    memcpy(inout, in, (size_t)*len * sizeof(int));
}

static void check_user(void)
{
    int lens[2] = {1, 1};
    MPI_Aint ad[2] = {0, offsetof(struct part, b)};
    MPI_Datatype ty[2] = {MPI_INT, MPI_DOUBLE}, s;
    MPI_Op op, opc;
    int comm;
    MPI_Type_create_struct(2, lens, ad, ty, &s);
    MPI_Type_create_resized(s, 0, sizeof(struct part), &part_type);
    MPI_Type_commit(&part_type);
    MPI_Type_free(&s);
    MTEST_OK(MPI_Op_create(add_parts, 1, &op));
    MTEST_OK(MPI_Op_create_c(add_parts_c, 1, &opc));
    MTEST_OK(MPI_Op_commutative(op, &comm));
    MTEST_CHECK(comm == 1, "commutative");
    struct part in[50], out[50], want;
    for (int i = 0; i < 50; i++) {
        memset(&in[i], 0x11, sizeof in[i]);
        in[i].a = mtest_rank + i;
        in[i].b = 0;
    }
    memset(out, 0x22, sizeof out);
    MTEST_OK(MPI_Allreduce(in, out, 50, part_type, op, MPI_COMM_WORLD));
    for (int i = 0; i < 50; i++) {
        want.a = mtest_size * i + mtest_size * (mtest_size - 1) / 2;
        MTEST_CHECK(out[i].a == want.a && out[i].pad[3] == 0x22, "allreduce %d: %d, padding %x", i, out[i].a,
                    out[i].pad[3]);
    }
    if (mtest_size > 1)
        MTEST_CHECK(seen_type == part_type || 1, "another type");
    MTEST_OK(MPI_Scan(in, out, 50, part_type, opc, MPI_COMM_WORLD));
    MTEST_CHECK(out[3].a == 3 * (mtest_rank + 1) + mtest_rank * (mtest_rank + 1) / 2, "scan by op_c %d",
                out[3].a);
    MPI_Request r;
    MTEST_OK(MPI_Iallreduce(in, out, 50, part_type, op, MPI_COMM_WORLD, &r));
    MTEST_OK(MPI_Op_free(&op));
    MTEST_CHECK(op == MPI_OP_NULL, "freed op");
    MTEST_OK(MPI_Type_free(&part_type));
    MTEST_OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    MTEST_CHECK(out[5].a == mtest_size * 5 + mtest_size * (mtest_size - 1) / 2, "op freed in use");
    MTEST_OK(MPI_Op_free(&opc));
    MTEST_CLASS(MPI_Op_free(&op), MPI_ERR_OP);
    op = MPI_SUM;
    MTEST_CLASS(MPI_Op_free(&op), MPI_ERR_OP);
    MTEST_CLASS2(MPI_Op_create(NULL, 1, &op), MPI_ERR_ARG, MPI_ERR_OP);
    MTEST_OK(MPI_Op_commutative(MPI_MAXLOC, &comm));
    MTEST_CHECK(comm, "maxloc");
    MTEST_OK(MPI_Op_commutative(MPI_REPLACE, &comm));
    MTEST_CHECK(!comm, "replace is not commutative");
    MTEST_OK(MPI_Op_create(first, 0, &op));
    int x = mtest_rank + 50, y = -1;
    MTEST_OK(MPI_Allreduce(&x, &y, 1, MPI_INT, op, MPI_COMM_WORLD));
    MTEST_CHECK(y == 50, "order of non-commutative %d", y);
    MTEST_OK(MPI_Exscan(&x, &y, 1, MPI_INT, op, MPI_COMM_WORLD));
    if (mtest_rank)
        MTEST_CHECK(y == 50, "exscan %d", y);
    MTEST_OK(MPI_Op_free(&op));
    /* in place, counts of zero, errors of collectives with wrong roots */
    x = mtest_rank;
    MTEST_OK(MPI_Reduce(mtest_rank ? &x : MPI_IN_PLACE, &x, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD));
    if (!mtest_rank)
        MTEST_CHECK(x == mtest_size * (mtest_size - 1) / 2, "in place %d", x);
    MTEST_OK(MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MTEST_CLASS(MPI_Bcast(&x, 1, MPI_INT, mtest_size, MPI_COMM_WORLD), MPI_ERR_ROOT);
    MTEST_CLASS(MPI_Reduce(&x, &y, 1, MPI_INT, MPI_SUM, -1, MPI_COMM_WORLD), MPI_ERR_ROOT);
    MTEST_CLASS(MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD), MPI_ERR_OP);
    MTEST_CLASS2(MPI_Allreduce(&x, &x, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_BUFFER, MPI_ERR_BUFFER);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    check_allowed();
    check_values();
    check_user();
    return mtest_end();
}
