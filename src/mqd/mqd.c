/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mqd.c: libheddle_mqd.so: message queues for debuggers (interface.h).
 *
 * For the interface a process is one rank. Here it has several: each rank's communicators are listed, with the rank in front of
 * the name ("rank 3: MPI_COMM_WORLD") and an id of their own, and what is in their queues is that rank's. Where the
 * interface wants the number of a rank in the job, it gets that of the rank's process, and a line tells the rank.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mqd/queues.h"

struct _mqs_image_info {
    const mqs_image_callbacks *callbacks;
};

struct _mqs_process_info {
    const mqs_process_callbacks *callbacks;
    struct mqd_program program; /* open if is_open */
    bool is_open;
    struct mqd_list handles;
    int32_t at;             /* the current communicator among them */
    struct mqd_group group; /* its owner's side ... */
    struct mqd_group peers; /* ... and the other one, or the same */
    int class;              /* of operations: mqs_op_class */
    struct mqd_list sends;  /* of all communicators */
    bool has_sends;         /* they have been looked up ... */
    int sends_result;       /* ... with this result */
    struct mqd_list found;  /* other operations of the current one */
    int32_t next;           /* operation */
    int32_t end;            /* of the operations */
};

static char text[200]; /* for the debugger, until the next call */

/* ---- Once ---- */

void mqs_setup_basic_callbacks(const mqs_basic_callbacks *callbacks)
{
    mqd_debugger = callbacks;
}

char *mqs_version_string(void)
{
    return (char *)"Heddle " HEDDLE_VERSION;
}

int mqs_version_compatibility(void)
{
    return MQS_INTERFACE_COMPATIBILITY;
}

int mqs_dll_taddr_width(void)
{
    return (int)sizeof(mqs_taddr_t);
}

char *mqs_dll_error_string(int code)
{
    const char *what = code == MQD_NO_TABLE ? "the program's MPI library is not Heddle"
                       : code == MQD_WRONG_VERSION
                           ? "the program's Heddle and libheddle_mqd.so have different versions"
                       : code == MQD_DAMAGED     ? "the program's message queues are damaged, or out of reach"
                       : code == MQD_NO_MEMORY   ? "the debugger's memory is exhausted"
                       : code == MQD_NO_PROCESS  ? "the process is unknown, or not a 64-bit one"
                       : code == mqs_end_of_list ? "end of the list"
                       : code == mqs_no_information ? "no information"
                                                    : "unknown error";

    snprintf(text, sizeof text, "%s", what);
    return text;
}

/* ---- Images and processes ---- */

int mqs_setup_image(mqs_image *image, const mqs_image_callbacks *callbacks)
{
    mqs_image_info *info = mqd_debugger->mqs_malloc_fp(sizeof *info);

    if (!info)
        return MQD_NO_MEMORY;
    info->callbacks = callbacks;
    mqd_debugger->mqs_put_image_info_fp(image, info);
    return mqs_ok;
}

static int find_table(mqs_image *image, mqs_taddr_t *addr_out)
{
    mqs_image_info *info = image ? mqd_debugger->mqs_get_image_info_fp(image) : NULL;

    if (!info || info->callbacks->mqs_find_symbol_fp(image, (char *)"MPIR_heddle_queues", addr_out) != mqs_ok)
        return MQD_NO_TABLE;
    return mqs_ok;
}

int mqs_image_has_queues(mqs_image *image, char **message_out)
{
    mqs_taddr_t ignored;
    int result = find_table(image, &ignored);

    *message_out = result == mqs_ok ? NULL : mqs_dll_error_string(result);
    return result;
}

void mqs_destroy_image_info(mqs_image_info *info)
{
    mqd_debugger->mqs_free_fp(info);
}

int mqs_setup_process(mqs_process *process, const mqs_process_callbacks *callbacks)
{
    mqs_process_info *info = mqd_debugger->mqs_malloc_fp(sizeof *info);

    if (!info)
        return MQD_NO_MEMORY;
    memset(info, 0, sizeof *info);
    info->callbacks = callbacks;
    mqd_debugger->mqs_put_process_info_fp(process, info);
    return mqs_ok;
}

