/* SPDX-License-Identifier: BSD-3-Clause
 *
 * members.c: the processes of a job of Heddle's mpirun, which may grow: MPI_Comm_spawn. Such jobs have one node.
 *
 * The states of all processes are in a table that all of them map (base/launched.h). The number of processes is not fixed,
 * so they meet at the end by this table, not by the launcher's fence or by messages (shutdown.c).
 *
 * A process is spawned before the call of the spawning one ends, which sets PARTING later. So whoever reads PARTING there
 * also finds the new process in the table.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/launched.h"
#include "machine_ucx/ucxm.h"

static struct base_launched_table *table; /* NULL: another launcher's job */

static const char *map_table(const char *folder)
{
    char path[512];
    struct stat file;
    int fd;

    snprintf(path, sizeof path, "%s" BASE_LAUNCHED_TABLE, folder ? folder : "");
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &file) == 0 && file.st_size > (off_t)sizeof *table) {
        table = mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (table == MAP_FAILED || sizeof *table + table->max > (size_t)file.st_size)
            table = NULL;
    }
    if (fd >= 0)
        close(fd);
    return table ? NULL : "mpirun's table of processes cannot be read";
}

const char *ucxm_members_attach(struct machine_place *place)
{
    const char *spawn = getenv(BASE_LAUNCHED_SPAWN_ENV);
    const char *error = map_table(getenv("PMIX_SERVER_TMPDIR"));
    int n_ranks = 0, n_procs = 0, n_read = 0;

    if (error)
        return error;
    place->max_procs = (int)table->max;
    if (place->proc_id < place->n_procs)
        return NULL;
    place->spawn_n_procs = 0;
    if (!spawn || sscanf(spawn, "%*d,%d,%*d%n", &place->spawn_first, &n_read) != 1)
        return "mpirun does not say with which processes this one was spawned";
    for (spawn += n_read; sscanf(spawn, ",%dx%d%n", &n_ranks, &n_procs, &n_read) == 2; spawn += n_read)
        place->spawn_n_procs += n_procs;
    return NULL;
}

bool ucxm_members_may_grow(void)
{
    return table != NULL;
}

static int state_of(int proc_id)
{
    return atomic_load(&table->states[proc_id]);
}

bool ucxm_is_started(int proc_id)
{
    return table ? state_of(proc_id) > BASE_LAUNCHED_ABSENT : proc_id < ucxm.place.n_procs;
}

bool ucxm_is_present(int proc_id)
{
    return ucxm_is_started(proc_id) && (!table || state_of(proc_id) < BASE_LAUNCHED_ENDED);
}

void ucxm_members_set(int state)
{
    if (table)
        atomic_store(&table->states[ucxm.place.proc_id], (uint8_t)state);
}

/* The processes below the number are known to have the state when the number has not changed meanwhile. */
static bool have_all(int state)
{
    int n_started = (int)atomic_load(&table->n_started);
    int first = state == BASE_LAUNCHED_OPEN ? ucxm.place.spawn_first : 0;
    int end = state == BASE_LAUNCHED_OPEN ? first + ucxm.place.spawn_n_procs : n_started;

    for (int i = first; i < end; i++)
        if (state_of(i) < state && !ucxm_is_failed(i))
            return false;
    return n_started == (int)atomic_load(&table->n_started);
}

const char *ucxm_members_await(int state, void (*progress)(void), double until_s)
{
    bool had_failed = ucxm_has_failed_peers();
    useconds_t pause_us = 0;

    while (!have_all(state)) {
        if (progress)
            progress();
        ucxm_pause(&pause_us);
        if (!had_failed && ucxm_has_failed_peers())
            return "a process has failed";
        if (until_s > 0 && ucxm_now_s() > until_s)
            return ucxm_launcher_is_late;
    }
    return NULL;
}
