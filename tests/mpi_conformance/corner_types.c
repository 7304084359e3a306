/* SPDX-License-Identifier: BSD-3-Clause */
/* Corner cases of datatypes: envelopes of every constructor, small and large; types without data; negative
 * strides; sizes beyond an int; partial elements; freeing and committing twice. */
#include "mtest.h"
#include <limits.h>

static void envelope(MPI_Datatype type, int combiner, int ni, int na, int nd, const char *what)
{
    int gi = -1, ga = -1, gd = -1, gc = -1;
    MPI_Count ci = -1, ca = -1, cl = -1, cd = -1;
    MTEST_OK(MPI_Type_get_envelope(type, &gi, &ga, &gd, &gc));
    MTEST_CHECK(gi == ni && ga == na && gd == nd && gc == combiner,
                "%s: %d integers %d addresses %d types combiner %d", what, gi, ga, gd, gc);
    MTEST_OK(MPI_Type_get_envelope_c(type, &ci, &ca, &cl, &cd, &gc));
    MTEST_CHECK(ci == ni && ca == na && cd == nd && cl == 0 && gc == combiner, "%s _c: %ld %ld %ld %ld", what,
                (long)ci, (long)ca, (long)cl, (long)cd);
}

static void envelope_c(MPI_Datatype type, int combiner, int ni, int na, int nl, int nd, const char *what)
{
    int gc = -1, gi, ga, gd;
    MPI_Count ci = -1, ca = -1, cl = -1, cd = -1;
    MTEST_OK(MPI_Type_get_envelope_c(type, &ci, &ca, &cl, &cd, &gc));
    MTEST_CHECK(ci == ni && ca == na && cl == nl && cd == nd && gc == combiner, "%s: %ld %ld %ld %ld", what,
                (long)ci, (long)ca, (long)cl, (long)cd);
    if (nl > 0)
        MTEST_CLASS(MPI_Type_get_envelope(type, &gi, &ga, &gd, &gc), MPI_ERR_TYPE);
    MPI_Type_free(&type);
}