/* The process's information, whose program is open. NULL: it has none. */
static mqs_process_info *begin(mqs_process *process)
{
    mqs_process_info *info = mqd_debugger->mqs_get_process_info_fp(process);

    if (!info || !info->is_open)
        return NULL;
    info->program.is_damaged = false; /* what another call has met may be harmless for this one */
    return info;
}

static void forget(mqs_process_info *info)
{
    mqd_list_clear(&info->handles);
    mqd_list_clear(&info->sends);
    mqd_list_clear(&info->found);
    info->has_sends = false;
    info->at = info->next = info->end = 0;
}

static int open_process(mqs_process *process)
{
    mqs_process_info *info = mqd_debugger->mqs_get_process_info_fp(process);
    mqs_target_type_sizes sizes = {0};
    mqs_image *image;
    mqs_taddr_t table;
    int result;

    if (!info)
        return MQD_NO_PROCESS;
    forget(info);
    info->is_open = false;
    image = info->callbacks->mqs_get_image_fp(process);
    result = find_table(image, &table);
    if (result != mqs_ok)
        return result;
    mqd_debugger->mqs_get_image_info_fp(image)->callbacks->mqs_get_type_sizes_fp(process, &sizes);
    if (sizes.pointer_size != 8)
        return MQD_NO_PROCESS;
    result = mqd_program_open(&info->program, process, info->callbacks, table);
    info->is_open = result == mqs_ok;
    return result;
}

int mqs_process_has_queues(mqs_process *process, char **message_out)
{
    int result = open_process(process);

    *message_out = result == mqs_ok ? NULL : mqs_dll_error_string(result);
    return result;
}

void mqs_destroy_process_info(mqs_process_info *info)
{
    forget(info);
    mqd_debugger->mqs_free_fp(info);
}

/* ---- Communicators ---- */

int mqs_update_communicator_list(mqs_process *process)
{
    mqs_process_info *info = begin(process);
    struct mqd_program *program;

    if (!info)
        return MQD_NO_PROCESS;
    forget(info);
    program = &info->program;
    mqd_program_begin(program);
    mqd_read_job(program);
    return mqd_find_handles(program, &info->handles);
}

static const struct mqd_handle *current(const mqs_process_info *info)
{
    return info && info->at < info->handles.n_items
               ? (const struct mqd_handle *)info->handles.items + info->at
               : NULL;
}

static struct mqd_group read_side(struct mqd_program *program, uint64_t handle, enum mqd_field side)
{
    uint64_t layout = mqd_u64(program, mqd_u64(program, handle, side), MQD_SIDE_LAYOUT);

    return mqd_read_group(program, mqd_u64(program, layout, MQD_LAYOUT_GROUP));
}

/* Reads what the operations of the current communicator need. */
static void enter_communicator(mqs_process_info *info)
{
    const struct mqd_handle *handle = current(info);

    info->next = info->end = 0;
    info->group = info->peers = (struct mqd_group){0};
    if (!handle)
        return;
    info->group = read_side(&info->program, handle->addr, MQD_COMM_LOCAL);
    info->peers = read_side(&info->program, handle->addr, MQD_COMM_PEER);
}

int mqs_setup_communicator_iterator(mqs_process *process)
{
    mqs_process_info *info = begin(process);

    if (!info)
        return MQD_NO_PROCESS;
    mqd_program_begin(&info->program);
    info->at = 0;
    enter_communicator(info);
    return current(info) ? mqs_ok : mqs_end_of_list;
}

int mqs_next_communicator(mqs_process *process)
{
    mqs_process_info *info = begin(process);

    if (!current(info))
        return mqs_end_of_list;
    info->at++;
    enter_communicator(info);
    return current(info) ? mqs_ok : mqs_end_of_list;
}

static void read_name(struct mqd_program *program, uint64_t handle, char *name_out, size_t size_bytes)
{
    uint64_t owner = mqd_u64(program, handle, MQD_COMM_OWNER);
    uint64_t name = mqd_u64(program, handle, MQD_COMM_NAME);
    size_t n = 0;

    if (program->has_ranks)
        n = (size_t)snprintf(name_out, size_bytes, "rank %d: ", (int)mqd_number(program, owner));
    if (name)
        mqd_read_text(program, name, name_out + n, size_bytes - n);
    else
        snprintf(name_out + n, size_bytes - n, "%s",
                 handle == mqd_u64(program, owner, MQD_RANK_WORLD)                     ? "MPI_COMM_WORLD"
                 : handle == mqd_u64(program, owner, MQD_RANK_PARENT)                  ? "MPI_COMM_PARENT"
                 : handle == mqd_u64(program, owner, MQD_RANK_SELF)                    ? "MPI_COMM_SELF"
                 : mqd_read(program, mqd_field(program, handle, MQD_COMM_IS_FREED), 1) ? "(freed)"
                                                                                       : "(no name)");
}

