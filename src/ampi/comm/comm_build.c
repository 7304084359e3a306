/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_build.c: creating and destroying communicators: layouts, the shared part, the members' handles.
 */
#include "ampi/comm/comm.h"
#include "ampi/comm/comm_stream.h"

#include <string.h>

#include "ampi/object/errhandler.h"
#include "ampi/object/info.h"
#include "ampi/procs/procs.h"
#include "ampi/comm/contexts.h"
#include "ampi/comm/topo.h"
#include "base/log.h"

/* ---- Layouts ---- */

/* Sorts the members by PE, each PE's in ascending order: a counting sort. */
static void fill_parts(struct ampi_layout *layout)
{
    int n_ranks = layout->group->n_ranks;
    int *fill;

    layout->part_of_pe = base_malloc((size_t)ampi_job.n_pes * sizeof(int), "a communicator's layout");
    for (int pe = 0; pe < ampi_job.n_pes; pe++)
        layout->part_of_pe[pe] = 0;
    for (int i = 0; i < n_ranks; i++)
        if (layout->pe_of[i] != AMPI_PE_REMOTE) {
            layout->part_of_pe[layout->pe_of[i]]++;
            layout->n_local++;
        }
    layout->part_pe = base_malloc((size_t)ampi_job.n_pes * sizeof(int), "a communicator's layout");
    layout->part_first = base_malloc(((size_t)ampi_job.n_pes + 1) * sizeof(int), "a communicator's layout");
    layout->part_members = base_malloc((size_t)layout->n_local * sizeof(int), "a communicator's layout");
    fill = base_malloc((size_t)ampi_job.n_pes * sizeof(int), "a communicator's layout");
    layout->n_parts = 0;
    layout->part_first[0] = 0;
    for (int pe = 0; pe < ampi_job.n_pes; pe++) {
        int n_here = layout->part_of_pe[pe];
        int part = layout->n_parts;
        layout->part_of_pe[pe] = n_here ? part : -1;
        if (!n_here)
            continue;
        layout->part_pe[part] = pe;
        fill[part] = layout->part_first[part];
        layout->part_first[part + 1] = layout->part_first[part] + n_here;
        layout->n_parts++;
    }
    for (int i = 0; i < n_ranks; i++)
        if (layout->pe_of[i] != AMPI_PE_REMOTE)
            layout->part_members[fill[layout->part_of_pe[layout->pe_of[i]]]++] = i;
    free(fill);
}

struct ampi_layout *ampi_layout_create(struct ampi_group *group)
{
    struct ampi_layout *layout = base_calloc(1, sizeof *layout, "a communicator's layout");

    atomic_init(&layout->refs, 1);
    ampi_group_ref(group);
    layout->group = group;
    layout->pe_of = base_malloc((size_t)group->n_ranks * sizeof *layout->pe_of, "a communicator's layout");
    for (int i = 0; i < group->n_ranks; i++) {
        int world_rank = ampi_group_world_rank(group, i);
        layout->pe_of[i] =
            ampi_job_is_local(world_rank) ? (uint16_t)ampi_job_pe_of(world_rank) : AMPI_PE_REMOTE;
    }
    fill_parts(layout);
    return layout;
}

static void ref_layout(struct ampi_layout *layout)
{
    atomic_fetch_add_explicit(&layout->refs, 1, memory_order_relaxed);
}

void ampi_layout_unref(struct ampi_layout *layout)
{
    if (atomic_fetch_sub_explicit(&layout->refs, 1, memory_order_acq_rel) != 1)
        return;
    ampi_group_unref(layout->group);
    free(layout->pe_of);
    free(layout->part_pe);
    free(layout->part_of_pe);
    free(layout->part_first);
    free(layout->part_members);
    free(layout);
}

/* ---- Context ids ---- */

/* Used ids, one bit each; guarded by a spin flag because any PE may create a communicator. The table grows when all are used. */
#define CONTEXT_WORDS_FIRST 1024u
#define CONTEXT_WORDS_MAX (UINT32_MAX / 64)
static uint64_t *context_used;
static uint32_t context_words; /* of 64 ids each */
static uint32_t context_hint;  /* the word where the last one was found */
static atomic_flag context_lock = ATOMIC_FLAG_INIT;

