/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a fence completes when its PE has handled all items that any PE had posted to it before: those
 * in rings, and those that wait for room in them.
 */
#include "ult_job.h"

#define N_ROUNDS 200

static _Atomic int n_posted[N_ROUNDS]; /* items of a round; 0: not yet */
static _Atomic bool is_fenced[N_ROUNDS];
static _Atomic int n_arrived;
static int n_handled; /* of all rounds; PE 2's */

static void handle_item(const struct ult_item *item)
{
    (void)item;
    n_handled++;
}

static void handle_fence(struct ult_fence *fence)
{
    int n_before = 0;

    (void)fence;
    for (int i = 0; i <= atomic_load(&n_arrived); i++)
        n_before += atomic_load(&n_posted[i]);
    ULT_CHECK(n_handled == n_before);
    atomic_fetch_add(&n_arrived, 1);
}

static void post_items(int round)
{
    static const int numbers[] = {1, 20, (int)ULT_RING_CELLS, (int)ULT_RING_CELLS + 1, 1000};
    struct ult_item item = {.handle = handle_item};
    int n = numbers[round % 5];

    for (int i = 0; i < n; i++)
        ult_post_item(ult_pe_get(2), &item);
    atomic_store(&n_posted[round], n);
}

/* The first posts, the second has seen that and posts the fence, the third looks at nothing until then. */
static void run(void *arg)
{
    struct ult_fence fence = {.arrived = handle_fence};
    int who = (int)(intptr_t)arg;

    for (int round = 0; round < N_ROUNDS; round++) {
        if (who == 0)
            post_items(round);
        while (who == 1 && !atomic_load(&n_posted[round]))
            ult_yield();
        if (who == 1) {
            ult_post_fence(ult_pe_get(2), &fence);
            atomic_store(&is_fenced[round], true);
        }
        while (who == 2 && !atomic_load(&is_fenced[round]))
            ;
        while (atomic_load(&n_arrived) <= round)
            ult_yield();
    }
}

START_TEST(behind_rings_and_backlogs)
{
    ult_job_start(3, 3, run);
    ck_assert_int_eq(atomic_load(&n_arrived), N_ROUNDS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ult_fence");
    TCase *tcase = tcase_create("fence");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, behind_rings_and_backlogs);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
