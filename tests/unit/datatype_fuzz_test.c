/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Random nested datatypes give the same bytes, bounds and contents as a naive element-by-element reference,
 * also in random pieces.
 *
 * HEDDLE_FUZZ_TYPES (default 100000) and HEDDLE_FUZZ_SEED (default 1) choose their number and sequence.
 */
#include <check.h>
#include <stdio.h>

#include "datatype_fuzz.h"
#include "datatype_rank.h"
#include "datatype_reference.h"

#define POOL 40
#define SPAN (1 << 16) /* displacements and bounds of a tested type stay within +-SPAN / 4 */
#define PACKED_MAX (3 * REF_ITEMS_MAX * 32)

static char source[SPAN], target[SPAN], expected[SPAN], packed[PACKED_MAX], packed_expected[PACKED_MAX];

/* ---- Random arguments: kept in all forms that the constructors need ---- */

#define ARGS_MAX 24

struct args {
    int n;
    int lens[ARGS_MAX], disps[ARGS_MAX];
    MPI_Aint byte_disps[ARGS_MAX];
    MPI_Count large_lens[ARGS_MAX], large_disps[ARGS_MAX], large_byte_disps[ARGS_MAX];
};

static void random_args(struct args *a)
{
    int64_t step = pick(-4, 8), len = pick(0, 3);
    bool is_regular = rng() & 1, is_same_len = rng() & 1;

    a->n = (int)(rng() % 8 ? pick(0, 6) : pick(7, ARGS_MAX));
    for (int i = 0; i < a->n; i++) {
        a->lens[i] = (int)(is_same_len ? len : pick(0, 3));
        a->disps[i] = (int)(is_regular ? i * step : pick(-8, 8));
        a->byte_disps[i] = is_regular ? i * step * 4 : pick(-64, 64);
        a->large_lens[i] = a->lens[i];
        a->large_disps[i] = a->disps[i];
        a->large_byte_disps[i] = a->byte_disps[i];
    }
}

/* ---- One function per constructor: makes the type and its reference ---- */

static void make_contiguous(struct ref *r, const struct ref *child, bool is_large)
{
    int count = (int)pick(0, 6);

    if (is_large)
        OK(MPI_Type_contiguous_c(count, child->handle, &r->handle));
    else
        OK(MPI_Type_contiguous(count, child->handle, &r->handle));
    ref_place_block(r, child, 0, count);
}

static void make_vector(struct ref *r, const struct ref *child, bool is_large)
{
    int count = (int)pick(0, 6), len = (int)pick(0, 4), stride = (int)pick(-6, 6);

    if (is_large)
        OK(MPI_Type_vector_c(count, len, stride, child->handle, &r->handle));
    else
        OK(MPI_Type_vector(count, len, stride, child->handle, &r->handle));
    for (int i = 0; i < count; i++)
        ref_place_block(r, child, i * stride * ref_extent(child), len);
}

static void make_hvector(struct ref *r, const struct ref *child, bool is_large)
{
    int count = (int)pick(0, 6), len = (int)pick(0, 4), stride = (int)pick(-100, 100);

    if (is_large)
        OK(MPI_Type_create_hvector_c(count, len, stride, child->handle, &r->handle));
    else
        OK(MPI_Type_create_hvector(count, len, stride, child->handle, &r->handle));
    for (int i = 0; i < count; i++)
        ref_place_block(r, child, i * stride, len);
}

static void make_indexed(struct ref *r, const struct ref *child, bool is_large)
{
    struct args a;

    random_args(&a);
    if (is_large)
        OK(MPI_Type_indexed_c(a.n, a.large_lens, a.large_disps, child->handle, &r->handle));
    else
        OK(MPI_Type_indexed(a.n, a.lens, a.disps, child->handle, &r->handle));
    for (int i = 0; i < a.n; i++)
        ref_place_block(r, child, a.disps[i] * ref_extent(child), a.lens[i]);
}

