/* SPDX-License-Identifier: BSD-3-Clause
 *
 * win_create.c: the functions that create windows (MPI 5.0, section 12.2).
 */
#include "ampi/rma/rma.h"

#include <limits.h>

#include "ampi/datatype/program_memory.h"
#include "ampi/object/errhandler.h"

/* Common arguments: the communicator, hints and the address of the window. */
struct create {
    struct ampi_comm *comm;
    const struct ampi_info *info;
    MPI_Win *win;
};

static int check(struct ampi_rank *self, MPI_Comm comm, MPI_Info info, MPI_Win *win, struct create *out)
{
    out->comm = ampi_comm_of(self, comm);
    if (!out->comm)
        return ampi_comm_raise_invalid(comm);
    if (out->comm->shared->is_inter)
        return ampi_raise(out->comm, MPI_ERR_COMM, "windows can only be created on intracommunicators");
    out->info = ampi_info_of(self, info);
    if (!out->info && info != MPI_INFO_NULL)
        return ampi_raise(out->comm, MPI_ERR_INFO, "%p is not a valid info object", (void *)info);
    if (!win)
        return ampi_raise(out->comm, MPI_ERR_ARG, "the address of the window is NULL");
    out->win = win;
    return MPI_SUCCESS;
}

static int check_memory(const struct create *create, MPI_Aint size, MPI_Aint disp_unit)
{
    if (size < 0)
        return ampi_raise(create->comm, MPI_ERR_SIZE, "the size %lld is negative", (long long)size);
    if (disp_unit <= 0)
        return ampi_raise(create->comm, MPI_ERR_DISP, "the displacement unit %lld is not positive",
                          (long long)disp_unit);
    return MPI_SUCCESS;
}

static int make(const struct create *create, struct ampi_win_payload *payload, void *allocated)
{
    struct ampi_win *made;
    int error = ampi_win_make(create->comm, payload, create->info, allocated, &made);

    if (!error)
        *create->win = (MPI_Win)made;
    return error;
}

/* The requested alignment, at least a cache line. */
static size_t alignment_of(const struct ampi_info *info)
{
    const char *text = ampi_info_get(info, "mpi_minimum_memory_alignment");
    unsigned long long wanted = text ? strtoull(text, NULL, 10) : 0;

    if (wanted > (1ull << 30) || (wanted & (wanted - 1)))
        wanted = 0; /* an unusable hint */
    return base_max_u64(wanted, BASE_CACHE_LINE);
}

/* ---- MPI_Win_create ---- */

int ampi_win_create(struct ampi_rank *self, void *base, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info,
                    MPI_Comm comm, MPI_Win *win)
{
    struct create create;
    struct ampi_win_payload payload = {
        .base = base, .size_bytes = size, .disp_unit = disp_unit, .flavor = MPI_WIN_FLAVOR_CREATE};
    int error;

    if ((error = check(self, comm, info, win, &create)) || (error = check_memory(&create, size, disp_unit)))
        return error;
    if (!base && size > 0)
        return ampi_raise(create.comm, MPI_ERR_BUFFER, "base is NULL, but the size is %lld", (long long)size);
    return make(&create, &payload, NULL);
}

/* ---- MPI_Win_allocate ---- */

/* True if the members together allocate memory that processes share. */
static bool is_over_processes(const struct ampi_comm *comm)
{
    return comm->local->layout->n_local < comm->local->n_ranks;
}

/* No process can address more bytes: a sanitizer's allocator would end a program that asks for them. */
#define ADDRESSES_MAX ((MPI_Aint)1 << 48)

/* Sets the member's own memory, unless the processes of a node will share it, or its error, which all members
 * need. */
static void *bring_memory(const struct create *create, struct ampi_win_payload *payload)
{
    enum gpu_memory kind;
    void *memory = NULL;

    if (!ampi_program_memory_kind(create->info, &kind)) {
        payload->error = MPI_ERR_NO_MEM;
        return NULL;
    }
    payload->has_own_memory = kind != GPU_MEMORY_HOST;
    if (payload->size_bytes == 0 || (!payload->has_own_memory && is_over_processes(create->comm)))
        return NULL;
    if (payload->size_bytes <= ADDRESSES_MAX)
        memory = ampi_program_memory_alloc(kind, alignment_of(create->info), (size_t)payload->size_bytes);
    if (!memory)
        payload->error = MPI_ERR_NO_MEM;
    payload->base = memory;
    return memory;
}

