/* SPDX-License-Identifier: BSD-3-Clause
 *
 * between_connect.c: registers collectives between processes with the engine and the lower rooms.
 */
#include "ampi/coll/between/between.h"
#include "ampi/coll/between/coll_nccl.h"
#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/between/missing.h"
#include "ampi/coll/between/pair_procs.h"

/* ---- The engine's table ---- */

static void slots_fini(struct ampi_coll_slot *slots, struct ampi_coll_nccl *nccl)
{
    ampi_coll_nccl_destroy(nccl);
    ampi_coll_between_slots_fini(slots);
}

static int member_in(const struct ampi_coll_remote *remote, int proc, int i)
{
    return ampi_remote_member(remote, remote->first[proc] + i);
}

static int proc_of(const struct ampi_coll_remote *remote, int member)
{
    return ampi_remote_proc_of(remote, member);
}

static const struct ampi_coll_between_ops ops = {
    .create = ampi_coll_remote_create,
    .destroy = ampi_coll_remote_destroy,
    .slots_init = ampi_coll_between_slots_init,
    .slots_fini = slots_fini,
    .arrived = ampi_coll_remote_arrived,
    .pair_arrive = ampi_pair_arrive,
    .release = ampi_coll_remote_release,
    .fail = ampi_coll_between_handle_failure,
    .n_members_in = ampi_remote_n_members,
    .member_in = member_in,
    .proc_of = proc_of,
};

static void begin(void)
{
    ampi_coll_between = &ops;
    ampi_coll_selection_fit(ampi_job.node_n_procs);
}

/* ---- Messages between processes ---- */

static bool handle(int pe_id, const struct ampi_am_header *am, const void *header,
                   const struct machine_data *data)
{
    if (!data->bytes && ampi_coll_between_handle_away(am, data))
        return true;
    return ampi_procs_take(pe_id, am, data, ampi_coll_between_handle);
}

static bool handle_pair(int pe_id, const struct ampi_am_header *am, const void *header,
                        const struct machine_data *data)
{
    ampi_coll_between_handle(am, NULL, 0);
    return false;
}

static bool handle_usage(int pe_id, const struct ampi_am_header *am, const void *header,
                         const struct machine_data *data)
{
    return ampi_procs_take(pe_id, am, data, ampi_coll_usage_handle);
}

void ampi_coll_between_connect(void)
{
    static const struct ampi_procs_client client = {.begin = begin,
                                                    .retry = ampi_coll_between_retry,
                                                    .must_retry = ampi_coll_between_must_retry,
                                                    .ask_for_report = ampi_coll_missing_ask};
    static const struct ampi_comm_client comm_client = {.release = ampi_pair_settle};

    ampi_procs_add_client(&client);
    ampi_comm_add_client(&comm_client);
    ampi_procs_set_handler(AMPI_AM_COLL, handle);
    ampi_procs_set_handler(AMPI_AM_PAIR, handle_pair);
    ampi_exchange_direct_connect();
    ampi_procs_set_handler(AMPI_AM_USAGE, handle_usage);
    ampi_coll_missing_connect();
}
