/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange_node.c: data of exchanges in node memory (procs/node_memory.h): participants on the same node
 * get a reference instead of a message, and read the data in place. Parts are created there in the first
 * place; other data (a member's buffer, the vector of a reduction) is copied there, once for all receivers
 * of a step.
 */
#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/between/reduction.h"

/* Node memory of the exchange. */
struct ampi_exchange_node_block {
    struct ampi_exchange_node_block *next; /* next in x->node_blocks */
    const unsigned char *bytes;
    const void *copy_of; /* the data copied here in this step; NULL: none */
    int step;
    struct ampi_node_ref ref;
};

/* True if another participant (all: every one) can read this one's memory. */
static bool reaches(const struct ampi_exchange *x, bool all)
{
    const struct ampi_coll_remote *remote = x->slot->state->remote;
    bool is_near = all;

    for (int i = 1; i < x->n && is_near == all; i++) {
        int proc = x->proc[ampi_exchange_after(x, i)];
        is_near = remote->leader_pe[proc] >= 0 &&
                  ampi_node_memory_reaches(remote->proc_id[proc], remote->leader_pe[proc]);
    }
    return is_near;
}

static bool is_worth(const struct ampi_exchange *x, size_t n_bytes)
{
    return n_bytes >= ampi_coll_selections[AMPI_COLL_NODE_MEMORY].share_from && x->device < 0 &&
           !x->is_staged;
}

bool ampi_exchange_node_reaches_all(const struct ampi_exchange *x, size_t n_bytes)
{
    return is_worth(x, n_bytes) && reaches(x, true);
}

static struct ampi_exchange_node_block *new_block(struct ampi_exchange *x, size_t n_bytes)
{
    struct ampi_node_ref ref;
    unsigned char *bytes = ampi_node_memory_alloc(n_bytes, &ref);
    struct ampi_exchange_node_block *block;

    if (!bytes)
        return NULL;
    block = ampi_exchange_alloc(x, sizeof *block);
    *block = (struct ampi_exchange_node_block){x->node_blocks, bytes, NULL, 0, ref};
    x->node_blocks = block;
    return block;
}

void *ampi_exchange_node_alloc(struct ampi_exchange *x, size_t n_bytes)
{
    struct ampi_exchange_node_block *block;

    if (!is_worth(x, n_bytes) || (x->reduction && (!x->reduction->is_stable || x->reduction->is_lent)) ||
        !reaches(x, false))
        return NULL;
    block = new_block(x, n_bytes);
    return block ? (void *)(uintptr_t)block->bytes : NULL;
}

void ampi_exchange_node_release(struct ampi_exchange *x)
{
    for (const struct ampi_exchange_node_block *block = x->node_blocks; block; block = block->next)
        ampi_node_memory_release(&block->ref);
    x->node_blocks = NULL;
}

static bool holds(const unsigned char *from, size_t size, const unsigned char *bytes, size_t n_bytes)
{
    return bytes >= from && bytes < from + size && n_bytes <= size - (size_t)(bytes - from);
}

/* The node memory that contains the bytes; NULL: none. *from_out: their offset. */
static const struct ampi_node_ref *find_ref(const struct ampi_exchange *x, const unsigned char *bytes,
                                            size_t n_bytes, size_t *from_out)
{
    const struct ampi_exchange_message *const lists[] = {x->got, x->kept};

    for (const struct ampi_exchange_node_block *block = x->node_blocks; block; block = block->next)
        if (holds(block->bytes, block->ref.n_bytes, bytes, n_bytes)) {
            *from_out = (size_t)(bytes - block->bytes);
            return &block->ref;
        }
    for (size_t i = 0; i < BASE_COUNT(lists); i++)
        for (const struct ampi_exchange_message *message = lists[i]; message; message = message->next)
            if (message->ref.n_bytes && holds(message->bytes, message->ref.n_bytes, bytes, n_bytes)) {
                *from_out = (size_t)(bytes - message->bytes);
                return &message->ref;
            }
    return NULL;
}

/* The block with a copy of the bytes made by the running step; NULL: none. */
static struct ampi_exchange_node_block *find_copy(const struct ampi_exchange *x, const void *bytes,
                                                  size_t n_bytes)
{
    struct ampi_exchange_node_block *block = x->node_blocks;

    while (block && (block->copy_of != bytes || block->step != x->step || block->ref.n_bytes != n_bytes))
        block = block->next;
    return block;
}

static struct ampi_exchange_node_block *copy(struct ampi_exchange *x, const void *bytes, size_t n_bytes)
{
    struct ampi_exchange_node_block *block = find_copy(x, bytes, n_bytes);

    if (block)
        return block;
    block = new_block(x, n_bytes);
    if (!block)
        return NULL;
    memcpy((void *)(uintptr_t)block->bytes, bytes, n_bytes);
    block->copy_of = bytes;
    block->step = x->step;
    return block;
}

bool ampi_exchange_node_lend(struct ampi_exchange *x, int proc, const void *bytes, size_t n_bytes,
                             struct ampi_node_ref *ref_out)
{
    const struct ampi_coll_remote *remote = x->slot->state->remote;
    int proc_id = remote->proc_id[proc], pe_id = remote->leader_pe[proc];
    const struct ampi_node_ref *ref;
    const struct ampi_exchange_node_block *block;
    size_t from = 0;

    if (x->device >= 0 || x->is_staged || n_bytes == 0)
        return false;
    /* In most reductions the vector changes while other processes read the sent elements. */
    ref = x->reduction && !x->reduction->is_stable ? NULL : find_ref(x, bytes, n_bytes, &from);
    if (!ref) {
        if (!ampi_node_memory_reaches(proc_id, pe_id) || !(block = copy(x, bytes, n_bytes)))
            return false;
        ref = &block->ref;
    }
    return ampi_node_memory_lend(ref, from, n_bytes, proc_id, pe_id, ref_out);
}
