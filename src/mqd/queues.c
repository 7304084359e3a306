/* SPDX-License-Identifier: BSD-3-Clause
 *
 * queues.c: walks through the queues of a program.
 */
#include "mqd/queues.h"

#include <stdlib.h>
#include <string.h>

#define REQUEST_ACTIVE 2 /* enum ampi_request_state */

const mqs_basic_callbacks *mqd_debugger;

void mqd_list_clear(struct mqd_list *list)
{
    if (list->items)
        mqd_debugger->mqs_free_fp(list->items);
    list->items = NULL;
    list->n_items = list->room = 0;
}

/* mqs_ok, MQD_DAMAGED: the program's list has no end; or MQD_NO_MEMORY. */
static int list_add(struct mqd_list *list, const void *item)
{
    if (list->n_items == MQD_ITEMS_MAX)
        return MQD_DAMAGED;
    if (list->n_items == list->room) {
        int32_t room = list->room ? 2 * list->room : 64;
        void *items = mqd_debugger->mqs_malloc_fp((size_t)room * list->item_bytes);
        if (!items)
            return MQD_NO_MEMORY;
        if (list->items) {
            memcpy(items, list->items, (size_t)list->n_items * list->item_bytes);
            mqd_debugger->mqs_free_fp(list->items);
        }
        list->items = items;
        list->room = room;
    }
    memcpy((char *)list->items + (size_t)list->n_items++ * list->item_bytes, item, list->item_bytes);
    return mqs_ok;
}

static int add_operation(struct mqd_list *list, uint64_t handle, uint64_t seq, uint64_t addr)
{
    return list_add(list, &(struct mqd_operation){.handle = handle, .seq = seq, .addr = addr});
}

static int result_of(const struct mqd_program *program, int result)
{
    return result == mqs_ok && program->is_damaged ? MQD_DAMAGED : result;
}

/* ---- Communicators ---- */

static int compare_handles(const void *a, const void *b)
{
    const struct mqd_handle *left = a;
    const struct mqd_handle *right = b;

    if (left->owner != right->owner)
        return left->owner < right->owner ? -1 : 1;
    return left->at > right->at ? -1 : left->at < right->at;
}

/* True if the program has the communicator, or has freed it while operations are pending. */
static bool is_in_use(struct mqd_program *program, uint64_t handle)
{
    if ((uint32_t)mqd_int(program, handle, MQD_COMM_MAGIC) == program->table.comm_magic)
        return true;
    return mqd_read(program, mqd_field(program, handle, MQD_COMM_IS_FREED), 1) != 0 &&
           (mqd_int(program, handle, MQD_COMM_N_PENDING) != 0 ||
            mqd_u64(program, handle, MQD_COMM_ARRIVED) != 0);
}

static int add_side(struct mqd_program *program, uint64_t shared, uint64_t side, int32_t at,
                    struct mqd_list *handles)
{
    uint64_t layout = mqd_u64(program, side, MQD_SIDE_LAYOUT);
    int32_t n_local = mqd_count(program, layout, MQD_LAYOUT_N_LOCAL);
    uint64_t members = mqd_u64(program, layout, MQD_LAYOUT_MEMBERS);
    uint64_t array = mqd_u64(program, side, MQD_SIDE_HANDLES);
    int result = mqs_ok;

    for (int32_t i = 0; i < n_local && result == mqs_ok && !program->is_damaged; i++) {
        int32_t member = (int32_t)mqd_read(program, members + 4 * (uint64_t)i, 4);
        struct mqd_handle handle = {
            .addr = mqd_element(program, array, member, MQD_COMM_BYTES), .shared = shared, .at = at};
        if (!is_in_use(program, handle.addr))
            continue;
        handle.owner = mqd_int(program, mqd_u64(program, handle.addr, MQD_COMM_OWNER), MQD_RANK_WORLD_RANK);
        result = list_add(handles, &handle);
    }
    return result_of(program, result);
}

