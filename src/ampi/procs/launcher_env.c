/* SPDX-License-Identifier: BSD-3-Clause
 *
 * launcher_env.c: the launcher's variables in the environment of this process. Those that make a process a
 * member of a job are removed at the start: a rank that starts another MPI program (system, popen, fork and
 * exec, mpirun) starts a job of its own, which otherwise would take the rank's place in this one. A shell,
 * an interpreter or env in front of the program passes them on, because the first program of this library
 * in such a chain takes them; unless a program of another MPI has done so (launcher_taken.c).
 *
 * libpmix reads the environment, so the variables are put back during PMIx_Init: in a new array that is
 * never freed, because another thread may read the environment meanwhile. The variables by which programs
 * choose their GPU stay, with the rank's own values (base/rank_variables.h). Members cannot be told apart
 * by process id, because scripts fork.
 */
#include "ampi/procs/launcher_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "ampi/procs/launcher_taken.h"
#include "base/launched.h"
#include "base/log.h"
#include "image/image.h"

extern char **environ;

/* Time limit for mpirun to read reports when many processes start at once. */
#define REPORT_TIMEOUT_S 5

/* See refuse. */
#define REFUSED_PAUSE_S 1

/* The removed variables, as in environ; the strings stay in place. */
static struct {
    char **entries;
    size_t n;
    char **lent;   /* the environment that contains them; NULL: none yet */
    bool is_other; /* they belonged to a process that started this one, and are dropped */
} taken;

/* The value of a removed variable; NULL: not set. */
static const char *find(const char *name)
{
    size_t n_name = strlen(name);

    for (size_t i = 0; i < taken.n; i++)
        if (strncmp(taken.entries[i], name, n_name) == 0 && taken.entries[i][n_name] == '=')
            return taken.entries[i] + n_name + 1;
    return NULL;
}

/* Removes the variables in place, without allocation: a thread that reads the environment meanwhile sees
 * each other variable at least once. */
static void remove_members(void)
{
    char **to = environ;

    for (char **from = environ; from && *from; from++)
        if (!base_launched_is_membership(*from))
            *to++ = *from;
    if (to)
        *to = NULL;
}

/* Drops PMIx's variables; those of Heddle's own mpirun stay. */
static void forget_pmix(void)
{
    size_t n = 0;

    for (size_t i = 0; i < taken.n; i++)
        if (strncmp(taken.entries[i], "PMIX_", strlen("PMIX_")) != 0)
            taken.entries[n++] = taken.entries[i];
    taken.n = n;
}

/* The text of Heddle's mpirun behind the job's name and a colon; NULL: it is not the launcher of this process. */
static const char *find_said(void)
{
    const char *job = find("PMIX_NAMESPACE"), *said = find(BASE_LAUNCHED_SIZE_ENV);
    size_t n_job = job ? strlen(job) : 0;

    return said && n_job && strncmp(said, job, n_job) == 0 && said[n_job] == ':' ? said + n_job + 1 : NULL;
}

void ampi_launched_take(void)
{
    size_t n = 0;

    for (char **entry = environ; entry && *entry; entry++)
        n += base_launched_is_membership(*entry);
    if (n == 0)
        return;
    taken.entries = base_malloc(n * sizeof *taken.entries, "the launcher's variables");
    for (char **entry = environ; *entry; entry++)
        if (base_launched_is_membership(*entry))
            taken.entries[taken.n++] = *entry;
    remove_members();
    if (ampi_launcher_is_taken(taken.entries, taken.n)) {
        if (find_said())
            unsetenv("HEDDLE_OPTIONS"); /* of a rank that passes on the environment of its start */
        forget_pmix();
        taken.is_other = true;
    }
}

void ampi_launched_lend(void)
{
    size_t n = 0;
    char **lent;

    while (environ && environ[n])
        n++;
    /* Never freed: another thread may be reading it. Kept in a variable, so that leak checkers find it. */
    lent = base_malloc((n + taken.n + 1) * sizeof *lent, "the environment");
    if (n)
        memcpy(lent, environ, n * sizeof *lent);
    if (taken.n)
        memcpy(lent + n, taken.entries, taken.n * sizeof *lent);
    lent[n + taken.n] = NULL;
    environ = taken.lent = lent;
}

void ampi_launched_withdraw(void)
{
    remove_members();
}

const char *ampi_launched_programs(void)
{
    const char *said = find_said(), *list = said ? strstr(said, BASE_LAUNCHED_PROGRAMS) : NULL;

    return list ? list + strlen(BASE_LAUNCHED_PROGRAMS) : NULL;
}

const char *ampi_launched_spawn(void)
{
    return find("PMIX_NAMESPACE") ? find(BASE_LAUNCHED_SPAWN_ENV) : NULL;
}

