/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_info.c: hints on communicators (MPI 5.0, section 7.4.4).
 *
 * Known hints are kept and returned by MPI_Comm_get_info; others are ignored, as the standard requires. The
 * assertions are kept but not used: matching is as fast without them.
 */
#include "ampi/comm/comm_info.h"

#include <string.h>

#include "ampi/comm/comm.h"
#include "ampi/datatype/program_memory.h"

static const char *const assertions[] = {
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
    "mpi_assert_strict_start_ordering",
    "mpi_assert_strict_persistent_collective_ordering",
};

struct ampi_info *ampi_comm_info_filter(const struct ampi_info *old, const struct ampi_info *info)
{
    struct ampi_info *kept = ampi_info_dup(old);
    const char *kinds;

    for (size_t i = 0; i < BASE_COUNT(assertions); i++) {
        const char *value = ampi_info_get(info, assertions[i]);
        if (value && (strcmp(value, "true") == 0 || strcmp(value, "false") == 0))
            ampi_info_set(kept, assertions[i], value);
    }
    kinds = ampi_info_get(info, "mpi_assert_memory_alloc_kinds");
    if (kinds && ampi_program_memory_are_kinds(kinds))
        ampi_info_set(kept, "mpi_assert_memory_alloc_kinds", kinds);
    if (kept->n_pairs > 0)
        return kept;
    ampi_info_destroy(kept);
    return NULL;
}

AMPI_EXPORT(Comm_set_info);
int PMPI_Comm_set_info(MPI_Comm comm, MPI_Info info)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_set_info");
    struct ampi_comm *object = ampi_comm_of(self, comm);
    const struct ampi_info *hints = ampi_info_of(self, info);
    struct ampi_info *kept;

    if (!object)
        return ampi_comm_raise_invalid(comm);
    if (!hints)
        return ampi_raise(object, MPI_ERR_INFO, "%p is not a valid info object", (void *)info);
    kept = ampi_comm_info_filter(object->info, hints);
    ampi_info_destroy(object->info);
    object->info = kept;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Comm_get_info);
int PMPI_Comm_get_info(MPI_Comm comm, MPI_Info *info_used)
{
    struct ampi_rank *self = ampi_enter("MPI_Comm_get_info");
    struct ampi_comm *object = ampi_comm_of(self, comm);
    struct ampi_info *used;

    if (!object)
        return ampi_comm_raise_invalid(comm);
    if (!info_used)
        return ampi_raise(object, MPI_ERR_ARG, "info_used is NULL");
    used = ampi_info_dup(object->info);
    ampi_program_memory_add_kinds(used);
    *info_used = (MPI_Info)used;
    return MPI_SUCCESS;
}
