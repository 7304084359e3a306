/* SPDX-License-Identifier: BSD-3-Clause
 *
 * launcher.c: PMIx, the launcher's interface: identity of this process, publishing and looking up
 * addresses, fence, abort.
 *
 * There is no exchange among all processes: each one commits its own addresses, and gets those of another
 * when it first sends there.
 */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/launched.h"
#include "base/log.h"
#include "machine_ucx/ucxm.h"

#define ADDRESS_KEY "heddle.ports"

static struct {
    pmix_proc_t self;
    bool is_mpirun;    /* the launcher is Heddle's mpirun */
    bool says_app_num; /* it says the numbers of programs */
    char error[256];
} launcher;

static const char *failed(const char *what, pmix_status_t status)
{
    snprintf(launcher.error, sizeof launcher.error, "%s: %s", what, PMIx_Error_string(status));
    return launcher.error;
}

/* An integer attribute of the job or of this process. */
static bool get_int(const char *key, bool is_of_job, int *value_out)
{
    pmix_proc_t proc = launcher.self;
    pmix_value_t *value = NULL;
    bool is_known = true;

    if (is_of_job)
        proc.rank = PMIX_RANK_WILDCARD;
    if (PMIx_Get(&proc, key, NULL, 0, &value) != PMIX_SUCCESS || !value)
        return false;
    if (value->type == PMIX_UINT32)
        *value_out = (int)value->data.uint32;
    else if (value->type == PMIX_UINT16)
        *value_out = value->data.uint16;
    else if (value->type == PMIX_PROC_RANK)
        *value_out = (int)value->data.rank;
    else
        is_known = false;
    PMIX_VALUE_RELEASE(value);
    return is_known;
}

/* Valid while the launcher's variables are in the environment. */
static bool is_our_mpirun(void)
{
    const char *said = getenv(BASE_LAUNCHED_SIZE_ENV);
    size_t n_name = strlen(launcher.self.nspace);

    return said && strncmp(said, launcher.self.nspace, n_name) == 0 && said[n_name] == ':';
}

static const char *make_processes(const struct machine_place *place, struct machine_place *place_out)
{
    ucxm.processes = calloc((size_t)place->max_procs, sizeof *ucxm.processes);
    *place_out = *place;
    return ucxm.processes ? NULL : "out of memory";
}

const char *ucxm_launcher_attach(struct machine_place *place_out)
{
    struct machine_place place = {.wants_universe = place_out->wants_universe,
                                  .streams_wait = place_out->streams_wait};
    struct ucxm_watchdog watch;
    const char *error;
    pmix_status_t status;
    sigset_t signals;

    ucxm_watchdog_begin(&watch, "connecting to it (PMIx_Init)");
    ucxm_signals_block(&signals);
    status = PMIx_Init(&launcher.self, NULL, 0);
    ucxm_signals_allow(&signals);
    ucxm_watchdog_end(&watch);
    if (status != PMIX_SUCCESS)
        return failed("PMIx_Init", status);
    launcher.is_mpirun = is_our_mpirun();
    place.keeps_going =
        launcher.is_mpirun && strstr(getenv(BASE_LAUNCHED_SIZE_ENV), BASE_LAUNCHED_KEEPS_GOING);
    place.proc_id = (int)launcher.self.rank;
    if (!get_int(PMIX_JOB_SIZE, true, &place.n_procs))
        return "the launcher does not provide the number of processes (PMIX_JOB_SIZE)";
    place.max_procs = place.spawn_n_procs = place.n_procs;
    if (launcher.is_mpirun && (error = ucxm_members_attach(&place)))
        return error;
    if (place.proc_id >= place.n_procs) { /* mpirun publishes nothing else about spawned processes */
        place.node_index = (place.proc_id - place.job_first) % place.n_procs;
        place.node_n_procs = place.n_procs;
        return make_processes(&place, place_out);
    }
    if (!get_int(PMIX_LOCAL_RANK, false, &place.node_index))
        place.node_index = 0;
    launcher.says_app_num = get_int(PMIX_APPNUM, false, &place.app_num);
    if (!get_int(PMIX_LOCAL_SIZE, true, &place.node_n_procs))
        place.node_n_procs = 1;
    if (!get_int(PMIX_LOCALLDR, true, &place.node_first))
        place.node_first = place.proc_id - place.node_index;
    if (!launcher.is_mpirun && (error = ucxm_universe_enter(&place, launcher.self.nspace)))
        return error;
    return make_processes(&place, place_out);
}