int mqs_get_communicator(mqs_process *process, mqs_communicator *out)
{
    mqs_process_info *info = begin(process);
    const struct mqd_handle *handle = current(info);
    struct mqd_program *program;
    uint64_t id;

    if (!handle)
        return mqs_end_of_list;
    memset(out, 0, sizeof *out);
    program = &info->program;
    id = mqd_u64(program, handle->shared, MQD_SHARED_CONTEXT);
    if (program->has_ranks || !(id & program->table.cross_context)) /* else other ranks have this id, too */
        id ^= ((uint64_t)(uint32_t)handle->owner + 1) * 0x9e3779b97f4a7c15u;
    out->unique_id = id;
    out->local_rank = mqd_int(program, handle->addr, MQD_COMM_RANK);
    out->size = info->group.n_ranks;
    read_name(program, handle->addr, out->name, sizeof out->name);
    return program->is_damaged ? MQD_DAMAGED : mqs_ok;
}

int mqs_get_comm_group(mqs_process *process, int *global_ranks_out)
{
    mqs_process_info *info = begin(process);

    if (!current(info))
        return mqs_end_of_list;
    for (int32_t i = 0; i < info->group.n_ranks; i++)
        global_ranks_out[i] = mqd_process_of(&info->program, mqd_member(&info->program, &info->group, i));
    return info->program.is_damaged ? MQD_DAMAGED : mqs_ok;
}

/* ---- Operations ---- */

/* Finds the sends of all communicators, once, also where the search fails: in damaged memory it can be long. */
static int find_sends(mqs_process_info *info)
{
    if (!info->has_sends)
        info->sends_result = mqd_find_sends(&info->program, &info->sends);
    info->has_sends = true;
    return info->sends_result;
}

/* The part of the sends that is the communicator's. */
static int setup_sends(mqs_process_info *info, uint64_t handle)
{
    int result = find_sends(info);
    const struct mqd_operation *sends = info->sends.items;

    info->next = 0;
    while (info->next < info->sends.n_items && sends[info->next].handle < handle)
        info->next++;
    info->end = info->next;
    while (info->end < info->sends.n_items && sends[info->end].handle == handle && sends[info->end].seq == 0)
        info->end++;
    return result;
}

static int setup_receives(mqs_process_info *info, uint64_t handle)
{
    int result = mqd_find_receives(&info->program, handle, &info->found);

    if (result == mqs_ok)
        result = find_sends(info);
    return result == mqs_ok ? mqd_add_partitioned(&info->sends, handle, &info->found) : result;
}

int mqs_setup_operation_iterator(mqs_process *process, int class)
{
    mqs_process_info *info = begin(process);
    const struct mqd_handle *handle = current(info);
    int result;

    if (!handle)
        return mqs_no_information;
    info->class = class;
    if (class == mqs_pending_sends) {
        result = setup_sends(info, handle->addr);
    } else if (class == mqs_pending_receives || class == mqs_unexpected_messages) {
        mqd_list_clear(&info->found);
        result = class == mqs_pending_receives
                     ? setup_receives(info, handle->addr)
                     : mqd_find_messages(&info->program, handle->addr, &info->found);
        info->next = 0;
        info->end = info->found.n_items;
    } else {
        info->next = info->end = 0;
        return mqs_no_information;
    }
    return result != mqs_ok ? result : info->next < info->end ? mqs_ok : mqs_end_of_list;
}

