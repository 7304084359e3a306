/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rank_variables.h: the environment variables in which launchers give a process its number. Programs choose
 * their GPUs by them, often before MPI_Init. Some are set for every rank. Others carry a meaning by their
 * presence (the process is a task of Slurm, or a client of PMI): they are only changed where they exist,
 * since a process can have several ranks. PMIX_RANK stays the process's, as its name in PMIx. Used by
 * src/launch for processes and by src/ampi for ranks.
 *
 * The variables of Open MPI, MVAPICH2 and Hydra make no library believe that its own launcher started it (tried with
 * Open MPI 4.1.4 and MPICH 4.0.2).
 */
#ifndef BASE_RANK_VARIABLES_H
#define BASE_RANK_VARIABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The place of a rank, as launchers report it. */
struct base_rank_place {
    int rank, size;             /* in the job */
    int local_rank, local_size; /* on the node */
};

enum base_rank_value { BASE_RANK, BASE_RANK_SIZE, BASE_RANK_LOCAL, BASE_RANK_LOCAL_SIZE };

/* The i-th variable. Returns false if there is none. */
static inline bool base_rank_variable_at(size_t i, const char **name_out, enum base_rank_value *value_out,
                                         bool *is_added_out)
{
    static const struct {
        const char *name;
        enum base_rank_value value;
        bool is_added;
    } variables[] = {
        {"OMPI_COMM_WORLD_RANK", BASE_RANK, true}, /* Open MPI */
        {"OMPI_COMM_WORLD_SIZE", BASE_RANK_SIZE, true},
        {"OMPI_COMM_WORLD_LOCAL_RANK", BASE_RANK_LOCAL, true},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", BASE_RANK_LOCAL_SIZE, true},
        {"OMPI_COMM_WORLD_NODE_RANK", BASE_RANK_LOCAL, true},
        {"MV2_COMM_WORLD_RANK", BASE_RANK, true}, /* MVAPICH2 */
        {"MV2_COMM_WORLD_SIZE", BASE_RANK_SIZE, true},
        {"MV2_COMM_WORLD_LOCAL_RANK", BASE_RANK_LOCAL, true},
        {"MV2_COMM_WORLD_LOCAL_SIZE", BASE_RANK_LOCAL_SIZE, true},
        {"MPI_LOCALRANKID", BASE_RANK_LOCAL, true}, /* MPICH's Hydra, Intel MPI */
        {"MPI_LOCALNRANKS", BASE_RANK_LOCAL_SIZE, true},
        {"PMI_RANK", BASE_RANK, false},
        {"PMI_SIZE", BASE_RANK_SIZE, false},
        {"PMI_LOCAL_RANK", BASE_RANK_LOCAL, false},
        {"PMI_LOCAL_SIZE", BASE_RANK_LOCAL_SIZE, false},
        {"SLURM_PROCID", BASE_RANK, false},
        {"SLURM_NTASKS", BASE_RANK_SIZE, false},
        {"SLURM_NPROCS", BASE_RANK_SIZE, false},
        {"SLURM_STEP_NUM_TASKS", BASE_RANK_SIZE, false},
        {"SLURM_LOCALID", BASE_RANK_LOCAL, false},
        {"PALS_RANKID", BASE_RANK, false}, /* Cray */
        {"PALS_LOCAL_RANKID", BASE_RANK_LOCAL, false},
        {"PALS_LOCAL_SIZE", BASE_RANK_LOCAL_SIZE, false},
        {"FLUX_TASK_RANK", BASE_RANK, false},
        {"FLUX_TASK_LOCAL_ID", BASE_RANK_LOCAL, false},
        {"FLUX_JOB_SIZE", BASE_RANK_SIZE, false},
        {"JSM_NAMESPACE_RANK", BASE_RANK, false}, /* IBM's jsrun */
        {"JSM_NAMESPACE_SIZE", BASE_RANK_SIZE, false},
        {"JSM_NAMESPACE_LOCAL_RANK", BASE_RANK_LOCAL, false},
        {"JSM_NAMESPACE_LOCAL_SIZE", BASE_RANK_LOCAL_SIZE, false},
    };

    if (i >= sizeof variables / sizeof variables[0])
        return false;
    *name_out = variables[i].name;
    *value_out = variables[i].value;
    *is_added_out = variables[i].is_added;
    return true;
}

/* Sets a variable. is_added: also if the variable does not exist yet. */
typedef void (*base_rank_variable_fn)(const char *name, const char *value, bool is_added, void *arg);

/* Calls set for each variable. */
static inline void base_rank_variables_set(const struct base_rank_place *place, base_rank_variable_fn set,
                                           void *arg)
{
    const int values[] = {place->rank, place->size, place->local_rank, place->local_size};
    const char *name;
    enum base_rank_value value;
    bool is_added;

    for (size_t i = 0; base_rank_variable_at(i, &name, &value, &is_added); i++) {
        char text[16];

        snprintf(text, sizeof text, "%d", values[value]);
        set(name, text, is_added, arg);
    }
}

#endif
