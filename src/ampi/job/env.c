/* SPDX-License-Identifier: BSD-3-Clause
 *
 * env.c: inquiries, clock and memory (MPI 5.0, sections 9.1, 9.2, 9.6 and 11.6), and freeing the per-rank
 * state of the environment functions. MPI_Init and similar functions are in init.c; the ABI's inquiries in
 * abi_query.c.
 */

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ampi/datatype/program_memory.h"
#include "ampi/datatype/work_hook.h"
#include "ampi/object/attr.h"
#include "ampi/object/error.h"
#include "ampi/object/error_class.h"
#include "ampi/object/errhandler.h"
#include "ampi/fortran/fortran_int.h"
#include "ampi/io/datarep.h"
#include "ampi/object/info.h"
#include "ampi/job/job.h"
#include "ampi/object/rank.h"

#ifndef HEDDLE_VERSION
#define HEDDLE_VERSION "unknown version"
#endif

void ampi_env_fini(struct ampi_rank *rank)
{
    ampi_fortran_int_fini(rank);
    ampi_info_fini(rank);
    ampi_info_destroy(rank->fortran_booleans);
    rank->fortran_booleans = NULL;
    ampi_errhandler_unref(rank->file_errhandler);
    rank->file_errhandler = NULL;
    ampi_datarep_fini(rank);
    ampi_attr_fini(rank);
    ampi_error_classes_fini(rank);
    ampi_error_detail_fini(rank);
    free(rank->coll_refused);
    rank->coll_refused = NULL;
}

static int raise_null(const char *argument)
{
    return ampi_raise_self(MPI_ERR_ARG, "%s is NULL", argument);
}

/* ---- Clock: one for all ranks of a node. The state is not checked: tools also measure time before MPI_Init. ---- */

AMPI_EXPORT(Wtime);
double PMPI_Wtime(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

AMPI_EXPORT(Wtick);
double PMPI_Wtick(void)
{
    struct timespec tick;

    clock_getres(CLOCK_MONOTONIC, &tick);
    return (double)tick.tv_sec + 1e-9 * (double)tick.tv_nsec;
}

/* ---- Identity and version ---- */

AMPI_EXPORT(Get_version);
int PMPI_Get_version(int *version, int *subversion)
{
    ampi_enter_any_time("MPI_Get_version");
    if (!version || !subversion)
        return raise_null(version ? "subversion" : "version");
    *version = MPI_VERSION;
    *subversion = MPI_SUBVERSION;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Get_library_version);
int PMPI_Get_library_version(char *version, int *resultlen)
{
    ampi_enter_any_time("MPI_Get_library_version");
    if (!version || !resultlen)
        return raise_null(version ? "resultlen" : "version");
    *resultlen = snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING, "Heddle %s (MPI %d.%d, ABI %d.%d)",
                          HEDDLE_VERSION, MPI_VERSION, MPI_SUBVERSION, MPI_ABI_VERSION, MPI_ABI_SUBVERSION);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Get_processor_name);
int PMPI_Get_processor_name(char *name, int *resultlen)
{
    ampi_enter("MPI_Get_processor_name");
    if (!name || !resultlen)
        return raise_null(name ? "resultlen" : "name");
    snprintf(name, MPI_MAX_PROCESSOR_NAME, "%s", ampi_job.host ? ampi_job.host : "localhost");
    *resultlen = (int)strlen(name);
    return MPI_SUCCESS;
}

/* The resources to which a rank can be restricted; "true" if it is. MPI_Comm_split_type uses the same
 * names. */
AMPI_EXPORT(Get_hw_resource_info);
int PMPI_Get_hw_resource_info(MPI_Info *hw_info)
{
    struct ampi_info *info;

    ampi_enter_any_time("MPI_Get_hw_resource_info");
    if (!hw_info)
        return raise_null("hw_info");
    info = ampi_info_create();
    ampi_info_set(info, "heddle://node", "true");
    ampi_info_set(info, "heddle://process", "true");
    ampi_info_set(info, "heddle://pe", "true");
    *hw_info = (MPI_Info)info;
    return MPI_SUCCESS;
}

/* For profilers, which override it. */
AMPI_EXPORT(Pcontrol);
int PMPI_Pcontrol(const int level, ...)
{
    ampi_enter_any_time("MPI_Pcontrol");
    return MPI_SUCCESS;
}

/* ---- Memory ---- */

/* The alignment that the hint requests, at least 64; 0: the hint is not a power of two. */
static size_t wanted_alignment(const struct ampi_info *info)
{
    const char *hint = ampi_info_get(info, "mpi_minimum_memory_alignment");
    char *end;
    unsigned long value;

    if (!hint)
        return BASE_CACHE_LINE;
    value = strtoul(hint, &end, 10);
    if (*end || value == 0 || (value & (value - 1)))
        return 0;
    return value > BASE_CACHE_LINE ? value : BASE_CACHE_LINE;
}

AMPI_EXPORT(Alloc_mem);
int PMPI_Alloc_mem(MPI_Aint size, MPI_Info info, void *baseptr)
{
    struct ampi_rank *self = ampi_enter("MPI_Alloc_mem");
    struct ampi_info *hints = ampi_info_of(self, info);
    enum gpu_memory kind;
    size_t alignment;
    void *memory;

    if (size < 0)
        return ampi_raise_self(MPI_ERR_ARG, "size is %lld", (long long)size);
    if (!baseptr)
        return raise_null("baseptr");
    if (!hints && info != MPI_INFO_NULL)
        return ampi_info_raise_invalid(info);
    alignment = wanted_alignment(hints);
    if (alignment == 0)
        return ampi_raise_self(MPI_ERR_INFO_VALUE,
                               "mpi_minimum_memory_alignment is \"%s\", which is not a power of two",
                               ampi_info_get(hints, "mpi_minimum_memory_alignment"));
    if (!ampi_program_memory_kind(hints, &kind))
        return ampi_raise_self(MPI_ERR_NO_MEM, "mpi_memory_alloc_kinds is \"%s\", but no CUDA is in use",
                               ampi_info_get(hints, "mpi_memory_alloc_kinds"));
    memory = ampi_program_memory_alloc(kind, alignment, size ? (size_t)size : 1);
    if (!memory)
        return ampi_raise_self(MPI_ERR_NO_MEM, "no memory for %lld bytes", (long long)size);
    *(void **)baseptr = memory;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Free_mem);
int PMPI_Free_mem(void *base)
{
    int error = MPI_SUCCESS;

    ampi_enter("MPI_Free_mem");
    if (BASE_UNLIKELY(__atomic_load_n(&ampi_work_is_used, __ATOMIC_RELAXED)))
        error = ampi_work_free(base, ampi_program_memory_bytes(base));
    if (!error)
        ampi_program_memory_free(base);
    return error;
}