static void check_envelopes(void)
{
    MPI_Datatype t, in, types[2] = {MPI_INT, MPI_DOUBLE};
    int lens[2] = {1, 2}, displs[2] = {0, 4}, sizes[2] = {4, 5}, subs[2] = {2, 2}, starts[2] = {1, 1};
    int distribs[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC}, dargs[2] = {MPI_DISTRIBUTE_DFLT_DARG, 2},
        ps[2] = {1, 1};
    MPI_Aint adispls[2] = {0, 64};
    MPI_Count clens[2] = {1, 2}, cdispls[2] = {0, 64}, csizes[2] = {4, 5}, csubs[2] = {2, 2},
              cstarts[2] = {1, 1};

    envelope(MPI_INT, MPI_COMBINER_NAMED, 0, 0, 0, "MPI_INT");
    envelope(MPI_DOUBLE_INT, MPI_COMBINER_NAMED, 0, 0, 0, "MPI_DOUBLE_INT");
    MPI_Type_contiguous(3, MPI_INT, &t);
    envelope(t, MPI_COMBINER_CONTIGUOUS, 1, 0, 1, "contiguous");
    MPI_Type_free(&t);
    MPI_Type_vector(3, 2, 5, MPI_INT, &t);
    envelope(t, MPI_COMBINER_VECTOR, 3, 0, 1, "vector");
    MPI_Type_free(&t);
    MPI_Type_create_hvector(3, 2, 50, MPI_INT, &t);
    envelope(t, MPI_COMBINER_HVECTOR, 2, 1, 1, "hvector");
    MPI_Type_free(&t);
    MPI_Type_indexed(2, lens, displs, MPI_INT, &t);
    envelope(t, MPI_COMBINER_INDEXED, 5, 0, 1, "indexed");
    MPI_Type_free(&t);
    MPI_Type_create_hindexed(2, lens, adispls, MPI_INT, &t);
    envelope(t, MPI_COMBINER_HINDEXED, 3, 2, 1, "hindexed");
    MPI_Type_free(&t);
    MPI_Type_create_indexed_block(2, 2, displs, MPI_INT, &t);
    envelope(t, MPI_COMBINER_INDEXED_BLOCK, 4, 0, 1, "indexed_block");
    MPI_Type_free(&t);
    MPI_Type_create_hindexed_block(2, 2, adispls, MPI_INT, &t);
    envelope(t, MPI_COMBINER_HINDEXED_BLOCK, 2, 2, 1, "hindexed_block");
    MPI_Type_free(&t);
    MPI_Type_create_struct(2, lens, adispls, types, &t);
    envelope(t, MPI_COMBINER_STRUCT, 3, 2, 2, "struct");
    MPI_Type_free(&t);
    MPI_Type_create_subarray(2, sizes, subs, starts, MPI_ORDER_FORTRAN, MPI_INT, &t);
    envelope(t, MPI_COMBINER_SUBARRAY, 8, 0, 1, "subarray");
    MPI_Type_free(&t);
    MPI_Type_create_darray(1, 0, 2, sizes, distribs, dargs, ps, MPI_ORDER_C, MPI_INT, &t);
    envelope(t, MPI_COMBINER_DARRAY, 12, 0, 1, "darray");
    MPI_Type_free(&t);
    MPI_Type_create_resized(MPI_INT, -4, 16, &t);
    envelope(t, MPI_COMBINER_RESIZED, 0, 2, 1, "resized");
    MPI_Type_free(&t);
    MPI_Type_dup(MPI_INT, &t);
    envelope(t, MPI_COMBINER_DUP, 0, 0, 1, "dup");
    MPI_Type_free(&t);
    MPI_Type_create_f90_real(6, MPI_UNDEFINED, &t);
    envelope(t, MPI_COMBINER_F90_REAL, 2, 0, 0, "f90 real");
    MPI_Type_create_f90_integer(4, &t);
    envelope(t, MPI_COMBINER_F90_INTEGER, 1, 0, 0, "f90 integer");
    MPI_Type_create_f90_complex(6, 20, &t);
    envelope(t, MPI_COMBINER_F90_COMPLEX, 2, 0, 0, "f90 complex");
    MTEST_CLASS(MPI_Type_free(&t), MPI_ERR_TYPE); /* predefined */

    MPI_Type_contiguous_c(3, MPI_INT, &t);
    envelope_c(t, MPI_COMBINER_CONTIGUOUS, 0, 0, 1, 1, "contiguous_c");
    MPI_Type_vector_c(3, 2, 5, MPI_INT, &t);
    envelope_c(t, MPI_COMBINER_VECTOR, 0, 0, 3, 1, "vector_c");
    MPI_Type_create_hvector_c(3, 2, 50, MPI_INT, &t);
    envelope_c(t, MPI_COMBINER_HVECTOR, 0, 0, 3, 1, "hvector_c");
    MPI_Type_indexed_c(2, clens, cdispls, MPI_INT, &t);
    envelope_c(t, MPI_COMBINER_INDEXED, 0, 0, 5, 1, "indexed_c");
    MPI_Type_create_hindexed_c(2, clens, cdispls, MPI_INT, &t);
    envelope_c(t, MPI_COMBINER_HINDEXED, 0, 0, 5, 1, "hindexed_c");
    MPI_Type_create_indexed_block_c(2, 2, cdispls, MPI_INT, &t);
    envelope_c(t, MPI_COMBINER_INDEXED_BLOCK, 0, 0, 4, 1, "indexed_block_c");
    MPI_Type_create_hindexed_block_c(2, 2, cdispls, MPI_INT, &t);
    envelope_c(t, MPI_COMBINER_HINDEXED_BLOCK, 0, 0, 4, 1, "hindexed_block_c");
    MPI_Type_create_struct_c(2, clens, cdispls, types, &t);
    envelope_c(t, MPI_COMBINER_STRUCT, 0, 0, 5, 2, "struct_c");
    MPI_Type_create_subarray_c(2, csizes, csubs, cstarts, MPI_ORDER_C, MPI_INT, &t);
    envelope_c(t, MPI_COMBINER_SUBARRAY, 2, 0, 6, 1, "subarray_c");
    MPI_Type_create_darray_c(1, 0, 2, csizes, distribs, dargs, ps, MPI_ORDER_C, MPI_INT, &t);
    envelope_c(t, MPI_COMBINER_DARRAY, 10, 0, 2, 1, "darray_c");
    MPI_Type_create_resized_c(MPI_INT, -4, 16, &t);
    envelope_c(t, MPI_COMBINER_RESIZED, 0, 0, 2, 1, "resized_c");

    /* contents: too little room; the inner type is a new handle of an equivalent type */
    int ints[4];
    MPI_Aint addrs[4];
    MPI_Datatype inner[2];
    MPI_Type_contiguous(2, MPI_INT, &in);
    MPI_Type_vector(3, 1, 2, in, &t);
    MPI_Type_free(&in);
    MTEST_CLASS(MPI_Type_get_contents(MPI_INT, 4, 4, 2, ints, addrs, inner), MPI_ERR_TYPE);
    MTEST_CLASS2(MPI_Type_get_contents(t, 2, 0, 1, ints, addrs, inner), MPI_ERR_ARG, MPI_ERR_COUNT);
    MTEST_OK(MPI_Type_get_contents(t, 4, 4, 2, ints, addrs, inner));
    MTEST_CHECK(ints[0] == 3 && ints[1] == 1 && ints[2] == 2, "contents %d %d %d", ints[0], ints[1], ints[2]);
    envelope(inner[0], MPI_COMBINER_CONTIGUOUS, 1, 0, 1, "inner");
    MPI_Type_free(&inner[0]);
    MPI_Type_free(&t);
}

