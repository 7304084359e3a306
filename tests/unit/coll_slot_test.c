/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that the collectives' engine keeps any number of outstanding operations apart: a member starts at
 * most AMPI_COLL_SLOTS / 2 and defers the rest, and each stage of an operation runs the right number of
 * times, after all members have arrived.
 */
#include "ampi/coll/engine/coll.h"
#include "mpi_job.h"

#define N_OPERATIONS 40
#define N_RANKS_MAX 9

static struct ampi_coll_args all_args[N_RANKS_MAX][N_OPERATIONS];
static atomic_int n_middles[N_OPERATIONS], n_shares[N_OPERATIONS], n_delivers[N_OPERATIONS];

/* Each member's number and operation come together: all of the same operation, each once. */
static void middle(struct ampi_coll_slot *slot)
{
    int operation = slot->last->key[0];

    for (int i = 0; i < ampi_job.n_ranks; i++) {
        ULT_CHECK(slot->args[i] == &all_args[i][operation]);
        ULT_CHECK(slot->args[i]->key[0] == operation && slot->args[i]->key[1] == i);
        slot->args[i]->error = 1000 + operation;
    }
    atomic_fetch_add(&n_middles[operation], 1);
    slot->needs_share = operation % 2;
    slot->has_result = operation % 3 == 0;
    slot->result.root = operation;
}

static void share(struct ampi_coll_slot *slot, int part)
{
    ULT_CHECK(part >= 0 && part < slot->state->n_parts);
    atomic_fetch_add(&n_shares[slot->last->key[0]], 1);
}

static void deliver(struct ampi_coll_slot *slot, int part)
{
    ULT_CHECK(part >= 0 && part < slot->state->n_parts);
    atomic_fetch_add(&n_delivers[slot->parts[part].result.root], 1);
}

static const struct ampi_coll_plan plan = {
    .name = "test", .middle = middle, .share = share, .deliver = deliver};
static const struct ampi_request_kind kind = {.name = "test"};

static int n_complete[N_RANKS_MAX];

static void note_completion(struct ampi_request *part, struct ampi_request *whole)
{
    const struct ampi_coll_args *args = part->u.extra;

    ULT_CHECK(part->status.MPI_ERROR == 1000 + args->key[0]);
    n_complete[part->owner->world_rank]++;
}

static void start_many(struct ampi_rank *self)
{
    struct ampi_request *requests[N_OPERATIONS];
    int me = self->world_rank;

    for (int i = 0; i < N_OPERATIONS; i++) {
        struct ampi_coll_args *args = &all_args[me][i];
        uint32_t n_under_way;
        *args = (struct ampi_coll_args){.plan = &plan, .comm = self->world, .key = {i, me}};
        requests[i] = ampi_request_create(self, &kind, self->world, false);
        requests[i]->on_complete = note_completion;
        requests[i]->u.extra = args;
        ampi_coll_start(args, requests[i]);
        n_under_way = (uint32_t)__builtin_popcount(self->world->coll_pending);
        ULT_CHECK(n_under_way <= AMPI_COLL_SLOTS / 2);
        ULT_CHECK(!self->world->coll_deferred_first || n_under_way > 0);
        if ((i * 7 + me * 3) % 11 == 0) /* let others catch up, differently on each rank */
            ult_yield();
        if ((i + me) % 13 == 0)
            ult_sleep_ns(50000);
    }
    for (int i = N_OPERATIONS - 1; i >= 0; i--)
        ampi_request_await(requests[i]);
    ULT_CHECK(n_complete[me] == N_OPERATIONS);
    ULT_CHECK(self->world->coll_pending == 0 && !self->world->coll_deferred_first);
    for (int i = 0; i < N_OPERATIONS; i++)
        ampi_request_destroy(requests[i]);
}

static const int shapes[][2] = {{1, 1}, {2, 1}, {2, 2}, {5, 2}, {9, 3}, {9, 1}};

START_TEST(many_outstanding_operations)
{
    int n_pes = shapes[_i][1];

    for (int i = 0; i < N_RANKS_MAX; i++)
        n_complete[i] = 0;
    for (int i = 0; i < N_OPERATIONS; i++)
        n_middles[i] = n_shares[i] = n_delivers[i] = 0;
    mpi_job_start(shapes[_i][0], n_pes, start_many);
    for (int i = 0; i < N_OPERATIONS; i++) {
        ck_assert_int_eq(n_middles[i], 1);
        ck_assert_int_eq(n_shares[i], i % 2 ? n_pes : 0);
        ck_assert_int_eq(n_delivers[i], i % 3 == 0 ? n_pes : 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coll_slot");
    TCase *tcase = tcase_create("slot");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, many_outstanding_operations, 0, (int)BASE_COUNT(shapes));
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
