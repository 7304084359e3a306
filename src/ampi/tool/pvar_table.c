/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pvar_table.c: the performance variables: one row each, by category.
 *
 * A rank's own numbers are those of an MPI process. Shared numbers are counted per PE and read for the
 * calling rank's PE: PEs share no counter, so counting costs an addition.
 */
#include "ampi/coll/between/coll_nccl.h"
#include "ampi/tool/tool.h"
#include "ampi/p2p/thread/endpoint.h"
#include "gpu/gpu.h"
#include "gpu_detect.h"

/* ---- Scheduler: of the calling rank's PE ---- */

static uint64_t get_switches(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return ult_pe_switches(self->ult.pe);
}

static uint64_t get_sleeps(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return ult_pe_sleeps(self->ult.pe);
}

/* ---- Messages ---- */

static uint64_t get_sent_same_pe(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return self->n_sent[AMPI_ROUTE_SAME_PE] + ampi_endpoints_sent(self, AMPI_ROUTE_SAME_PE);
}

static uint64_t get_sent_other_pe(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return self->n_sent[AMPI_ROUTE_OTHER_PE] + ampi_endpoints_sent(self, AMPI_ROUTE_OTHER_PE);
}

static uint64_t get_sent_other_process(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return self->n_sent[AMPI_ROUTE_OTHER_PROCESS];
}

static uint64_t get_backlog(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return ult_pe_backlogged(self->ult.pe);
}

static uint64_t get_message_bytes(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return self->messages->n_bytes;
}

static uint64_t get_posted(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return comm->match.n_posted - comm->match.n_posted_of[AMPI_MATCH_WATCHED];
}

static uint64_t get_unexpected(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return comm->match.unexpected.n_nodes;
}

static uint64_t get_unexpected_ever(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return comm->match.n_unexpected_ever;
}

static uint64_t get_pending(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return comm->n_pending;
}

static uint64_t get_collectives(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return (uint64_t)comm->coll_seq + comm->n_series_starts;
}

/* ---- Device buffers: of the calling rank's PE ---- */

static struct gpu_counts device_counts(void)
{
    struct gpu_counts counts;

    gpu_detect_counts(&counts);
    return counts;
}

static uint64_t get_device_hits(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return device_counts().hits;
}

static uint64_t get_device_misses(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return device_counts().misses;
}

static uint64_t get_device_queries(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return device_counts().queries;
}

static uint64_t get_sent_away(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return gpu_resident_times_sent_away();
}

static uint64_t get_slots(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return gpu_slot_count();
}

static uint64_t get_nccl(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    return ampi_coll_nccl_count();
}

#define COUNTER MPI_T_PVAR_CLASS_COUNTER
#define LEVEL MPI_T_PVAR_CLASS_LEVEL
#define NO_OBJECT MPI_T_BIND_NO_OBJECT
#define COMM MPI_T_BIND_MPI_COMM

static const struct ampi_tool_pvar pvars[] = {
    {"heddle_switches", AMPI_TOOL_SCHEDULER, COUNTER, NO_OBJECT, get_switches,
     "switches between ranks on this rank's PE"},
    {"heddle_sleeps", AMPI_TOOL_SCHEDULER, COUNTER, NO_OBJECT, get_sleeps,
     "times that this rank's PE slept because none of its ranks was ready"},
    {"heddle_sent_same_pe", AMPI_TOOL_MESSAGES, COUNTER, NO_OBJECT, get_sent_same_pe,
     "messages from this rank to ranks of its PE"},
    {"heddle_sent_other_pe", AMPI_TOOL_MESSAGES, COUNTER, NO_OBJECT, get_sent_other_pe,
     "messages from this rank to ranks of other PEs of its process"},
    {"heddle_sent_other_process", AMPI_TOOL_MESSAGES, COUNTER, NO_OBJECT, get_sent_other_process,
     "messages from this rank to ranks of other processes"},
    {"heddle_backlog", AMPI_TOOL_MESSAGES, LEVEL, NO_OBJECT, get_backlog,
     "messages from this rank's PE that wait for room in other PEs' inboxes"},
    {"heddle_message_bytes", AMPI_TOOL_MESSAGES, LEVEL, NO_OBJECT, get_message_bytes,
     "memory of this rank's PE for messages that wait for their receives"},
    {"heddle_posted_receives", AMPI_TOOL_MESSAGES, LEVEL, COMM, get_posted,
     "receives of this rank that have not matched a message yet"},
    {"heddle_unexpected_messages", AMPI_TOOL_MESSAGES, LEVEL, COMM, get_unexpected,
     "messages to this rank that have not matched a receive yet"},
    {"heddle_unexpected_total", AMPI_TOOL_MESSAGES, COUNTER, COMM, get_unexpected_ever,
     "messages to this rank that arrived before their receive"},
    {"heddle_pending_requests", AMPI_TOOL_MESSAGES, LEVEL, COMM, get_pending,
     "pending requests, matched messages and buffered sends of this rank on the communicator"},
    {"heddle_collectives", AMPI_TOOL_MESSAGES, COUNTER, COMM, get_collectives,
     "collectives that this rank started on the communicator"},
    {"heddle_device_hits", AMPI_TOOL_DEVICES, COUNTER, NO_OBJECT, get_device_hits,
     "buffers found in the address cache of this rank's PE; none are looked up without CUDA"},
    {"heddle_device_misses", AMPI_TOOL_DEVICES, COUNTER, NO_OBJECT, get_device_misses,
     "buffers missing or stale in the address cache of this rank's PE"},
    {"heddle_device_queries", AMPI_TOOL_DEVICES, COUNTER, NO_OBJECT, get_device_queries,
     "queries of this rank's PE to CUDA's driver for the memory at an address"},
    {"heddle_gpu_service_sent_away", AMPI_TOOL_DEVICES, COUNTER, NO_OBJECT, get_sent_away,
     "evictions of the resident kernel by blocking CUDA calls in this rank's process (+gpu service)"},
    {"heddle_gpu_stream_messages", AMPI_TOOL_DEVICES, COUNTER, NO_OBJECT, get_slots,
     "messages in streams of this rank's process that the GPUs exchanged by themselves (MPIX_Recv_enqueue)"},
    {"heddle_nccl_collectives", AMPI_TOOL_DEVICES, COUNTER, NO_OBJECT, get_nccl,
     "collectives of this rank's process that ran through NCCL"},
};

const struct ampi_tool_pvar *ampi_tool_pvar_get(int index)
{
    return &pvars[index];
}

int ampi_tool_pvar_count(void)
{
    return (int)BASE_COUNT(pvars);
}

enum ampi_tool_category ampi_tool_pvar_category(int index)
{
    return pvars[index].category;
}
