/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that all handles of communicators with failed members get the mark that ends their pending
 * operations, including those of a hidden communicator that is being created while another PE handles the
 * failure, and on both sides of an intercommunicator. It uses a machine in memory (machine_staged.h) whose
 * process 1 fails at the worst moment.
 */
#include "machine_staged.h"

#include "ampi/comm/comm.h"
#include "ampi/comm/contexts.h"
#include "ampi/comm/group.h"
#include "ampi/procs/procs.h"
#include "mpi_job.h"

static bool is_failed_meanwhile; /* while the next communicator is being made */

/* The last client that hears of a new communicator, before others see it. */
static void made(struct ampi_comm_shared *shared)
{
    if (is_failed_meanwhile) {
        is_failed_meanwhile = false;
        ampi_failed_record(1, "it was ended");
        ampi_failed_handle(0);
    }
}

static void run(void (*body)(struct ampi_rank *self))
{
    static const struct ampi_comm_client client = {.create = made};

    ampi_comm_add_client(&client);
    ampi_machine = &staged_machine;
    ampi_job.n_procs = ampi_job.max_procs = 2;
    ampi_job.n_ranks = 4;
    ampi_job.n_local = 2;
    ampi_job.node_n_procs = 1;
    ampi_failed_init();
    ampi_failed_tolerate();
    mpi_job_is_part = true;
    mpi_job_start(2, 1, body);
}

static void make_hidden(struct ampi_rank *self)
{
    struct ampi_comm *hidden;

    if (self->world_rank != 0)
        return;
    is_failed_meanwhile = true;
    hidden = ampi_comm_hidden(self->world);
    ult_progress();
    ULT_CHECK(self->world->has_failed);
    ULT_CHECK(hidden->has_failed);
    ULT_CHECK(hidden->local->handles[1].has_failed);
}

START_TEST(hidden_communicators_are_marked)
{
    run(make_hidden);
}
END_TEST

static struct ampi_layout *make_layout(int first, int second)
{
    struct ampi_group *group = ampi_group_create_list((int[]){first, second}, 2);
    struct ampi_layout *layout = ampi_layout_create(group);

    ampi_group_unref(group);
    return layout;
}

/* Ranks 0 and 1 are this process's, 2 and 3 the lost one's. */
static void make_inter(struct ampi_rank *self)
{
    struct ampi_layout *local, *remote;
    struct ampi_comm_shared *shared;

    if (self->world_rank != 0)
        return;
    local = make_layout(0, 1);
    remote = make_layout(2, 3);
    ampi_failed_record(1, "it was ended");
    shared = ampi_comm_build_as(local, remote, AMPI_CONTEXT_CROSS | (uint64_t)5 << 20 | AMPI_CONTEXT_HIDDEN);
    ULT_CHECK(shared->side[0].handles[0].has_failed);
    ULT_CHECK(shared->side[0].handles[1].has_failed);
    ampi_layout_unref(local);
    ampi_layout_unref(remote);
    ampi_comm_shared_unref(shared); /* once for each member here */
    ampi_comm_shared_unref(shared);
}

START_TEST(both_sides_of_an_intercommunicator_are_marked)
{
    run(make_inter);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("failed_mark");
    TCase *tests = tcase_create("mark");

    tcase_add_test(tests, hidden_communicators_are_marked);
    tcase_add_test(tests, both_sides_of_an_intercommunicator_are_marked);
    suite_add_tcase(suite, tests);
    return ult_run_suite(suite);
}
