/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that runs of blocks overlap exactly if they have a byte in common, and that those of a datatype cover its data: random
 * ones agree with a map of bytes.
 */
#include <check.h>
#include <string.h>

#include "ampi/misuse/runs.h"
#include "datatype_rank.h"

#define N_BYTES 800

static uint32_t random_state;

static size_t pick(size_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

static struct ampi_misuse_run pick_run(size_t stride)
{
    size_t block = 1 + pick(stride && stride < 9 ? stride : 9), n = 1 + pick(12), begin = 1 + pick(200);

    if (!stride)
        stride = block + pick(20);
    return (struct ampi_misuse_run){.interval = {.begin = begin, .end = begin + (n - 1) * stride + block},
                                    .block_bytes = block,
                                    .stride = stride};
}

static bool mark(const struct ampi_misuse_run *run, void *arg)
{
    unsigned char *map = arg;

    for (uintptr_t at = run->interval.begin; at < run->interval.end; at += run->stride)
        for (size_t i = 0; i < run->block_bytes; i++)
            map[at + i]++;
    return true;
}

START_TEST(overlaps_agree_with_a_map)
{
    for (int round = 0; round < 200000; round++) {
        struct ampi_misuse_run a = pick_run(0), b = pick_run(pick(2) ? a.stride : 0);
        unsigned char map_a[N_BYTES] = {0}, map_b[N_BYTES] = {0};
        uintptr_t begin = 0, end = 0;
        bool is_shared = false;
        mark(&a, map_a);
        mark(&b, map_b);
        for (int i = 0; i < N_BYTES; i++)
            is_shared |= map_a[i] && map_b[i];
        ck_assert_int_eq(ampi_misuse_runs_overlap(&a, &b, &begin, &end), is_shared);
        ck_assert(!is_shared || begin < end);
        for (uintptr_t i = begin; i < end; i++)
            ck_assert(map_a[i] && map_b[i]);
    }
}
END_TEST

START_TEST(runs_cover_a_datatype)
{
    for (int round = 0; round < 2000; round++) {
        enum { N = 20 };
        int lengths[N], places[N], at = 0;
        unsigned char map[N_BYTES] = {0}, runs[N_BYTES] = {0};
        MPI_Datatype type;
        for (int i = 0; i < N; i++) {
            lengths[i] = pick(3) || i == 0 ? (i == 0 ? 2 : lengths[i - 1]) : (int)pick(5);
            places[i] = at;
            at += lengths[i] + (pick(3) ? 4 : (int)pick(9));
            memset(map + 1 + places[i], 1, (size_t)lengths[i]);
        }
        ck_assert_int_eq(MPI_Type_indexed(N, lengths, places, MPI_BYTE, &type), MPI_SUCCESS);
        ck_assert_int_eq(MPI_Type_commit(&type), MPI_SUCCESS);
        ampi_misuse_each_run((const void *)1, 1, ampi_type_of(type), mark, runs);
        ck_assert_int_eq(memcmp(map, runs, sizeof map), 0);
        MPI_Type_free(&type);
    }
}
END_TEST

static bool check_and_mark(const struct ampi_misuse_run *run, void *arg)
{
    ck_assert_uint_le(run->block_bytes, run->stride);
    ck_assert_uint_eq((run->interval.end - run->interval.begin - run->block_bytes) % run->stride, 0);
    return mark(run, arg);
}

static bool count(const struct ampi_misuse_run *run, void *arg)
{
    struct ampi_misuse_run *sum = arg;

    sum->block_bytes = run->block_bytes;
    sum->stride++;
    return true;
}

/* The columns of a matrix, one after the other: its transposition. */
START_TEST(columns_are_one_run)
{
    for (int i = 0; i < 6; i++) {
        int width = 3 + i / 2;
        bool is_backward = i % 2 != 0;
        struct ampi_misuse_run sum = {0};
        unsigned char runs[N_BYTES] = {0};
        MPI_Datatype column, placed;
        ck_assert_int_eq(MPI_Type_vector(6, 2, 10, MPI_BYTE, &column), MPI_SUCCESS);
        ck_assert_int_eq(MPI_Type_create_resized(column, 0, is_backward ? -2 : 2, &placed), MPI_SUCCESS);
        ck_assert_int_eq(MPI_Type_commit(&placed), MPI_SUCCESS);
        const void *first = (const void *)(uintptr_t)(is_backward ? 2 * width - 1 : 1);
        ampi_misuse_each_run(first, width, ampi_type_of(placed), mark, runs);
        for (int k = 0; k < 60; k++)
            ck_assert_int_eq(runs[1 + k], k % 10 < 2 * width);
        ampi_misuse_each_run(first, width, ampi_type_of(placed), count, &sum);
        ck_assert_int_eq(sum.stride, 1);
        ck_assert_int_eq(sum.block_bytes, width < 5 ? 2 * width : 60);
        MPI_Type_free(&column);
        MPI_Type_free(&placed);
    }
}
END_TEST

/* Columns in any places, which may overlap, as those of a send may. */
START_TEST(runs_cover_columns)
{
    for (int round = 0; round < 5000; round++) {
        int n = 1 + (int)pick(4), stride = 1 + (int)pick(10), width = 1 + (int)pick((size_t)stride), at = 0;
        unsigned char map[N_BYTES] = {0}, runs[N_BYTES] = {0};
        MPI_Aint places[4];
        int ones[4] = {1, 1, 1, 1};
        MPI_Datatype column, type;
        for (int i = 0; i < n; i++) {
            places[i] = at;
            for (int j = 0; j < 6 * width; j++)
                map[1 + at + j / width * stride + j % width] = 1;
            at += pick(3) ? width : (int)pick(30);
        }
        for (int i = 0; i < n / 2 && round % 2; i++) {
            MPI_Aint place = places[i];
            places[i] = places[n - 1 - i];
            places[n - 1 - i] = place;
        }
        ck_assert_int_eq(MPI_Type_vector(6, width, stride, MPI_BYTE, &column), MPI_SUCCESS);
        ck_assert_int_eq(MPI_Type_create_hindexed(n, ones, places, column, &type), MPI_SUCCESS);
        ck_assert_int_eq(MPI_Type_commit(&type), MPI_SUCCESS);
        ampi_misuse_each_run((const void *)1, 1, ampi_type_of(type), check_and_mark, runs);
        for (int i = 0; i < N_BYTES; i++)
            ck_assert_int_eq(runs[i] != 0, map[i]);
        MPI_Type_free(&column);
        MPI_Type_free(&type);
    }
}
END_TEST

struct query {
    const struct ampi_misuse_run *run;
    int n_visits;
};

static bool overlaps(const struct ampi_misuse_run *run, void *arg)
{
    struct query *query = arg;
    uintptr_t begin, end;

    query->n_visits++;
    return ampi_misuse_runs_overlap(run, query->run, &begin, &end);
}

/* Runs come and go; there are more strides than sets. */
START_TEST(a_set_finds_what_overlaps)
{
    enum { N = 30 };
    static struct ampi_misuse_run runs[N];
    struct ampi_misuse_memory memory = {0};
    bool is_in[N] = {false};

    for (int round = 0; round < 200000; round++) {
        size_t i = pick(N);
        struct ampi_misuse_run run = pick_run(pick(3) ? 10 + pick(2) : 0);
        struct query query = {&run, 0};
        const struct ampi_misuse_run *found;
        bool is_any = false;
        if (is_in[i]) {
            ampi_misuse_memory_remove(&memory, &runs[i]);
        } else {
            runs[i] = pick_run(pick(3) ? 10 + pick(2) : 0);
            ampi_misuse_memory_add(&memory, &runs[i]);
        }
        is_in[i] = !is_in[i];
        for (int k = 0; k < N; k++)
            is_any |= is_in[k] && overlaps(&runs[k], &query);
        found = ampi_misuse_memory_find(&memory, &run, overlaps, &query);
        ck_assert_int_eq(found != NULL, is_any);
        ck_assert(!found || overlaps(found, &query));
    }
}
END_TEST

/* All columns of a matrix have addresses in common; so do the parts of one column, and their residues are the same. */
START_TEST(columns_of_a_matrix_do_not_meet)
{
    enum { N = 4000, STRIDE = 8 * N, N_ROWS = 32 };
    static struct ampi_misuse_run runs[2 * N];
    struct ampi_misuse_memory memory = {0};
    struct query query = {0};
    size_t reach = (N_ROWS - 1) * STRIDE + 8;

    for (size_t i = 0; i < 2 * N; i++) {
        uintptr_t begin = i < N ? STRIDE + i * 8 : STRIDE * (N_ROWS * (i - N + 1) + 1);
        runs[i] = (struct ampi_misuse_run){
            .interval = {.begin = begin, .end = begin + reach}, .block_bytes = 8, .stride = STRIDE};
        query.run = &runs[i];
        ck_assert_ptr_null(ampi_misuse_memory_find(&memory, &runs[i], overlaps, &query));
        ampi_misuse_memory_add(&memory, &runs[i]);
    }
    ck_assert_int_lt(query.n_visits, 300 * N); /* 8 million if each met all */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("misuse_runs");
    TCase *cases = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    tcase_add_checked_fixture(cases, datatype_rank_start, NULL);
    tcase_set_timeout(cases, 120);
    tcase_add_test(cases, overlaps_agree_with_a_map);
    tcase_add_test(cases, runs_cover_a_datatype);
    tcase_add_test(cases, columns_are_one_run);
    tcase_add_test(cases, runs_cover_columns);
    tcase_add_test(cases, a_set_finds_what_overlaps);
    tcase_add_test(cases, columns_of_a_matrix_do_not_meet);
    suite_add_tcase(suite, cases);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
