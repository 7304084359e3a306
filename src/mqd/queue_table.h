/* SPDX-License-Identifier: BSD-3-Clause
 *
 * queue_table.h: where the message queues are in the memory of a program: the library exports this table as
 * MPIR_heddle_queues, and libheddle_mqd.so finds it in programs and libraries that are stripped.
 *
 * The table is made by the compiler from the list below (ampi/job/queue_table.c): each field's offset, and its size is checked.
 * A change of the list needs another MQD_VERSION.
 */
#ifndef MQD_QUEUE_TABLE_H
#define MQD_QUEUE_TABLE_H

#include <stdint.h>

#define MQD_MAGIC 0x4d51445f48444c45u
#define MQD_VERSION 1

/* X(name, structure, member, bytes): a field that is read. */
#define MQD_FIELDS(X)                                  \
    X(SHARED_CONTEXT, ampi_comm_shared, context_id, 8) \
    X(SHARED_NEXT, ampi_comm_shared, next_watched, 8)  \
    X(SHARED_SIDE0, ampi_comm_shared, side[0], -1)     \
    X(SHARED_SIDE1, ampi_comm_shared, side[1], -1)     \
    X(SIDE_LAYOUT, ampi_comm_side, layout, 8)          \
    X(SIDE_HANDLES, ampi_comm_side, handles, 8)        \
    X(SIDE_N_RANKS, ampi_comm_side, n_ranks, 4)        \
    X(LAYOUT_GROUP, ampi_layout, group, 8)             \
    X(LAYOUT_N_LOCAL, ampi_layout, n_local, 4)         \
    X(LAYOUT_MEMBERS, ampi_layout, part_members, 8)    \
    X(GROUP_N_RANKS, ampi_group, n_ranks, 4)           \
    X(GROUP_FIRST, ampi_group, first, 4)               \
    X(GROUP_STRIDE, ampi_group, stride, 4)             \
    X(GROUP_LIST, ampi_group, list, 8)                 \
    X(COMM_MAGIC, ampi_comm, magic, 4)                 \
    X(COMM_RANK, ampi_comm, rank, 4)                   \
    X(COMM_LOCAL, ampi_comm, local, 8)                 \
    X(COMM_PEER, ampi_comm, peer, 8)                   \
    X(COMM_OWNER, ampi_comm, owner, 8)                 \
    X(COMM_NAME, ampi_comm, name, 8)                   \
    X(COMM_IS_FREED, ampi_comm, is_freed, 1)           \
    X(COMM_N_PENDING, ampi_comm, n_pending, 4)         \
    X(COMM_POSTED, ampi_comm, match.posted, -1)        \
    X(COMM_BOUND, ampi_comm, match.bound, 8)           \
    X(COMM_ARRIVED, ampi_comm, match.first_arrived, 8) \
    X(TABLE_CHAINS, ampi_match_table, chains, 8)       \
    X(TABLE_LOG2, ampi_match_table, log2_chains, 4)    \
    X(CHAIN_FIRST, ampi_match_chain, first, 8)         \
    X(NODE_NEXT, ampi_match_node, next, 8)             \
    X(NODE_LATER, ampi_match_node, later, 8)           \
    X(NODE_SEQ, ampi_match_node, seq, 8)               \
    X(NODE_SOURCE, ampi_match_node, source, 4)         \
    X(NODE_TAG, ampi_match_node, tag, 4)               \
    X(MESSAGE_IS_REMOTE, ampi_message, is_remote, 1)   \
    X(MESSAGE_NODE, ampi_message, node, -1)            \
    X(MESSAGE_SIZE, ampi_message, size_bytes, 8)       \
    X(MESSAGE_SENDER, ampi_message, sender, 8)         \
    X(REQUEST_STATE, ampi_request, state, 1)           \
    X(REQUEST_KIND, ampi_request, kind, 8)             \
    X(REQUEST_COMM, ampi_request, comm, 8)             \
    X(REQUEST_MAGIC, ampi_request, magic, 4)           \
    X(REQUEST_NODE, ampi_request, u.p2p.node, -1)      \
    X(REQUEST_BUF, ampi_request, u.p2p.buf, 8)         \
    X(REQUEST_COUNT, ampi_request, u.p2p.count, 8)     \
    X(REQUEST_TYPE, ampi_request, u.p2p.type, 8)       \
    X(REQUEST_PEER, ampi_request, u.p2p.peer_rank, 4)  \
    X(REQUEST_TAG, ampi_request, u.p2p.tag, 4)         \
    X(REQUEST_EXTRA, ampi_request, u.extra, 8)         \
    X(PARTS_IS_SEND, ampi_partitioned, is_send, 1)     \
    X(PARTS_BUF, ampi_partitioned, buf, 8)             \
    X(PARTS_COUNT, ampi_partitioned, count, 8)         \
    X(PARTS_TYPE, ampi_partitioned, type, 8)           \
    X(PARTS_PEER, ampi_partitioned, peer_rank, 4)      \
    X(PARTS_TAG, ampi_partitioned, tag, 4)             \
    X(KIND_NAME, ampi_request_kind, name, 8)           \
    X(TYPE_SIZE, ampi_type, size_bytes, 8)             \
    X(SLAB_NEXT, ampi_request_slab, next, 8)           \
    X(SLAB_N, ampi_request_slab, n, 4)                 \
    X(THREAD_NEXT, ampi_thread, next, 8)               \
    X(THREAD_ULT, ampi_thread, ult, -1)                \
    X(ULT_N_AWAITED, ult, n_wait_for, 4)               \
    X(ULT_AWAITED, ult, wait_for, 8)                   \
    X(RANK_WORLD_RANK, ampi_rank, world_rank, 4)       \
    X(RANK_ULT, ampi_rank, ult, -1)                    \
    X(RANK_SLABS, ampi_rank, request_slabs, 8)         \
    X(RANK_THREADS, ampi_rank, threads, 8)             \
    X(RANK_WORLD, ampi_rank, world, 8)                 \
    X(RANK_SELF, ampi_rank, self, 8)                   \
    X(RANK_PARENT, ampi_rank, parent, 8)               \
    X(RANK_SPAWNED, ampi_rank, spawned, 8)             \
    X(SPAWNED_FIRST, ampi_spawned, first_rank, 4)      \
    X(SPAWNED_NUMBER, ampi_spawned, first_number, 4)   \
    X(JOB_RANKS, ampi_job, ranks, 8)                   \
    X(JOB_N_PRESENT, ampi_job, n_present, 4)           \
    X(JOB_N_RANKS, ampi_job, n_ranks, 4)               \
    X(JOB_N_PROCS, ampi_job, n_procs, 4)               \
    X(JOB_FIRST_RANKS, ampi_job, first_ranks, 8)

