/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rank_variables.h: the environment variables by which launchers tell a process its number, and programs
 * choose their GPUs, often before MPI_Init. Some are set for every rank; those whose presence says more than
 * a number (that the process is a task of Slurm, a client of PMI) are changed where they are there, since a
 * process can have several ranks. PMIX_RANK stays the process's: it is its name in PMIx. Used by src/launch
 * for processes and by src/ampi for ranks (docs/decisions/0010-who-is-a-rank.md).
 */
#ifndef BASE_RANK_VARIABLES_H
#define BASE_RANK_VARIABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The place of a rank, as launchers tell it. */
struct base_rank_place {
    int rank, size;             /* in the job */
    int local_rank, local_size; /* on the node */
};

/* Gives a variable its value. is_added: also if there is none of the name. */
typedef void (*base_rank_variable_fn)(const char *name, const char *value, bool is_added, void *arg);

static inline void base_rank_variables_set(const struct base_rank_place *place, base_rank_variable_fn set,
                                           void *arg)
{
    enum value { RANK, SIZE, LOCAL_RANK, LOCAL_SIZE };
    static const struct {
        const char *name;
        enum value value;
        bool is_added;
    } variables[] = {
        {"OMPI_COMM_WORLD_RANK", RANK, true}, /* Open MPI */
        {"OMPI_COMM_WORLD_SIZE", SIZE, true},
        {"OMPI_COMM_WORLD_LOCAL_RANK", LOCAL_RANK, true},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", LOCAL_SIZE, true},
        {"OMPI_COMM_WORLD_NODE_RANK", LOCAL_RANK, true},
        {"MV2_COMM_WORLD_RANK", RANK, true}, /* MVAPICH2 */
        {"MV2_COMM_WORLD_SIZE", SIZE, true},
        {"MV2_COMM_WORLD_LOCAL_RANK", LOCAL_RANK, true},
        {"MV2_COMM_WORLD_LOCAL_SIZE", LOCAL_SIZE, true},
        {"MPI_LOCALRANKID", LOCAL_RANK, true}, /* MPICH's Hydra, Intel MPI */
        {"MPI_LOCALNRANKS", LOCAL_SIZE, true},
        {"PMI_RANK", RANK, false},
        {"PMI_SIZE", SIZE, false},
        {"PMI_LOCAL_RANK", LOCAL_RANK, false},
        {"PMI_LOCAL_SIZE", LOCAL_SIZE, false},
        {"SLURM_PROCID", RANK, false},
        {"SLURM_NTASKS", SIZE, false},
        {"SLURM_NPROCS", SIZE, false},
        {"SLURM_STEP_NUM_TASKS", SIZE, false},
        {"SLURM_LOCALID", LOCAL_RANK, false},
        {"PALS_RANKID", RANK, false}, /* Cray */
        {"PALS_LOCAL_RANKID", LOCAL_RANK, false},
        {"PALS_LOCAL_SIZE", LOCAL_SIZE, false},
        {"FLUX_TASK_RANK", RANK, false},
        {"FLUX_TASK_LOCAL_ID", LOCAL_RANK, false},
        {"FLUX_JOB_SIZE", SIZE, false},
        {"JSM_NAMESPACE_RANK", RANK, false}, /* IBM's jsrun */
        {"JSM_NAMESPACE_SIZE", SIZE, false},
        {"JSM_NAMESPACE_LOCAL_RANK", LOCAL_RANK, false},
        {"JSM_NAMESPACE_LOCAL_SIZE", LOCAL_SIZE, false},
    };
    const int values[] = {place->rank, place->size, place->local_rank, place->local_size};

    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        char text[16];

        snprintf(text, sizeof text, "%d", values[variables[i].value]);
        set(variables[i].name, text, variables[i].is_added, arg);
    }
}

#endif