static void bounds(MPI_Datatype t, MPI_Aint lb, MPI_Aint extent, MPI_Aint tlb, MPI_Aint textent, int size,
                   const char *what)
{
    MPI_Aint a, b;
    int s;
    MPI_Count ca, cb, cs;
    MTEST_OK(MPI_Type_get_extent(t, &a, &b));
    MTEST_CHECK(a == lb && b == extent, "%s: lb %ld extent %ld", what, (long)a, (long)b);
    MTEST_OK(MPI_Type_get_true_extent(t, &a, &b));
    MTEST_CHECK(a == tlb && b == textent, "%s: true lb %ld extent %ld", what, (long)a, (long)b);
    MTEST_OK(MPI_Type_size(t, &s));
    MTEST_CHECK(s == size, "%s: size %d", what, s);
    MTEST_OK(MPI_Type_get_extent_x(t, &ca, &cb));
    MTEST_CHECK(ca == lb && cb == extent, "%s: _x", what);
    MTEST_OK(MPI_Type_get_true_extent_c(t, &ca, &cb));
    MTEST_CHECK(ca == tlb && cb == textent, "%s: true _c", what);
    MTEST_OK(MPI_Type_size_x(t, &cs));
    MTEST_CHECK(cs == size, "%s: size_x", what);
}

