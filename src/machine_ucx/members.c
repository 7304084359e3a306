/* SPDX-License-Identifier: BSD-3-Clause
 *
 * members.c: the processes of a job of Heddle's mpirun, which may grow: MPI_Comm_spawn. Such jobs have one node. In a
 * universe (with any launcher) the processes of several jobs have numbers in the same table, as if a job that does not exist
 * had spawned them; each publishes its address in a file. A process waits only for the end of its own job's processes, and of
 * those that share a communicator with it. A spawned one waits only for those of its spawn, and of those that share a
 * communicator with it, so it ends when it has disconnected; those of the start also answer questions about names.
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
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/launched.h"
#include "machine_ucx/ucxm.h"

static struct base_launched_table *table; /* NULL: another launcher's job */
static bool *had_failed;                  /* by process: before this one was attached */
static const char *universe;              /* the folder of the universe; NULL: none */
static const bool *linked;                /* by process of another job or spawn; NULL: none */

static const char *use_table(struct base_launched_table *its)
{
    table = its;
    had_failed = calloc(table->max, sizeof *had_failed);
    for (uint32_t i = 0; i < table->max && had_failed; i++)
        had_failed[i] = atomic_load(&table->states[i]) == BASE_LAUNCHED_FAILED;
    return had_failed ? NULL : "no memory";
}

static const char *map_table(const char *folder)
{
    struct base_launched_table *its = MAP_FAILED;
    char path[512];
    struct stat file;
    int fd;

    snprintf(path, sizeof path, "%s" BASE_LAUNCHED_TABLE, folder ? folder : "");
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &file) == 0 && file.st_size > (off_t)sizeof *its)
        its = mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (its == MAP_FAILED || sizeof *its + its->max > (size_t)file.st_size)
        return "mpirun's table of processes cannot be read";
    return use_table(its);
}

/* In a universe, replaces the numbers within the job. Returns false if mpirun does not publish them. */
static bool enter_universe(struct machine_place *place, const char *folder)
{
    const char *said = strstr(getenv(BASE_LAUNCHED_SIZE_ENV), BASE_LAUNCHED_UNIVERSE);
    char *path;
    int n_numbers;

    if (!said)
        return true;
    if (sscanf(said, BASE_LAUNCHED_UNIVERSE "%d+%d", &place->job_first, &n_numbers) != 2 ||
        asprintf(&path, "%s" BASE_LAUNCHED_UNIVERSE_LINK, folder) < 0)
        return false;
    place->universe = universe = path;
    place->job_end = place->job_first + n_numbers;
    place->proc_id += place->job_first;
    place->n_procs = 1;
    return true;
}

const char *ucxm_members_attach(struct machine_place *place)
{
    const char *spawn = getenv(BASE_LAUNCHED_SPAWN_ENV);
    const char *error = map_table(getenv("PMIX_SERVER_TMPDIR"));
    int n_ranks = 0, n_procs = 0, n_read = 0;

    if (error)
        return error;
    place->max_procs = (int)table->max;
    if (!enter_universe(place, getenv("PMIX_SERVER_TMPDIR")))
        return "mpirun does not say which numbers the processes have in the universe";
    if (place->proc_id < place->n_procs)
        return NULL;
    place->spawn_n_procs = 0;
    if (!spawn || sscanf(spawn, "%*d,%d,%*d%n", &place->spawn_first, &n_read) != 1)
        return "mpirun does not say with which processes this one was spawned";
    for (spawn += n_read; sscanf(spawn, ",%dx%d%n", &n_ranks, &n_procs, &n_read) == 2; spawn += n_read)
        place->spawn_n_procs += n_procs;
    return NULL;
}

