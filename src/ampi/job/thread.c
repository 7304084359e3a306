/* SPDX-License-Identifier: BSD-3-Clause
 *
 * thread.c: threads that the program starts (MPI 5.0, section 11.6): which rank is theirs, and what they may
 * ask.
 *
 * The thread level is MPI_THREAD_FUNNELED: such a thread runs no rank, so ampi_self() is NULL on it. But it
 * is some rank's: the one that wanted it (src/image/threads.h), or, of threads that serve all ranks, the one
 * in whose copy of the program the call is. What is left gets the answer of most ranks.
 */
#include "ampi/object/error.h"
#include "ampi/job/job.h"
#include "image/image.h"

/* The rank that the calling thread runs or belongs to; NULL: not known. caller: where it was called from. */
static const struct ampi_rank *rank_of_thread(const void *caller)
{
    const struct ampi_rank *self = ampi_self();
    const struct image *image;
    int slot;

    if (self)
        return self;
    if (!ampi_job.is_virtual)
        return ampi_job.ranks;
    image = image_of_thread();
    slot = ampi_memory_slot_of(image ? image_base(image) : caller);
    return slot >= 0 ? &ampi_job.ranks[slot] : NULL;
}

/* ---- What any thread may ask ---- */

/* Where the rank's world model is; read by its threads while it moves on. */
static enum ampi_rank_state world_state_of(const struct ampi_rank *rank)
{
    return __atomic_load_n(&rank->world_state, __ATOMIC_RELAXED);
}

/* Has the calling thread's rank come that far? Of a thread whose rank is not known: has any rank, or, for the
 * end, have all? */
static bool has_reached(enum ampi_rank_state state, const void *caller)
{
    const struct ampi_rank *rank = rank_of_thread(caller);
    bool wants_all = state >= AMPI_RANK_FINALIZED;

    if (rank)
        return world_state_of(rank) >= state;
    for (int i = 0; i < ampi_job.n_local && ampi_job.ranks; i++)
        if ((world_state_of(&ampi_job.ranks[i]) >= state) != wants_all)
            return !wants_all;
    return wants_all && ampi_job.ranks;
}

AMPI_EXPORT(Initialized);
int PMPI_Initialized(int *flag)
{
    if (!flag)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the flag is NULL");
    *flag = has_reached(AMPI_RANK_INITIALIZED, __builtin_return_address(0));
    return MPI_SUCCESS;
}

AMPI_EXPORT(Finalized);
int PMPI_Finalized(int *flag)
{
    if (!flag)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the flag is NULL");
    *flag = has_reached(AMPI_RANK_FINALIZED, __builtin_return_address(0));
    return MPI_SUCCESS;
}

AMPI_EXPORT(Query_thread);
int PMPI_Query_thread(int *provided)
{
    const struct ampi_rank *rank = rank_of_thread(__builtin_return_address(0));
    bool is_known = rank || !ampi_job.is_virtual;

    if (is_known &&
        (ampi_self() || !rank || __atomic_load_n(&rank->state, __ATOMIC_RELAXED) != AMPI_RANK_INITIALIZED))
        rank = ampi_enter("MPI_Query_thread");
    if (!provided)
        return ampi_raise_self(MPI_ERR_ARG, "provided is NULL");
    *provided = rank ? rank->thread_level : MPI_THREAD_FUNNELED; /* not known: what ranks with threads get */
    return MPI_SUCCESS;
}

/* A rank is its main thread; threads that the program starts run no rank. */
AMPI_EXPORT(Is_thread_main);
int PMPI_Is_thread_main(int *flag)
{
    if (ampi_self())
        ampi_enter("MPI_Is_thread_main");
    if (!flag)
        return ampi_raise_self(MPI_ERR_ARG, "flag is NULL");
    *flag = ampi_self() != NULL;
    return MPI_SUCCESS;
}