static void check_bounds(void)
{
    MPI_Datatype t, u;
    int lens[3] = {1, 0, 2}, displs[3] = {3, -100, -2};
    MPI_Aint ad[3] = {8, -1000, 24};
    MPI_Datatype types[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};

    MPI_Type_contiguous(0, MPI_INT, &t);
    MTEST_OK(MPI_Type_commit(&t));
    MTEST_OK(MPI_Type_commit(&t));
    bounds(t, 0, 0, 0, 0, 0, "contiguous 0");
    MPI_Type_vector(3, 1, 2, t, &u);
    bounds(u, 0, 0, 0, 0, 0, "vector of nothing");
    MPI_Type_free(&u);
    MPI_Type_free(&t);
    MPI_Type_vector(0, 4, 9, MPI_INT, &t);
    bounds(t, 0, 0, 0, 0, 0, "vector 0");
    MPI_Type_free(&t);
    MPI_Type_vector(4, 0, 9, MPI_INT, &t);
    bounds(t, 0, 0, 0, 0, 0, "vector x 0");
    MPI_Type_free(&t);
    MPI_Type_vector(3, 1, -2, MPI_INT, &t);
    bounds(t, -16, 20, -16, 20, 12, "negative stride");
    MPI_Type_free(&t);
    MPI_Type_vector(1, 2, -100, MPI_INT, &t);
    bounds(t, 0, 8, 0, 8, 8, "one block");
    MPI_Type_free(&t);
    MPI_Type_indexed(3, lens, displs, MPI_INT, &t);
    bounds(t, -8, 24, -8, 24, 12, "indexed with empty block");
    MPI_Type_free(&t);
    MPI_Type_indexed(0, NULL, NULL, MPI_INT, &t);
    bounds(t, 0, 0, 0, 0, 0, "indexed 0");
    MPI_Type_free(&t);
    MPI_Type_create_struct(0, NULL, NULL, NULL, &t);
    bounds(t, 0, 0, 0, 0, 0, "struct 0");
    MPI_Type_commit(&t);
    MPI_Type_free(&t);
    MPI_Type_create_struct(3, lens, ad, types, &t);
    bounds(t, 8, 20, 8, 18, 6, "struct with padding at its end");
    MPI_Type_free(&t);
    MPI_Type_create_resized(MPI_INT, -3, 30, &t);
    bounds(t, -3, 30, 0, 4, 4, "resized");
    MPI_Type_contiguous(2, t, &u);
    bounds(u, -3, 60, 0, 34, 8, "two resized");
    MPI_Type_free(&u);
    MPI_Type_dup(t, &u);
    bounds(u, -3, 30, 0, 4, 4, "dup of resized");
    MPI_Type_free(&u);
    MPI_Type_free(&t);
    MPI_Type_create_resized(MPI_INT, 0, 0, &t);
    MPI_Type_contiguous(5, t, &u);
    bounds(u, 0, 0, 0, 4, 20, "extent 0");
    MPI_Type_free(&u);
    MPI_Type_free(&t);
    MPI_Type_create_resized(MPI_INT, 8, -8, &t);
    MPI_Type_contiguous(3, t, &u);
    bounds(u, -8, 8, -16, 20, 12, "negative extent");
    MPI_Type_free(&u);
    MPI_Type_free(&t);

    /* sizes beyond an int */
    int s, pack;
    MPI_Count cs;
    MPI_Aint a, b;
    MPI_Type_contiguous(INT_MAX, MPI_DOUBLE, &t);
    MTEST_OK(MPI_Type_size(t, &s));
    MTEST_CHECK(s == MPI_UNDEFINED, "size %d", s);
    MTEST_OK(MPI_Type_size_c(t, &cs));
    MTEST_CHECK(cs == (MPI_Count)INT_MAX * 8, "size %ld", (long)cs);
    MTEST_OK(MPI_Type_get_extent(t, &a, &b));
    MTEST_CHECK(b == (MPI_Aint)INT_MAX * 8, "extent %ld", (long)b);
    MPI_Type_commit(&t);
    pack = 5;
    int code = MPI_Pack_size(1, t, MPI_COMM_SELF, &pack);
    MTEST_CHECK(code != MPI_SUCCESS || pack == MPI_UNDEFINED, "Pack_size of 16 GiB: %d, %d", code, pack);
    MTEST_OK(MPI_Pack_size_c(1, t, MPI_COMM_SELF, &cs));
    MTEST_CHECK(cs >= (MPI_Count)INT_MAX * 8, "%ld", (long)cs);
    MPI_Type_free(&t);
    MTEST_CHECK(t == MPI_DATATYPE_NULL, "freed handle");
    MTEST_CLASS(MPI_Type_free(&t), MPI_ERR_TYPE);
    t = MPI_INT;
    MTEST_CLASS(MPI_Type_free(&t), MPI_ERR_TYPE);
    MTEST_OK(MPI_Type_commit(&t));
    MTEST_CLASS2(MPI_Type_create_resized(MPI_DATATYPE_NULL, 0, 4, &t), MPI_ERR_TYPE, MPI_ERR_TYPE);
    MTEST_CLASS2(MPI_Type_contiguous(-1, MPI_INT, &t), MPI_ERR_COUNT, MPI_ERR_ARG);
    MTEST_CLASS2(MPI_Type_vector(1, -1, 1, MPI_INT, &t), MPI_ERR_ARG, MPI_ERR_COUNT);
}