int mqd_find_handles(struct mqd_program *program, struct mqd_list *handles)
{
    uint64_t shared = mqd_read(program, program->table.comms, 8);
    struct mqd_walk walk = {0};
    int result = result_of(program, mqs_ok);

    handles->item_bytes = sizeof(struct mqd_handle);
    for (int32_t at = 0; shared && result == mqs_ok; at++) {
        result = add_side(program, shared, mqd_field(program, shared, MQD_SHARED_SIDE0), at, handles);
        if (result == mqs_ok)
            result = add_side(program, shared, mqd_field(program, shared, MQD_SHARED_SIDE1), at, handles);
        shared = mqd_step(program, &walk, shared, MQD_SHARED_NEXT);
    }
    qsort(handles->items, (size_t)handles->n_items, sizeof(struct mqd_handle), compare_handles);
    return result_of(program, result);
}

/* ---- Receives and messages ---- */

static int compare_operations(const void *a, const void *b)
{
    const struct mqd_operation *left = a;
    const struct mqd_operation *right = b;

    if (left->handle != right->handle)
        return left->handle < right->handle ? -1 : 1;
    if (left->seq != right->seq)
        return left->seq < right->seq ? -1 : 1;
    return left->addr < right->addr ? -1 : left->addr > right->addr;
}

static void sort(struct mqd_list *list)
{
    qsort(list->items, (size_t)list->n_items, sizeof(struct mqd_operation), compare_operations);
}

/* The nodes of a table of posted receives; those of bound ones are posted if they have a number. */
static int add_table(struct mqd_program *program, uint64_t handle, uint64_t table, struct mqd_list *found)
{
    uint64_t chains = mqd_u64(program, table, MQD_TABLE_CHAINS);
    uint32_t log2 = (uint32_t)mqd_int(program, table, MQD_TABLE_LOG2);
    int result = mqs_ok;

    if (log2 > 20)
        program->is_damaged = true;
    for (int32_t i = 0; !program->is_damaged && i < 1 << log2; i++) {
        uint64_t node = mqd_u64(program, mqd_element(program, chains, i, MQD_CHAIN_BYTES), MQD_CHAIN_FIRST);
        struct mqd_walk walk = {0};
        for (; node && result == mqs_ok; node = mqd_step(program, &walk, node, MQD_NODE_NEXT)) {
            uint64_t seq = mqd_u64(program, node, MQD_NODE_SEQ);
            if (seq)
                result = add_operation(found, handle, seq, node - program->table.fields[MQD_REQUEST_NODE]);
        }
        if (result != mqs_ok)
            break;
    }
    return result_of(program, result);
}

int mqd_find_receives(struct mqd_program *program, uint64_t handle, struct mqd_list *found)
{
    uint64_t bound = mqd_u64(program, handle, MQD_COMM_BOUND);
    int result;

    found->item_bytes = sizeof(struct mqd_operation);
    result = add_table(program, handle, mqd_field(program, handle, MQD_COMM_POSTED), found);
    if (bound && result == mqs_ok)
        result = add_table(program, handle, bound, found);
    sort(found);
    return result;
}

int mqd_find_messages(struct mqd_program *program, uint64_t handle, struct mqd_list *found)
{
    uint64_t node = mqd_u64(program, handle, MQD_COMM_ARRIVED);
    struct mqd_walk walk = {0};
    int result = mqs_ok;

    found->item_bytes = sizeof(struct mqd_operation);
    for (; node && result == mqs_ok; node = mqd_step(program, &walk, node, MQD_NODE_LATER))
        result = add_operation(found, handle, (uint64_t)found->n_items,
                               node - program->table.fields[MQD_MESSAGE_NODE]);
    return result_of(program, result);
}

/* ---- Sends ---- */

