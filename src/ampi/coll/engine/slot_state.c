/* SPDX-License-Identifier: BSD-3-Clause
 *
 * slot_state.c: the memory of the slots of a communicator, and of its persistent collectives. See slot.h.
 */
#include "ampi/coll/engine/series.h"
#include "ampi/coll/engine/usage.h"
#include "ampi/coll/engine/between_ops.h"
#include "base/log.h"

/* ---- The table for jobs of one process ---- */

static struct ampi_coll_remote *no_remote(struct ampi_coll_state *state)
{
    (void)state;
    return NULL;
}

static void no_destroy(struct ampi_coll_remote *remote)
{
    (void)remote;
}

static void no_slots_init(struct ampi_coll_slot *slots, int n_slots)
{
    (void)slots;
    (void)n_slots;
}

static void no_slots_fini(struct ampi_coll_slot *slots, struct ampi_coll_nccl *nccl)
{
    (void)slots;
    (void)nccl;
}

static void no_release(struct ampi_coll_slot *slot)
{
    (void)slot;
}

static void no_fail(struct ampi_coll_state *state, int pe_id)
{
    (void)state;
    (void)pe_id;
}

/* The other functions are only called for communicators with a state->remote. */
static const struct ampi_coll_between_ops no_between = {
    .create = no_remote,
    .destroy = no_destroy,
    .slots_init = no_slots_init,
    .slots_fini = no_slots_fini,
    .release = no_release,
    .fail = no_fail,
};
const struct ampi_coll_between_ops *ampi_coll_between = &no_between;

const struct ampi_coll_device_ops *ampi_coll_device; /* not called before CUDA is in the process */

/* ---- The members ---- */

/* The PEs of all members, for both sides of an intercommunicator together. */
static void merge_sides(struct ampi_coll_state *state)
{
    const struct ampi_comm_side *sides = state->shared->side;
    size_t n_pes = (size_t)ampi_job.n_pes;
    int n_filled = 0;

    state->owns_tables = true;
    state->part_of_pe = base_malloc(n_pes * sizeof(int), "an intercommunicator");
    state->part_pe = base_malloc(n_pes * sizeof(int), "an intercommunicator");
    state->part_first = base_malloc((n_pes + 1) * sizeof(int), "an intercommunicator");
    state->part_members = base_malloc((size_t)state->n_members * sizeof(int), "an intercommunicator");
    for (int pe = 0; pe < ampi_job.n_pes; pe++) {
        int n_before = n_filled;
        for (int side = 0; side < 2; side++) {
            const struct ampi_layout *layout = sides[side].layout;
            int part = layout->part_of_pe[pe];
            for (int i = part < 0 ? 0 : layout->part_first[part];
                 part >= 0 && i < layout->part_first[part + 1]; i++)
                state->part_members[n_filled++] = layout->part_members[i] + (side ? sides[0].n_ranks : 0);
        }
        state->part_of_pe[pe] = n_filled > n_before ? state->n_parts : -1;
        if (n_filled > n_before) {
            state->part_pe[state->n_parts] = pe;
            state->part_first[state->n_parts++] = n_before;
        }
    }
    state->part_first[state->n_parts] = n_filled;
}

/* Three allocations for all slots. Those for the members' arguments and for packed contributions cost
 * nothing until they are used: most of a million members are in other processes, and their pages are never
 * touched. */
void ampi_coll_slots_init(struct ampi_coll_state *state, struct ampi_coll_slot *slots, int n_slots,
                          struct ampi_coll_slots_memory *memory_out)
{
    size_t n_members = (size_t)state->n_members;
    size_t parts_bytes = (size_t)state->n_parts * sizeof(struct ampi_coll_pe);
    size_t args_bytes = base_round_up(n_members * sizeof(struct ampi_coll_args *), BASE_CACHE_LINE);
    char *parts = base_calloc_aligned((size_t)n_slots, parts_bytes, "a communicator's collectives");
    /* Not base_calloc_aligned, which writes to all of it. */
    char *args =
        base_calloc(1, (size_t)n_slots * args_bytes + BASE_CACHE_LINE, "a communicator's collectives");

    memory_out->parts = parts;
    memory_out->args = args;
    memory_out->packed =
        base_malloc((size_t)n_slots * n_members * AMPI_COLL_PACK_BYTES, "a communicator's collectives");
    args += -(uintptr_t)args % BASE_CACHE_LINE;
    for (int i = 0; i < n_slots; i++, parts += parts_bytes, args += args_bytes) {
        struct ampi_coll_slot *slot = &slots[i];
        slot->state = state;
        slot->parts = (struct ampi_coll_pe *)parts;
        slot->args = (struct ampi_coll_args **)args;
        slot->packed = memory_out->packed + (size_t)i * n_members * AMPI_COLL_PACK_BYTES;
        for (int part = 0; part < state->n_parts; part++) {
            slot->parts[part].slot = slot;
            slot->parts[part].index = part;
        }
    }
}

void ampi_coll_slots_fini(struct ampi_coll_slots_memory *memory)
{
    free(memory->parts);
    free(memory->args);
    free(memory->packed);
}

/* The engine's state of a new communicator; freed with it. */
static struct ampi_coll_state *create_state(struct ampi_comm_shared *shared)
{
    struct ampi_coll_state *state = base_calloc_aligned(1, sizeof *state, "a communicator's collectives");
    const struct ampi_layout *layout = shared->side[0].layout;

    state->shared = shared;
    state->n_members = shared->side[0].n_ranks + shared->side[1].n_ranks;
    if (shared->is_inter) {
        merge_sides(state);
    } else {
        state->n_parts = layout->n_parts;
        state->part_of_pe = layout->part_of_pe;
        state->part_pe = layout->part_pe;
        state->part_first = layout->part_first;
        state->part_members = layout->part_members;
    }
    ampi_coll_slots_init(state, state->slots, AMPI_COLL_SLOTS, &state->memory);
    state->remote = ampi_coll_between->create(state);
    state->is_pair = !ampi_coll_usage_is_on() && !shared->is_inter && state->n_members == 2 &&
                     (state->remote || state->n_parts == 2);
    state->is_special = state->remote || ampi_coll_usage_is_on();
    ampi_coll_series_table_init(&state->series);
    return state;
}

static void destroy_state(struct ampi_coll_state *state)
{
    ampi_coll_series_table_fini(&state->series);
    ampi_coll_between->destroy(state->remote);
    ampi_coll_slots_fini(&state->memory);
    if (state->owns_tables) {
        free(state->part_of_pe);
        free(state->part_pe);
        free(state->part_first);
        free(state->part_members);
    }
    free(state);
}

static void create(struct ampi_comm_shared *shared)
{
    shared->coll = create_state(shared);
}

static void destroy(struct ampi_comm_shared *shared)
{
    destroy_state(shared->coll);
}

static void fail_shared(struct ampi_comm_shared *shared, int pe_id)
{
    ampi_coll_handle_failure(shared->coll, pe_id);
}

void ampi_coll_connect(void)
{
    static const struct ampi_comm_client client = {
        .create = create, .destroy = destroy, .fail_shared = fail_shared};

    ampi_comm_add_client(&client);
}
