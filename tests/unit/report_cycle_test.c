/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that the report of ranks that wait for each other names the shortest cycle, in whatever order the waits are, and none if
 * there is none.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ampi/job/report.h"

#define RANKS_MAX 30
#define N_RUNS 3000

static uint64_t state = 1;

static int choose(int n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int)((state >> 33) % (unsigned)n);
}

/* What the function prints to stderr. */
static void capture(struct ampi_wait *waits, int n, char *text, size_t size_bytes)
{
    FILE *file = tmpfile();
    int saved = dup(2);
    size_t length;

    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(dup2(fileno(file), 2), 0);
    ampi_report_cycle(waits, (size_t)n * sizeof *waits);
    dup2(saved, 2);
    close(saved);
    rewind(file);
    length = fread(text, 1, size_bytes - 1, file);
    text[length] = '\0';
    fclose(file);
}

/* The number of steps from a rank to itself; 0: none lead there. */
static int find_length(const int *for_rank, int rank)
{
    int at = rank;

    for (int n = 1; n <= RANKS_MAX && for_rank[at] >= 0; n++) {
        at = for_rank[at];
        if (at == rank)
            return n;
    }
    return 0;
}

/* The printed ranks must wait for each other; numbers are ranks + 100, and odd ones were spawned. */
static void check_cycle(const char *text, const int *for_rank, int length)
{
    const char *at = strstr(text, "rank ");
    int n_printed = 0, n_ranks = 1, first = -1, rank = -1;

    if (length == 1)
        ck_assert_ptr_nonnull(strstr(text, " waits for itself"));
    else
        ck_assert_int_eq(sscanf(strstr(text, "cycle of "), "cycle of %d", &n_ranks), 1);
    ck_assert_int_eq(n_ranks, length);
    for (; at; at = strstr(at + 1, "rank ")) {
        int number;
        ck_assert_int_eq(sscanf(at, "rank %d", &number), 1);
        ck_assert_int_eq(strncmp(at + strlen("rank 100"), " (spawn 1)", strlen(" (spawn 1)")) == 0,
                         number % 2);
        if (n_printed == 0)
            first = number - 100;
        else if (n_printed <= 10)
            ck_assert_int_eq(for_rank[rank], number - 100);
        rank = number - 100;
        n_printed++;
    }
    if (length > 1)
        ck_assert_int_eq(rank, first);
    ck_assert_int_eq(find_length(for_rank, first), length);
}

START_TEST(the_shortest_cycle_is_named)
{
    struct ampi_wait waits[RANKS_MAX];
    int for_rank[RANKS_MAX], n_with = 0;
    char text[2000];

    for (int run = 0; run < N_RUNS; run++) {
        int n_ranks = 1 + choose(RANKS_MAX), sparse = choose(3), n = 0, shortest = 0;
        memset(for_rank, -1, sizeof for_rank);
        for (int i = 0; i < n_ranks; i++) {
            if (choose(3) < sparse)
                continue;
            for_rank[i] = run % 4 ? choose(n_ranks) : (i + 1) % n_ranks;
            waits[n++] = (struct ampi_wait){i, i + 100, for_rank[i], i % 2};
        }
        for (int i = n - 1; i > 0; i--) {
            int other = choose(i + 1);
            struct ampi_wait swapped = waits[i];
            waits[i] = waits[other];
            waits[other] = swapped;
        }
        for (int i = 0; i < n_ranks; i++) {
            int length = find_length(for_rank, i);
            if (length > 0 && (shortest == 0 || length < shortest))
                shortest = length;
        }
        capture(waits, n, text, sizeof text);
        if (shortest == 0)
            ck_assert_str_eq(text, "");
        else
            check_cycle(text, for_rank, shortest);
        n_with += shortest > 0;
    }
    ck_assert(n_with > N_RUNS / 4 && n_with < N_RUNS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cycles of waiting ranks");
    TCase *tcase = tcase_create("cycles");
    SRunner *runner;
    int n_failed;

    tcase_add_test(tcase, the_shortest_cycle_is_named);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed > 0;
}
