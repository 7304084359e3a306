/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock_folder.c: waits for file locks, published in the job's folder on this node. See lock_waits.h.
 *
 * The launcher removes the folder with the job. The file of a killed process stays until then and does no harm: the
 * kernel reports that its descriptors hold nothing.
 */
#include "image/image.h"
#include "image/libc/lock_waits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define NAME_START "heddle-lock-waits."

static char *folder_path; /* NULL: none */

void image_set_lock_folder(const char *path)
{
    folder_path = path ? strdup(path) : NULL;
}

static void name_of(pid_t pid, char *name, size_t name_bytes)
{
    snprintf(name, name_bytes, NAME_START "%d", (int)pid);
}

/* The path of a file of the folder; the caller frees it. NULL: there is no folder, or no memory. */
static char *path_of(const char *name)
{
    char *path;

    return folder_path && asprintf(&path, "%s/%s", folder_path, name) >= 0 ? path : NULL;
}

int image_lock_folder_enter(void)
{
    char *path = path_of(NAME_START "lock");
    int lock = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;

    free(path);
    while (lock >= 0 && flock(lock, LOCK_EX) != 0)
        if (errno != EINTR) {
            close(lock);
            return -1;
        }
    return lock;
}

void image_lock_folder_leave(int lock)
{
    if (lock >= 0)
        close(lock);
}

/* One line per wait and per description. Reads until the first line that is neither. */
static void read_file(const char *name, struct image_lock_waits *waits)
{
    char *path = path_of(name);
    struct image_lock_wait wait = {.pid = (pid_t)atoi(name + strlen(NAME_START))};
    struct image_lock_held held = {.pid = wait.pid};
    uintmax_t device, inode;
    intmax_t first, last;
    int is_exclusive;
    FILE *file = path ? fopen(path, "re") : NULL;

    free(path);
    while (file) {
        bool is_added;

        if (fscanf(file, " wait %" SCNxPTR " %ju %ju %d %jd %jd", &wait.rank, &device, &inode, &is_exclusive,
                   &first, &last) == 6) {
            wait.device = (dev_t)device;
            wait.inode = (ino_t)inode;
            wait.is_exclusive = is_exclusive;
            wait.first = (off_t)first;
            wait.last = (off_t)last;
            is_added = image_lock_waits_add(waits, &wait);
        } else if (fscanf(file, "held %" SCNxPTR " %ju %ju %d", &held.rank, &device, &inode, &held.fd) == 4) {
            held.device = (dev_t)device;
            held.inode = (ino_t)inode;
            is_added = image_lock_waits_add_held(waits, &held);
        } else
            break;
        if (!is_added)
            break;
    }
    if (file)
        fclose(file);
}

void image_lock_folder_read(struct image_lock_waits *waits)
{
    DIR *listing = opendir(folder_path);
    const struct dirent *entry;
    char own[64];

    name_of(getpid(), own, sizeof own);
    while (listing && (entry = readdir(listing)))
        if (strncmp(entry->d_name, NAME_START, strlen(NAME_START)) == 0 && strcmp(entry->d_name, own) != 0 &&
            atoi(entry->d_name + strlen(NAME_START)) > 0)
            read_file(entry->d_name, waits);
    if (listing)
        closedir(listing);
}

void image_lock_folder_write(const struct image_lock_waits *waits)
{
    char name[64], *path;
    FILE *file = NULL;

    name_of(getpid(), name, sizeof name);
    path = path_of(name);
    if (path && waits->n_waits == 0)
        unlink(path);
    else if (path)
        file = fopen(path, "we");
    free(path);
    if (!file)
        return;
    for (size_t i = 0; i < waits->n_waits; i++) {
        const struct image_lock_wait *wait = &waits->waits[i];

        fprintf(file, "wait %" PRIxPTR " %ju %ju %d %jd %jd\n", wait->rank, (uintmax_t)wait->device,
                (uintmax_t)wait->inode, wait->is_exclusive, (intmax_t)wait->first, (intmax_t)wait->last);
    }
    for (size_t i = 0; i < waits->n_held; i++) {
        const struct image_lock_held *held = &waits->held[i];

        fprintf(file, "held %" PRIxPTR " %ju %ju %d\n", held->rank, (uintmax_t)held->device,
                (uintmax_t)held->inode, held->fd);
    }
    fclose(file);
}
