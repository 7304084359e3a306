/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rank_env.c: see rank_env.h. A launcher gives a process one set of these variables; a rank that shares the
 * process with others has its own here, and the process's environment stays as it is.
 */
#include "ampi/job/rank_env.h"

#include "ampi/procs/procs.h"
#include "base/log.h"
#include "base/rank_variables.h"
#include "image/image.h"

/* The first rank of the process that would be the number-th of this node, from this node's first rank on; of
 * processes that do not follow one another, room for the most ranks that one of them can have. */
static int ranks_before(int number)
{
    int most = (ampi_job.n_ranks + ampi_job.n_procs - 1) / ampi_job.n_procs;

    if (ampi_job.node_first + ampi_job.node_index != ampi_job.proc_id)
        return number * most;
    return ampi_procs_first_rank(ampi_job.node_first + number) - ampi_procs_first_rank(ampi_job.node_first);
}

static void set_variable(const char *name, const char *value, bool is_added, void *arg)
{
    const struct ampi_rank *rank = arg;

    if (!image_env_preset(rank->image, name, value, is_added))
        base_fatal(1, "out of memory: no room for the environment of rank %d", rank->world_rank);
}

void ampi_rank_env_init(struct ampi_rank *rank)
{
    struct base_rank_place place = {.rank = rank->world_rank, .size = ampi_job.n_ranks};

    place.local_rank = ranks_before(ampi_job.node_index) + rank->world_rank - ampi_job.first_rank;
    place.local_size = ranks_before(ampi_job.node_n_procs);
    base_rank_variables_set(&place, set_variable, rank);
}
