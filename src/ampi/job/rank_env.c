/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rank_env.c: the launchers' environment variables of a rank. A launcher gives a process one set of these variables; a rank that shares the
 * process with others has its own copy, and the process's environment is unchanged.
 */
#include "ampi/job/job.h"

#include "ampi/procs/procs.h"
#include "base/log.h"
#include "base/rank_variables.h"
#include "base/text.h"
#include "image/image.h"

/* The first rank of process `number` of this node, relative to this node's first rank; if processes are not
 * consecutive, an upper bound from the most ranks that one of them can have. */
static int ranks_before(int number)
{
    int most = (ampi_job.n_ranks + ampi_job.n_procs - 1) / ampi_job.n_procs;

    if (ampi_job.node_first + ampi_job.node_index != ampi_job.proc_id)
        return number * most;
    return ampi_procs_first_rank(ampi_job.node_first + number) - ampi_procs_first_rank(ampi_job.node_first);
}

/* Variables whose value differs between ranks. */
#define OWN_MAX 32
static enum base_rank_value own[OWN_MAX];
static int n_own;

static BASE_NORETURN void end_without_memory(void)
{
    base_fatal(1, "out of memory: cannot set the environment of the ranks");
}

/* Spawned ranks, and those of a job in a universe, have another number of ranks, too. */
static bool is_own(enum base_rank_value value)
{
    return value == BASE_RANK || value == BASE_RANK_LOCAL || ampi_job.spawn_room > 0 || ampi_job.spawned;
}

/* The value of a variable of a rank. Those of a spawn, and of a job in a universe, are all on one node. */
static int value_of(const struct ampi_rank *rank, enum base_rank_value value)
{
    switch (value) {
    case BASE_RANK:
        return ampi_rank_number(rank);
    case BASE_RANK_SIZE:
        return ampi_rank_world_size(rank);
    case BASE_RANK_LOCAL:
        return rank->spawned ? ampi_rank_number(rank)
                             : ranks_before(ampi_job.node_index) + ampi_job_index_of(rank->world_rank);
    default:
        return rank->spawned ? ampi_rank_world_size(rank) : ranks_before(ampi_job.node_n_procs);
    }
}

void ampi_rank_env_open(void)
{
    const char *name;
    enum base_rank_value value;
    bool is_added;
    char size[16], local_size[16];

    snprintf(size, sizeof size, "%d", ampi_job.n_ranks);
    snprintf(local_size, sizeof local_size, "%d", ranks_before(ampi_job.node_n_procs));
    for (size_t i = 0; base_rank_variable_at(i, &name, &value, &is_added); i++)
        if (!is_own(value) && (is_added || image_env_has(name)) &&
            !image_env_set_all(name, value == BASE_RANK_SIZE ? size : local_size))
            end_without_memory();
    for (size_t i = 0; base_rank_variable_at(i, &name, &value, &is_added); i++)
        if (is_own(value) && (is_added || image_env_has(name))) {
            BASE_ASSERT(n_own < OWN_MAX);
            if (!image_env_add_own(name))
                end_without_memory();
            own[n_own++] = value;
        }
}

void ampi_rank_env_init(struct ampi_rank *rank)
{
    char texts[OWN_MAX][16]; /* not by snprintf, which uses half a page of the rank's stack */
    const char *values[OWN_MAX];

    for (int i = 0; i < n_own; i++) {
        struct base_text text = base_text_in(texts[i], sizeof texts[i]);

        base_text_add_number(&text, value_of(rank, own[i]));
        values[i] = texts[i];
    }
    if (!image_env_init_own(rank->image, values))
        end_without_memory();
    ampi_programs_set_variables(rank);
}
