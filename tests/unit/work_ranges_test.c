/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that sets of ranges equal a bitmap after random additions and removals, that rows overlap exactly if they have a byte in common, and that the
 * room of a GPU hands out blocks that do not overlap and joins them when they come back.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "ampi/work/ranges.h"
#include "gpu/work/device_room.h"

enum { BYTES = 200, STEPS = 3000 };

static unsigned long seed = 1;

static unsigned any(unsigned n)
{
    seed = seed * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(seed >> 33) % n;
}

static void check_set(const struct ampi_ranges *set, const bool *bits)
{
    int n_wrong = 0;

    for (int i = 0; i < BYTES; i++)
        n_wrong += ampi_ranges_overlap(set, (uintptr_t)i, (uintptr_t)i + 1) != bits[i];
    for (int i = 0; i < set->n; i++)
        n_wrong +=
            set->list[i].from >= set->list[i].to || (i > 0 && set->list[i - 1].to >= set->list[i].from);
    ck_assert_int_eq(n_wrong, 0);
}

static void check_question(const struct ampi_ranges *set, const bool *bits)
{
    unsigned from = any(BYTES), to = from + 1 + any(BYTES - from), n = 0, n_wrong = 0;
    struct ampi_range part;

    for (unsigned i = from; i < to; i++)
        n += bits[i];
    ck_assert_int_eq(ampi_ranges_overlap(set, from, to), n > 0);
    ck_assert_int_eq(ampi_ranges_contain(set, from, to), n == to - from);
    if (ampi_ranges_first(set, from, to, &part))
        for (unsigned i = from; i <= part.to && i < to; i++)
            n_wrong += bits[i] != (i >= part.from && i < part.to);
    if (ampi_ranges_first_gap(set, from, to, &part))
        for (unsigned i = from; i <= part.to && i < to; i++)
            n_wrong += !bits[i] != (i >= part.from && i < part.to);
    ck_assert_int_eq(n_wrong, 0);
}

static struct ampi_rows any_rows(bool *bits)
{
    struct ampi_rows rows = {.row_bytes = 1 + any(9), .n = 1 + any(6)};

    rows.stride = rows.row_bytes + any(12);
    rows.from = any(BYTES - (unsigned)((rows.n - 1) * rows.stride + rows.row_bytes) + 1);
    memset(bits, 0, BYTES);
    for (size_t i = 0; i < rows.n; i++)
        memset(bits + ampi_rows_get(&rows, i).from, 1, rows.row_bytes);
    return rows;
}

START_TEST(sets_equal_a_bitmap)
{
    struct ampi_ranges set = {0};
    bool bits[BYTES] = {0};

    for (int step = 0; step < STEPS; step++) {
        unsigned from = any(BYTES), n = 1 + any(any(4) ? 8 : BYTES - from);
        bool is_added = any(2);
        n = n > BYTES - from ? BYTES - from : n;
        (is_added ? ampi_ranges_add : ampi_ranges_remove)(&set, from, from + n);
        memset(bits + from, is_added, n);
        check_set(&set, bits);
        check_question(&set, bits);
        if (any(2)) {
            bool bits_of_rows[BYTES];
            struct ampi_rows rows = any_rows(bits_of_rows);
            is_added = any(2);
            (is_added ? ampi_ranges_add_rows : ampi_ranges_remove_rows)(&set, &rows);
            for (int i = 0; i < BYTES; i++)
                bits[i] = bits_of_rows[i] ? is_added : bits[i];
            check_set(&set, bits);
        }
    }
    ampi_ranges_free(&set);
}
END_TEST

START_TEST(rows_overlap_if_they_share_a_byte)
{
    for (int step = 0; step < STEPS; step++) {
        bool bits_a[BYTES], bits_b[BYTES], is_shared = false;
        size_t n_shared = 0;
        struct ampi_rows a = any_rows(bits_a), b = any_rows(bits_b);
        struct ampi_ranges set = {0};
        for (int i = 0; i < BYTES; i++)
            n_shared += bits_a[i] && bits_b[i];
        is_shared = n_shared > 0;
        ck_assert_int_eq(ampi_rows_overlap(&a, &b), is_shared);
        ampi_ranges_add_rows(&set, &a);
        ck_assert_int_eq(ampi_ranges_overlap_rows(&set, &b), is_shared);
        ck_assert_uint_eq(ampi_ranges_count_rows(&set, &b), n_shared);
        check_set(&set, bits_a);
        ampi_ranges_free(&set);
    }
}
END_TEST

/* Two pieces that touch: blocks never cross their border. In the end both are whole again. */
START_TEST(room_hands_out_free_blocks)
{
    enum { UNITS = 64, BLOCKS = 40, BASE = 1000 };
    struct gpu_room room = {0};
    struct gpu_room_piece piece;
    uint64_t at[BLOCKS];
    size_t n[BLOCKS] = {0};
    bool is_taken[2 * UNITS] = {0};

    gpu_room_add(&room, BASE + UNITS, UNITS);
    gpu_room_add(&room, BASE, UNITS);
    for (int step = 0; step < STEPS; step++) {
        unsigned i = any(BLOCKS), wanted = 1 + any(10);
        if (n[i] > 0) {
            gpu_room_give(&room, at[i], n[i]);
            memset(is_taken + at[i] - BASE, 0, n[i]);
            n[i] = 0;
        } else if (gpu_room_take(&room, wanted, &at[i])) {
            n[i] = wanted;
            ck_assert((at[i] - BASE) / UNITS == (at[i] - BASE + wanted - 1) / UNITS);
            for (unsigned j = 0; j < wanted; j++)
                ck_assert(!is_taken[at[i] - BASE + j]);
            memset(is_taken + at[i] - BASE, 1, wanted);
        }
    }
    for (int i = 0; i < BLOCKS; i++)
        if (n[i] > 0)
            gpu_room_give(&room, at[i], n[i]);
    ck_assert_int_eq(room.n_free, 2);
    ck_assert(room.free[0].n_bytes == UNITS && room.free[1].n_bytes == UNITS);
    ck_assert(!gpu_room_take(&room, UNITS + 1, &at[0]));
    ck_assert(gpu_room_take(&room, 1, &at[0]));
    ck_assert(gpu_room_remove(&room, &piece) && piece.at == BASE + UNITS && piece.n_bytes == UNITS);
    ck_assert(!gpu_room_remove(&room, &piece));
    gpu_room_give(&room, at[0], 1);
    ck_assert(gpu_room_remove(&room, &piece) && piece.at == BASE && piece.n_bytes == UNITS);
    ck_assert(room.n_free == 0 && room.n_pieces == 0);
    free(room.free);
    free(room.pieces);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("work_ranges");
    TCase *tests = tcase_create("ranges");
    SRunner *runner;
    int n_failed;

    tcase_add_test(tests, sets_equal_a_bitmap);
    tcase_add_test(tests, rows_overlap_if_they_share_a_byte);
    tcase_add_test(tests, room_hands_out_free_blocks);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
