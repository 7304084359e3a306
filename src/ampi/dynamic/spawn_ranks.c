/* SPDX-License-Identifier: BSD-3-Clause
 *
 * spawn_ranks.c: see spawn.h. The steps are in this order so that a failure leaves no rank behind, and a running rank finds
 * all it needs:
 *
 *      1. each PE frees the memory of earlier ranks that have ended; numbers are taken (spawn_numbers.c)
 *      2. stacks and copies of the program are created, on the spawning rank's PE
 *      3. their MPI_COMM_WORLD and the intercommunicator are created
 *      4. each PE queues its ranks; the spawning rank waits for that, so the job cannot end before they begin
 */
#include "ampi/dynamic/spawn.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "ampi/comm/contexts.h"
#include "ampi/p2p/message.h"
#include "ampi/procs/procs.h"
#include "base/log.h"

const struct ampi_spawn_job *ampi_spawn_job;

/* A call, while it waits for the other PEs. */
struct spawning {
    struct ampi_request request; /* the spawning rank waits on it */
    struct ult_wakeup wakeup;    /* for its completion */
    struct ampi_rank *ranks;     /* the new ones */
    int n_ranks;
    _Atomic int n_left; /* PEs that have not queued their ranks */
};

/* One PE's part. */
struct visit {
    struct ult_wakeup wakeup;
    struct spawning *spawning;
    int pe_id;
};

/* ---- Arguments, copies ---- */

static char *copy_of(const char *text)
{
    size_t n_bytes = strlen(text) + 1;

    return memcpy(base_malloc(n_bytes, "a rank's arguments"), text, n_bytes);
}

/* The arguments of a rank's main; each rank has its own, which its program may modify. */
static char **make_argv(const struct ampi_spawn_part *part)
{
    size_t n = 0;
    char **argv;

    while (part->argv && part->argv[n])
        n++;
    argv = base_calloc(n + 2, sizeof *argv, "a rank's arguments");
    argv[0] = copy_of(part->command);
    for (size_t i = 0; i < n; i++)
        argv[i + 1] = copy_of(part->argv[i]);
    return argv;
}

static void init_rank(struct ampi_rank *rank, const struct ampi_spawned *group, int i)
{
    rank->world_rank = group->first_rank + i;
    rank->spawned = group;
    rank->ult.world_rank = i;
    rank->ult.owner = rank;
    rank->pe_id = ampi_job_pe_of(rank->world_rank);
    rank->messages = ampi_message_pool_of(rank->pe_id);
}

/* Returns 0 or errno. */
static int prepare_all(struct ampi_rank *ranks, const struct ampi_spawned *group,
                       const struct ampi_spawn_part *parts, int n_parts)
{
    int i = 0;

    for (int part = 0; part < n_parts; part++)
        for (int k = 0; k < parts[part].n_ranks; k++, i++) {
            init_rank(&ranks[i], group, i);
            ranks[i].app_num = part;
            ranks[i].program = parts[part].program;
            ranks[i].max_ranks = parts[part].max_ranks;
            ranks[i].initial_errors = parts[part].initial_errors;
            ranks[i].argv = make_argv(&parts[part]);
            if (!ampi_spawn_job->prepare(&ranks[i]))
                return errno;
        }
    return 0;
}

/* ---- Communicators ---- */

/* Creates MPI_COMM_WORLD of the new ranks, and the intercommunicator. False: no context id is left. */
static bool create_comms(struct ampi_comm *comm, struct ampi_rank *ranks, const struct ampi_spawned *spawn,
                         struct ampi_comm_leader *leader)
{
    struct ampi_group *group = ampi_group_create_range(spawn->first_rank, 1, spawn->n_ranks);
    struct ampi_layout *layout = ampi_layout_create(group);
    struct ampi_comm_shared *world = ampi_comm_build(layout, NULL);
    struct ampi_comm *parents = world ? ampi_comm_prepare_inter(comm, group, leader) : NULL;