const char *ucxm_members_use(struct base_launched_table *universe_table, const char *folder)
{
    universe = folder;
    return use_table(universe_table);
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

bool ucxm_is_parting(int proc_id)
{
    return table && (state_of(proc_id) == BASE_LAUNCHED_PARTING || state_of(proc_id) == BASE_LAUNCHED_PARTED);
}

bool ucxm_has_parted(int proc_id)
{
    return table && (state_of(proc_id) == BASE_LAUNCHED_PARTED || state_of(proc_id) == BASE_LAUNCHED_ENDED);
}

bool ucxm_is_failing(int proc_id)
{
    return table && state_of(proc_id) == BASE_LAUNCHED_FAILED && !had_failed[proc_id];
}

void ucxm_members_set(int state)
{
    if (table)
        atomic_store(&table->states[ucxm.place.proc_id], (uint8_t)state);
}

static bool is_own(int proc_id)
{
    return !universe || (proc_id >= ucxm.place.job_first && proc_id < ucxm.place.job_end);
}

bool ucxm_members_concern(int proc_id)
{
    return is_own(proc_id) || (linked && linked[proc_id]);
}

void ucxm_members_link(const bool *is_linked)
{
    linked = is_linked;
}

static bool is_of_spawn(int proc_id)
{
    return proc_id >= ucxm.place.spawn_first && proc_id < ucxm.place.spawn_first + ucxm.place.spawn_n_procs;
}

bool ucxm_members_end_together(int proc_id)
{
    return !universe && is_of_spawn(proc_id);
}

/* True if this process does not end before that one. */
static bool is_awaited(int proc_id)
{
    bool is_spawned = ucxm.place.spawn_first != ucxm.place.job_first;

    return (is_spawned ? is_of_spawn(proc_id) : is_own(proc_id)) || (linked && linked[proc_id]);
}

/* The processes are known to have the state when no process was started meanwhile. */
static bool have_all(int state)
{
    uint32_t n_started = atomic_load(&table->n_started);
    bool is_start = state == BASE_LAUNCHED_OPEN;
    int first = is_start ? ucxm.place.spawn_first : 0;
    int end = is_start ? first + ucxm.place.spawn_n_procs : ucxm.place.max_procs;

    for (int i = first; i < end; i++)
        if (state_of(i) != BASE_LAUNCHED_ABSENT && state_of(i) < state && is_awaited(i) && !ucxm_is_failed(i))
            return false;
    return n_started == atomic_load(&table->n_started);
}

const char *ucxm_members_await(int state, void (*progress)(void), double until_s)
{
    bool has_loss = ucxm_has_failed_peers();
    useconds_t pause_us = 0;

    while (!have_all(state)) {
        if (progress)
            progress();
        ucxm_pause(&pause_us);
        if (!has_loss && ucxm_has_failed_peers())
            return "a process has failed";
        if (until_s > 0 && ucxm_now_s() > until_s)
            return ucxm_launcher_is_late;
    }
    return NULL;
}

/* ---- Addresses in a universe ---- */

bool ucxm_members_has_universe(void)
{
    return universe != NULL;
}

static FILE *open_address(int proc_id, const char *mode)
{
    char path[512];

    snprintf(path, sizeof path, "%s" BASE_LAUNCHED_ADDRESS "%d", universe, proc_id);
    return fopen(path, mode);
}

const char *ucxm_members_publish(const void *blob, size_t n_bytes)
{
    FILE *file = open_address(ucxm.place.proc_id, "wxe");
    bool is_written = file && fwrite(blob, n_bytes, 1, file) == 1;

    if (file && fclose(file) != 0)
        is_written = false;
    return is_written ? NULL : "the address cannot be written into the universe's folder";
}

const char *ucxm_members_look_up(int proc_id, void **blob_out, size_t *n_bytes_out)
{
    FILE *file;
    struct stat status;

    if (!ucxm_members_concern(proc_id))
        atomic_store(&table->states[table->max + (uint32_t)proc_id], 1); /* before its state is read */
    if (!ucxm_is_present(proc_id) || !(file = open_address(proc_id, "re")))
        return "it has ended";
    if (fstat(fileno(file), &status) == 0 && status.st_size > 0 &&
        (*blob_out = malloc((size_t)status.st_size))) {
        *n_bytes_out = fread(*blob_out, 1, (size_t)status.st_size, file);
        if (*n_bytes_out != (size_t)status.st_size) {
            free(*blob_out);
            *blob_out = NULL;
        }
    }
    fclose(file);
    return *blob_out ? NULL : "its address cannot be read";
}
