/* SPDX-License-Identifier: BSD-3-Clause
 *
 * job_programs.c: the ranks of processes in a job of several programs (mpirun -n 4 a : -n 8 b). Each program has
 * processes of its own, to which its ranks are distributed in blocks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ampi/procs/procs.h"
#include "base/log.h"

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

int ampi_procs_find_of_rank(int world_rank)
{
    int lo = 0, hi = ampi_job.n_procs;

    if (ampi_job_is_spawned(world_rank))
        return (world_rank - ampi_job.n_ranks) / AMPI_SPAWN_MAX;
    while (hi - lo > 1) {
        int middle = lo + (hi - lo) / 2;
        if (ampi_job.first_ranks[middle] <= world_rank)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}
