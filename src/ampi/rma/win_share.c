/* SPDX-License-Identifier: BSD-3-Clause
 *
 * win_share.c: windows of MPI_Win_allocate and MPI_Win_allocate_shared over several processes: the memory
 * of a node's members is in one segment, which all processes of the node map. So origins access it as
 * within a process; only locks and signals are messages.
 *
 *      a cache line for each member: its guard | the members' memory by rank
 *
 * The first member of each node creates the segment. Members exchange data in two or three rounds, each a
 * collective: the locations of the segments; whether all processes have mapped theirs, and the addresses of
 * inaccessible members' memory; if some have not, the addresses of the members' own memory instead.
 */
#include "ampi/coll/engine/coll.h"
#include "ampi/coll/engine/items.h"
#include "ampi/rma/win.h"
#include "base/log.h"

/* A member's message in a round. */
struct share_payload {
    struct ampi_segment_place place; /* of the segment of its node, if it has created that */
    char *base;                      /* its memory, as an address in its own process */
    bool is_noncontiguous; /* of the member that creates the segment: parts begin at pages, or as aligned */
    int error;
};

#define PAGE_BYTES ((size_t)4096)

static int node_of(const struct ampi_win_shared *shared)
{
    for (int i = 0; i < shared->n_ranks; i++)
        if (shared->targets[i].handle)
            return shared->targets[i].node;
    return -1;
}

/* The first member on the node. */
static int first_of(const struct ampi_win_shared *shared, int node)
{
    int i = 0;

    while (shared->targets[i].node != node)
        i++;
    return i;
}

/* Sets the members' bases in the segment at `memory`; returns the size that it needs, 0: too large. memory
 * NULL: only computes the size. */
static size_t lay_out(struct ampi_win_shared *shared, int node, bool is_noncontiguous, char *memory)
{
    size_t at = 0, alignment_bytes = base_max_u64(PAGE_BYTES, shared->alignment_bytes);

    for (int i = 0; i < shared->n_ranks; i++)
        at += shared->targets[i].node == node ? BASE_CACHE_LINE : 0;
    at = base_round_up(at, alignment_bytes);
    for (int i = 0; i < shared->n_ranks; i++) {
        struct ampi_win_target *target = &shared->targets[i];
        size_t n_bytes = (size_t)target->size_bytes;
        if (target->node != node)
            continue;
        if (memory)
            target->base = memory + at;
        if (is_noncontiguous && n_bytes < SIZE_MAX / 2)
            n_bytes = base_round_up(n_bytes, alignment_bytes);
        if (__builtin_add_overflow(at, n_bytes, &at) || at > SIZE_MAX / 4)
            return 0;
    }
    return at;
}

/* Makes accumulates use the guards in the segment, and creates stand-ins for members in other processes. */
static void use_segment(struct ampi_win_shared *shared, int node)
{
    int n = 0, n_others = 0;

    for (int i = 0; i < shared->n_ranks; i++)
        n_others += shared->targets[i].node == node && !shared->targets[i].handle;
    shared->stand_ins = base_calloc_aligned((size_t)n_others + 1, sizeof *shared->stand_ins, "a window");
    for (int i = 0; i < shared->n_ranks; i++) {
        struct ampi_win_target *target = &shared->targets[i];
        if (target->node != node)
            continue;
        if (!target->handle) {
            target->at = &shared->stand_ins[--n_others];
            target->at->shared = shared;
            target->at->rank = i;
        }
        target->at->guard =
            (struct ampi_win_guard *)(void *)(shared->segment + (size_t)n++ * BASE_CACHE_LINE);
    }
    shared->is_one_pe = false;
}

/* ---- Rounds ---- */

static const struct share_payload *payload_of(const struct ampi_coll_slot *slot, int member)
{
    return slot->args[member]->send.buf;
}

/* The first error of a member; all members return it. */
static int common_error(struct ampi_coll_slot *slot)
{
    int error = MPI_SUCCESS;

    for (int i = 0; i < slot->state->n_members && !error; i++)
        error = payload_of(slot, i)->error;
    for (int i = 0; i < slot->state->n_members && error; i++)
        if (!slot->args[i]->is_remote)
            slot->args[i]->error = error;
    return error;
}

static void map_middle(struct ampi_coll_slot *slot)
{
    struct ampi_win_shared *shared = slot->last->extra;
    int node = node_of(shared), first = first_of(shared, node);
    const struct share_payload *payload = payload_of(slot, first);

    if (common_error(slot))
        return;
    if (!shared->targets[first].handle) {
        shared->place = payload->place;
        shared->segment = ampi_segment_open(&payload->place);
    }
    if (!shared->segment)
        return;
    lay_out(shared, node, payload->is_noncontiguous, shared->segment);
    use_segment(shared, node);
}