static void check_elements(void)
{
    MPI_Status st;
    int n;
    MPI_Count cn;
    MPI_Datatype pair, zero;
    int lens[2] = {1, 1};
    MPI_Aint ad[2] = {0, 8};
    MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE};
    struct {
        int i;
        double d;
    } in[3], out[3] = {{1, 2.}, {3, 4.}, {5, 6.}};
    char packed[100];
    int pos = 0;
    MPI_Type_create_struct(2, lens, ad, types, &pair);
    MPI_Type_commit(&pair);
    /* 1 and a half pairs: sent as int, double, int */
    MPI_Datatype part;
    int plens[3] = {1, 1, 1};
    MPI_Aint pad[3] = {0, 8, 16};
    MPI_Datatype ptypes[3] = {MPI_INT, MPI_DOUBLE, MPI_INT};
    MPI_Type_create_struct(3, plens, pad, ptypes, &part);
    MPI_Type_commit(&part);
    MPI_Sendrecv(out, 1, part, 0, 0, in, 3, pair, 0, 0, MPI_COMM_SELF, &st);
    MTEST_OK(MPI_Get_count(&st, pair, &n));
    MTEST_CHECK(n == MPI_UNDEFINED, "count %d", n);
    MTEST_OK(MPI_Get_elements(&st, pair, &n));
    MTEST_CHECK(n == 3, "elements %d", n);
    MTEST_OK(MPI_Get_elements_x(&st, pair, &cn));
    MTEST_CHECK(cn == 3, "elements_x %d", (int)cn);
    MTEST_OK(MPI_Get_elements_c(&st, pair, &cn));
    MTEST_CHECK(cn == 3, "elements_c %d", (int)cn);
    MTEST_OK(MPI_Get_count(&st, MPI_INT, &n));
    MTEST_CHECK(n == 4, "count of int %d", n);
    MTEST_OK(MPI_Get_count(&st, MPI_DOUBLE, &n));
    MTEST_CHECK(n == 2, "count of double %d", n);
    MTEST_CHECK(in[1].i == 3, "half pair %d", in[1].i);
    MPI_Type_contiguous(0, MPI_INT, &zero);
    MPI_Type_commit(&zero);
    MPI_Sendrecv(out, 5, zero, 0, 0, in, 5, zero, 0, 0, MPI_COMM_SELF, &st);
    MTEST_OK(MPI_Get_count(&st, zero, &n));
    MTEST_CHECK(n == 0, "count of zero-size type %d", n);
    MTEST_OK(MPI_Get_elements(&st, zero, &n));
    MTEST_CHECK(n == 0, "elements of zero-size %d", n);
    MPI_Sendrecv(out, 5, MPI_INT, 0, 0, in, 5, MPI_INT, 0, 0, MPI_COMM_SELF, &st);
    MTEST_OK(MPI_Get_count(&st, zero, &n));
    MTEST_CHECK(n == MPI_UNDEFINED, "20 bytes in zero-size types %d", n);
    /* status set by hand */
    MTEST_OK(MPI_Status_set_elements(&st, pair, 5));
    MTEST_OK(MPI_Get_elements(&st, pair, &n));
    MTEST_CHECK(n == 5, "set elements 5: %d", n);
    MTEST_OK(MPI_Get_count(&st, pair, &n));
    MTEST_CHECK(n == MPI_UNDEFINED, "set elements 5: count %d", n);
    MTEST_OK(MPI_Status_set_elements_c(&st, MPI_INT, (MPI_Count)INT_MAX + 10));
    MTEST_OK(MPI_Get_count(&st, MPI_INT, &n));
    MTEST_CHECK(n == MPI_UNDEFINED, "count beyond int %d", n);
    MTEST_OK(MPI_Get_elements(&st, MPI_INT, &n));
    MTEST_CHECK(n == MPI_UNDEFINED, "elements beyond int %d", n);
    MTEST_OK(MPI_Get_count_c(&st, MPI_INT, &cn));
    MTEST_CHECK(cn == (MPI_Count)INT_MAX + 10, "large count %ld", (long)cn);
    MTEST_OK(MPI_Status_set_cancelled(&st, 1));
    MTEST_OK(MPI_Test_cancelled(&st, &n));
    MTEST_CHECK(n, "set cancelled");
    MTEST_OK(MPI_Status_set_cancelled(&st, 0));
    MTEST_OK(MPI_Test_cancelled(&st, &n));
    MTEST_CHECK(!n, "not cancelled");
    MTEST_OK(MPI_Get_count_c(&st, MPI_INT, &cn));
    MTEST_CHECK(cn == (MPI_Count)INT_MAX + 10, "count after set_cancelled %ld", (long)cn);
    MTEST_OK(MPI_Status_set_source(&st, 7));
    MTEST_OK(MPI_Status_get_source(&st, &n));
    MTEST_CHECK(n == 7, "source");
    MTEST_OK(MPI_Status_set_tag(&st, 8));
    MTEST_OK(MPI_Status_get_tag(&st, &n));
    MTEST_CHECK(n == 8, "tag");
    MTEST_OK(MPI_Status_set_error(&st, MPI_ERR_TAG));
    MTEST_OK(MPI_Status_get_error(&st, &n));
    MTEST_CHECK(n == MPI_ERR_TAG, "error");
    /* external32 of a resized type with a negative lower bound, in the middle of a buffer */
    MPI_Datatype res;
    int v[8] = {0, 1, 2, 3, 4, 5, 6, 7}, w[8];
    MPI_Aint apos = 0, asize;
    MPI_Type_create_resized(MPI_INT, -4, 8, &res);
    MPI_Type_commit(&res);
    MTEST_OK(MPI_Pack_external_size("external32", 3, res, &asize));
    MTEST_CHECK(asize == 12, "external size %ld", (long)asize);
    MTEST_OK(MPI_Pack_external("external32", v + 1, 3, res, packed, sizeof packed, &apos));
    MTEST_CHECK(apos == 12, "external position %ld", (long)apos);
    MTEST_CHECK(packed[3] == 1 && packed[7] == 3 && packed[11] == 5 && packed[0] == 0, "big endian %d %d %d",
                packed[3], packed[7], packed[11]);
    memset(w, 0xff, sizeof w);
    apos = 0;
    MTEST_OK(MPI_Unpack_external("external32", packed, 12, &apos, w + 1, 3, res));
    MTEST_CHECK(w[1] == 1 && w[3] == 3 && w[5] == 5 && w[0] == -1 && w[2] == -1 && w[4] == -1, "unpacked");
    MTEST_CLASS2(MPI_Pack_external("internal", v, 1, MPI_INT, packed, 100, &apos), MPI_ERR_ARG,
                 MPI_ERR_UNSUPPORTED_DATAREP);
    apos = 98;
    MTEST_CLASS2(MPI_Pack_external("external32", v, 1, MPI_INT, packed, 100, &apos), MPI_ERR_ARG,
                 MPI_ERR_TRUNCATE);
    MTEST_CHECK(apos == 98, "position moved");
    MPI_Pack_external_size("external32", 1, MPI_LONG, &asize);
    MTEST_CHECK(asize == 4 || asize == 8, "MPI_LONG %ld", (long)asize);
    MPI_Pack_external_size("external32", 1, MPI_LONG_DOUBLE, &asize);
    MTEST_CHECK(asize == 16, "MPI_LONG_DOUBLE %ld", (long)asize);
    MPI_Pack_external_size("external32", 1, MPI_WCHAR, &asize);
    MTEST_CHECK(asize == 2, "MPI_WCHAR %ld", (long)asize);
    MPI_Pack_external_size("external32", 1, MPI_AINT, &asize);
    MTEST_CHECK(asize == 8, "MPI_AINT %ld", (long)asize);
    /* Pack in pieces, unpack at once */
    pos = 0;
    for (int i = 0; i < 3; i++)
        MTEST_OK(MPI_Pack(&out[i], 1, pair, packed, sizeof packed, &pos, MPI_COMM_SELF));
    MTEST_CHECK(pos == 36, "position %d", pos);
    memset(in, 0, sizeof in);
    pos = 0;
    MTEST_OK(MPI_Unpack(packed, 36, &pos, in, 3, pair, MPI_COMM_SELF));
    MTEST_CHECK(in[2].i == 5 && in[2].d == 6. && pos == 36, "unpacked pairs");
    pos = 30;
    MTEST_CLASS2(MPI_Unpack(packed, 36, &pos, in, 1, pair, MPI_COMM_SELF), MPI_ERR_ARG, MPI_ERR_TRUNCATE);
    pos = 95;
    MTEST_CLASS2(MPI_Pack(out, 1, pair, packed, sizeof packed, &pos, MPI_COMM_SELF), MPI_ERR_ARG,
                 MPI_ERR_TRUNCATE);
    MPI_Send(packed, 36, MPI_PACKED, MPI_PROC_NULL, 0, MPI_COMM_SELF);
    MPI_Sendrecv(packed, 36, MPI_PACKED, 0, 0, in, 3, pair, 0, 0, MPI_COMM_SELF, &st);
    MTEST_CHECK(in[1].d == 4., "packed received as pairs");
    MTEST_OK(MPI_Get_elements(&st, pair, &n));
    MTEST_CHECK(n == 6, "elements of packed %d", n);
    MPI_Type_free(&res);
    MPI_Type_free(&zero);
    MPI_Type_free(&part);
    MPI_Type_free(&pair);
}

