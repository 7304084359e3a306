/* SPDX-License-Identifier: BSD-3-Clause
 *
 * started.c: +check usage: the data that started collectives and partitions that are ready send. It has the same checksum when
 * the operation is complete. A part is a block of a collective's buffer, or a partition.
 *
 * Collectives on intercommunicators and on streams are not checked.
 */
#include "ampi/misuse/misuse.h"

#include "ampi/coll/engine/coll.h"
#include "ampi/coll/engine/usage.h"
#include "ampi/coll/plan/coll_calls.h"
#include "ampi/comm/topo.h"
#include "ampi/p2p/partitioned/partitioned.h"
#include "base/log.h"
#include "base/text.h"

struct ampi_misuse_part {
    struct ampi_misuse_call call; /* that made the data final */
    const void *buf;
    MPI_Count count;
    struct ampi_type *type; /* holds a reference; NULL: the part has no data, or is not ready */
    uint64_t sum;
};

static void set(struct ampi_misuse_part *part, struct ampi_misuse_call call, const void *buf, MPI_Count count,
                const struct ampi_type *type)
{
    if (count == 0 || part->type)
        return;
    ampi_type_ref((struct ampi_type *)(uintptr_t)type);
    *part = (struct ampi_misuse_part){call, buf, count, (struct ampi_type *)(uintptr_t)type,
                                      ampi_misuse_sum_of(buf, count, type)};
}

static void create(struct ampi_misuse_pending *op, int n_parts)
{
    op->parts = base_calloc((size_t)n_parts + 1, sizeof *op->parts, "+check usage");
    op->n_parts = n_parts;
}

/* ---- Collectives ---- */

/* The buffer whose data the member sends; NULL: none. */
static const struct ampi_coll_buf *sent_buf(const struct ampi_coll_args *args)
{
    if (args->plan->flow != AMPI_COLL_FLOW_BCAST)
        return &args->send;
    return ampi_coll_is_root(args) ? &args->recv : NULL;
}

static int count_blocks(const struct ampi_coll_args *args, const struct ampi_coll_buf *buf)
{
    if (args->plan->flow == AMPI_COLL_FLOW_ALLTOALL || args->plan->flow == AMPI_COLL_FLOW_SCATTER)
        return args->comm->peer->n_ranks;
    return buf->n_blocks > 0 ? buf->n_blocks : 1;
}

/* The neighbors of an operation's blocks, to be freed; NULL: it has other blocks. */
static int *neighbors_of(const struct ampi_coll_args *args, bool is_in, int *n_out)
{
    int *ranks;

    if (args->plan->flow != AMPI_COLL_FLOW_NEIGHBORS ||
        (!is_in && args->plan != &ampi_coll_neighbor_alltoall_plan))
        return NULL;
    *n_out = is_in ? ampi_topo_in_degree(args->comm) : ampi_topo_out_degree(args->comm);
    ranks = base_malloc(((size_t)*n_out + 1) * sizeof *ranks, "+check usage");
    (is_in ? ampi_topo_in_neighbors : ampi_topo_out_neighbors)(args->comm, ranks);
    return ranks;
}

static void set_sent(struct ampi_rank *rank, struct ampi_misuse_pending *op,
                     const struct ampi_coll_args *args, const struct ampi_coll_buf *buf)
{
    int n = count_blocks(args, buf), *neighbors = neighbors_of(args, false, &n);

    create(op, n);
    for (int i = 0; i < n; i++) {
        struct ampi_coll_block block;
        if (neighbors && neighbors[i] < 0)
            continue; /* beyond the border of a grid there is no block */
        block = n == 1 && !buf->n_blocks ? ampi_coll_whole(buf) : ampi_coll_block(buf, i);
        if (block.count == 0)
            continue;
        ampi_misuse_check_memory(rank, block.buf, block.count, block.type, false);
        set(&op->parts[i], op->call, block.buf, block.count, block.type);
    }
    free(neighbors);
}

/* A block of the result. */
static void add_result(struct ampi_rank *rank, struct ampi_misuse_pending *op, struct ampi_coll_block block)
{
    if (block.count == 0)
        return;
    ampi_misuse_check_memory(rank, block.buf, block.count, block.type, true);
    ampi_misuse_add_runs(op, block.buf, block.count, block.type);
}

/* True if the member has a result. */
static bool has_result(const struct ampi_coll_args *args)
{
    if (args->plan->flow == AMPI_COLL_FLOW_BCAST)
        return !ampi_coll_is_root(args);
    if (args->plan->flow == AMPI_COLL_FLOW_GATHER || args->plan->flow == AMPI_COLL_FLOW_REDUCE)
        return ampi_coll_is_root(args);
    return !args->plan->is_exclusive || args->comm->rank > 0;
}

