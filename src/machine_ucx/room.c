/* SPDX-License-Identifier: BSD-3-Clause
 *
 * room.c: where UCX's shared memory lies: in the job's folder under our mpirun, which is in /dev/shm, else in
 * /dev/shm itself; in containers that often is small (Docker's has 64 MiB). If there is no room, it lies in a
 * folder of this process in TMPDIR, /tmp or /var/tmp. (Lanes need no folder.)
 *
 * UCX writes to all of a port's memory when it opens the port, and fails if there is no room. The processes
 * of a node open their ports at the same time, so a look at the free bytes is worth something only if there
 * is enough for all of them. If there is not, one process at a time looks and opens its ports (a lock in the
 * folder). Other programs can still take the room between the look and the opening: whenever UCX fails, this
 * process moves on to the next place.
 *
 * UCX removes its files as soon as they are open. The folder is locked as long as the process lives; the one
 * of a killed process is removed by mpirun at the end of the job (launch/procs/jobdir.c), or else by the next
 * process that needs a folder there.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/base.h"
#include "base/launched.h"
#include "base/log.h"
#include "machine_ucx/ucxm.h"

/* Memory that UCX takes for a port at first: 4.1 MiB of buffers, and a queue. */
#define PORT_BYTES ((uint64_t)9 << 19)

static struct {
    char folder[256];       /* this process's own; "": none */
    int fd;                 /* holds the folder's lock */
    size_t n_tried;         /* the places that are no choice any more */
    char first_folder[256]; /* that had no room; "": UCX has not been moved */
} room;

static const char *folder(void)
{
    const char *given = getenv("UCX_POSIX_DIR");

    return given ? given : "/dev/shm";
}

/* Bytes that are free there; as many as there may be if the system does not say. */
static uint64_t count_free(const char *path)
{
    struct statvfs status;

    return statvfs(path, &status) == 0 ? (uint64_t)status.f_bavail * status.f_frsize : UINT64_MAX;
}

static bool has_room(const char *path, uint64_t n_ports)
{
    return count_free(path) >= n_ports * PORT_BYTES;
}

bool ucxm_room_is_needed(void)
{
    return ucxm_lanes_are_chosen();
}

bool ucxm_room_suffices(int n_pes, int n_procs)
{
    return has_room(folder(), (uint64_t)n_pes * (uint64_t)n_procs);
}

/* ---- A folder of this process ---- */

/* The descriptor that holds the lock; -1: another process has it (LOCK_NB), or the folder is gone, or it is
 * another user's. */
static int lock(const char *path, int flags)
{
    struct stat locked, there;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 && fstat(fd, &locked) == 0 && locked.st_uid == getuid() && flock(fd, LOCK_EX | flags) == 0 &&
        lstat(path, &there) == 0 && locked.st_ino == there.st_ino)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Removes the folders of processes that are gone: they are empty. */
static void remove_dead(const char *base)
{
    char start[64], path[512];
    DIR *listing = opendir(base);
    const struct dirent *entry;

    snprintf(start, sizeof start, "heddle-%u-" BASE_LAUNCHED_ROOM, (unsigned)getuid());
    while (listing && (entry = readdir(listing))) {
        int fd;
        if (strncmp(entry->d_name, start, strlen(start)) != 0)
            continue;
        snprintf(path, sizeof path, "%.200s/%s", base, entry->d_name);
        fd = lock(path, LOCK_NB);
        if (fd < 0)
            continue;
        rmdir(path);
        close(fd);
    }
    if (listing)
        closedir(listing);
}

/* Another process may take the folder for a dead one's before it is locked: then again. */
static bool make_folder(const char *base)
{
    for (int i = 0; i < 100; i++) {
        snprintf(room.folder, sizeof room.folder, "%s/heddle-%u-" BASE_LAUNCHED_ROOM "XXXXXX", base,
                 (unsigned)getuid());
        if (!mkdtemp(room.folder))
            break;
        room.fd = lock(room.folder, LOCK_NB);
        if (room.fd >= 0)
            return true;
    }
    room.folder[0] = '\0';
    return false;
}

void ucxm_room_remove(void)
{
    if (room.folder[0])
        rmdir(room.folder);
}

static void leave_folder(void)
{
    if (!room.folder[0])
        return;
    rmdir(room.folder);
    close(room.fd);
    room.folder[0] = '\0';
}

bool ucxm_room_move(int n_pes)
{
    const char *const bases[] = {getenv("TMPDIR"), "/tmp", "/var/tmp"};

    if (!room.first_folder[0])
        snprintf(room.first_folder, sizeof room.first_folder, "%s", folder());
    leave_folder();
    while (room.n_tried < BASE_COUNT(bases)) {
        const char *base = bases[room.n_tried++];
        if (!base || base[0] != '/' || strlen(base) > 200 || !has_room(base, (uint64_t)n_pes))
            continue;
        remove_dead(base);
        if (!make_folder(base))
            continue;
        setenv("UCX_POSIX_DIR", room.folder, 1);
        return true;
    }
    setenv("UCX_POSIX_DIR", room.first_folder, 1);
    return false;
}

void ucxm_room_say(int n_pes)
{
    char place[256] = "";

    if (!room.first_folder[0])
        return;
    if (room.folder[0])
        snprintf(place, sizeof place, "so it lies in %.*s now",
                 (int)(strrchr(room.folder, '/') - room.folder), room.folder);
    else
        snprintf(place, sizeof place, "nor do TMPDIR, /tmp and /var/tmp");
    base_log("process %d of %d: UCX's shared memory needs %llu KiB, which %s does not have, %s",
             ucxm.place.proc_id, ucxm.place.n_procs, (unsigned long long)n_pes * PORT_BYTES >> 10,
             room.first_folder, place);
}

/* ---- One process at a time ---- */

static char turn_folder[256]; /* its lock is the turn */

/* More than there are processes on any node. */
#define TURN_TRIES 10000

static bool is_foreign(const char *path)
{
    struct stat there;

    return lstat(path, &there) == 0 && (there.st_uid != getuid() || !S_ISDIR(there.st_mode));
}

/* Each process removes the folder when its turn is over, so one that has waited may hold the lock of a folder
 * that is gone: then again. */
int ucxm_room_lock(void)
{
    int fd = -1;

    snprintf(turn_folder, sizeof turn_folder, "%.200s/heddle-%u-turn", folder(), (unsigned)getuid());
    for (int i = 0; i < TURN_TRIES && fd < 0 && !is_foreign(turn_folder); i++) {
        if (mkdir(turn_folder, 0700) != 0 && errno != EEXIST)
            break;
        fd = lock(turn_folder, 0);
    }
    return fd;
}

void ucxm_room_unlock(int fd)
{
    if (fd < 0)
        return;
    rmdir(turn_folder);
    close(fd);
}