const char *ucxm_launcher_find_near(bool **is_near_out)
{
    pmix_proc_t proc = launcher.self;
    pmix_value_t *value = NULL;
    bool *is_near = calloc((size_t)ucxm.place.max_procs, sizeof *is_near);

    if (!is_near)
        return "out of memory";
    is_near[ucxm.place.proc_id] = true;
    for (int i = ucxm.place.n_procs; i < ucxm.place.max_procs; i++) /* such a job has one node */
        is_near[i] = true;
    proc.rank = PMIX_RANK_WILDCARD;
    if (PMIx_Get(&proc, PMIX_LOCAL_PEERS, NULL, 0, &value) == PMIX_SUCCESS && value) {
        const char *at = value->type == PMIX_STRING && value->data.string ? value->data.string : "";
        char *end;
        for (long i = strtol(at, &end, 10); end != at; i = strtol(at, &end, 10)) { /* "0,1,2" */
            if (i >= 0 && i < ucxm.place.n_procs)
                is_near[i] = true;
            at = *end == ',' ? end + 1 : end;
        }
        PMIX_VALUE_RELEASE(value);
    }
    *is_near_out = is_near;
    return NULL;
}

bool ucxm_launcher_says_app_num(void)
{
    return launcher.is_mpirun || launcher.says_app_num;
}

/* Only uses values that the launcher gave at the start: requesting others could take long. */
bool ucxm_launcher_host_of(int proc_id, char *host_out, size_t size)
{
    pmix_proc_t proc = launcher.self;
    pmix_info_t only_known;
    pmix_value_t *value = NULL;
    bool is_known = false;

    proc.rank = (pmix_rank_t)proc_id;
    PMIX_INFO_CONSTRUCT(&only_known);
    PMIX_INFO_LOAD(&only_known, PMIX_OPTIONAL, NULL, PMIX_BOOL);
    if (PMIx_Get(&proc, PMIX_HOSTNAME, &only_known, 1, &value) == PMIX_SUCCESS && value) {
        is_known = value->type == PMIX_STRING && value->data.string && strlen(value->data.string) < size;
        if (is_known)
            snprintf(host_out, size, "%s", value->data.string);
        PMIX_VALUE_RELEASE(value);
    }
    PMIX_INFO_DESTRUCT(&only_known);
    return is_known;
}

const char *ucxm_launcher_publish(const void *blob, size_t n_bytes)
{
    pmix_value_t value;
    struct ucxm_watchdog watch;
    pmix_status_t status;

    if (ucxm_members_has_universe())
        return ucxm_members_publish(blob, n_bytes);
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)(uintptr_t)blob;
    value.data.bo.size = n_bytes;
    ucxm_watchdog_begin(&watch, "publishing an address (PMIx_Commit)");
    status = PMIx_Put(PMIX_GLOBAL, ADDRESS_KEY, &value);
    if (status == PMIX_SUCCESS)
        status = PMIx_Commit();
    ucxm_watchdog_end(&watch);
    return status == PMIX_SUCCESS ? NULL : failed("PMIx_Put", status);
}