/* Inaccessible members send the addresses of their memory. */
static void settle_middle(struct ampi_coll_slot *slot)
{
    struct ampi_win_shared *shared = slot->last->extra;

    if (common_error(slot))
        return;
    for (int i = 0; i < shared->n_ranks; i++)
        if (!shared->targets[i].at)
            shared->targets[i].base = payload_of(slot, i)->base;
}

/* All members use their own memory. */
static void own_middle(struct ampi_coll_slot *slot)
{
    struct ampi_win_shared *shared = slot->last->extra;

    for (int i = 0; i < shared->n_ranks; i++) {
        struct ampi_win_target *target = &shared->targets[i];
        target->base = payload_of(slot, i)->base;
        target->at = target->handle;
        if (target->handle)
            target->handle->guard = &target->handle->combining;
    }
    common_error(slot);
}

static void share_pack(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                       struct ampi_coll_packer *out)
{
    (void)slot;
    ampi_coll_put_bytes(out, 0, args->send.buf, sizeof(struct share_payload));
}

static void share_unpack(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
                         struct ampi_coll_unpacker *in)
{
    (void)slot;
    ampi_coll_unpack_whole(args, in);
}

#define ROUND(stage)                                                                                     \
    {                                                                                                    \
        .name = "window memory", .flow = AMPI_COLL_FLOW_ALL, .pack = share_pack, .unpack = share_unpack, \
        .middle = stage                                                                                  \
    }
static const struct ampi_coll_plan map_plan = ROUND(map_middle);
static const struct ampi_coll_plan settle_plan = ROUND(settle_middle);
static const struct ampi_coll_plan own_plan = ROUND(own_middle);

static int run(struct ampi_win *win, const struct ampi_coll_plan *plan, struct share_payload *payload)
{
    struct ampi_coll_args args;

    memset(&args, 0, sizeof args);
    ampi_coll_args_init(&args, plan);
    args.comm = win->comm;
    args.send.buf = payload;
    args.extra = win->shared;
    return ampi_coll_run(&args);
}

/* ---- Each member's part ---- */

static void make_segment(struct ampi_win_shared *shared, int node, struct share_payload *payload)
{
    size_t n_bytes = lay_out(shared, node, payload->is_noncontiguous, NULL);

    if (n_bytes > 0)
        shared->segment = ampi_segment_create(n_bytes, shared->alignment_bytes, &payload->place);
    shared->place = payload->place;
    if (!shared->segment)
        payload->error = MPI_ERR_NO_MEM;
}

static int use_own_memory(struct ampi_win *win)
{
    struct share_payload payload = {0};
    size_t n_bytes = (size_t)win->shared->targets[win->rank].size_bytes;

    if (n_bytes > 0 && !win->allocated &&
        posix_memalign(&win->allocated, base_max_u64(PAGE_BYTES, win->shared->alignment_bytes), n_bytes))
        payload.error = MPI_ERR_NO_MEM;
    payload.base = win->allocated;
    return run(win, &own_plan, &payload);
}

int ampi_win_share(struct ampi_win *win, bool is_noncontiguous)
{
    struct ampi_win_shared *shared = win->shared;
    struct share_payload payload = {.is_noncontiguous = is_noncontiguous};
    int node = shared->targets[win->rank].node;
    bool is_first = first_of(shared, node) == win->rank;
    int error;

    if (shared->has_own_memory)
        return use_own_memory(win);
    if (is_first)
        make_segment(shared, node, &payload);
    error = run(win, &map_plan, &payload);
    if (!error) {
        payload.error = shared->segment ? MPI_SUCCESS : MPI_ERR_RMA_SHARED;
        payload.base = shared->targets[win->rank].base;
        error = run(win, &settle_plan, &payload);
    }
    if (is_first && shared->place.pid)
        ampi_segment_close(&shared->place);
    if (error && error != MPI_ERR_PROC_ABORTED && shared->flavor == MPI_WIN_FLAVOR_ALLOCATE)
        return use_own_memory(win);
    return error;
}

void ampi_win_unshare(struct ampi_win_shared *shared)
{
    ampi_segment_unmap(shared->segment, shared->place.n_bytes);
    shared->segment = NULL;
    free(shared->stand_ins);
    shared->stand_ins = NULL;
}
