/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a communicator with a million members costs a process memory for its own members, not for those in other
 * processes, and that collectives find the process of each member and the members of each process. It uses a machine
 * in memory (machine_staged.h); this process is the first of a thousand.
 */
#include "machine_staged.h"

#include "ampi/coll/between/coll_remote.h"
#include "ampi/comm/contexts.h"
#include "ampi/procs/procs.h"
#include "mpi_job.h"

#define N_PROCS 1000
#define N_LOCAL 1000
#define N_RANKS (N_PROCS * N_LOCAL)

static void run(void (*body)(struct ampi_rank *self))
{
    ampi_machine = &staged_machine;
    ampi_job.n_procs = ampi_job.max_procs = N_PROCS;
    ampi_job.n_ranks = N_RANKS;
    ampi_job.n_local = N_LOCAL;
    ampi_job.node_n_procs = 1;
    mpi_job_is_part = true;
    mpi_job_start(N_LOCAL, 1, body);
}

static struct ampi_comm_shared *build(struct ampi_group *group)
{
    struct ampi_layout *layout = ampi_layout_create(group);
    struct ampi_comm_shared *shared =
        ampi_comm_build_as(layout, NULL, AMPI_CONTEXT_CROSS | (uint64_t)5 << 20 | AMPI_CONTEXT_HIDDEN);

    ampi_group_unref(group);
    ampi_layout_unref(layout);
    return shared;
}

static void destroy(struct ampi_comm_shared *shared)
{
    for (int n = shared->side[0].layout->n_local; n > 0; n--)
        ampi_comm_shared_unref(shared);
}

/* Of memory that the process alone uses. */
static long used_kib(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    long kib = 0;

    while (fgets(line, sizeof line, file))
        if (sscanf(line, "RssAnon: %ld kB", &kib) == 1)
            break;
    fclose(file);
    return kib;
}

static void measure(struct ampi_rank *self)
{
    struct ampi_comm_shared *shared;
    long before_kib;

    if (self->world_rank != 0)
        return;
    before_kib = used_kib();
    shared = build(ampi_group_create_range(0, 1, N_RANKS));
    ULT_CHECK(used_kib() - before_kib < 3 * (long)N_RANKS / 1024 + 2 * N_LOCAL);
    destroy(shared);
}

START_TEST(members_elsewhere_cost_no_memory)
{
    run(measure);
}
END_TEST

/* Each member is once in the list of its process, and the lists are ascending. */
static void check_members(struct ampi_comm_shared *shared, bool is_blocked)
{
    const struct ampi_coll_remote *remote = shared->coll->remote;
    int n_members = shared->side[0].n_ranks;

    ULT_CHECK(remote->is_blocked == is_blocked);
    ULT_CHECK(remote->first[0] == 0 && remote->first[remote->n_procs] == n_members);
    for (int proc = 0; proc < remote->n_procs; proc++)
        for (int i = remote->first[proc]; i < remote->first[proc + 1]; i++) {
            int member = ampi_remote_member(remote, i);
            int world_rank = ampi_group_world_rank(shared->side[0].layout->group, member);
            ULT_CHECK(remote->proc_id[proc] == ampi_procs_of_rank(world_rank));
            ULT_CHECK(ampi_remote_proc_of(remote, member) == proc);
            ULT_CHECK(i == remote->first[proc] || ampi_remote_member(remote, i - 1) < member);
            ULT_CHECK(i > remote->first[proc] || remote->leader_rank[proc] == world_rank);
        }
    destroy(shared);
}

static void find(struct ampi_rank *self)
{
    int mixed[2 * N_LOCAL];

    if (self->world_rank != 0)
        return;
    check_members(build(ampi_group_create_range(0, 1, N_RANKS)), true);
    check_members(build(ampi_group_create_range(N_LOCAL / 2, 1, N_RANKS / 2)),
                  true); /* half of the first and last */
    check_members(build(ampi_group_create_range(N_RANKS - 1, -1, N_RANKS)), true);
    check_members(build(ampi_group_create_range(1, 3, N_RANKS / 3)), true);
    for (int i = 0; i < 2 * N_LOCAL; i++)
        mixed[i] = i % 2 ? N_RANKS - 1 - i : i;
    check_members(build(ampi_group_create_list(mixed, 2 * N_LOCAL)), false);
}

START_TEST(members_and_their_processes_are_found)
{
    run(find);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coll_remote");
    TCase *tests = tcase_create("members");

    tcase_set_timeout(tests, 120); /* under a sanitizer on a machine under load */
    tcase_add_test(tests, members_elsewhere_cost_no_memory);
    tcase_add_test(tests, members_and_their_processes_are_found);
    suite_add_tcase(suite, tests);
    return ult_run_suite(suite);
}
