/* SPDX-License-Identifier: BSD-3-Clause
 *
 * debuggee.c: reads the memory of a program.
 */
#include "mqd/debuggee.h"

#include <string.h>

void mqd_program_begin(struct mqd_program *program)
{
    program->reads_left = MQD_READS_MAX;
    program->is_damaged = false;
}

static bool fetch(struct mqd_program *program, uint64_t addr, int n_bytes, void *bytes_out)
{
    if (program->is_damaged || program->reads_left == 0 || addr > UINT64_MAX - 4096 ||
        program->callbacks->mqs_fetch_data_fp(program->process, addr, n_bytes, bytes_out) != mqs_ok) {
        program->is_damaged = true;
        return false;
    }
    program->reads_left--;
    return true;
}

uint64_t mqd_read(struct mqd_program *program, uint64_t addr, int n_bytes)
{
    unsigned char raw[8] = {0};
    uint8_t byte = 0;
    uint32_t word = 0;
    uint64_t number = 0;

    if (!fetch(program, addr, n_bytes, raw))
        return 0;
    program->callbacks->mqs_target_to_host_fp(program->process, raw,
                                              n_bytes == 1   ? (void *)&byte
                                              : n_bytes == 4 ? (void *)&word
                                                             : (void *)&number,
                                              n_bytes);
    return n_bytes == 1 ? byte : n_bytes == 4 ? word : number;
}

void mqd_read_text(struct mqd_program *program, uint64_t addr, char *text_out, size_t size_bytes)
{
    size_t n = 0;

    while (n + 1 < size_bytes && fetch(program, addr + n, 1, text_out + n) && text_out[n])
        n++;
    text_out[n] = '\0';
}

int32_t mqd_count(struct mqd_program *program, uint64_t base, enum mqd_field field)
{
    int32_t count = mqd_int(program, base, field);

    if (count < 0 || count > MQD_ITEMS_MAX) {
        program->is_damaged = true;
        return 0;
    }
    return count;
}

uint64_t mqd_step(struct mqd_program *program, struct mqd_walk *walk, uint64_t from, enum mqd_field link)
{
    uint64_t next = mqd_u64(program, from, link);

    if ((walk->n & (walk->n + 1)) == 0)
        walk->seen = from;
    walk->n++;
    if (next && next == walk->seen)
        program->is_damaged = true;
    return program->is_damaged ? 0 : next;
}

int mqd_program_open(struct mqd_program *program, mqs_process *process,
                     const mqs_process_callbacks *callbacks, mqs_taddr_t table)
{
    struct mqd_queue_table *own = &program->table;

    memset(program, 0, sizeof *program);
    program->process = process;
    program->callbacks = callbacks;
    mqd_program_begin(program);
    if (mqd_read(program, table + offsetof(struct mqd_queue_table, magic), 8) != MQD_MAGIC)
        return program->is_damaged ? MQD_DAMAGED : MQD_WRONG_VERSION;
    if (mqd_read(program, table + offsetof(struct mqd_queue_table, version), 4) != MQD_VERSION ||
        mqd_read(program, table + offsetof(struct mqd_queue_table, n_fields), 4) != MQD_N_FIELDS)
        return MQD_WRONG_VERSION;
    own->comms = mqd_read(program, table + offsetof(struct mqd_queue_table, comms), 8);
    own->job = mqd_read(program, table + offsetof(struct mqd_queue_table, job), 8);
    own->cross_context = mqd_read(program, table + offsetof(struct mqd_queue_table, cross_context), 8);
    own->comm_magic = (uint32_t)mqd_read(program, table + offsetof(struct mqd_queue_table, comm_magic), 4);
    own->request_magic =
        (uint32_t)mqd_read(program, table + offsetof(struct mqd_queue_table, request_magic), 4);
    for (int i = 0; i < MQD_N_FIELDS; i++)
        own->fields[i] =
            (uint32_t)mqd_read(program, table + offsetof(struct mqd_queue_table, fields) + 4 * (size_t)i, 4);
    return program->is_damaged ? MQD_DAMAGED : mqs_ok;
}

void mqd_read_job(struct mqd_program *program)
{
    uint64_t job = program->table.job;

    program->n_ranks = mqd_int(program, job, MQD_JOB_N_RANKS);
    program->n_procs = mqd_count(program, job, MQD_JOB_N_PROCS);
    program->first_ranks = mqd_u64(program, job, MQD_JOB_FIRST_RANKS);
    program->has_ranks = mqd_int(program, job, MQD_JOB_N_PRESENT) > 1 || program->n_ranks > program->n_procs;
}

int mqd_process_of(struct mqd_program *program, int32_t world_rank)
{
    int32_t low = 0, high = program->n_procs;

    if (world_rank < 0 || world_rank >= program->n_ranks || high == 0)
        return MQS_INVALID_PROCESS;
    if (!program->first_ranks)
        return (int)((((int64_t)world_rank + 1) * high - 1) / program->n_ranks);
    while (high - low > 1) { /* the last process that begins at the rank or before it */
        int32_t middle = low + (high - low) / 2;
        if ((int32_t)mqd_read(program, program->first_ranks + 4 * (uint64_t)middle, 4) <= world_rank)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct mqd_group mqd_read_group(struct mqd_program *program, uint64_t group)
{
    return (struct mqd_group){.list = mqd_u64(program, group, MQD_GROUP_LIST),
                              .n_ranks = mqd_count(program, group, MQD_GROUP_N_RANKS),
                              .first = mqd_int(program, group, MQD_GROUP_FIRST),
                              .stride = mqd_int(program, group, MQD_GROUP_STRIDE)};
}

int32_t mqd_member(struct mqd_program *program, const struct mqd_group *group, int32_t rank)
{
    if (rank < 0 || rank >= group->n_ranks)
        return -1;
    if (group->list)
        return (int32_t)mqd_read(program, group->list + 4 * (uint64_t)rank, 4);
    return (int32_t)(group->first + (int64_t)rank * group->stride);
}

int32_t mqd_number(struct mqd_program *program, uint64_t rank)
{
    int64_t number = mqd_int(program, rank, MQD_RANK_WORLD_RANK);
    uint64_t spawned = mqd_u64(program, rank, MQD_RANK_SPAWNED);

    if (spawned)
        number += (int64_t)mqd_int(program, spawned, MQD_SPAWNED_NUMBER) -
                  mqd_int(program, spawned, MQD_SPAWNED_FIRST);
    return (int32_t)number;
}