/* Doubles the table. With the lock. False: it has the largest size. */
static bool grow_contexts(void)
{
    uint32_t n_words = context_words ? 2 * context_words : CONTEXT_WORDS_FIRST;

    if (n_words > CONTEXT_WORDS_MAX)
        return false;
    context_used = base_realloc(context_used, n_words * sizeof *context_used, "context ids");
    memset(context_used + context_words, 0, (n_words - context_words) * sizeof *context_used);
    if (context_words == 0)
        context_used[0] = 1; /* 0 is not a valid id */
    context_hint = context_words;
    context_words = n_words;
    return true;
}

/* An id that is not used; 0: none. With the lock. */
static uint32_t find_context(void)
{
    for (uint32_t i = 0; i < context_words; i++) {
        uint32_t word = (context_hint + i) % context_words;
        uint64_t free_bits = ~context_used[word];
        if (!free_bits)
            continue;
        context_used[word] |= free_bits & -free_bits;
        context_hint = word;
        return word * 64 + (uint32_t)__builtin_ctzll(free_bits);
    }
    return 0;
}

uint32_t ampi_comm_context_alloc(void)
{
    uint32_t found;

    while (atomic_flag_test_and_set_explicit(&context_lock, memory_order_acquire))
        ;
    found = find_context();
    if (!found && grow_contexts())
        found = find_context();
    atomic_flag_clear_explicit(&context_lock, memory_order_release);
    return found;
}

static void context_free(uint64_t context_id)
{
    while (atomic_flag_test_and_set_explicit(&context_lock, memory_order_acquire))
        ;
    context_used[context_id / 64] &= ~((uint64_t)1 << context_id % 64);
    atomic_flag_clear_explicit(&context_lock, memory_order_release);
}

/* ---- Communicators ---- */

static void build_side(struct ampi_comm_shared *shared, int side_index, struct ampi_layout *layout)
{
    struct ampi_comm_side *side = &shared->side[side_index];

    ref_layout(layout);
    side->layout = layout;
    side->n_ranks = layout->group->n_ranks;
    side->handles = ampi_comm_handles_create(side->n_ranks);
    for (int k = 0; k < layout->n_local; k++) {
        int i = layout->part_members[k];
        struct ampi_comm *comm = &side->handles[i];
        comm->magic = AMPI_MAGIC_COMM;
        comm->rank = i;
        comm->shared = shared;
        comm->local = side;
        comm->peer = shared->is_inter ? &shared->side[1 - side_index] : side;
        comm->owner = &ampi_job.ranks[ampi_job_index_of(ampi_group_world_rank(layout->group, i))];
        ampi_match_init(&comm->match);
    }
}

/* Marks the handles of this process's members. */
static BASE_COLD void mark_side_failed(struct ampi_comm_side *side)
{
    for (int k = 0; side->layout && k < side->layout->n_local; k++)
        ampi_comm_mark_failed(&side->handles[side->layout->part_members[k]]);
}

struct ampi_comm_shared *ampi_comm_build(struct ampi_layout *layout, struct ampi_layout *peer)
{
    return ampi_comm_build_as(layout, peer, 0);
}