static void make_hindexed(struct ref *r, const struct ref *child, bool is_large)
{
    struct args a;

    random_args(&a);
    if (is_large)
        OK(MPI_Type_create_hindexed_c(a.n, a.large_lens, a.large_byte_disps, child->handle, &r->handle));
    else
        OK(MPI_Type_create_hindexed(a.n, a.lens, a.byte_disps, child->handle, &r->handle));
    for (int i = 0; i < a.n; i++)
        ref_place_block(r, child, a.byte_disps[i], a.lens[i]);
}

static void make_indexed_block(struct ref *r, const struct ref *child, bool is_large)
{
    struct args a;
    int len = (int)pick(0, 3);

    random_args(&a);
    if (is_large)
        OK(MPI_Type_create_indexed_block_c(a.n, len, a.large_disps, child->handle, &r->handle));
    else
        OK(MPI_Type_create_indexed_block(a.n, len, a.disps, child->handle, &r->handle));
    for (int i = 0; i < a.n; i++)
        ref_place_block(r, child, a.disps[i] * ref_extent(child), len);
}

static void make_hindexed_block(struct ref *r, const struct ref *child, bool is_large)
{
    struct args a;
    int len = (int)pick(0, 3);

    random_args(&a);
    if (is_large)
        OK(MPI_Type_create_hindexed_block_c(a.n, len, a.large_byte_disps, child->handle, &r->handle));
    else
        OK(MPI_Type_create_hindexed_block(a.n, len, a.byte_disps, child->handle, &r->handle));
    for (int i = 0; i < a.n; i++)
        ref_place_block(r, child, a.byte_disps[i], len);
}

static void make_resized(struct ref *r, const struct ref *child, bool is_large)
{
    int64_t lb = pick(-40, 40), extent = pick(-60, 100);

    if (is_large)
        OK(MPI_Type_create_resized_c(child->handle, lb, extent, &r->handle));
    else
        OK(MPI_Type_create_resized(child->handle, lb, extent, &r->handle));
    ref_place(r, child, 0);
    ref_set_markers(r, lb, extent);
}

static void make_dup(struct ref *r, const struct ref *child, bool is_large)
{
    OK(MPI_Type_dup(child->handle, &r->handle));
    ref_place(r, child, 0);
}

#define DIMS_MAX 3

/* The storage stride of each dimension in elements; returns the number of elements of the array. */
static int64_t dim_strides(int ndims, const int *sizes, int order, int64_t *strides)
{
    int64_t stride = 1;

    for (int i = 0; i < ndims; i++) {
        int d = order == MPI_ORDER_FORTRAN ? i : ndims - 1 - i;
        strides[d] = stride;
        stride *= sizes[d];
    }
    return stride;
}

static void make_subarray(struct ref *r, const struct ref *child, bool is_large)
{
    int n = (int)pick(1, DIMS_MAX), order = rng() & 1 ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    int sizes[DIMS_MAX], subsizes[DIMS_MAX], starts[DIMS_MAX];
    MPI_Count large[3][DIMS_MAX];
    int64_t strides[DIMS_MAX], total;

    for (int d = 0; d < n; d++) {
        large[0][d] = sizes[d] = (int)pick(1, 5);
        large[1][d] = subsizes[d] = (int)pick(1, sizes[d]);
        large[2][d] = starts[d] = (int)pick(0, sizes[d] - subsizes[d]);
    }
    if (is_large)
        OK(MPI_Type_create_subarray_c(n, large[0], large[1], large[2], order, child->handle, &r->handle));
    else
        OK(MPI_Type_create_subarray(n, sizes, subsizes, starts, order, child->handle, &r->handle));
    total = dim_strides(n, sizes, order, strides);
    for (int64_t e = 0; e < total; e++) {
        bool is_inside = true;
        for (int d = 0; d < n; d++) {
            int64_t i = e / strides[d] % sizes[d];
            is_inside &= i >= starts[d] && i < starts[d] + subsizes[d];
        }
        if (is_inside)
            ref_place(r, child, e * ref_extent(child));
    }
    ref_set_markers(r, 0, total * ref_extent(child));
}