/* X(name, structure): elements of arrays, and headers of data or of an array. */
#define MQD_SIZES(X)                 \
    X(COMM_BYTES, ampi_comm)         \
    X(MESSAGE_BYTES, ampi_message)   \
    X(CHAIN_BYTES, ampi_match_chain) \
    X(REQUEST_BYTES, ampi_request)   \
    X(SLAB_BYTES, ampi_request_slab) \
    X(RANK_BYTES, ampi_rank)

enum mqd_field {
#define MQD_ENTRY(name, ...) MQD_##name,
    MQD_FIELDS(MQD_ENTRY) MQD_SIZES(MQD_ENTRY)
#undef MQD_ENTRY
        MQD_N_FIELDS
};

struct mqd_queue_table {
    uint64_t magic; /* MQD_MAGIC */
    uint32_t version;
    uint32_t n_fields;
    uint64_t comms;         /* the address of the pointer to the first communicator */
    uint64_t job;           /* of struct ampi_job */
    uint64_t cross_context; /* this bit of SHARED_CONTEXT: the number is the same in all processes */
    uint32_t comm_magic;    /* what COMM_MAGIC holds in a live handle ... */
    uint32_t request_magic; /* ... and REQUEST_MAGIC in a request */
    uint32_t fields[MQD_N_FIELDS];
};

#endif
