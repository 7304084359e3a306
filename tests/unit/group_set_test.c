/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that groups behave like ordered sets: every operation agrees with a naive one on plain arrays, for
 * random groups; that sequences are stored without a list, and equal lists once.
 */
#include <check.h>

#include "ampi/comm/group.h"
#include "datatype_rank.h"

#define N_WORLD 60
#define N_ROUNDS 3000

static unsigned random_state = 99;

static int next_random(int below)
{
    random_state = random_state * 1103515245u + 12345u;
    return (int)((random_state >> 16) % (unsigned)below);
}

/* The naive group: an array of world ranks. */
struct naive {
    int n;
    int ranks[2 * N_WORLD];
};

static int naive_find(const struct naive *set, int rank)
{
    for (int i = 0; i < set->n; i++) {
        if (set->ranks[i] == rank)
            return i;
    }
    return MPI_UNDEFINED;
}

/* Of world ranks below n_world. */
static struct naive random_naive_below(int n_world)
{
    struct naive set = {0};
    int n = next_random(12);

    if (next_random(2)) { /* a sequence */
        int stride = next_random(2) ? 1 + next_random(4) : -1 - next_random(4);
        int first = next_random(n_world);
        for (int i = 0; i < n && first + i * stride >= 0 && first + i * stride < n_world; i++)
            set.ranks[set.n++] = first + i * stride;
        return set;
    }
    while (set.n < n && set.n < n_world) {
        int rank = next_random(n_world);
        if (naive_find(&set, rank) == MPI_UNDEFINED)
            set.ranks[set.n++] = rank;
    }
    return set;
}

static struct naive random_naive(void)
{
    return random_naive_below(N_WORLD);
}

static void check_same(const struct ampi_group *group, const struct naive *want)
{
    ck_assert_int_eq(group->n_ranks, want->n);
    for (int i = 0; i < want->n; i++)
        ck_assert_int_eq(ampi_group_world_rank(group, i), want->ranks[i]);
    for (int rank = -1; rank <= N_WORLD; rank++)
        ck_assert_int_eq(ampi_group_find(group, rank), naive_find(want, rank));
}

static struct naive naive_filter(const struct naive *a, const struct naive *b, bool want_in_b)
{
    struct naive set = {0};

    for (int i = 0; i < a->n; i++) {
        if ((naive_find(b, a->ranks[i]) != MPI_UNDEFINED) == want_in_b)
            set.ranks[set.n++] = a->ranks[i];
    }
    return set;
}

static int naive_compare(const struct naive *a, const struct naive *b)
{
    if (a->n != b->n || naive_filter(a, b, false).n > 0)
        return MPI_UNEQUAL;
    return memcmp(a->ranks, b->ranks, (size_t)a->n * sizeof(int)) == 0 ? MPI_IDENT : MPI_SIMILAR;
}

START_TEST(operations_agree_with_naive_sets)
{
    for (int round = 0; round < N_ROUNDS; round++) {
        struct naive a = random_naive(), b = random_naive(), want;
        struct ampi_group *x = ampi_group_create_list(a.ranks, a.n);
        struct ampi_group *y = ampi_group_create_list(b.ranks, b.n);
        struct ampi_group *made;

        check_same(x, &a);
        ck_assert_int_eq(ampi_group_compare(x, y), naive_compare(&a, &b));
        made = ampi_group_intersection(x, y);
        want = naive_filter(&a, &b, true);
        check_same(made, &want);
        ampi_group_unref(made);
        made = ampi_group_difference(x, y);
        want = naive_filter(&a, &b, false);
        check_same(made, &want);
        ampi_group_unref(made);
        made = ampi_group_union(x, y);
        want = naive_filter(&b, &a, false);
        memmove(want.ranks + a.n, want.ranks, (size_t)want.n * sizeof(int));
        memcpy(want.ranks, a.ranks, (size_t)a.n * sizeof(int));
        want.n += a.n;
        check_same(made, &want);
        ampi_group_unref(made);
        ampi_group_unref(x);
        ampi_group_unref(y);
    }
}
END_TEST

static int naive_stranger(const struct naive *a, const struct naive *b)
{
    int i = 0;

    while (i < a->n && naive_find(b, a->ranks[i]) != MPI_UNDEFINED)
        i++;
    return i;
}

/* Few ranks, so that groups are often parts of others. They stay for a while, so that results are remembered, and are
 * then replaced. */
START_TEST(strangers_agree_with_naive_sets)
{
    enum { N_GROUPS = 6 };
    struct naive sets[N_GROUPS];
    struct ampi_group *groups[N_GROUPS];

    for (int round = 0; round < 40 * N_ROUNDS; round++) {
        int i = round < N_GROUPS ? round : next_random(N_GROUPS), k,
            n_now = round < N_GROUPS ? i + 1 : N_GROUPS;

        if (round < N_GROUPS || next_random(8) == 0) {
            if (round >= N_GROUPS)
                ampi_group_unref(groups[i]);
            sets[i] = random_naive_below(8);
            groups[i] = ampi_group_create_list(sets[i].ranks, sets[i].n);
        }
        k = next_random(n_now);
        ck_assert_int_eq(ampi_group_find_stranger(groups[i], groups[k]), naive_stranger(&sets[i], &sets[k]));
    }
    for (int i = 0; i < N_GROUPS; i++)
        ampi_group_unref(groups[i]);
}
END_TEST