struct ampi_comm_shared *ampi_comm_build_as(struct ampi_layout *layout, struct ampi_layout *peer,
                                            uint64_t context_id)
{
    struct ampi_comm_shared *shared;
    bool is_hidden = context_id & AMPI_CONTEXT_ANY_HIDDEN;
    bool is_local =
        layout->n_local == layout->group->n_ranks && (!peer || peer->n_local == peer->group->n_ranks);

    /* Within a process, too, the two sides of an intercommunicator find each other by the id. */
    if (!context_id || (is_local && !peer) || (is_local && is_hidden))
        context_id = ampi_comm_context_alloc();
    if (!context_id)
        return NULL;
    shared = base_calloc(1, sizeof *shared, "a communicator");
    shared->context_id = context_id;
    shared->is_inter = peer != NULL;
    shared->is_hidden = is_hidden;
    build_side(shared, 0, layout);
    if (peer)
        build_side(shared, 1, peer);
    if (BASE_UNLIKELY(ampi_comm_has_failed(shared))) {
        mark_side_failed(&shared->side[0]);
        mark_side_failed(&shared->side[1]);
    }
    atomic_init(&shared->refs, (uint32_t)(layout->n_local + (peer ? peer->n_local : 0)));
    for (int i = 0; i < ampi_comm_n_clients; i++)
        if (ampi_comm_clients[i]->create)
            ampi_comm_clients[i]->create(shared);
    if ((context_id & AMPI_CONTEXT_CROSS) &&
        !is_hidden) /* hidden ones are found through the communicator they belong to */
        ampi_contexts_add(shared);
    return shared;
}

/* The layout of ampi_comm_hidden BY_STREAM: each member of the communicator n times. */
static struct ampi_layout *repeat_members(const struct ampi_group *group, int n)
{
    int *world_ranks = base_malloc((size_t)group->n_ranks * (size_t)n * sizeof(int), "streams of ranks");
    struct ampi_group *repeated;
    struct ampi_layout *layout;

    for (int i = 0; i < group->n_ranks * n; i++)
        world_ranks[i] = ampi_group_world_rank(group, i / n);
    repeated = ampi_group_create_list(world_ranks, group->n_ranks * n);
    layout = ampi_layout_create(repeated);
    ampi_group_unref(repeated);
    free(world_ranks);
    return layout;
}

static struct ampi_comm_shared *build_by_stream(struct ampi_comm_shared *shared)
{
    int n = atomic_load_explicit(&shared->n_streams, memory_order_acquire);
    struct ampi_layout *layout;
    struct ampi_comm_shared *made;

    if (n == 0)
        return NULL;
    layout = repeat_members(shared->side[0].layout->group, n);
    made = ampi_comm_build_as(layout, NULL, shared->context_id | AMPI_CONTEXT_BY_STREAM);
    for (int k = 0; made && k < layout->n_local; k++)
        made->side[0].handles[layout->part_members[k]].match.n_streams = n;
    ampi_layout_unref(layout);
    return made;
}

void ampi_comm_set_n_streams(struct ampi_comm_shared *shared, int *n_streams_of)
{
    int most = 0;

    for (int i = 0; i < shared->side[0].n_ranks; i++)
        most = n_streams_of[i] > most ? n_streams_of[i] : most;
    shared->n_streams_of = n_streams_of;
    atomic_store_explicit(&shared->n_streams, most, memory_order_release);
    if (shared->context_id & AMPI_CONTEXT_CROSS)
        ampi_contexts_changed();
}

struct ampi_comm_shared *ampi_comm_hidden_shared(struct ampi_comm_shared *shared, enum ampi_comm_hidden kind)
{
    struct ampi_comm_shared *hidden = atomic_load_explicit(&shared->hidden[kind], memory_order_acquire);

    if (!hidden) {
        struct ampi_comm_shared *made =
            kind == AMPI_COMM_BY_STREAM
                ? build_by_stream(shared)
                : ampi_comm_build_as(shared->side[0].layout, shared->is_inter ? shared->side[1].layout : NULL,
                                     shared->context_id | AMPI_CONTEXT_HIDDEN);
        if (!made)
            return NULL;
        atomic_init(&made->refs, 1); /* held by the communicator that it belongs to */
        if (atomic_compare_exchange_strong(&shared->hidden[kind], &hidden, made))
            hidden = made;
        else
            ampi_comm_shared_unref(made); /* another PE was faster */
        /* PEs that handled a failure meanwhile did not find it. */
        atomic_thread_fence(memory_order_seq_cst);
        if (BASE_UNLIKELY(ampi_comm_has_failed(shared))) {
            ampi_failed_check_again();
            ult_wake_all();
        }
    }
    return hidden;
}

struct ampi_comm *ampi_comm_hidden(struct ampi_comm *comm)
{
    struct ampi_comm_shared *hidden = ampi_comm_hidden_shared(comm->shared, AMPI_COMM_INTERNAL);

