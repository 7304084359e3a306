/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The universe of mpirun --universe: this user's jobs of this node that can connect to each other (MPI_Comm_connect). It
 * needs no daemon. It is a folder, /dev/shm/heddle-universe-UID (-NAME, with HEDDLE_UNIVERSE=NAME), which only this user can
 * open, and which exists while a job belongs to it. Contents: the table of all processes, their addresses, and published
 * names (base/launched.h).
 *
 *   1. Each job owns a range of numbers for its processes, which no later job gets while the universe exists, except for the
 *      last ones if no process has had them.
 *   2. Its mpirun holds a lock on these bytes of the table's file while it lives. So if they are not locked, the job is
 *      dead, and the mpirun that finds this marks its processes as failed.
 *   3. A job holds the lock of the folder while it enters or leaves. The last one removes the contents.
 *
 * Used by mpirun_procs.c, grow.c and process_guard.c.
 */
#include "launch/procs/mpirun_procs.h"

#include "base/launched.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TABLE_BYTES = sizeof(struct base_launched_table) + 2 * BASE_LAUNCHED_UNIVERSE_MAX };

static int table_fd = -1; /* holds the lock */
static struct base_launched_table *table;
static bool is_announced[BASE_LAUNCHED_UNIVERSE_MAX]; /* this job's processes know that it has failed */

/* HEDDLE_UNIVERSE: the name of another universe than the usual one. */
static const char *folder(void)
{
    static char path[96];
    const char *name = getenv("HEDDLE_UNIVERSE");
    if (name != NULL && (name[0] == '\0' || strlen(name) > 32 || strchr(name, '/') != NULL))
        launch_fail(LAUNCH_EXIT_USAGE,
                    "HEDDLE_UNIVERSE=%s: expected a name of at most 32 characters, without /", name);
    snprintf(path, sizeof path, "/dev/shm/heddle-universe-%u%s%s", (unsigned)getuid(), name ? "-" : "",
             name ? name : "");
    return path;
}

/* Locks the folder, and creates it if that is wanted. Returns a descriptor, or -1 with errno. EPERM: it is accessible to
 * others. Then they could keep it locked, so that is found first. */
static int lock_folder(bool is_created)
{
    for (;;) {
        struct stat locked, there;
        if (is_created && mkdir(folder(), 0700) != 0 && errno != EEXIST)
            return -1;
        int fd = open(folder(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT && is_created)
            continue;
        if (fd < 0)
            return -1;
        int error = fstat(fd, &locked) != 0                               ? errno
                    : locked.st_uid != getuid() || (locked.st_mode & 077) ? EPERM
                    : flock(fd, LOCK_EX) != 0                             ? errno
                                                                          : 0;
        /* The last job may have removed it meanwhile. */
        if (error == 0 && stat(folder(), &there) == 0 && there.st_ino == locked.st_ino)
            return fd;
        close(fd);
        errno = error;
        if (error != 0)
            return -1;
        if (!is_created)
            return errno = ENOENT, -1;
    }
}

/* The first number from start on that a living job owns. False: none. *end_out: the end of the numbers that it owns. */
static bool find_owned(int fd, int start, int *first_out, int *end_out)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = 0};
    if (fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
        return false;
    *first_out = lock.l_start < start ? start : (int)lock.l_start;
    *end_out = (int)(lock.l_start + lock.l_len);
    return true;
}

/* Removes the contents if no job is alive, and the folder. */
static void remove_if_dead(bool is_folder_removed)
{
    char path[128];
    int first, end;
    snprintf(path, sizeof path, "%s" BASE_LAUNCHED_TABLE, folder());
    int fd = open(path, O_RDWR | O_CLOEXEC);
    bool is_dead = fd < 0 ? errno == ENOENT : !find_owned(fd, 0, &first, &end);
    if (fd >= 0)
        close(fd);
    if (!is_dead)
        return;
    procs_jobdir_remove_contents(folder());
    if (is_folder_removed)
        rmdir(folder());
}

/* Later jobs get the last numbers if no process has had them, and no living job owns them. */
static void give_back_numbers(void)
{
    int first, end;
    for (uint32_t i = table->n_given - 1; i > 0 && atomic_load(&table->states[i]) == BASE_LAUNCHED_ABSENT &&
                                          !find_owned(table_fd, (int)i, &first, &end);
         i--)
        table->n_given = i;
}

void procs_universe_tidy(void)
{
    int fd = lock_folder(false);
    if (fd < 0)
        return;
    if (table != NULL)
        give_back_numbers();
    remove_if_dead(true);
    close(fd);
}

