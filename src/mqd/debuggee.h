/* SPDX-License-Identifier: BSD-3-Clause
 *
 * debuggee.h: reads the memory of a program, by the table of its library (queue_table.h).
 *
 * The memory can be damaged or older than the stop: nothing read from it is an address or a length in this process. A read that
 * fails gives 0 and marks the program as damaged; so does the end of the budget, and a list without an end.
 */
#ifndef MQD_DEBUGGEE_H
#define MQD_DEBUGGEE_H

#include <stdbool.h>
#include <stdint.h>

#include "mqd/interface.h"
#include "mqd/queue_table.h"

/* Reads of one look at all communicators, enough for some thousand ranks, and the most elements of an array or a list that
 * are believed. */
#define MQD_READS_MAX (1 << 24)
#define MQD_ITEMS_MAX (1 << 20)

enum mqd_result {
    MQD_NO_TABLE = mqs_first_user_code,
    MQD_WRONG_VERSION,
    MQD_DAMAGED,
    MQD_NO_MEMORY,
    MQD_NO_PROCESS
};

/* Members of a communicator, which are many: read once. */
struct mqd_group {
    uint64_t list; /* of world ranks; 0: they have equal distances */
    int32_t n_ranks;
    int32_t first;
    int32_t stride;
};

struct mqd_program {
    mqs_process *process;
    const mqs_process_callbacks *callbacks;
    struct mqd_queue_table table; /* its addresses are the program's */
    uint32_t reads_left;
    bool is_damaged;
    int32_t n_ranks;      /* of the job */
    int32_t n_procs;      /* of the job */
    uint64_t first_ranks; /* of its processes; 0: all have as many */
    bool has_ranks;       /* the job has processes with several ranks */
};

/* Finds the table, and checks it. Returns mqs_ok or enum mqd_result. */
int mqd_program_open(struct mqd_program *program, mqs_process *process,
                     const mqs_process_callbacks *callbacks, mqs_taddr_t table);

/* Begins a look at all communicators: gives its reads their budget. */
void mqd_program_begin(struct mqd_program *program);

/* n_bytes (1 to 8) at the address, as an unsigned number. */
uint64_t mqd_read(struct mqd_program *program, uint64_t addr, int n_bytes);

/* The text at the address, of at most size_bytes - 1 bytes. */
void mqd_read_text(struct mqd_program *program, uint64_t addr, char *text_out, size_t size_bytes);

/* The address of a field of the structure at an address. */
static inline uint64_t mqd_field(const struct mqd_program *program, uint64_t base, enum mqd_field field)
{
    return base + program->table.fields[field];
}

static inline uint64_t mqd_u64(struct mqd_program *program, uint64_t base, enum mqd_field field)
{
    return base ? mqd_read(program, mqd_field(program, base, field), 8) : 0;
}

static inline int32_t mqd_int(struct mqd_program *program, uint64_t base, enum mqd_field field)
{
    return base ? (int32_t)mqd_read(program, mqd_field(program, base, field), 4) : 0;
}

/* The same for a number of elements: 0 if that cannot be. */
int32_t mqd_count(struct mqd_program *program, uint64_t base, enum mqd_field field);

/* Lists. A step is the address that the link in an element holds; 0 ends the list, also if it leads back to where it was. */
struct mqd_walk {
    uint64_t seen; /* the element before the last power of two steps */
    uint32_t n;
};
uint64_t mqd_step(struct mqd_program *program, struct mqd_walk *walk, uint64_t from, enum mqd_field link);

/* The element of an array. */
static inline uint64_t mqd_element(const struct mqd_program *program, uint64_t array, int32_t at,
                                   enum mqd_field size)
{
    return array + (uint64_t)at * program->table.fields[size];
}

/* Reads what the program has of the job. */
void mqd_read_job(struct mqd_program *program);

/* The number of the process of a rank, as in MPIR_proctable: where each has one rank, that of the rank. MQS_INVALID_PROCESS:
 * unknown (spawned ranks). */
int mqd_process_of(struct mqd_program *program, int32_t world_rank);

struct mqd_group mqd_read_group(struct mqd_program *program, uint64_t group);

/* The world rank of a member of a group; -1: none. */
int32_t mqd_member(struct mqd_program *program, const struct mqd_group *group, int32_t rank);

/* The rank's number in its MPI_COMM_WORLD. */
int32_t mqd_number(struct mqd_program *program, uint64_t rank);

#endif
