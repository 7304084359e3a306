/* SPDX-License-Identifier: BSD-3-Clause
 *
 * job_programs.c: the ranks of processes in a job of several programs (mpirun -n 4 a : -n 8 b). Each program has
 * processes of its own, to which its ranks are distributed in blocks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ampi/procs/procs.h"
#include "base/launched.h"
#include "base/log.h"

_Static_assert(AMPI_SPAWN_MAX == BASE_LAUNCHED_UNIVERSE_RANKS_MAX, "mpirun knows the limit of a universe");

void ampi_procs_read_programs(const char *text)
{
    int *first = base_calloc((size_t)ampi_job.n_procs + 1, sizeof *first, "the processes");
    int n_ranks, n_procs, n_read, proc_id = 0, rank = 0;

    while (sscanf(text, "%dx%d%n", &n_ranks, &n_procs, &n_read) == 2) {
        for (int i = 0; i < n_procs && proc_id < ampi_job.n_procs; i++) {
            ampi_job.n_program = proc_id == ampi_job.proc_id ? n_ranks : ampi_job.n_program;
            first[proc_id++] = rank + (int)((int64_t)i * n_ranks / n_procs);
        }
        rank += n_ranks;
        text += n_read + (text[n_read] == ',');
    }
    if (proc_id != ampi_job.n_procs || rank != ampi_job.n_ranks)
        base_fatal(1, "mpirun says that the programs of the job have %d ranks in %d processes, not %d in %d",
                   rank, proc_id, ampi_job.n_ranks, ampi_job.n_procs);
    first[proc_id] = rank;
    ampi_job.first_ranks = first;
}

/* The ranks of process i of n_procs of a program. */
static int count_ranks(int n_ranks, int n_procs, int i)
{
    return (int)((int64_t)(i + 1) * n_ranks / n_procs - (int64_t)i * n_ranks / n_procs);
}

char *ampi_procs_describe_start(long n_ranks, int n_procs)
{
    char *text = base_malloc(64, "a process in a universe");

    snprintf(text, 64, "1,0,0,%ldx%d;", n_ranks, n_procs);
    return text;
}

/* World ranks of spawned processes, and of those at the start of a job in a universe: those of ranks that they could spawn
 * themselves, which come after their own. */
void ampi_procs_read_spawn(const char *text, const struct machine_place *place)
{
    struct ampi_spawned *spawned = base_calloc(1, sizeof *spawned, "a spawned process");
    int proc_id, n_ranks, n_procs, n_read = 0, app_num = 0, own_app = 0;
    const char *port;

    if (sscanf(text, "%*d,%d,%d%n", &proc_id, &spawned->number, &n_read) != 2)
        base_fatal(1, "mpirun describes this spawned process wrongly: %s", text);
    if (place->asks_pmix)
        proc_id = place->spawn_first;
    for (text += n_read; sscanf(text, ",%dx%d%n", &n_ranks, &n_procs, &n_read) == 2;
         text += n_read, app_num++) {
        ampi_job.world_ranks =
            base_realloc(ampi_job.world_ranks, ((size_t)spawned->n_ranks + (size_t)n_ranks) * sizeof(int),
                         "a spawned process");
        for (int i = 0; i < n_procs; i++, proc_id++) {
            int first = ampi_job.n_ranks + proc_id * AMPI_SPAWN_MAX, n = count_ranks(n_ranks, n_procs, i);
            if (n > AMPI_SPAWN_MAX)
                base_fatal(1,
                           "a process that is spawned, or belongs to a universe, can have %d ranks, not %d",
                           AMPI_SPAWN_MAX, n);
            if (proc_id == ampi_job.proc_id) {
                ampi_job.first_rank = spawned->first_rank = first;
                ampi_job.n_local = n;
                ampi_job.n_program = n_ranks;
                own_app = app_num;
                ampi_job.app_num = spawned->number ? app_num : ampi_job.app_num + app_num;
                spawned->first_number = spawned->n_ranks;
            }
            for (int k = 0; k < n; k++)
                ampi_job.world_ranks[spawned->n_ranks++] = first + k;
        }
    }
    if (*text != ';' || ampi_job.n_local == 0)
        base_fatal(1, "mpirun describes this spawned process wrongly: %s", text);
    port = strchr(text, '!');
    if (port)
        ampi_job.initial_errors = text[1 + own_app] - '0';
    ampi_job.parent_port = port ? port + 1 : text + 1;
    ampi_job.spawned = spawned;
}

bool ampi_procs_is_spawned_alone(const char *text)
{
    int n_ranks = 0, n_procs = 0;

    while (n_ranks == n_procs && (text = strchr(text, ',')) != NULL)
        if (sscanf(++text, "%dx%d", &n_ranks, &n_procs) != 2)
            n_ranks = n_procs = 0;
    return n_ranks == n_procs;
}

int ampi_procs_find_of_rank(int world_rank)
{
    int lo = 0, hi = ampi_job.n_procs;

    if (ampi_job_is_spawned(world_rank))
        return ampi_job_proc_of_spawned(world_rank);
    while (hi - lo > 1) {
        int middle = lo + (hi - lo) / 2;
        if (ampi_job.first_ranks[middle] <= world_rank)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}