const char *ucxm_launcher_look_up(int proc_id, void **blob_out, size_t *n_bytes_out)
{
    pmix_proc_t proc = launcher.self;
    pmix_value_t *value = NULL;
    struct ucxm_watchdog watch;
    char what[80];
    pmix_status_t status;

    if (ucxm_members_has_universe())
        return ucxm_members_look_up(proc_id, blob_out, n_bytes_out);
    proc.rank = (pmix_rank_t)proc_id;
    snprintf(what, sizeof what, "the address of process %d (PMIx_Get)", proc_id);
    ucxm_watchdog_begin(&watch, what);
    status = PMIx_Get(&proc, ADDRESS_KEY, NULL, 0, &value);
    ucxm_watchdog_end(&watch);
    if (status != PMIX_SUCCESS || !value)
        return failed("PMIx_Get", status);
    if (value->type != PMIX_BYTE_OBJECT || value->data.bo.size == 0) {
        PMIX_VALUE_RELEASE(value);
        return "the data that the process published is not an address";
    }
    *n_bytes_out = value->data.bo.size;
    *blob_out = malloc(value->data.bo.size);
    if (*blob_out)
        memcpy(*blob_out, value->data.bo.bytes, value->data.bo.size);
    PMIX_VALUE_RELEASE(value);
    return *blob_out ? NULL : "out of memory";
}

double ucxm_now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Every process calls MPI_Init, perhaps after long work: not an error, but reported. */
void ucxm_report_waiting(const struct machine_place *place, double since_s)
{
    static atomic_bool is_said;

    if (ucxm_now_s() - since_s > ucxm_watchdog_limit_s())
        base_log_once(&is_said, "process %d of %d has been waiting for %d s for the others to call MPI_Init",
                      place->proc_id, place->n_procs, ucxm_watchdog_limit_s());
}

#define PAUSE_MIN_US 50
#define PAUSE_MAX_US 2000

void ucxm_pause(useconds_t *pause_us)
{
    *pause_us = *pause_us == 0 ? PAUSE_MIN_US : *pause_us < PAUSE_MAX_US ? 2 * *pause_us : *pause_us;
    usleep(*pause_us);
}

static size_t count_alive(void)
{
    size_t n = 0;

    for (int i = 0; i < ucxm.place.n_procs; i++)
        n += !ucxm_is_failed(i);
    return n;
}

/* The processes that have not failed; malloc'ed. */
static pmix_proc_t *list_alive(size_t *n_out)
{
    pmix_proc_t *alive = calloc(count_alive(), sizeof *alive);
    size_t n = 0;

    for (int i = 0; alive && i < ucxm.place.n_procs; i++)
        if (!ucxm_is_failed(i)) {
            alive[n] = launcher.self;
            alive[n++].rank = (pmix_rank_t)i;
        }
    *n_out = n;
    return alive;
}

static void fence_done(pmix_status_t status, void *arg)
{
    __atomic_store_n((int *)arg, status == PMIX_SUCCESS ? 1 : -1, __ATOMIC_RELEASE);
}

const char ucxm_launcher_is_late[] = "other processes do not come in time";

const char *ucxm_launcher_fence(void (*progress)(void), double until_s)
{
    static int state; /* not on the stack: the callback may come after the wait has been given up */
    pmix_proc_t *alive = NULL;
    size_t n_alive = 0;
    size_t n_alive_before = count_alive();
    double began_s = ucxm_now_s();
    useconds_t pause_us = 0;
    pmix_status_t status;

    if (ucxm_has_failed_peers() && !(alive = list_alive(&n_alive)))
        return "out of memory";
    __atomic_store_n(&state, 0, __ATOMIC_RELEASE);
    status = PMIx_Fence_nb(alive, n_alive, NULL, 0, fence_done, &state);
    if (status == PMIX_OPERATION_SUCCEEDED)
        return NULL;
    if (status != PMIX_SUCCESS)
        return failed("PMIx_Fence", status);
    while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == 0) {
        if (progress)
            progress();
        ucxm_pause(&pause_us);
        if (count_alive() != n_alive_before)
            return "a process has failed";
        if (until_s > 0 && ucxm_now_s() > until_s)
            return ucxm_launcher_is_late;
        if (!progress)
            ucxm_report_waiting(&ucxm.place, began_s);
    }
    return __atomic_load_n(&state, __ATOMIC_ACQUIRE) > 0 ? NULL : "the fence failed";
}

void ucxm_launcher_detach(void)
{
    struct ucxm_watchdog watch;

    ucxm_watchdog_begin(&watch, "disconnecting from it (PMIx_Finalize)");
    PMIx_Finalize(NULL, 0);
    ucxm_watchdog_end(&watch);
}