int ampi_win_allocate(struct ampi_rank *self, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info, MPI_Comm comm,
                      void *baseptr, MPI_Win *win)
{
    struct create create;
    struct ampi_win_payload payload = {
        .size_bytes = size, .disp_unit = disp_unit, .flavor = MPI_WIN_FLAVOR_ALLOCATE};
    struct ampi_win *made;
    void *memory;
    int error;

    if ((error = check(self, comm, info, win, &create)) || (error = check_memory(&create, size, disp_unit)))
        return error;
    if (!baseptr)
        return ampi_raise(create.comm, MPI_ERR_ARG, "baseptr is NULL");
    payload.is_noncontiguous = true;
    payload.alignment_bytes = alignment_of(create.info);
    memory = bring_memory(&create, &payload);
    error = ampi_win_make(create.comm, &payload, create.info, memory, &made);
    if (error)
        return error;
    *win = (MPI_Win)made;
    *(void **)baseptr = made->shared->targets[made->rank].base;
    return MPI_SUCCESS;
}

/* ---- MPI_Win_allocate_shared ---- */

int ampi_win_allocate_shared(struct ampi_rank *self, MPI_Aint size, MPI_Aint disp_unit, MPI_Info info,
                             MPI_Comm comm, void *baseptr, MPI_Win *win)
{
    struct create create;
    struct ampi_win_payload payload = {
        .size_bytes = size, .disp_unit = disp_unit, .flavor = MPI_WIN_FLAVOR_SHARED};
    struct ampi_win *made;
    int error;

    if ((error = check(self, comm, info, win, &create)) || (error = check_memory(&create, size, disp_unit)))
        return error;
    if (!baseptr)
        return ampi_raise(create.comm, MPI_ERR_ARG, "baseptr is NULL");
    payload.is_noncontiguous = ampi_info_is_true(create.info, "alloc_shared_noncontig");
    payload.alignment_bytes = alignment_of(create.info);
    error = ampi_win_make(create.comm, &payload, create.info, NULL, &made);
    if (error)
        return error;
    *win = (MPI_Win)made;
    *(void **)baseptr = made->shared->targets[made->rank].base;
    return MPI_SUCCESS;
}

/* The first member with memory, for MPI_PROC_NULL; -1: none. */
static int first_with_memory(const struct ampi_win_shared *shared)
{
    for (int i = 0; i < shared->n_ranks; i++)
        if (shared->targets[i].size_bytes > 0)
            return i;
    return -1;
}

/* Memory of members of this process is always accessible, for any flavor; that of others only if it was
 * allocated as shared memory. */
static int shared_query(MPI_Win handle, int rank, MPI_Aint *size, MPI_Aint *disp_unit, void *baseptr)
{
    struct ampi_win *win = ampi_win_of(handle);
    const struct ampi_win_target *target;

    if (!win)
        return ampi_win_raise_invalid(handle);
    if (win->shared->flavor == MPI_WIN_FLAVOR_DYNAMIC)
        return ampi_win_raise(win, MPI_ERR_RMA_FLAVOR, "a dynamic window has no memory of its own");
    if ((unsigned)rank >= (unsigned)win->shared->n_ranks && rank != MPI_PROC_NULL)
        return ampi_win_raise(win, MPI_ERR_RANK, "the rank is %d, but the window's size is %d", rank,
                              win->shared->n_ranks);
    if (!size || !disp_unit || !baseptr)
        return ampi_win_raise(win, MPI_ERR_ARG, "%s is NULL",
                              !size        ? "size"
                              : !disp_unit ? "disp_unit"
                                           : "baseptr");
    if (rank == MPI_PROC_NULL)
        rank = first_with_memory(win->shared);
    target = rank >= 0 ? &win->shared->targets[rank] : NULL;
    if (target && !target->at)
        target = NULL;
    *size = target ? target->size_bytes : 0;
    *disp_unit = target ? target->disp_unit : 1;
    *(void **)baseptr = target ? target->base : NULL;
    return MPI_SUCCESS;
}

AMPI_EXPORT(Win_shared_query);
int PMPI_Win_shared_query(MPI_Win win, int rank, MPI_Aint *size, int *disp_unit, void *baseptr)
{
    MPI_Aint unit = 0;
    int error;

    ampi_enter("MPI_Win_shared_query");
    error = shared_query(win, rank, size, disp_unit ? &unit : NULL, baseptr);
    if (!error)
        *disp_unit = (int)unit;
    return error;
}

AMPI_EXPORT(Win_shared_query_c);
int PMPI_Win_shared_query_c(MPI_Win win, int rank, MPI_Aint *size, MPI_Aint *disp_unit, void *baseptr)
{
    ampi_enter("MPI_Win_shared_query_c");
    return shared_query(win, rank, size, disp_unit, baseptr);
}

/* ---- MPI_Win_create_dynamic ---- */

AMPI_EXPORT(Win_create_dynamic);
int PMPI_Win_create_dynamic(MPI_Info info, MPI_Comm comm, MPI_Win *win)
{
    struct ampi_rank *self = ampi_enter("MPI_Win_create_dynamic");
    struct create create;
    struct ampi_win_payload payload = {.disp_unit = 1, .flavor = MPI_WIN_FLAVOR_DYNAMIC};
    int error = check(self, comm, info, win, &create);

    return error ? error : make(&create, &payload, NULL);
}
