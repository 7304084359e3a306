/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Typemap programs are merged, position-independent, and as small as the description of the type; deep ones
 * are walked with the cursor's few frames.
 */
#include <check.h>

#include "ampi/datatype/typemap.h"
#include "datatype_rank.h"

static struct ampi_type *committed(MPI_Datatype *handle)
{
    ck_assert_int_eq(MPI_Type_commit(handle), MPI_SUCCESS);
    return ampi_type_of(*handle);
}

static const struct base_node *root_of(const struct ampi_type *type)
{
    ck_assert_ptr_nonnull(type->map);
    return base_layout_node(type->map->words, type->map->root);
}

START_TEST(neighbours_become_one_block)
{
    MPI_Datatype a, b;

    datatype_rank_start();
    MPI_Type_vector(10, 3, 3, MPI_INT, &a);
    MPI_Type_contiguous(7, a, &b);
    ck_assert(committed(&b)->is_dense);
    ck_assert_ptr_null(ampi_type_of(b)->map);
    MPI_Type_free(&a);
    MPI_Type_free(&b);
    MPI_Type_create_struct(3, (int[]){1, 1, 2}, (MPI_Aint[]){16, 20, 24},
                           (MPI_Datatype[]){MPI_INT, MPI_FLOAT, MPI_DOUBLE}, &a);
    ck_assert(committed(&a)->is_dense);
    ck_assert_int_eq(ampi_type_of(a)->true_lb_bytes, 16);
    MPI_Type_free(&a);
}
END_TEST

START_TEST(even_blocks_become_one_loop)
{
    MPI_Datatype a, b, c;
    const struct base_node *root;
    int displacements[1000];

    datatype_rank_start();
    MPI_Type_vector(5, 1, 2, MPI_DOUBLE, &a);
    MPI_Type_create_resized(a, 0, 80, &b);
    MPI_Type_contiguous(8, b, &c);
    root = root_of(committed(&c));
    ck_assert(root->kind == BASE_NODE_STRIDED && root->n == 40 && root->stride == 16 && root->unit == 8);
    MPI_Type_free(&a);
    MPI_Type_free(&b);
    MPI_Type_free(&c);
    for (int i = 0; i < 1000; i++)
        displacements[i] = 3 * i;
    MPI_Type_create_indexed_block(1000, 2, displacements, MPI_INT, &a);
    root = root_of(committed(&a));
    ck_assert(root->kind == BASE_NODE_STRIDED && root->n == 1000 && root->stride == 12 && root->unit == 8);
    ck_assert_int_eq(ampi_type_of(a)->map->n_words, BASE_NODE_WORDS);
    MPI_Type_free(&a);
}
END_TEST

START_TEST(memory_follows_the_description)
{
    MPI_Datatype type, next;

    datatype_rank_start();
    MPI_Type_vector(1000000, 1, 2, MPI_INT, &type);
    ck_assert_int_eq(committed(&type)->map->n_words, BASE_NODE_WORDS);
    MPI_Type_free(&type);
    /* Each level has the one below twice: 2^40 blocks, 40 structs. */
    MPI_Type_vector(5, 1, 2, MPI_CHAR, &type);
    for (int level = 0; level < 40; level++) {
        MPI_Aint extent = ampi_type_of(type)->extent_bytes;
        MPI_Type_create_struct(3, (int[]){1, 1, 1}, (MPI_Aint[]){0, extent + 3, 2 * extent + 9},
                               (MPI_Datatype[]){type, type, MPI_CHAR}, &next);
        MPI_Type_free(&type);
        type = next;
    }
    ck_assert_int_lt(committed(&type)->map->n_words, 40 * 40);
    MPI_Type_free(&type);
}
END_TEST

#define LEVELS 100

START_TEST(deep_types_are_walked)
{
    static char in[LEVELS * 8 + 64], out[3 * LEVELS], want[3 * LEVELS];
    MPI_Datatype type, next;
    struct ampi_cursor cursor;
    int n = 1;

    datatype_rank_start();
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (char)(i * 7);
    /* Level k: a byte at 8k + 1, everything below, a byte at 8k + 4. */
    MPI_Type_contiguous(1, MPI_CHAR, &type);
    want[LEVELS] = in[0];
    for (int level = 1; level <= LEVELS; level++, n += 2) {
        MPI_Type_create_struct(3, (int[]){1, 1, 1}, (MPI_Aint[]){8 * level + 1, 0, 8 * level + 4},
                               (MPI_Datatype[]){MPI_CHAR, type, MPI_CHAR}, &next);
        MPI_Type_free(&type);
        type = next;
        want[LEVELS - level] = in[8 * level + 1];
        want[LEVELS + level] = in[8 * level + 4];
    }
    committed(&type);
    for (size_t piece = 1; piece < 20; piece += 3) {
        size_t done = 0, got;
        memset(out, 0, sizeof out);
        ampi_cursor_init(&cursor, in, 1, ampi_type_of(type));
        while ((got = ampi_cursor_pack(&cursor, out + done, piece)) > 0)
            done += got;
        ck_assert_uint_eq(done, (size_t)n);
        ck_assert(!memcmp(out, want, (size_t)n));
    }
    for (int at = 0; at < n; at++) {
        ampi_cursor_seek(&cursor, at);
        ck_assert_uint_eq(ampi_cursor_pack(&cursor, out, 1), 1);
        ck_assert_int_eq(out[0], want[at]);
    }
    MPI_Type_free(&type);
}
END_TEST

START_TEST(programs_can_be_moved)
{
    char in[64], a[32], b[32];
    MPI_Datatype type;
    struct ampi_type moved;
    size_t n_bytes;

    datatype_rank_start();
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (char)i;
    MPI_Type_indexed(3, (int[]){1, 3, 2}, (int[]){9, 1, 5}, MPI_SHORT, &type);
    moved = *committed(&type);
    n_bytes = sizeof *moved.map + (size_t)moved.map->n_words * sizeof(int64_t);
    moved.map = memcpy(malloc(n_bytes), moved.map, n_bytes);
    ampi_type_copy(a, 12, ampi_type_of(MPI_BYTE), in, 1, ampi_type_of(type));
    ampi_type_copy(b, 12, ampi_type_of(MPI_BYTE), in, 1, &moved);
    ck_assert(!memcmp(a, b, 12));
    ck_assert(a[0] == 18 && a[2] == 2 && a[8] == 10);
    free(moved.map);
    MPI_Type_free(&type);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("datatype_typemap");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, neighbours_become_one_block);
    tcase_add_test(tcase, even_blocks_become_one_loop);
    tcase_add_test(tcase, memory_follows_the_description);
    tcase_add_test(tcase, deep_types_are_walked);
    tcase_add_test(tcase, programs_can_be_moved);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed > 0;
}