void ucxm_launcher_abort(int exit_code, const char *why)
{
    struct ucxm_watchdog watch;

    ucxm_watchdog_begin(&watch, "ending the job (PMIx_Abort)");
    PMIx_Abort(exit_code, why, NULL, 0);
    ucxm_watchdog_end(&watch);
}

/* ---- Failures ---- */

/* The events by which launchers report that a process has failed. */
static pmix_status_t loss_codes[] = {PMIX_ERR_PROC_ABORTED,       PMIX_ERR_PROC_ABORTED_BY_SIG,
                                     PMIX_ERR_PROC_TERM_WO_SYNC,  PMIX_ERR_EXIT_NONZERO_TERM,
                                     PMIX_ERR_PROC_KILLED_BY_CMD, PMIX_ERR_LOST_CONNECTION};

/* Nobody ends this process any more if the others do not come. */
static BASE_NORETURN void end_alone(void)
{
    base_log("process %d: the launcher has gone, so this process ends", ucxm.place.proc_id);
    ucxm_room_remove();
    _exit(1);
}

/* On PMIx's thread. */
static void handle_loss(size_t handler, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info,
                        size_t n_info, pmix_info_t *results, size_t n_results,
                        pmix_event_notification_cbfunc_fn_t done, void *done_arg)
{
    const pmix_proc_t *affected = source;
    const char *why = PMIx_Error_string(status);

    (void)handler;
    (void)results;
    (void)n_results;
    if (status == PMIX_ERR_LOST_CONNECTION && source &&
        !PMIX_CHECK_NSPACE(source->nspace, launcher.self.nspace))
        end_alone();
    for (size_t i = 0; i < n_info; i++) {
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC) && info[i].value.type == PMIX_PROC)
            affected = info[i].value.data.proc;
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_TEXT_MESSAGE) && info[i].value.type == PMIX_STRING)
            why = info[i].value.data.string;
    }
    if (affected && PMIX_CHECK_NSPACE(affected->nspace, launcher.self.nspace) && affected->rank <= INT32_MAX)
        ucxm_peer_failed(affected->rank >= BASE_LAUNCHED_OTHER_JOB
                             ? (int)affected->rank - BASE_LAUNCHED_OTHER_JOB
                             : ucxm.place.job_first + (int)affected->rank,
                         why);
    if (done)
        done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, done_arg);
}

/* arg: 0: no reply yet; 1: replied. */
static void registered(pmix_status_t status, size_t handler, void *arg)
{
    (void)status;
    (void)handler;
    __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
}

static void notified(pmix_status_t status, void *arg)
{
    (void)status;
    __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
}

static void await_answer(const int *has_answer, const char *what)
{
    struct ucxm_watchdog watch;

    ucxm_watchdog_begin(&watch, what);
    while (!__atomic_load_n(has_answer, __ATOMIC_ACQUIRE))
        usleep(20);
    ucxm_watchdog_end(&watch);
}

void ucxm_launcher_watch(void)
{
    static atomic_bool is_requested;
    static int is_registered;
    pmix_status_t status;

    if (atomic_exchange(&is_requested, true))
        return;
    status = PMIx_Register_event_handler(loss_codes, sizeof loss_codes / sizeof loss_codes[0], NULL, 0,
                                         handle_loss, registered, &is_registered);
    if (status == PMIX_SUCCESS)
        await_answer(&is_registered, "a request to report failed processes (PMIx_Register_event_handler)");
}

/* Waits for the replies: when this returns, the launcher has been notified. Of the ranges of events,
 * libpmix 4.2 always replies to this one only, whatever the launcher's server does with events. */
void ucxm_launcher_tolerate(void)
{
    static int is_notified;
    pmix_status_t status;

    ucxm_launcher_watch();
    if (!launcher.is_mpirun) /* Slurm's server ends a job at any event */
        return;
    status = PMIx_Notify_event(BASE_LAUNCHED_TOLERATES_EVENT, &launcher.self, PMIX_RANGE_LOCAL, NULL, 0,
                               notified, &is_notified);
    if (status == PMIX_SUCCESS)
        await_answer(&is_notified, "a request to continue without failed processes (PMIx_Notify_event)");
}
