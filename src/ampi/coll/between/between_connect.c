/* SPDX-License-Identifier: BSD-3-Clause
 *
 * between_connect.c: what collectives between processes have in the engine and in the rooms below.
 */
#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/between/wire.h"

/* ---- The engine's table ---- */

static void slots_fini(struct ampi_coll_slot *slots, struct ampi_coll_nccl *nccl)
{
    ampi_coll_nccl_destroy(nccl);
    ampi_coll_wire_slots_fini(slots);
}

static int member_in(const struct ampi_coll_remote *remote, int proc, int i)
{
    return remote->members[remote->first[proc] + i];
}

static int proc_of(const struct ampi_coll_remote *remote, int member)
{
    return remote->proc_of[member];
}

static const struct ampi_coll_between_ops ops = {
    .create = ampi_coll_remote_create,
    .destroy = ampi_coll_remote_destroy,
    .slots_init = ampi_coll_wire_slots_init,
    .slots_fini = slots_fini,
    .arrived = ampi_coll_remote_arrived,
    .release = ampi_coll_remote_release,
    .fail = ampi_coll_wire_lose,
    .n_members_in = ampi_remote_n_members,
    .member_in = member_in,
    .proc_of = proc_of,
};

/* ---- Messages between processes ---- */

static bool handle(int pe_id, const struct ampi_wire *wire, const void *header,
                   const struct machine_data *data)
{
    if (BASE_UNLIKELY(!data->bytes && gpu_is_used()) && ampi_coll_wire_handle_away(wire, data))
        return true;
    return ampi_procs_take(pe_id, wire, data, ampi_coll_wire_handle);
}

static bool handle_usage(int pe_id, const struct ampi_wire *wire, const void *header,
                         const struct machine_data *data)
{
    return ampi_procs_take(pe_id, wire, data, ampi_coll_usage_handle);
}

void ampi_coll_between_connect(void)
{
    static const struct ampi_procs_client client = {.retry = ampi_coll_wire_retry,
                                                    .must_retry = ampi_coll_wire_must_retry};

    ampi_coll_between = &ops;
    ampi_procs_add_client(&client);
    ampi_procs_set_handler(AMPI_WIRE_COLL, handle);
    ampi_procs_set_handler(AMPI_WIRE_USAGE, handle_usage);
}