    return hidden ? &hidden->side[comm->local == &comm->shared->side[1]].handles[comm->rank] : NULL;
}

static void destroy_side(struct ampi_comm_side *side)
{
    for (int k = 0; k < side->layout->n_local; k++) {
        struct ampi_comm *comm = &side->handles[side->layout->part_members[k]];
        comm->magic = AMPI_MAGIC_DEAD;
        ampi_match_fini(&comm->match);
    }
    ampi_comm_handles_destroy(side->handles, side->n_ranks);
    ampi_layout_unref(side->layout);
}

void ampi_comm_shared_ref(struct ampi_comm_shared *shared)
{
    atomic_fetch_add_explicit(&shared->refs, 1, memory_order_relaxed);
}

bool ampi_comm_shared_try_ref(struct ampi_comm_shared *shared)
{
    uint32_t refs = atomic_load_explicit(&shared->refs, memory_order_relaxed);

    while (refs > 0)
        if (atomic_compare_exchange_weak_explicit(&shared->refs, &refs, refs + 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return true;
    return false;
}

void ampi_comm_shared_unref(struct ampi_comm_shared *shared)
{
    if (atomic_fetch_sub_explicit(&shared->refs, 1, memory_order_acq_rel) != 1)
        return;
    /* Must come first, because the hidden communicator is found through this one. */
    if ((shared->context_id & AMPI_CONTEXT_CROSS) && !shared->is_hidden)
        ampi_contexts_remove(shared);
    if (!(shared->context_id & (AMPI_CONTEXT_CROSS | AMPI_CONTEXT_ANY_HIDDEN)))
        context_free(shared->context_id); /* no message within a process has this id any more */
    ampi_comm_retire(shared);
}

void ampi_comm_destroy(struct ampi_comm_shared *shared)
{
    for (size_t i = 0; i < BASE_COUNT(shared->hidden); i++)
        if (shared->hidden[i])
            ampi_comm_shared_unref(shared->hidden[i]);
    free(shared->n_streams_of);
    for (int i = 0; i < ampi_comm_n_clients; i++)
        if (ampi_comm_clients[i]->destroy)
            ampi_comm_clients[i]->destroy(shared);
    ampi_topo_unref(shared->topo);
    destroy_side(&shared->side[0]);
    if (shared->is_inter)
        destroy_side(&shared->side[1]);
    free(shared);
}

void ampi_comm_release(struct ampi_comm *comm)
{
    comm->magic = AMPI_MAGIC_DEAD;
    comm->is_freed = true;
    ampi_info_destroy(comm->info);
    comm->info = NULL;
    ampi_comm_streams_unref(comm->streams);
    ampi_comm_set_streams(comm, NULL);
    free(comm->name);
    comm->name = NULL;
    if (comm == comm->owner->parent)
        comm->owner->parent = NULL;
    for (int i = 0; i < ampi_comm_n_clients; i++)
        if (ampi_comm_clients[i]->release)
            ampi_comm_clients[i]->release(comm);
    if (comm->n_pending == 0)
        ampi_comm_let_go(comm);
}

void ampi_comm_let_go(struct ampi_comm *comm)
{
    ampi_errhandler_unref(comm->errhandler);
    comm->errhandler = NULL;
    ampi_comm_shared_unref(comm->shared);
}

struct ampi_comm *ampi_comm_self(struct ampi_rank *self)
{
    struct ampi_group *group;
    struct ampi_layout *layout;
    struct ampi_comm_shared *shared;

    if (BASE_LIKELY(self->self != NULL))
        return self->self;
    group = ampi_group_create_range(self->world_rank, 1, 1);
    layout = ampi_layout_create(group);
    ampi_group_unref(group);
    shared = ampi_comm_build(layout, NULL);
    ampi_layout_unref(layout);
    if (!shared)
        base_fatal(1,
                   "rank %d: no context id is left for MPI_COMM_SELF: free communicators that are not needed",
                   ampi_rank_number(self));
    self->self = &shared->side[0].handles[0];
    return self->self;
}