static void check_darray(void)
{
    /* block-cyclic over 2x3 processes, C and Fortran orders: each global element belongs to one */
    enum { N = 7, M = 11 };
    static const int ds[3][2] = {{MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC},
                                 {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK},
                                 {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_CYCLIC}};
    for (int order = 0; order < 2; order++)
        for (int d = 0; d < 3; d++)
            for (int arg = 0; arg < 2; arg++) {
                int gs[2] = {N, M}, dist[2] = {ds[d][0], ds[d][1]}, da[2],
                    ps[2] = {d == 2 ? 1 : 2, d == 2 ? 6 : 3}, owner[N * M], seen = 0;
                char name[64];
                for (int k = 0; k < 2; k++)
                    da[k] = !arg || dist[k] == MPI_DISTRIBUTE_NONE ? MPI_DISTRIBUTE_DFLT_DARG
                            : dist[k] == MPI_DISTRIBUTE_BLOCK      ? 4
                                                                   : 2;
                snprintf(name, sizeof name, "darray order %d d %d arg %d", order, d, arg);
                memset(owner, 0xff, sizeof owner);
                for (int r = 0; r < 6; r++) {
                    MPI_Datatype t;
                    int src[N * M], out[N * M], size, pos = 0;
                    MPI_Aint lb, ext;
                    MTEST_OK(MPI_Type_create_darray(6, r, 2, gs, dist, da, ps,
                                                    order ? MPI_ORDER_C : MPI_ORDER_FORTRAN, MPI_INT, &t));
                    MPI_Type_commit(&t);
                    MPI_Type_size(t, &size);
                    MPI_Type_get_extent(t, &lb, &ext);
                    MTEST_CHECK(lb == 0 && ext == N * M * 4, "%s: lb %ld extent %ld", name, (long)lb,
                                (long)ext);
                    for (int i = 0; i < N * M; i++)
                        src[i] = i;
                    MTEST_OK(MPI_Pack(src, 1, t, out, sizeof out, &pos, MPI_COMM_SELF));
                    MTEST_CHECK(pos == size, "%s: packed %d of %d", name, pos, size);
                    for (int i = 0; i < size / 4; i++) {
                        MTEST_CHECK(owner[out[i]] == -1, "%s: %d twice", name, out[i]);
                        owner[out[i]] = r;
                        seen++;
                        /* where it must be */
                        int gi = order ? out[i] / M : out[i] % N, gj = order ? out[i] % M : out[i] / N,
                            g[2] = {gi, gj}, c[2];
                        for (int k = 0; k < 2; k++) {
                            int b = dist[k] == MPI_DISTRIBUTE_NONE ? gs[k]
                                    : dist[k] == MPI_DISTRIBUTE_BLOCK
                                        ? (da[k] == MPI_DISTRIBUTE_DFLT_DARG ? (gs[k] + ps[k] - 1) / ps[k]
                                                                             : da[k])
                                        : (da[k] == MPI_DISTRIBUTE_DFLT_DARG ? 1 : da[k]);
                            c[k] = g[k] / b % ps[k];
                        }
                        MTEST_CHECK(c[0] * ps[1] + c[1] == r, "%s: element %d,%d at %d", name, gi, gj, r);
                    }
                    MPI_Type_free(&t);
                }
                MTEST_CHECK(seen == N * M, "%s: %d elements", name, seen);
            }
}

