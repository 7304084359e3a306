/* SPDX-License-Identifier: BSD-3-Clause
 *
 * connect.c: what lower rooms need of higher ones.
 *
 * A room of src/ampi includes the rooms below it only (docs/architecture.md has the order). Where one has to
 * call upward, it owns a table of functions, and this is the one place where these tables are filled: before
 * main, so that nothing can be called before.
 */
#include "ampi/coll/between/wire.h"
#include "ampi/coll/device/coll_device.h"
#include "ampi/coll/engine/slot.h"
#include "ampi/comm/comm.h"
#include "ampi/job/info_env.h"
#include "ampi/job/job.h"
#include "ampi/meet/meet.h"
#include "ampi/p2p/p2p.h"
#include "ampi/procs/procs.h"
#include "ampi/rma/rma_remote.h"

/* The order of these calls is the order in which rooms hear of failed processes and new communicators. */
static void connect_rooms(void) __attribute__((constructor(101)));
static void connect_rooms(void)
{
    ampi_upper = (struct ampi_upper){
        .adopt_caller = ampi_rank_or_adopt,
        .end_job = ampi_job_end,
        .report_blocked = ampi_report_blocked,
        .expect_errors = ampi_lost_tolerate,
        .create_info_env = ampi_info_env_create,
        .watch_exit = ampi_job_watch_exit,
        .raise = ampi_comm_raise,
    };
    ampi_p2p_connect();
    ampi_comm_connect();
    ampi_meet_connect();
    ampi_coll_connect();
    ampi_coll_between_connect();
    ampi_coll_device_connect();
    ampi_rma_connect();
}
