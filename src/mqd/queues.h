/* SPDX-License-Identifier: BSD-3-Clause
 *
 * queues.h: the communicators of a program's ranks, and what is in their queues: addresses in the program, in arrays that the
 * debugger's malloc gives.
 */
#ifndef MQD_QUEUES_H
#define MQD_QUEUES_H

#include "mqd/debuggee.h"

/* A rank's handle of a communicator. */
struct mqd_handle {
    uint64_t addr;   /* struct ampi_comm */
    uint64_t shared; /* struct ampi_comm_shared */
    int32_t owner;   /* the rank, in the job */
    int32_t at;      /* the communicator's place in the program's list, newest first */
};

struct mqd_operation {
    uint64_t handle; /* struct ampi_comm */
    uint64_t seq;    /* the order in the queue */
    uint64_t addr;   /* struct ampi_request, or struct ampi_message of unexpected messages */
    uint64_t parts;  /* struct ampi_partitioned; 0: not such an operation */
};

/* An array that grows. */
struct mqd_list {
    void *items;
    int32_t n_items;
    int32_t room;
    size_t item_bytes;
};

/* The debugger's functions, once per process. */
extern const mqs_basic_callbacks *mqd_debugger;

void mqd_list_clear(struct mqd_list *list);

/* Each of these fills an empty list and returns mqs_ok, MQD_DAMAGED or MQD_NO_MEMORY; the list has what was found before. */

/* All handles (struct mqd_handle), by rank, oldest communicator first. */
int mqd_find_handles(struct mqd_program *program, struct mqd_list *handles);

/* A handle's posted receives, without partitioned ones, and unexpected messages, in their order (struct mqd_operation). */
int mqd_find_receives(struct mqd_program *program, uint64_t handle, struct mqd_list *found);
int mqd_find_messages(struct mqd_program *program, uint64_t handle, struct mqd_list *found);

/* The pending sends of all ranks, and partitioned receives, whose seq is 1; by handle. */
int mqd_find_sends(struct mqd_program *program, struct mqd_list *found);

/* Appends a handle's partitioned receives from a list of these. */
int mqd_add_partitioned(const struct mqd_list *sends, uint64_t handle, struct mqd_list *found);

#endif