START_TEST(thousands_of_lists_are_found)
{
    enum { N = 20000 };
    struct ampi_group **groups = calloc(N, sizeof *groups), *again;

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++)
            if (!groups[i])
                groups[i] = ampi_group_create_list((int[]){i, i + 1, i + 7}, 3);
        for (int i = 0; i < N; i++) {
            again = ampi_group_create_list((int[]){i, i + 1, i + 7}, 3);
            ck_assert_ptr_eq(again, groups[i]);
            ampi_group_unref(again);
        }
        for (int i = 0; i < N; i++)
            if (round == 2 || next_random(2)) {
                ampi_group_unref(groups[i]);
                groups[i] = NULL;
            }
    }
    free(groups);
}
END_TEST

START_TEST(sequences_have_no_list)
{
    int evens[5] = {2, 4, 6, 8, 10}, downward[3] = {9, 6, 3}, odd[3] = {1, 2, 4};
    struct ampi_group *world = ampi_group_create_range(0, 1, 10000);
    struct ampi_group *group = ampi_group_incl(world, 5, evens);
    struct ampi_group *other;

    ck_assert_ptr_null(group->list);
    ck_assert_int_eq(group->stride, 2);
    ampi_group_unref(group);
    group = ampi_group_incl(world, 3, downward);
    ck_assert_ptr_null(group->list);
    ck_assert_int_eq(group->stride, -3);
    ampi_group_unref(group);
    group = ampi_group_excl(world, 1, (int[]){0});
    ck_assert_ptr_null(group->list);
    ck_assert_int_eq(group->n_ranks, 9999);
    other = ampi_group_union(world, group);
    ck_assert_ptr_null(other->list);
    ampi_group_unref(other);
    ampi_group_unref(group);
    group = ampi_group_incl(world, 3, odd);
    ck_assert_ptr_nonnull(group->list);
    ampi_group_unref(group);
    ampi_group_unref(world);
}
END_TEST

START_TEST(equal_lists_are_one_object)
{
    int list[4] = {5, 1, 7, 2};
    struct ampi_group *a = ampi_group_create_list(list, 4);
    struct ampi_group *b = ampi_group_create_list(list, 4);

    ck_assert_ptr_eq(a, b);
    ampi_group_unref(a);
    ck_assert_int_eq(ampi_group_find(b, 7), 2);
    ampi_group_unref(b);
}
END_TEST

START_TEST(ranges_through_the_interface)
{
    struct ampi_group *world = ampi_group_create_range(0, 1, 20);
    MPI_Group group = ampi_group_handle_create(world, NULL), made;
    int ranges[2][3] = {{1, 9, 4}, {18, 12, -3}};
    int ranks[6] = {0, 1, 2, 3, 4, 5}, got[6];
    int overlap[2][3] = {{0, 4, 1}, {4, 8, 1}}, endless[1][3] = {{4, 1, 1}}, outside[1][3] = {{0, 20, 1}};

    ck_assert_int_eq(MPI_Group_range_incl(group, 2, ranges, &made), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Group_translate_ranks(made, 6, ranks, group, got), MPI_SUCCESS);
    ck_assert(memcmp(got, (int[]){1, 5, 9, 18, 15, 12}, sizeof got) == 0);
    MPI_Group_free(&made);
    ck_assert_ptr_eq(made, MPI_GROUP_NULL);
    ck_assert_int_eq(MPI_Group_range_excl(group, 2, ranges, &made), MPI_SUCCESS);
    ck_assert_int_eq(ampi_group_of(made)->n_ranks, 14);
    MPI_Group_free(&made);
    made = MPI_GROUP_EMPTY;
    ck_assert_int_eq(MPI_Group_range_incl(group, 2, overlap, &made), MPI_ERR_RANK);
    ck_assert_int_eq(MPI_Group_range_incl(group, 1, endless, &made), MPI_ERR_ARG);
    ck_assert_int_eq(MPI_Group_range_incl(group, 1, outside, &made), MPI_ERR_RANK);
    ck_assert_int_eq(MPI_Group_incl(group, 2, (int[]){3, 3}, &made), MPI_ERR_RANK);
    ck_assert_int_eq(MPI_Group_incl(group, -1, ranks, &made), MPI_ERR_ARG);
    ck_assert_int_eq(MPI_Group_incl(MPI_GROUP_NULL, 1, ranks, &made), MPI_ERR_GROUP);
    ck_assert_ptr_eq(made, MPI_GROUP_EMPTY);
    ck_assert_int_eq(MPI_Group_incl(group, 0, ranks, &made), MPI_SUCCESS);
    ck_assert_ptr_eq(made, MPI_GROUP_EMPTY);
    ampi_group_handle_destroy(group);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("group");
    TCase *cases = tcase_create("sets");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    tcase_add_checked_fixture(cases, datatype_rank_start, NULL);
    tcase_set_timeout(cases, 200);
    tcase_add_test(cases, operations_agree_with_naive_sets);
    tcase_add_test(cases, strangers_agree_with_naive_sets);
    tcase_add_test(cases, thousands_of_lists_are_found);
    tcase_add_test(cases, sequences_have_no_list);
    tcase_add_test(cases, equal_lists_are_one_object);
    tcase_add_test(cases, ranges_through_the_interface);
    suite_add_tcase(suite, cases);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
