/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that MPI_Dims_create returns non-increasing factors, keeps given dimensions, and finds the best
 * balanced factors (by exhaustive search for small numbers); and that grids number their points as the
 * standard requires.
 */
#include <check.h>
#include <limits.h>

#include "ampi/comm/topo.h"
#include "datatype_rank.h"

static int best[8];
static int current[8];

/* True if a is to be preferred: a smaller spread, or the same and lexicographically less. */
static bool is_better(const int *a, const int *b, int n_dims)
{
    int spread_a = a[0] - a[n_dims - 1], spread_b = b[0] - b[n_dims - 1];

    if (spread_a != spread_b)
        return spread_a < spread_b;
    for (int i = 0; i < n_dims; i++)
        if (a[i] != b[i])
            return a[i] < b[i];
    return false;
}

/* Tries all factorizations, not increasing, and keeps the best. */
static void search(int n, int n_dims, int at, int limit)
{
    if (at == n_dims - 1) {
        current[at] = n;
        if (n <= limit && (!best[0] || is_better(current, best, n_dims)))
            memcpy(best, current, sizeof best);
        return;
    }
    for (int d = 1; d <= n && d <= limit; d++) {
        if (n % d == 0) {
            current[at] = d;
            search(n / d, n_dims, at + 1, d);
        }
    }
}

START_TEST(as_balanced_as_can_be)
{
    for (int n = 1; n <= 1200; n++) {
        for (int n_dims = 1; n_dims <= 5; n_dims++) {
            int dims[5] = {0};
            memset(best, 0, sizeof best);
            memset(current, 0, sizeof current);
            search(n, n_dims, 0, n);
            ck_assert_int_eq(MPI_Dims_create(n, n_dims, dims), MPI_SUCCESS);
            for (int i = 0; i < n_dims; i++)
                ck_assert_msg(dims[i] == best[i], "%d in %d: dims[%d] is %d, not %d", n, n_dims, i, dims[i],
                              best[i]);
        }
    }
}
END_TEST

START_TEST(given_dimensions_stay)
{
    int dims[3] = {0, 3, 0}, bad[2] = {0, 7}, full[2] = {2, 3}, negative[2] = {-1, 0}, many[40] = {0};

    ck_assert_int_eq(MPI_Dims_create(24, 3, dims), MPI_SUCCESS);
    ck_assert(dims[0] == 4 && dims[1] == 3 && dims[2] == 2);
    ck_assert_int_eq(MPI_Dims_create(24, 2, bad), MPI_ERR_DIMS);
    ck_assert(bad[0] == 0 && bad[1] == 7);
    ck_assert_int_eq(MPI_Dims_create(6, 2, full), MPI_SUCCESS);
    ck_assert_int_eq(MPI_Dims_create(7, 2, full), MPI_ERR_DIMS);
    ck_assert_int_eq(MPI_Dims_create(6, 2, negative), MPI_ERR_DIMS);
    ck_assert_int_eq(MPI_Dims_create(0, 2, full), MPI_ERR_ARG);
    ck_assert_int_eq(MPI_Dims_create(1 << 30, 40, many), MPI_SUCCESS);
    ck_assert(many[0] == 2 && many[29] == 2 && many[30] == 1 && many[39] == 1);
}
END_TEST

START_TEST(large_numbers_take_no_time)
{
    static const int numbers[] = {INT_MAX,    INT_MAX - 1, 735134400,  1 << 30,
                                  2147395600, 2147117569,  2095133040, 1102701600};

    for (size_t i = 0; i < BASE_COUNT(numbers); i++) {
        for (int n_dims = 1; n_dims <= 8; n_dims++) {
            int dims[8] = {0};
            int64_t product = 1;
            ck_assert_int_eq(MPI_Dims_create(numbers[i], n_dims, dims), MPI_SUCCESS);
            for (int k = 0; k < n_dims; k++) {
                product *= dims[k];
                ck_assert(k == 0 || dims[k] <= dims[k - 1]);
            }
            ck_assert_int_eq(product, numbers[i]);
        }
    }
}
END_TEST

START_TEST(grids_are_row_major)
{
    int dims[3] = {2, 3, 4}, periods[3] = {0, 1, 0}, coords[3];
    struct ampi_topo *topo = ampi_topo_create_cart(3, dims, periods);
    const struct ampi_topo_cart *cart = &topo->u.cart;

    for (int rank = 0; rank < 24; rank++) {
        ampi_cart_coords(cart, rank, coords);
        ck_assert_int_eq(coords[0] * 12 + coords[1] * 4 + coords[2], rank);
        ck_assert_int_eq(ampi_cart_rank(cart, coords), rank);
        for (int dim = 0; dim < 3; dim++) {
            for (int disp = -7; disp <= 7; disp++) {
                int moved[3] = {coords[0], coords[1], coords[2]};
                moved[dim] += disp;
                ck_assert_int_eq(ampi_cart_neighbor(cart, rank, dim, disp), ampi_cart_rank(cart, moved));
            }
        }
    }
    ck_assert_int_eq(ampi_cart_rank(cart, (int[]){0, -1, 0}), 8);
    ck_assert_int_eq(ampi_cart_rank(cart, (int[]){0, 0, -1}), MPI_PROC_NULL);
    ck_assert_int_eq(ampi_cart_neighbor(cart, 0, 1, INT_MIN), ampi_cart_rank(cart, (int[]){0, INT_MIN, 0}));
    ck_assert_int_eq(ampi_cart_size(2, (int[]){65536, 65536}), -1);
    ampi_topo_unref(topo);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dims");
    TCase *cases = tcase_create("dims");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    tcase_add_checked_fixture(cases, datatype_rank_start, NULL);
    tcase_set_timeout(cases, 200);
    tcase_add_test(cases, as_balanced_as_can_be);
    tcase_add_test(cases, given_dimensions_stay);
    tcase_add_test(cases, large_numbers_take_no_time);
    tcase_add_test(cases, grids_are_row_major);
    suite_add_tcase(suite, cases);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
