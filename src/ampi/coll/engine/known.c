/* SPDX-License-Identifier: BSD-3-Clause
 *
 * known.c: facts that a persistent collective keeps about the memory of its buffers (device_ops.h). A start updates
 * them only if memory has been freed or mapped since, by the rules of gpu_facts (gpu_detect.h).
 */
#include "ampi/coll/engine/coll.h"

#include "ampi/comm/topo.h"
#include "base/log.h"

static uint64_t changes_now(void)
{
    return atomic_load_explicit(&gpu_change_count, memory_order_acquire);
}

/* False: the buffer is not significant. */
static bool has_memory(const struct ampi_coll_buf *buf)
{
    return !ampi_coll_is_in_place(buf) && (buf->is_w ? buf->n_blocks > 0 : buf->type != NULL);
}

static struct ampi_coll_memory *create(const struct ampi_coll_buf *buf)
{
    int n = buf->n_blocks > 0 ? buf->n_blocks : 2;
    struct ampi_coll_memory *made =
        base_calloc(1, sizeof *made + (size_t)n * sizeof made->known[0], "a persistent collective");

    made->n = n;
    if (buf->n_blocks == 0)
        made->known[1].is_shared = true;
    return made;
}

static void look(struct ampi_coll_buf *buf)
{
    struct ampi_coll_memory *memory = buf->memory;
    uint64_t changes = changes_now();
    bool is_all = true;

    memory->is_on_device = false;
    for (int i = 0; i < memory->n; i++) {
        struct ampi_coll_block block = buf->n_blocks ? ampi_coll_block(buf, i) : ampi_coll_whole(buf);
        struct gpu_facts *facts = &memory->known[i].facts;
        if (block.count == 0 || block.type->size_bytes == 0)
            continue;
        if (!gpu_facts_hold(facts))
            gpu_facts_collect(facts, ampi_type_address(block.buf, block.type->true_lb_bytes));
        is_all &= gpu_facts_hold(facts);
        memory->is_on_device |= facts->range.memory >= GPU_MEMORY_MANAGED;
    }
    memory->changes = is_all ? changes : 0;
}

static void look_again(struct ampi_coll_buf *buf)
{
    if (!has_memory(buf))
        return;
    if (!buf->memory)
        buf->memory = create(buf);
    if (buf->memory->changes != changes_now())
        look(buf);
}

void ampi_coll_memory_update(struct ampi_coll_args *args)
{
    if (!gpu_is_used() || !args->has_buffers)
        return;
    look_again(&args->send);
    look_again(&args->recv);
}

void ampi_coll_memory_free(struct ampi_coll_args *args)
{
    if (!args->has_buffers)
        return;
    free(args->send.memory);
    free(args->recv.memory);
}

/* ---- Buffers of work requests ---- */

/* Without arrays of counts the buffer may have a block for each member or neighbor, as far as is known here. */
static MPI_Count blocks_max(const struct ampi_comm *comm)
{
    MPI_Count n = comm->peer->n_ranks > comm->local->n_ranks ? comm->peer->n_ranks : comm->local->n_ranks;

    if (comm->shared->topo && ampi_topo_in_degree(comm) > n)
        n = ampi_topo_in_degree(comm);
    if (comm->shared->topo && ampi_topo_out_degree(comm) > n)
        n = ampi_topo_out_degree(comm);
    return n;
}

static void settle(const struct ampi_coll_args *args, const struct ampi_coll_buf *buf, bool is_written)
{
    if (!has_memory(buf))
        return;
    for (int i = 0; i < buf->n_blocks; i++) {
        struct ampi_coll_block block = ampi_coll_block(buf, i);
        if (block.count > 0)
            ampi_work_settle(block.buf, block.count, block.type, is_written);
    }
    if (buf->n_blocks == 0 && buf->count > 0)
        ampi_work_settle(buf->buf, blocks_max(args->comm) * buf->count, buf->type, is_written);
}

void ampi_coll_settle(const struct ampi_coll_args *args)
{
    settle(args, &args->send, false);
    settle(args, &args->recv, true);
}
