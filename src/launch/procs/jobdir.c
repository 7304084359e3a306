/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The job's temporary folder, /dev/shm/heddle-UID-PID-RANDOM (in TMPDIR or /tmp if there is no /dev/shm).
 * It contains PMIx's session files and UCX's shared memory files; no other user can list it (mode 0700).
 * This process holds a lock on the folder while it lives, so a folder that can be locked belongs to a dead
 * job: the guard (process_guard.c), or else the next run, removes it. Used by mpirun_procs.c and
 * process_guard.c.
 *
 * Processes of the job that found no room in it have folders elsewhere (machine_ucx/room.c), locked while
 * they live: mpirun removes those of killed processes when the job has ended.
 */
#include "launch/procs/mpirun_procs.h"

#include "base/launched.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)type;
    (void)where;
    remove(path);
    return 0;
}

/* Repeats until it is gone: a process that has just been killed may still be creating a file. No event tells when it cannot
 * any more: it may have been started by another job. */
void procs_jobdir_remove(const char *dir)
{
    for (int i = 0; i < 200 && dir[0] != '\0' && access(dir, F_OK) == 0; i++) {
        if (i > 0)
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    }
}

/* Locks the folder. Returns the descriptor that holds the lock, or -1 (errno EWOULDBLOCK: another process has it). */
static int lock(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Removes the unlocked folders whose names have this kind after the user's id ("": also those of jobs). */
static void remove_dead(const char *base, const char *kind)
{
    char start[32];
    snprintf(start, sizeof start, "heddle-%u-%s", (unsigned)getuid(), kind);
    DIR *listing = opendir(base);
    if (listing == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        char path[512];
        struct stat status;
        if (strncmp(entry->d_name, start, strlen(start)) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", base, entry->d_name);
        if (lstat(path, &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != getuid())
            continue;
        int fd = lock(path);
        if (fd < 0)
            continue;
        if (kind[0] == '\0')
            procs_leftover_kill(entry->d_name);
        procs_jobdir_remove(path);
        close(fd);
    }
    closedir(listing);
}

static bool is_usable(const char *base)
{
    return base != NULL && base[0] == '/' && strlen(base) < 64 && access(base, W_OK | X_OK) == 0;
}

/* Another run may mistake the new folder for a dead job's before it is locked, and remove it: then it is
 * created again. */
static bool create_in(struct procs_job *job, const char *base, int *lock_out)
{
    for (int i = 0; i < 100; i++) {
        unsigned random = 0;
        struct stat locked, there;
        if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
            random = (unsigned)(procs_now_s() * 1e6);
        snprintf(job->id, sizeof job->id, "heddle-%u-%d-%08x", (unsigned)getuid(), (int)getpid(), random);
        snprintf(job->dir, sizeof job->dir, "%s/%s", base, job->id);
        procs_guard_add_folder(job);
        if (mkdir(job->dir, 0700) != 0) {
            if (errno == EEXIST)
                continue;
            return false;
        }
        int fd = lock(job->dir);
        if (fd >= 0 && fstat(fd, &locked) == 0 && lstat(job->dir, &there) == 0 &&
            locked.st_ino == there.st_ino) {
            *lock_out = fd;
            return true;
        }
        if (fd >= 0)
            close(fd);
        else if (errno != EWOULDBLOCK && errno != ENOENT) { /* folders here cannot be locked */
            int error = errno;
            rmdir(job->dir);
            errno = error;
            return false;
        }
    }
    return false;
}

/* Makes an unguessable name. It is in no file name, so only this user's processes can read it. */
static bool make_secret_name(struct procs_job *job)
{
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != sizeof random) {
        launch_say("cannot get random numbers for the name of the job: %s", strerror(errno));
        return false;
    }
    snprintf(job->name, sizeof job->name, "heddle-%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    return true;
}

bool procs_jobdir_create(struct procs_job *job, int *lock_out)
{
    const char *const bases[] = {"/dev/shm", getenv("TMPDIR"), "/tmp"};
    int error = ENOENT;
    if (!make_secret_name(job))
        return false;
    for (int i = 0; i < 3; i++) {
        if (!is_usable(bases[i]))
            continue;
        remove_dead(bases[i], "");
        if (create_in(job, bases[i], lock_out))
            return true;
        error = errno;
    }
    launch_say("cannot create a temporary folder in /dev/shm, TMPDIR or /tmp: %s", strerror(error));
    return false;
}

void procs_jobdir_remove_rooms(void)
{
    const char *const bases[] = {getenv("TMPDIR"), "/tmp", "/var/tmp"};
    for (int i = 0; i < 3; i++)
        if (is_usable(bases[i]))
            remove_dead(bases[i], BASE_LAUNCHED_ROOM);
}
