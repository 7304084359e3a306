/* SPDX-License-Identifier: BSD-3-Clause
 *
 * table.c: the table of functions that the shared object exports.
 */
#include "base/launched.h"
#include "machine_ucx/ucxm.h"

struct ucxm ucxm;

static bool attach(struct machine_place *place, const char **error_out)
{
    ucxm.place.wants_universe = place->wants_universe;
    ucxm.place.streams_wait = place->streams_wait;
    ucxm_descriptors_begin();
    *error_out = ucxm_launcher_attach(&ucxm.place);
    ucxm_descriptors_end();
    if (*error_out)
        return false;
    *place = ucxm.place;
    return true;
}

static bool open_machine(int n_pes, const struct machine_client *client, const char **error_out)
{
    ucxm.client = *client;
    ucxm_descriptors_begin();
    if (ucxm_members_has_universe())
        ucxm_launcher_watch();
    *error_out = ucxm_ports_open(n_pes);
    ucxm_descriptors_end();
    if (!*error_out) {
        ucxm_silence_begin();
        ucxm_universe_begin();
    }
    return *error_out == NULL;
}

static void close_machine(double limit_s)
{
    if (ucxm.ports) {
        bool is_flushed = ucxm_ports_flush(limit_s);
        ucxm_room_remove();
        if (!is_flushed)
            return;
        ucxm_silence_end();
        if (!ucxm_has_gone_peers()) /* otherwise UCX may wait for it; the process ends anyway */
            ucxm_ports_close();
    } else if (ucxm.place.asks_pmix) {
        ucxm_members_set(BASE_LAUNCHED_OPEN);
        (void)ucxm_members_await(BASE_LAUNCHED_OPEN, NULL, limit_s > 0 ? ucxm_now_s() + limit_s : 0);
        ucxm_members_set(BASE_LAUNCHED_PARTED);
    } else if (ucxm.place.n_procs > 1) {
        (void)ucxm_launcher_fence(NULL, limit_s > 0 ? ucxm_now_s() + limit_s : 0);
    }
    ucxm_universe_leave();
    ucxm_launcher_detach();
}

/* The launcher may kill this process before it returns. */
static void abort_job(int exit_code, const char *why)
{
    ucxm_room_remove();
    ucxm_launcher_abort(exit_code, why);
}

static bool is_on_node(int proc_id)
{
    return ucxm.is_near[proc_id];
}

static bool is_near(int proc_id)
{
    return ucxm.is_near[proc_id] && ucxm_rings_place().pid;
}

extern const struct machine machine_ucx_table;
__attribute__((visibility("default"))) const struct machine machine_ucx_table = {
    .name = "UCX",
    .attach = attach,
    .open = open_machine,
    .n_pes_of = ucxm_n_pes_of,
    .app_num = ucxm_program_number,
    .is_near = is_near,
    .is_on_node = is_on_node,
    .is_started = ucxm_is_started,
    .is_present = ucxm_is_present,
    .is_parting = ucxm_is_parting,
    .is_failing = ucxm_is_failing,
    .describe = ucxm_describe,
    .takes = ucxm_takes,
    .send = ucxm_send,
    .push = ucxm_push,
    .fetch = ucxm_fetch,
    .rma = &ucxm_rma,
    .release = ucxm_release,
    .poll = ucxm_port_poll,
    .fd = ucxm_port_fd,
    .arm = ucxm_port_arm,
    .is_moving = ucxm_is_moving,
    .traffic = ucxm_traffic,
    .link = ucxm_members_link,
    .start = ucxm_start,
    .close = close_machine,
    .tolerate = ucxm_launcher_tolerate,
    .forget = ucxm_drop_peer,
    .abort = abort_job,
};