static void check_match(void)
{
    MPI_Datatype t;
    int s;
    for (int size = 1; size <= 32; size *= 2) {
        int code = MPI_Type_match_size(MPI_TYPECLASS_INTEGER, size, &t);
        if (size <= 8) {
            MTEST_CHECK(code == 0, "integer %d", size);
            MPI_Type_size(t, &s);
            MTEST_CHECK(s == size, "integer %d: %d", size, s);
        }
    }
    MTEST_OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 4, &t));
    MTEST_OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &t));
    MTEST_OK(MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 8, &t));
    MTEST_OK(MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 16, &t));
    MTEST_CLASS(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &t), MPI_ERR_ARG);
    MTEST_CLASS(MPI_Type_match_size(12345, 4, &t), MPI_ERR_ARG);
    MTEST_CLASS(MPI_Type_create_f90_real(10000, 10000, &t), MPI_ERR_ARG);
    MTEST_CLASS(MPI_Type_create_f90_integer(100, &t), MPI_ERR_ARG);
    MTEST_CLASS(MPI_Type_create_f90_real(MPI_UNDEFINED, MPI_UNDEFINED, &t), MPI_ERR_ARG);
    char name[MPI_MAX_OBJECT_NAME];
    int len;
    MTEST_OK(MPI_Type_get_name(MPI_INT, name, &len));
    MTEST_CHECK(!strcmp(name, "MPI_INT") && len == 7, "%s", name);
    MTEST_OK(MPI_Type_get_name(MPI_2INT, name, &len));
    MTEST_CHECK(!strcmp(name, "MPI_2INT"), "%s", name);
    MTEST_OK(MPI_Type_get_name(MPI_DATATYPE_NULL, name, &len));
    MTEST_CHECK(!strcmp(name, "MPI_DATATYPE_NULL"), "%s", name);
    MPI_Type_dup(MPI_INT, &t);
    MTEST_OK(MPI_Type_get_name(t, name, &len));
    MTEST_CHECK(len == 0 && name[0] == 0, "dup has name %s", name);
    MPI_Type_free(&t);
    MPI_Aint x = MPI_Aint_add((MPI_Aint)name, 5);
    MTEST_CHECK(x == (MPI_Aint)(name + 5), "Aint_add");
    MTEST_CHECK(MPI_Aint_diff((MPI_Aint)(name + 9), (MPI_Aint)name) == 9, "Aint_diff");
    MPI_Aint addr;
    MTEST_OK(MPI_Get_address(name, &addr));
    MTEST_CHECK(addr == (MPI_Aint)name, "Get_address");
    MTEST_OK(MPI_Get_address(MPI_BOTTOM, &addr));
    MTEST_CHECK(addr == 0, "address of BOTTOM");
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    check_envelopes();
    check_bounds();
    check_elements();
    check_darray();
    check_match();
    return mtest_end();
}