static bool calls_for_universe(void)
{
    static const char *const functions[] = {"comm_spawn", BASE_LAUNCHED_CONNECTIONS};

    for (size_t i = 0; i < BASE_COUNT(functions); i++)
        if (image_process_refers_to(functions[i]))
            return true;
    return false;
}

bool ampi_launched_wants_universe(void)
{
    static int answer; /* 1: no, 2: yes */
    const char *name = secure_getenv("HEDDLE_UNIVERSE");

    if (!answer)
        answer = !find("PMIX_NAMESPACE") || find_said() ||
                         (name && strcmp(name, BASE_LAUNCHED_NO_UNIVERSE) == 0) ||
                         (!name && !ampi_launched_spawn() && !calls_for_universe())
                     ? 1
                     : 2;
    return answer == 2;
}

int ampi_launched_count(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"};
    const char *said = find_said();
    int size = 0;

    if (taken.is_other)
        base_log_verbose(
            1, "the launcher started the parent of this process, so this process is a job of its own");
    if (!getenv("PMIX_RANK") || !find("PMIX_NAMESPACE"))
        return 0;
    if (said)
        size = strstr(said, BASE_LAUNCHED_GROWS) ? -1 : atoi(said);
    for (size_t i = 0; size == 0 && i < BASE_COUNT(names); i++)
        if (getenv(names[i]))
            size = atoi(getenv(names[i]));
    if (size == 1 && ampi_launched_wants_universe())
        size = -1;
    return size > 0 ? size : -1;
}

static int number_of(const char *name)
{
    const char *text = getenv(name);

    return text ? atoi(text) : 0;
}

/* All processes end, so that the launcher reports a failure; the others let the first one print its line before
 * the launcher kills it because of them. */
static void refuse(const char *launcher, int n_procs, int proc_id, const char *remedy) BASE_NORETURN;
static void refuse(const char *launcher, int n_procs, int proc_id, const char *remedy)
{
    struct timespec pause = {.tv_sec = REFUSED_PAUSE_S};

    if (proc_id == 0)
        base_fatal(
            1,
            "%s has started %d processes without PMIx, so each would be a job of its own: use %smpirun -n %d",
            launcher, n_procs, remedy, n_procs);
    nanosleep(&pause, NULL);
    _exit(1);
}

void ampi_launched_refuse(void)
{
    static const struct {
        const char *process; /* name of the launcher's process above each task */
        const char *size;    /* variable with the number of tasks */
        const char *rank;    /* variable with the task's number */
        const char *name;    /* the user's command */
        const char *remedy;  /* besides Heddle's mpirun */
    } launchers[] = {
        {"hydra_pmi_proxy", "PMI_SIZE", "PMI_RANK", "MPICH's mpirun", "Heddle's "},
        {"slurmstepd", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun", "`srun --mpi=pmix`, or Heddle's "}};

    if (taken.is_other || find(BASE_LAUNCHED_SIZE_ENV))
        return;
    for (size_t i = 0; i < BASE_COUNT(launchers); i++)
        if (number_of(launchers[i].size) > 1 && ampi_launcher_is_above(launchers[i].process))
            refuse(launchers[i].name, number_of(launchers[i].size), number_of(launchers[i].rank),
                   launchers[i].remedy);
}

const char *ampi_launched_folder(void)
{
    return find("PMIX_SERVER_TMPDIR");
}

const char *ampi_launched_output(void)
{
    return find(BASE_LAUNCHED_OUTPUT_ENV);
}

const char *ampi_launched_progress(void)
{
    return find(BASE_LAUNCHED_PROGRESS_ENV);
}

const char *ampi_launched_host(void)
{
    return find(BASE_LAUNCHED_HOST_ENV);
}

const char *ampi_launched_parent(void)
{
    return find(BASE_LAUNCHED_PARENT_ENV);
}

void ampi_launched_report(long n_ranks)
{
    const char *name = find(BASE_LAUNCHED_REPORT_ENV), *rank = getenv("PMIX_RANK");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = REPORT_TIMEOUT_S};
    char text[64];
    int fd, n_text;

    if (!name || strlen(name) >= sizeof address.sun_path - 1)
        return;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    memcpy(address.sun_path + 1, name, strlen(name));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    n_text = snprintf(text, sizeof text, BASE_LAUNCHED_REPORT_FORMAT,
                      find("PMIX_NAMESPACE") && rank ? atoi(rank) : -1, n_ranks);
    if (sendto(fd, text, (size_t)n_text, MSG_NOSIGNAL, (struct sockaddr *)&address,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) < 0)
        base_log_verbose(1, "cannot report to mpirun that this process has started");
    close(fd);
}
