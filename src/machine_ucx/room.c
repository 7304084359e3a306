/* SPDX-License-Identifier: BSD-3-Clause
 *
 * room.c: finds a folder for UCX's shared memory: the job's folder under Heddle's mpirun, which is in
 * /dev/shm, otherwise /dev/shm itself. In containers it is often small (Docker's has 64 MiB). If there is
 * no room, a folder of this process in TMPDIR, /tmp or /var/tmp is used. (Rings need no folder.)
 *
 * UCX writes to all of a port's memory when it opens the port, and fails if there is no room. The processes
 * of a node open their ports at the same time, so the number of free bytes is meaningful only if it
 * suffices for all of them. Otherwise one process at a time checks it and opens its ports (a lock in the
 * folder). Other programs can still use up the room in between: whenever UCX fails, this process moves on
 * to the next folder.
 *
 * UCX removes its files as soon as they are open. The folder is locked while the process lives; that of a
 * killed process is removed by mpirun at the end of the job (launch/procs/jobdir.c), or else by the next
 * process that needs a folder there.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/base.h"
#include "base/launched.h"
#include "base/log.h"
#include "machine_ucx/ucxm.h"

/* Initial memory of a UCX port: 4.1 MiB of buffers, and a queue. */
#define PORT_BYTES ((uint64_t)9 << 19)

static struct {
    char folder[256];       /* this process's own; "": none */
    int fd;                 /* holds the folder's lock */
    size_t n_tried;         /* folders already tried */
    char first_folder[256]; /* the folder that had no room; "": UCX has not been moved */
} room;

static const char *folder(void)
{
    const char *given = getenv("UCX_POSIX_DIR");

    return given ? given : "/dev/shm";
}

/* Free bytes of a folder; the maximum value if unknown. */
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
    return ucxm_rings_are_chosen();
}

bool ucxm_room_is_permitted(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= PORT_BYTES;
}

bool ucxm_room_suffices(int n_pes, int n_procs)
{
    return has_room(folder(), (uint64_t)n_pes * (uint64_t)n_procs);
}

/* ---- The folder of this process ---- */

/* Locks a folder. Returns the descriptor that holds the lock; -1: another process has it (LOCK_NB), or the
 * folder was removed, or belongs to another user. */
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

/* Removes the folders of dead processes: they are empty. */
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

/* Another process may mistake the folder for a dead process's before it is locked: then try again. */
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

void ucxm_room_report(int n_pes)
{
    char place[256] = "";

    if (!room.first_folder[0])
        return;
    if (room.folder[0])
        snprintf(place, sizeof place, "so it is in %.*s instead",
                 (int)(strrchr(room.folder, '/') - room.folder), room.folder);
    else
        snprintf(place, sizeof place, "nor do TMPDIR, /tmp and /var/tmp");
    base_log("process %d of %d: UCX's shared memory needs %llu KiB, which %s does not have, %s",
             ucxm.place.proc_id, ucxm.place.n_procs, (unsigned long long)n_pes * PORT_BYTES >> 10,
             room.first_folder, place);
}

/* ---- One process at a time ---- */

static char turn_folder[256]; /* its lock grants the turn */

/* More than the number of processes on any node. */
#define TURN_TRIES 10000

static bool is_foreign(const char *path)
{
    struct stat there;

    return lstat(path, &there) == 0 && (there.st_uid != getuid() || !S_ISDIR(there.st_mode));
}

/* Each process removes the folder at the end of its turn, so a process that has waited may hold the lock of
 * a removed folder: then it tries again. */
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