/* Adds a request if it is a pending send or partitioned. */
static int add_if_send(struct mqd_program *program, uint64_t request, struct mqd_list *found)
{
    struct mqd_operation operation = {.addr = request};
    char name[24];

    if (!request || (uint32_t)mqd_int(program, request, MQD_REQUEST_MAGIC) != program->table.request_magic ||
        mqd_read(program, mqd_field(program, request, MQD_REQUEST_STATE), 1) != REQUEST_ACTIVE)
        return mqs_ok;
    mqd_read_text(program, mqd_u64(program, mqd_u64(program, request, MQD_REQUEST_KIND), MQD_KIND_NAME), name,
                  sizeof name);
    if (strcmp(name, "partitioned operation") == 0) {
        operation.parts = mqd_u64(program, request, MQD_REQUEST_EXTRA);
        operation.seq = !mqd_read(program, mqd_field(program, operation.parts, MQD_PARTS_IS_SEND), 1);
    } else if (strcmp(name, "send") != 0) {
        return mqs_ok;
    }
    operation.handle = mqd_u64(program, request, MQD_REQUEST_COMM);
    return list_add(found, &operation);
}

int mqd_add_partitioned(const struct mqd_list *sends, uint64_t handle, struct mqd_list *found)
{
    const struct mqd_operation *operations = sends->items;
    int result = mqs_ok;

    for (int32_t i = 0; i < sends->n_items && result == mqs_ok; i++)
        if (operations[i].handle == handle && operations[i].seq)
            result = list_add(found, &operations[i]);
    return result;
}

/* Those of a rank's pool. */
static int add_pool(struct mqd_program *program, uint64_t rank, struct mqd_list *found)
{
    uint64_t slab = mqd_u64(program, rank, MQD_RANK_SLABS);
    struct mqd_walk walk = {0};
    int result = mqs_ok;

    for (; slab && result == mqs_ok; slab = mqd_step(program, &walk, slab, MQD_SLAB_NEXT)) {
        int32_t n = mqd_count(program, slab, MQD_SLAB_N);
        uint64_t requests = mqd_field(program, slab, MQD_SLAB_BYTES);
        for (int32_t i = 0; i < n && result == mqs_ok && !program->is_damaged; i++)
            result = add_if_send(program, mqd_element(program, requests, i, MQD_REQUEST_BYTES), found);
    }
    return result;
}

/* Those that a thread waits for: blocking calls have theirs on the stack. */
static int add_awaited(struct mqd_program *program, uint64_t ult, struct mqd_list *found)
{
    int32_t n = mqd_count(program, ult, MQD_ULT_N_AWAITED);
    uint64_t awaited = mqd_u64(program, ult, MQD_ULT_AWAITED);
    int result = mqs_ok;

    for (int32_t i = 0; i < n && result == mqs_ok && !program->is_damaged; i++)
        result = add_if_send(program, mqd_read(program, awaited + 8 * (uint64_t)i, 8), found);
    return result;
}

static int add_rank(struct mqd_program *program, uint64_t rank, struct mqd_list *found)
{
    uint64_t thread = mqd_u64(program, rank, MQD_RANK_THREADS);
    struct mqd_walk walk = {0};
    int result = add_pool(program, rank, found);

    if (result == mqs_ok)
        result = add_awaited(program, mqd_field(program, rank, MQD_RANK_ULT), found);
    for (; thread && result == mqs_ok; thread = mqd_step(program, &walk, thread, MQD_THREAD_NEXT))
        result = add_awaited(program, mqd_field(program, thread, MQD_THREAD_ULT), found);
    return result;
}

int mqd_find_sends(struct mqd_program *program, struct mqd_list *found)
{
    int32_t n_ranks = mqd_count(program, program->table.job, MQD_JOB_N_PRESENT);
    uint64_t ranks = mqd_u64(program, program->table.job, MQD_JOB_RANKS);
    struct mqd_operation *sends;
    int32_t n_kept = 0;
    int result = mqs_ok;

    found->item_bytes = sizeof(struct mqd_operation);
    for (int32_t i = 0; i < n_ranks && result == mqs_ok && !program->is_damaged; i++)
        result = add_rank(program, mqd_element(program, ranks, i, MQD_RANK_BYTES), found);
    sort(found);
    sends = found->items;
    for (int32_t i = 0; i < found->n_items; i++) /* once each */
        if (i == 0 || sends[i].addr != sends[n_kept - 1].addr)
            sends[n_kept++] = sends[i];
    found->n_items = n_kept;
    return result_of(program, result);
}