    for (int i = 0; i < spawn->n_ranks && parents; i++) {
        ranks[i].world = &world->side[0].handles[i];
        ranks[i].parent = &parents[i];
    }
    for (int i = 0; i < spawn->n_ranks && world && !parents; i++) /* no handle of it is used */
        ampi_comm_shared_unref(world);
    ampi_layout_unref(layout);
    ampi_group_unref(group);
    return parents != NULL;
}

/* ---- Start ---- */

static void complete(struct ult_wakeup *wakeup)
{
    ampi_request_complete(&BASE_CONTAINER(wakeup, struct spawning, wakeup)->request);
}

/* On the PE. */
static void start_on_pe(struct ult_wakeup *wakeup)
{
    struct visit *visit = BASE_CONTAINER(wakeup, struct visit, wakeup);
    struct spawning *spawning = visit->spawning;

    if (spawning->n_ranks == 0)
        ampi_spawn_release_left(visit->pe_id);
    for (int i = 0; i < spawning->n_ranks; i++)
        if (spawning->ranks[i].pe_id == visit->pe_id)
            ampi_spawn_job->start(&spawning->ranks[i]);
    free(visit);
    if (atomic_fetch_sub(&spawning->n_left, 1) == 1)
        ult_post_wakeup(spawning->request.owner->ult.pe, &spawning->wakeup);
}

/* n_ranks 0: frees the memory of ranks that have ended. */
static void start_all(struct ampi_rank *ranks, int n_ranks)
{
    static const struct ampi_request_kind kind = {.name = "start of spawned ranks"};
    struct spawning spawning = {.ranks = ranks, .n_ranks = n_ranks, .wakeup.handle = complete};

    atomic_init(&spawning.n_left, ampi_job.n_pes);
    ampi_request_init_on_stack(&spawning.request, ampi_self(), &kind, NULL);
    for (int pe_id = 0; pe_id < ampi_job.n_pes; pe_id++) {
        struct visit *visit = base_malloc(sizeof *visit, "spawned ranks");
        *visit = (struct visit){.wakeup.handle = start_on_pe, .spawning = &spawning, .pe_id = pe_id};
        ult_post_wakeup(ult_pe_get(pe_id), &visit->wakeup);
    }
    ampi_request_await(&spawning.request);
}

int ampi_spawn_run(struct ampi_comm *comm, const struct ampi_spawn_part *parts, int n_parts,
                   struct ampi_comm_leader *leader, char *text, size_t text_bytes)
{
    struct ampi_spawned *group;
    struct ampi_rank *ranks;
    int n_ranks = 0, error;

    for (int i = 0; i < n_parts; i++)
        n_ranks += parts[i].n_ranks;
    if (ampi_spawn_has_left())
        start_all(NULL, 0);
    group = ampi_spawn_take_numbers(n_ranks);
    if (!group) {
        snprintf(text, text_bytes,
                 "a process has room for %d spawned ranks at once, but not for %d more now: ranks leave it "
                 "when they have ended after MPI_Comm_disconnect",
                 ampi_job.spawn_room, n_ranks);
        return MPI_ERR_SPAWN;
    }
    ranks = &ampi_job.ranks[ampi_job_index_of(group->first_rank)];
    error = prepare_all(ranks, group, parts, n_parts);
    if (error) {
        snprintf(text, text_bytes, "cannot create a copy of the program: %s (vm.max_map_count, ulimit -v?)",
                 strerror(error));
        ampi_spawn_drop(group);
        return MPI_ERR_SPAWN;
    }
    if (!create_comms(comm, ranks, group, leader)) {
        snprintf(text, text_bytes, "no context id is left: free communicators that are not needed");
        ampi_spawn_drop(group);
        return MPI_ERR_SPAWN;
    }
    for (int i = 0; i < n_ranks; i++)
        ranks[i].state = AMPI_RANK_STARTED;
    atomic_fetch_sub(&ampi_job.n_ended, n_ranks);
    start_all(ranks, n_ranks);
    return MPI_SUCCESS;
}
