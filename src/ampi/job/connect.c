/* SPDX-License-Identifier: BSD-3-Clause
 *
 * connect.c: connects lower rooms to the higher ones that they need.
 *
 * A room of src/ampi includes only the rooms below it (docs/architecture.md has the order). A room that has
 * to call upward owns a table of functions, and only this file fills these tables: before main, so that
 * they are complete before any call.
 */
#include "ampi/coll/between/between.h"
#include "ampi/coll/device/coll_device.h"
#include "ampi/coll/engine/slot.h"
#include "ampi/comm/comm.h"
#include "ampi/dynamic/registry.h"
#include "ampi/dynamic/spawn.h"
#include "ampi/enqueue/enqueue.h"
#include "ampi/io/file.h"
#include "ampi/job/job.h"
#include "ampi/job/report.h"
#include "ampi/meet/meet.h"
#include "ampi/misuse/misuse.h"
#include "ampi/p2p/p2p.h"
#include "ampi/p2p/thread/endpoint.h"
#include "ampi/procs/node_memory.h"
#include "ampi/procs/procs.h"
#include "ampi/rma/rma_remote.h"
#include "ampi/tool/event_queue.h"
#include "ampi/work/work.h"

static const void *find_site(const struct ampi_rank *rank, const void *from, const char *lo)
{
    return ampi_call_site_of(rank, from, lo, rank->ult.stack_hi);
}

/* The order of these calls is the order in which rooms are notified of failed processes and new
 * communicators. */
static void connect_rooms(void) __attribute__((constructor(101)));
static void connect_rooms(void)
{
    ampi_upper = (struct ampi_upper){
        .adopt_caller = ampi_rank_or_adopt,
        .rank_of_thread = ampi_rank_of_thread,
        .has_threads = ampi_rank_has_threads,
        .start_progress = ampi_thread_start_progress,
        .end_job = ampi_job_end,
        .report_blocked = ampi_report_blocked,
        .report_overlap = ampi_report_overlap,
        .expect_errors = ampi_failed_tolerate,
        .create_info_env = ampi_info_env_create,
        .watch_exit = ampi_job_watch_exit,
        .raise = ampi_comm_raise,
        .take_event = ampi_events_take,
        .hand_out_events = ampi_events_hand_out,
        .find_site = find_site,
        .describe_site = ampi_call_site_describe,
        .describe_call = ampi_misuse_describe_call,
    };
    ampi_procs_waits = (struct ampi_procs_waits_client){
        .find = ampi_report_waits, .report = ampi_report_cycle, .livelock = ampi_livelock_report};
    ampi_node_memory_connect();
    ampi_p2p_connect();
    ampi_endpoint_connect();
    ampi_comm_connect();
    ampi_comm_watch_connect();
    ampi_meet_connect();
    ampi_coll_connect();
    ampi_coll_between_connect();
    ampi_coll_device_connect();
    ampi_registry_connect();
    ampi_spawn_job = &ampi_rank_spawn_job;
    ampi_enqueue_connect();
    ampi_rma_connect();
    ampi_io_connect();
    ampi_misuse_connect();
    ampi_work_connect();
}