/* Opens the table, or creates it. Returns 0 or an errno. */
static int open_table(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s" BASE_LAUNCHED_TABLE, folder());
    table_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int error = table_fd < 0 ? errno : posix_fallocate(table_fd, 0, TABLE_BYTES);
    void *memory =
        error ? MAP_FAILED : mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, table_fd, 0);
    if (memory == MAP_FAILED)
        return error ? error : errno;
    table = memory;
    if (table->max == 0) {
        table->max = BASE_LAUNCHED_UNIVERSE_MAX;
        table->n_given = 1;
    }
    snprintf(path, sizeof path, "%s" BASE_LAUNCHED_NAMES, folder());
    return table->max != BASE_LAUNCHED_UNIVERSE_MAX    ? EPROTO
           : mkdir(path, 0700) != 0 && errno != EEXIST ? errno
                                                       : 0;
}

/* Makes the universe's files visible in the job's folder. Returns 0 or an errno. */
static int link_folder(const struct procs_job *job)
{
    char path[PROCS_DIR_MAX + 32], target[128];
    snprintf(path, sizeof path, "%s" BASE_LAUNCHED_UNIVERSE_LINK, job->dir);
    if (symlink(folder(), path) != 0)
        return errno;
    snprintf(path, sizeof path, "%s" BASE_LAUNCHED_TABLE, job->dir);
    snprintf(target, sizeof target, "%s" BASE_LAUNCHED_TABLE, folder());
    return symlink(target, path) == 0 ? 0 : errno;
}

/* With the folder's lock. Returns 0 or an errno. ENOSPC: there are not enough numbers. */
static int take_numbers(struct procs_job *job)
{
    struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = table->n_given, .l_len = job->max_procs};
    if (table->n_given + (unsigned)job->max_procs > table->max)
        return ENOSPC;
    if (fcntl(table_fd, F_OFD_SETLK, &lock) != 0)
        return errno;
    job->first_number = (int)table->n_given;
    table->n_given += (unsigned)job->max_procs;
    return 0;
}

struct base_launched_table *procs_universe_enter(struct procs_job *job)
{
    int fd = lock_folder(true), error = fd < 0 ? errno : 0;
    if (error == 0) {
        remove_if_dead(false);
        error = open_table();
    }
    if (error == 0)
        error = take_numbers(job);
    if (error == 0)
        error = link_folder(job);
    if (fd >= 0)
        close(fd);
    if (error == 0)
        return table;
    table = NULL;
    if (job->options.is_universe_implied && !job->options.is_verbose)
        return NULL;
    if (error == ENOSPC)
        launch_say("--universe: its jobs have used all %d numbers of processes: end all jobs of the universe",
                   BASE_LAUNCHED_UNIVERSE_MAX);
    else
        launch_say("--universe: %s: %s", folder(),
                   error == EPERM    ? "others can access it, or own it"
                   : error == EPROTO ? "another version of mpirun uses it"
                                     : strerror(error));
    return NULL;
}

void procs_universe_leave(const struct procs_job *job)
{
    char path[128];
    if (table == NULL)
        return;
    for (int i = job->first_number; i < job->first_number + job->max_procs; i++) {
        uint8_t state = atomic_load(&table->states[i]);
        if (state == BASE_LAUNCHED_ABSENT)
            continue;
        if (state < BASE_LAUNCHED_ENDED)
            atomic_store(&table->states[i], BASE_LAUNCHED_FAILED);
        snprintf(path, sizeof path, "%s" BASE_LAUNCHED_ADDRESS "%d", folder(), i);
        unlink(path);
    }
    /* The mapping keeps the file open. */
    fcntl(table_fd, F_OFD_SETLK, &(struct flock){.l_type = F_UNLCK, .l_whence = SEEK_SET});
    procs_universe_tidy();
}

static bool is_own(const struct procs_job *job, int number)
{
    return number >= job->first_number && number < job->first_number + job->max_procs;
}

/* Marks the living processes of dead jobs. This job's lock is no obstacle to itself, so it does not see that. */
static void find_dead(const struct procs_job *job)
{
    int first = 0, end = 0;
    for (int i = 0; i < (int)table->n_given; i++) {
        uint8_t state = atomic_load(&table->states[i]);
        if (state == BASE_LAUNCHED_ABSENT || state >= BASE_LAUNCHED_ENDED || is_own(job, i) ||
            (i >= first && i < end))
            continue;
        if (!find_owned(table_fd, i, &first, &end))
            first = end = 0;
        if (i < first || i >= end)
            atomic_compare_exchange_strong(&table->states[i], &state, BASE_LAUNCHED_FAILED);
    }
}

void procs_universe_watch(const struct procs_job *job)
{
    if (table == NULL)
        return;
    find_dead(job);
    for (int i = 0; i < (int)table->n_given; i++) {
        if (is_own(job, i) || is_announced[i] || atomic_load(&table->states[i]) != BASE_LAUNCHED_FAILED ||
            !atomic_load(&table->states[table->max + (uint32_t)i]))
            continue;
        is_announced[i] = true;
        procs_server_announce_loss(job, BASE_LAUNCHED_OTHER_JOB + i, "it belonged to another job");
    }
}