/* True if the process at this coordinate owns element i of a dimension. */
static bool owns(int64_t i, int g, int distrib, int darg, int p, int64_t coord)
{
    int64_t block = darg;

    if (distrib == MPI_DISTRIBUTE_NONE)
        return true;
    if (darg == MPI_DISTRIBUTE_DFLT_DARG)
        block = distrib == MPI_DISTRIBUTE_CYCLIC ? 1 : (g + p - 1) / p;
    return i / block % p == coord && (distrib == MPI_DISTRIBUTE_CYCLIC || i / block == coord);
}

static void make_darray(struct ref *r, const struct ref *child, bool is_large)
{
    int n = (int)pick(1, DIMS_MAX), order = rng() & 1 ? MPI_ORDER_C : MPI_ORDER_FORTRAN, size = 1, rank;
    int gsizes[DIMS_MAX], distribs[DIMS_MAX], dargs[DIMS_MAX], psizes[DIMS_MAX];
    MPI_Count large_gsizes[DIMS_MAX];
    int64_t strides[DIMS_MAX], coords[DIMS_MAX], total;

    for (int d = 0; d < n; d++) {
        static const int kinds[] = {MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
        distribs[d] = kinds[pick(0, 2)];
        large_gsizes[d] = gsizes[d] = (int)pick(1, 7);
        psizes[d] = distribs[d] == MPI_DISTRIBUTE_NONE ? 1 : (int)pick(1, 3);
        dargs[d] = distribs[d] == MPI_DISTRIBUTE_CYCLIC
                       ? (int)pick(1, 3)
                       : (gsizes[d] + psizes[d] - 1) / psizes[d] + (int)pick(0, 1);
        if (rng() & 1)
            dargs[d] = MPI_DISTRIBUTE_DFLT_DARG;
        size *= psizes[d];
    }
    rank = (int)pick(0, size - 1);
    for (int d = n - 1, rest = rank; d >= 0; d--) {
        coords[d] = rest % psizes[d];
        rest /= psizes[d];
    }
    if (is_large)
        OK(MPI_Type_create_darray_c(size, rank, n, large_gsizes, distribs, dargs, psizes, order,
                                    child->handle, &r->handle));
    else
        OK(MPI_Type_create_darray(size, rank, n, gsizes, distribs, dargs, psizes, order, child->handle,
                                  &r->handle));
    total = dim_strides(n, gsizes, order, strides);
    for (int64_t e = 0; e < total; e++) {
        bool is_mine = true;
        for (int d = 0; d < n; d++)
            is_mine &=
                owns(e / strides[d] % gsizes[d], gsizes[d], distribs[d], dargs[d], psizes[d], coords[d]);
        if (is_mine)
            ref_place(r, child, e * ref_extent(child));
    }
    ref_set_markers(r, 0, total * ref_extent(child));
}

static void make_struct(struct ref *r, struct ref *const *children, bool is_large)
{
    MPI_Datatype types[ARGS_MAX];
    struct args a;

    random_args(&a);
    r->is_struct = true;
    for (int i = 0; i < a.n; i++) {
        types[i] = children[i]->handle;
        if (children[i]->depth >= r->depth)
            r->depth = children[i]->depth + 1;
    }
    if (is_large)
        OK(MPI_Type_create_struct_c(a.n, a.large_lens, a.large_byte_disps, types, &r->handle));
    else
        OK(MPI_Type_create_struct(a.n, a.lens, a.byte_disps, types, &r->handle));
    for (int i = 0; i < a.n; i++)
        ref_place_block(r, children[i], a.byte_disps[i], a.lens[i]);
}

static void make_type(struct ref *r, struct ref *pool)
{
    static void (*const makers[])(struct ref *, const struct ref *, bool) = {
        make_contiguous,     make_vector,  make_hvector, make_indexed,  make_hindexed, make_indexed_block,
        make_hindexed_block, make_resized, make_dup,     make_subarray, make_darray,
    };
    size_t which = rng() % (BASE_COUNT(makers) + 3);
    const struct ref *child = &pool[rng() % POOL];
    bool is_large = rng() & 1;

    ref_init(r);
    if (which < BASE_COUNT(makers)) {
        r->depth = child->depth + 1;
        makers[which](r, child, is_large);
    } else {
        struct ref *children[ARGS_MAX];
        for (int i = 0; i < ARGS_MAX; i++)
            children[i] = i && rng() % 4 == 0 ? children[i - 1] : &pool[rng() % POOL];
        make_struct(r, children, is_large);
    }
}

/* ---- Checks ---- */

static void check_bounds(const struct ref *r)
{
    MPI_Count size, lb, extent, true_lb, true_extent;

    OK(MPI_Type_size_c(r->handle, &size));
    OK(MPI_Type_get_extent_c(r->handle, &lb, &extent));
    OK(MPI_Type_get_true_extent_c(r->handle, &true_lb, &true_extent));
    REQUIRE(size == r->size);
    REQUIRE(lb == r->lb);
    REQUIRE(extent == ref_extent(r));
    REQUIRE(true_lb == r->true_lb);
    REQUIRE(true_extent == r->true_ub - r->true_lb);
}

/* True if no byte belongs to two elements. */
static bool is_disjoint(const struct ref *r, int64_t count)
{
    memset(expected, 0, SPAN);
    for (int64_t k = 0; k < count; k++) {
        for (int i = 0; i < r->n; i++) {
            for (int b = 0; b < r->items[i].size; b++) {
                if (expected[SPAN / 2 + k * ref_extent(r) + r->items[i].disp + b]++)
                    return false;
            }
        }
    }
    return true;
}

/* Packs and unpacks in pieces, some of them after a seek. Data may only be received where no two elements
 * overlap. */
static void check_pieces(const struct ref *r, int64_t count)
{
    const struct ampi_type *type = ampi_type_of(r->handle);
    int64_t total = r->size * count, pos = 0, longest = pick(1, total + 1);
    bool may_unpack = is_disjoint(r, count);
    struct ampi_cursor in, out;

    memset(packed, 0x55, (size_t)total + 8);
    memset(target, 0x33, SPAN);
    memset(expected, 0x33, SPAN);
    ampi_cursor_init(&in, source + SPAN / 2, count, type);
    ampi_cursor_init(&out, target + SPAN / 2, count, type);
    while (pos < total) {
        size_t n = (size_t)pick(1, longest), rest = (size_t)(total - pos);
        if (rng() % 4 == 0) {
            ampi_cursor_seek(&in, pick(0, total));
            ampi_cursor_seek(&in, pos);
        }
        if (rng() % 8 == 0)
            ampi_cursor_seek(&out, pos);
        REQUIRE(ampi_cursor_pack(&in, packed + pos, n) == (n < rest ? n : rest));
        REQUIRE(ampi_cursor_unpack(&out, packed_expected + pos, n) == (n < rest ? n : rest));
        pos += n < rest ? (int64_t)n : (int64_t)rest;
        REQUIRE(in.packed_bytes == pos && out.packed_bytes == pos);
    }
    REQUIRE(ampi_cursor_pack(&in, packed + pos, 8) == 0);
    REQUIRE(packed[total] == 0x55);
    REQUIRE(!memcmp(packed, packed_expected, (size_t)total));
    ref_unpack(r, count, expected + SPAN / 2, packed_expected, total);
    REQUIRE(!may_unpack || !memcmp(target, expected, SPAN));
}

static void check_pack(const struct ref *r, int64_t count)
{
    int64_t total = r->size * count;
    MPI_Count position = 0;

    ref_pack(r, count, source + SPAN / 2, packed_expected);
    OK(MPI_Pack_c(source + SPAN / 2, count, r->handle, packed, PACKED_MAX, &position, MPI_COMM_WORLD));
    REQUIRE(position == total);
    REQUIRE(!memcmp(packed, packed_expected, (size_t)total));
}

/* The data of one type straight to the layout of another. */
static void check_copy(const struct ref *src, int64_t src_count, const struct ref *dst, int64_t dst_count)
{
    int64_t src_bytes = src->size * src_count, dst_bytes = dst->size * dst_count;
    int64_t n_bytes = src_bytes < dst_bytes ? src_bytes : dst_bytes;
    size_t copied;

    if (!is_disjoint(dst, dst_count))
        return;
    memset(target, 0x77, SPAN);
    memset(expected, 0x77, SPAN);
    ref_pack(src, src_count, source + SPAN / 2, packed_expected);
    ref_unpack(dst, dst_count, expected + SPAN / 2, packed_expected, n_bytes);
    copied = ampi_type_copy(target + SPAN / 2, dst_count, ampi_type_of(dst->handle), source + SPAN / 2,
                            src_count, ampi_type_of(src->handle));
    REQUIRE(copied == (size_t)n_bytes);
    REQUIRE(!memcmp(target, expected, SPAN));
}

static void check_elements(const struct ref *r)
{
    MPI_Count n_bytes = pick(0, 3 * r->size + 1), n, position;
    MPI_Status status;

    memset(&status, 0, sizeof status);
    OK(MPI_Status_set_elements_c(&status, MPI_BYTE, n_bytes));
    OK(MPI_Get_elements_c(&status, r->handle, &n));
    REQUIRE(n == ref_elements(r, n_bytes));
    if (n == MPI_UNDEFINED || r->size == 0)
        return;
    OK(MPI_Status_set_elements_c(&status, r->handle, n));
    OK(MPI_Get_count_c(&status, MPI_BYTE, &position));
    REQUIRE(position == n_bytes);
}

/* From external32 and back; types with elements of 16 bytes may hold long doubles, which round. */
static void check_external(const struct ref *r, int64_t count)
{
    MPI_Count size, position = 0;
    bool has_quads = false;

    if (!is_disjoint(r, count))
        return;
    for (int i = 0; i < r->n; i++)
        has_quads |= r->items[i].size == 16;
    OK(MPI_Pack_external_size_c("external32", count, r->handle, &size));
    for (int64_t i = 0; i < size; i++)
        packed[i] = (char)rng();
    OK(MPI_Unpack_external_c("external32", packed, size, &position, target + SPAN / 2, count, r->handle));
    REQUIRE(position == size);
    position = 0;
    OK(MPI_Pack_external_c("external32", target + SPAN / 2, count, r->handle, packed_expected, size,
                           &position));
    REQUIRE(position == size);
    REQUIRE(has_quads || !memcmp(packed, packed_expected, (size_t)size));
}

/* Decodes, makes a type from what was decoded, decodes that, and compares; returns the new type. */
static void check_contents(const struct ref *r, struct ref *copy)
{
    struct contents first, second;
    MPI_Datatype handle;

    decode(r->handle, &first);
    rebuild(&first, &handle);
    decode(handle, &second);
    REQUIRE(first.combiner == second.combiner);
    REQUIRE(first.n_ints == second.n_ints && first.n_aints == second.n_aints);
    REQUIRE(first.n_counts == second.n_counts && first.n_types == second.n_types);
    REQUIRE(!memcmp(first.ints, second.ints, sizeof first.ints));
    REQUIRE(!memcmp(first.aints, second.aints, sizeof first.aints));
    REQUIRE(!memcmp(first.counts, second.counts, sizeof first.counts));
    REQUIRE(!memcmp(first.types, second.types, sizeof first.types));
    free_types(&first);
    free_types(&second);
    *copy = *r;
    copy->handle = handle;
    check_bounds(copy);
}

static bool fits(const struct ref *r, int64_t count)
{
    int64_t far = (count - 1) * ref_extent(r);
    int64_t low = r->true_lb + (far < 0 ? far : 0), high = r->true_ub + (far > 0 ? far : 0);

    return r->n <= REF_ITEMS_MAX && low > -SPAN / 2 && high < SPAN / 2;
}

static void check_type(struct ref *r, const struct ref *other)
{
    int64_t count = pick(1, 3), other_count = pick(1, 3);
    struct ref copy;

    check_bounds(r);
    check_contents(r, &copy);
    OK(MPI_Type_commit(&r->handle));
    check_bounds(r);
    if (!fits(r, count))
        count = 1;
    check_pack(r, count);
    check_pieces(r, count);
    check_elements(r);
    check_external(r, count);
    OK(MPI_Type_commit(&copy.handle));
    check_pack(&copy, count);
    OK(MPI_Type_free(&copy.handle));
    if (other && fits(other, other_count)) {
        check_copy(r, count, other, other_count);
        check_copy(other, other_count, r, count);
    }
}

/* ---- The pool of types that new ones are made of ---- */

static void fill(struct ref *r)
{
    switch (rng() % 10) {
    case 0:
        ref_basic(r, MPI_CHAR, 1, 0, 0, 1);
        break;
    case 1:
        ref_basic(r, MPI_SHORT, 2, 0, 0, 2);
        break;
    case 2:
        ref_basic(r, MPI_INT, 4, 0, 0, 4);
        break;
    case 3:
        ref_basic(r, MPI_DOUBLE, 8, 0, 0, 8);
        break;
    case 4:
        ref_basic(r, MPI_LONG_DOUBLE, 16, 0, 0, 16);
        break;
    case 5:
        ref_basic(r, MPI_SHORT_INT, 2, 4, 4, 4);
        break;
    case 6:
        ref_basic(r, MPI_DOUBLE_INT, 8, 8, 4, 8);
        break;
    case 7:
        ref_basic(r, MPI_C_DOUBLE_COMPLEX, 16, 0, 0, 8);
        break;
    case 8:
        ref_basic(r, MPI_BYTE, 1, 0, 0, 1);
        break;
    default:
        ref_basic(r, MPI_LONG, 8, 0, 0, 8);
        break;
    }
}

static void drop(struct ref *r)
{
    if (!r->is_named)
        OK(MPI_Type_free(&r->handle));
    free(r->items);
}

static long env_long(const char *name, long otherwise)
{
    const char *value = getenv(name);

    return value ? atol(value) : otherwise;
}

START_TEST(random_types)
{
    long n_types = env_long("HEDDLE_FUZZ_TYPES", 100000), n_deep = 0;
    struct ref pool[POOL], made;

    datatype_rank_start();
    rng_state = 0x9e3779b97f4a7c15u * (uint64_t)env_long("HEDDLE_FUZZ_SEED", 1);
    for (int i = 0; i < POOL; i++)
        fill(&pool[i]);
    for (int i = 0; i < SPAN; i++)
        source[i] = (char)rng();
    for (type_number = 0; type_number < n_types;) {
        struct ref *slot = &pool[rng() % POOL], *other = &pool[rng() % POOL];
        make_type(&made, pool);
        if (made.n <= REF_ITEMS_MAX)
            ref_finish(&made);
        if (!fits(&made, 1) || llabs(made.lb) > SPAN || llabs(made.ub) > SPAN) {
            drop(&made); /* too large for the buffers */
            continue;
        }
        type_number++;
        n_deep += made.depth >= 4;
        check_type(&made, other->is_named || ampi_type_of(other->handle)->is_committed ? other : NULL);
        drop(slot);
        *slot = made;
        if (rng() % 8 == 0 || slot->n > REF_ITEMS_MAX / 8 || slot->depth > 12) {
            drop(slot);
            fill(slot);
        }
    }
    for (int i = 0; i < POOL; i++)
        drop(&pool[i]);
    ck_assert_msg(n_types < 1000 || n_deep > n_types / 10, "only %ld of %ld types were nested deeply", n_deep,
                  n_types);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("datatype_fuzz");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    if (argc > 1)
        setenv("HEDDLE_FUZZ_TYPES", argv[1], 1);
    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, random_types);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed > 0;
}