static void set_result(struct ampi_rank *rank, struct ampi_misuse_pending *op,
                       const struct ampi_coll_args *args)
{
    const struct ampi_coll_buf *buf = &args->recv;
    enum ampi_coll_flow flow = args->plan->flow;
    struct ampi_coll_block block = ampi_coll_whole(buf);
    int n = args->comm->peer->n_ranks, *neighbors = neighbors_of(args, true, &n);

    op->is_recv = true;
    if (flow == AMPI_COLL_FLOW_REDUCE_SCATTER) {
        block.count =
            ampi_coll_is_in_place(&args->send) ? args->send.count : ampi_coll_count(buf, args->comm->rank);
        add_result(rank, op, block);
    } else if (neighbors || buf->n_blocks) {
        for (int i = 0; i < n; i++)
            if (!neighbors || neighbors[i] >= 0)
                add_result(rank, op, ampi_coll_block(buf, i));
    } else {
        if (flow == AMPI_COLL_FLOW_ALL || flow == AMPI_COLL_FLOW_GATHER || flow == AMPI_COLL_FLOW_ALLTOALL)
            block.count *= n;
        add_result(rank, op, block);
    }
    free(neighbors);
}

static bool is_used(const struct ampi_coll_buf *buf)
{
    return buf && !ampi_coll_is_in_place(buf) && (buf->is_w || buf->type);
}

void ampi_misuse_set_parts(struct ampi_rank *rank, struct ampi_misuse_pending *op)
{
    const struct ampi_coll_args *args = ampi_coll_args_of(op->request);

    if (!args || !args->has_buffers || args->comm->shared->is_inter || args->comm->streams)
        return;
    if (is_used(sent_buf(args)))
        set_sent(rank, op, args, sent_buf(args));
    if (has_result(args) && is_used(&args->recv))
        set_result(rank, op, args);
}

/* ---- Partitions ---- */

void ampi_misuse_ready(const char *name, const void *from, MPI_Request handle, int low, int n,
                       const int *list)
{
    struct ampi_rank *rank = ampi_self();
    const struct ampi_request *request = ampi_request_of(handle);
    struct ampi_misuse_call call = {name, NULL};
    const struct ampi_partitioned *end;
    struct ampi_misuse_pending *op;
    MPI_Count n_elems;

    ampi_misuse_acquired();
    op = rank && ampi_misuse_is_on() && n > 0 ? ampi_misuse_find(rank, request) : NULL;
    if (!op || !ampi_request_is_partitioned(request))
        return;
    call.from = ampi_misuse_site(from);
    end = request->u.extra;
    if (end->peer_rank == MPI_PROC_NULL)
        return;
    if (!op->parts)
        create(op, end->n_partitions);
    op->is_partitioned = true;
    n_elems = end->count / end->n_partitions;
    for (int i = 0; i < n; i++) {
        int k = list ? list[i] : low + i;
        set(&op->parts[k], call, ampi_type_address(end->buf, k * n_elems * end->type->extent_bytes), n_elems,
            end->type);
    }
}

/* ---- The end ---- */

static BASE_COLD void report(const struct ampi_rank *rank, const struct ampi_misuse_pending *op, int index,
                             struct ampi_misuse_call call)
{
    char bytes[2 * AMPI_CALL_SITE_BYTES], which[40] = "";
    struct base_text site = base_text_in(bytes, sizeof bytes), out = base_text_in(which, sizeof which);

    ampi_misuse_add_site(&site, call.from);
    if (op->is_partitioned || op->n_parts > 1) {
        base_text_add(&out, op->is_partitioned ? "partition " : "block ");
        base_text_add_number(&out, index);
        base_text_add(&out, " of ");
    }
    ampi_misuse_end_job(rank, &op->parts[index].call,
                        "%sthe send buffer has changed before the operation was completed by %s%s", which,
                        call.name, bytes);
}

void ampi_misuse_end_parts(const struct ampi_rank *rank, struct ampi_misuse_pending *op,
                           struct ampi_misuse_call call, bool is_given_up)
{
    for (int i = 0; i < op->n_parts; i++) {
        struct ampi_misuse_part *part = &op->parts[i];
        if (!part->type)
            continue;
        if (!is_given_up && ampi_misuse_sum_of(part->buf, part->count, part->type) != part->sum)
            report(rank, op, i, call);
        ampi_type_unref(part->type);
    }
    free(op->parts);
}