/* Key and length of an operation, for the fields that the debugger shows of what is wanted and of what is there. */
static void fill(mqs_process_info *info, mqs_pending_operation *out, int32_t rank, int32_t tag,
                 int64_t n_bytes)
{
    int32_t world_rank = mqd_member(&info->program, &info->peers, rank);

    out->desired_local_rank = rank < 0 ? -1 : rank;
    out->desired_global_rank = mqd_process_of(&info->program, world_rank);
    out->tag_wild = tag < 0;
    out->desired_tag = tag;
    out->desired_length = n_bytes;
    out->actual_local_rank = out->desired_local_rank;
    out->actual_global_rank = out->desired_global_rank;
    out->actual_tag = out->desired_tag;
    out->actual_length = out->desired_length;
    if (info->program.has_ranks && world_rank >= 0)
        snprintf(out->extra_text[0], sizeof out->extra_text[0], "%s rank %d of the job",
                 info->class == mqs_pending_sends ? "to" : "from", (int)world_rank);
}

static void fill_request(mqs_process_info *info, uint64_t request, mqs_pending_operation *out)
{
    struct mqd_program *program = &info->program;
    uint64_t type = mqd_u64(program, request, MQD_REQUEST_TYPE);
    int64_t n_bytes =
        (int64_t)(mqd_u64(program, request, MQD_REQUEST_COUNT) * mqd_u64(program, type, MQD_TYPE_SIZE));
    uint64_t node = mqd_field(program, request, MQD_REQUEST_NODE);

    out->status = mqs_st_pending;
    out->buffer = mqd_u64(program, request, MQD_REQUEST_BUF);
    if (info->class == mqs_pending_sends)
        fill(info, out, mqd_int(program, request, MQD_REQUEST_PEER),
             mqd_int(program, request, MQD_REQUEST_TAG), n_bytes);
    else
        fill(info, out, mqd_int(program, node, MQD_NODE_SOURCE), mqd_int(program, node, MQD_NODE_TAG),
             n_bytes);
}

static void fill_partitioned(mqs_process_info *info, uint64_t parts, mqs_pending_operation *out)
{
    struct mqd_program *program = &info->program;
    uint64_t type = mqd_u64(program, parts, MQD_PARTS_TYPE);

    out->status = mqs_st_pending;
    out->buffer = mqd_u64(program, parts, MQD_PARTS_BUF);
    fill(info, out, mqd_int(program, parts, MQD_PARTS_PEER), mqd_int(program, parts, MQD_PARTS_TAG),
         (int64_t)(mqd_u64(program, parts, MQD_PARTS_COUNT) * mqd_u64(program, type, MQD_TYPE_SIZE)));
}

static void fill_message(mqs_process_info *info, uint64_t message, mqs_pending_operation *out)
{
    struct mqd_program *program = &info->program;
    uint64_t node = mqd_field(program, message, MQD_MESSAGE_NODE);
    uint64_t sender = mqd_u64(program, message, MQD_MESSAGE_SENDER);
    bool is_remote = mqd_read(program, mqd_field(program, message, MQD_MESSAGE_IS_REMOTE), 1) != 0;

    out->status = mqs_st_matched; /* so that the debugger shows what is there */
    out->system_buffer = !sender;
    if (sender)
        out->buffer = mqd_u64(program, sender, MQD_REQUEST_BUF);
    else if (!is_remote)
        out->buffer = mqd_field(program, message, MQD_MESSAGE_BYTES);
    fill(info, out, mqd_int(program, node, MQD_NODE_SOURCE), mqd_int(program, node, MQD_NODE_TAG),
         (int64_t)mqd_u64(program, message, MQD_MESSAGE_SIZE));
}

int mqs_next_operation(mqs_process *process, mqs_pending_operation *out)
{
    mqs_process_info *info = begin(process);
    const struct mqd_operation *operation;
    uint32_t reads_left;

    if (!current(info) || info->next >= info->end)
        return mqs_end_of_list;
    reads_left = info->program.reads_left;
    operation =
        (struct mqd_operation *)(info->class == mqs_pending_sends ? &info->sends : &info->found)->items +
        info->next++;
    memset(out, 0, sizeof *out);
    if (info->class == mqs_unexpected_messages)
        fill_message(info, operation->addr, out);
    else if (operation->parts)
        fill_partitioned(info, operation->parts, out);
    else
        fill_request(info, operation->addr, out);
    info->program.reads_left = reads_left; /* as many operations as were found */
    return info->program.is_damaged ? MQD_DAMAGED : mqs_ok;
}
