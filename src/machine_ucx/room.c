/* SPDX-License-Identifier: BSD-3-Clause
 *
 * room.c: where UCX's shared memory lies: in the job's folder under our mpirun, which is in /dev/shm, else in
 * /dev/shm itself; in containers that often is small (Docker's has 64 MiB). Then in TMPDIR, or /tmp, in a
 * folder of this process. (Lanes need no folder.)
 *
 * UCX notices when there is no room, and fails to open a port; processes of a node that start at the same
 * time may all find enough and not get it. So there is a look before, and after a failure another one.
 *
 * UCX removes its files as soon as they are open. The folder is locked as long as the process lives; that of
 * one that was killed is removed by the next that needs one.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/base.h"
#include "base/log.h"
#include "machine_ucx/ucxm.h"

/* What UCX takes for a port at first: 4.1 MiB of buffers, and a queue. */
#define PORT_BYTES ((uint64_t)9 << 19)

static char own_folder[256]; /* "": none */

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

bool ucxm_room_is_short(int n_pes)
{
    return ucxm_lanes_are_chosen() && count_free(folder()) < (uint64_t)n_pes * PORT_BYTES;
}

/* ---- A folder of this process ---- */

/* The descriptor that holds the lock; -1: another process has it, or the folder is gone. */
static int lock(const char *path)
{
    struct stat locked, there;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &locked) == 0 && lstat(path, &there) == 0 &&
        locked.st_ino == there.st_ino)
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

    snprintf(start, sizeof start, "heddle-%u-ucx-", (unsigned)getuid());
    while (listing && (entry = readdir(listing))) {
        int fd;
        if (strncmp(entry->d_name, start, strlen(start)) != 0)
            continue;
        snprintf(path, sizeof path, "%.200s/%s", base, entry->d_name);
        fd = lock(path);
        if (fd < 0)
            continue;
        rmdir(path);
        close(fd);
    }
    if (listing)
        closedir(listing);
}

/* The lock is held until the process ends. Another process may take the folder for a dead one's before it is
 * locked: then again. */
static bool make_folder(const char *base)
{
    for (int i = 0; i < 100; i++) {
        snprintf(own_folder, sizeof own_folder, "%s/heddle-%u-ucx-XXXXXX", base, (unsigned)getuid());
        if (!mkdtemp(own_folder))
            break;
        if (lock(own_folder) >= 0)
            return true;
    }
    own_folder[0] = '\0';
    return false;
}

bool ucxm_room_find(int n_pes)
{
    const char *const bases[] = {getenv("TMPDIR"), "/tmp", "/var/tmp"};
    uint64_t n_free = count_free(folder());

    if (own_folder[0])
        return false;
    for (size_t i = 0; i < BASE_COUNT(bases); i++) {
        if (!bases[i] || bases[i][0] != '/' || strlen(bases[i]) > 200 ||
            count_free(bases[i]) < (uint64_t)n_pes * PORT_BYTES)
            continue;
        remove_dead(bases[i]);
        if (!make_folder(bases[i]))
            continue;
        base_log("process %d of %d: %s has %llu KiB left, too little for UCX's shared memory, which lies in "
                 "%s now",
                 ucxm.place.proc_id, ucxm.place.n_procs, folder(), (unsigned long long)(n_free >> 10),
                 bases[i]);
        setenv("UCX_POSIX_DIR", own_folder, 1);
        return true;
    }
    base_log("process %d of %d: %s has %llu KiB left, too little for UCX's shared memory, and TMPDIR and "
             "/tmp have not "
             "enough either",
             ucxm.place.proc_id, ucxm.place.n_procs, folder(), (unsigned long long)(n_free >> 10));
    return false;
}

void ucxm_room_remove(void)
{
    if (own_folder[0])
        rmdir(own_folder);
}
