/* SPDX-License-Identifier: BSD-3-Clause
 *
 * join_universe.c: a job of another launcher than Heddle's mpirun in the universe (base/universe.h). Its processes run on one node.
 * Process 0 enters, if its program connects to other jobs or spawns processes, and publishes the job's first number through
 * PMIx. The processes do the rest of mpirun's work themselves: each holds the lock of its number, marks its end, and has a
 * thread that looks for lost processes of other jobs.
 */
#include <pmix.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/universe.h"
#include "machine_ucx/ucxm.h"

#define NUMBER_KEY "heddle.universe"

/* How often the thread looks. */
#define LOOK_NS 100000000

static struct base_universe universe;
static bool *is_reported; /* by process: it is lost, and this process knows it */
static pthread_t watcher;
static bool has_watcher;
static atomic_bool is_over; /* the watcher ends */

/* The reply to a question. */
struct reply {
    atomic_int state; /* 0: none yet; 1: the number is known; -1: not yet */
    int first;        /* the job's first number; 0: it is not in the universe */
};

static void got_number(pmix_status_t status, pmix_value_t *value, void *arg)
{
    struct reply *reply = arg;

    bool is_known = status == PMIX_SUCCESS && value && value->type == PMIX_UINT32;

    if (is_known)
        reply->first = (int)value->data.uint32;
    atomic_store(&reply->state, is_known ? 1 : -1);
}

static void have_met(pmix_status_t status, void *arg)
{
    atomic_store((atomic_int *)arg, status == PMIX_SUCCESS ? 1 : -1);
}

static void await(const struct machine_place *place, atomic_int *state)
{
    useconds_t pause_us = 0;
    double began_s = ucxm_now_s();

    while (!atomic_load(state)) {
        ucxm_pause(&pause_us);
        ucxm_report_waiting(place, began_s);
    }
}

/* Waits for the others: Open MPI's mpirun does not wait for a value of a process that has not begun. */
static void meet(const struct machine_place *place)
{
    static atomic_int state; /* not on the stack: the callback has its address */

    if (PMIx_Fence_nb(NULL, 0, NULL, 0, have_met, &state) == PMIX_SUCCESS)
        await(place, &state);
}

/* Again and again: Slurm's fence may end before all have come. */
static int ask_first_process(const struct machine_place *place, const char *name_space)
{
    static struct reply reply;
    pmix_proc_t first;
    useconds_t pause_us = 0;

    PMIX_LOAD_PROCID(&first, name_space, 0);
    for (;;) {
        atomic_store(&reply.state, 0);
        if (PMIx_Get_nb(&first, NUMBER_KEY, NULL, 0, got_number, &reply) == PMIX_SUCCESS)
            await(place, &reply.state);
        if (atomic_load(&reply.state) > 0)
            return reply.first;
        ucxm_pause(&pause_us);
    }
}

static void tell_others(int first)
{
    pmix_value_t value = {.type = PMIX_UINT32, .data.uint32 = (uint32_t)first};

    if (PMIx_Put(PMIX_GLOBAL, NUMBER_KEY, &value) == PMIX_SUCCESS)
        (void)PMIx_Commit();
}

static int enter(int n_procs)
{
    if (base_universe_enter(&universe, n_procs) != 0)
        return 0;
    for (int i = universe.first; i < universe.first + n_procs; i++)
        atomic_store(&universe.table->states[i], BASE_LAUNCHED_STARTED);
    atomic_fetch_add(&universe.table->n_started, (uint32_t)n_procs);
    return universe.first;
}

const char *ucxm_universe_enter(struct machine_place *place, const char *name_space)
{
    int n_procs = place->n_procs, first = 0;

    if (place->node_n_procs != n_procs || (n_procs == 1 && !place->wants_universe))
        return NULL;
    if (place->proc_id == 0) {
        first = place->wants_universe ? enter(n_procs) : 0;
        tell_others(first);
    }
    if (n_procs > 1)
        meet(place);
    if (place->proc_id > 0) {
        first = ask_first_process(place, name_space);
        if (first && base_universe_join(&universe, first, n_procs, first + place->proc_id) != 0)
            return "the universe that the job's first process has entered cannot be opened";
    }
    if (!first)
        return NULL;
    place->universe = base_universe_folder();
    place->asks_pmix = true;
    place->job_first = place->spawn_first = first;
    place->job_end = first + n_procs;
    place->spawn_n_procs = n_procs;
    place->proc_id += first;
    place->n_procs = 1;
    place->max_procs = (int)universe.table->max;
    place->node_first = 0;
    return ucxm_members_use(universe.table, place->universe);
}

static void *watch(void *arg)
{
    pthread_setname_np(pthread_self(), "heddle universe");
    while (!atomic_load(&is_over)) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        base_universe_find_dead(&universe);
        for (int i = 0; i < (int)universe.table->n_given; i++)
            if (!is_reported[i] && base_universe_has_lost(&universe, i)) {
                is_reported[i] = true;
                ucxm_peer_failed(i, "it belonged to another job");
            }
    }
    return arg;
}

void ucxm_universe_begin(void)
{
    if (!universe.table)
        return;
    base_universe_keep(&universe, ucxm.place.proc_id);
    is_reported = calloc(universe.table->max, sizeof *is_reported);
    has_watcher = is_reported && ucxm_watchdog_thread(&watcher, watch, NULL);
}

void ucxm_universe_leave(void)
{
    if (!universe.table)
        return;
    atomic_store(&is_over, true);
    if (has_watcher)
        pthread_join(watcher, NULL);
    base_universe_leave(&universe, ucxm.place.proc_id, 1);
    universe.table = NULL;
}
