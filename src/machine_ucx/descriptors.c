/* SPDX-License-Identifier: BSD-3-Clause
 *
 * descriptors.c: keeps the descriptors of UCX and PMIx from programs that ranks start (system, popen, fork
 * and exec): those could read the job's messages, and would keep its connections open. Neither library sets
 * FD_CLOEXEC on all descriptors.
 *
 * A descriptor that is open after a call into these libraries, but was not before, belongs to them. (A
 * thread of the program may have opened one in that time; a child that should inherit it then does not.
 * These calls are made once, at MPI_Init, or before any rank runs.) Sockets to other nodes are opened
 * later, by the first send: UCX monitors them with its epoll descriptors, and the kernel lists those.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "machine_ucx/ucxm.h"

/* Higher descriptors are ignored. */
#define FDS_MAX 4096

#define EPOLLS_MAX 1024

static struct {
    bool was_open[FDS_MAX]; /* at the start of the call */
    int epolls[EPOLLS_MAX]; /* UCX's epoll descriptors */
    int n_epolls;
} fds;

static void protect(int fd)
{
    int flags = fcntl(fd, F_GETFD);

    if (flags >= 0 && !(flags & FD_CLOEXEC))
        fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
}

static void note_epoll(int fd)
{
    char path[64], name[64] = "";

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (readlink(path, name, sizeof name - 1) > 0 && strcmp(name, "anon_inode:[eventpoll]") == 0 &&
        fds.n_epolls < EPOLLS_MAX)
        fds.epolls[fds.n_epolls++] = fd;
}

void ucxm_descriptors_each(void (*fn)(int fd))
{
    DIR *listing = opendir("/proc/self/fd");
    const struct dirent *entry;

    while (listing && (entry = readdir(listing))) {
        int fd = atoi(entry->d_name);
        if (entry->d_name[0] != '.' && fd != dirfd(listing) && fd < FDS_MAX)
            fn(fd);
    }
    if (listing)
        closedir(listing);
}

static void note_open(int fd)
{
    fds.was_open[fd] = true;
}

void ucxm_descriptors_begin(void)
{
    memset(fds.was_open, 0, sizeof fds.was_open);
    ucxm_descriptors_each(note_open);
}

static void protect_new(int fd)
{
    if (fds.was_open[fd])
        return;
    protect(fd);
    note_epoll(fd);
}

/* UCX accepts connections on its own thread, at any time: new descriptors are also collected before each
 * fork. */
static void watch_forks(void)
{
    pthread_atfork(ucxm_descriptors_connected, NULL, NULL);
}

void ucxm_descriptors_end(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    ucxm_descriptors_each(protect_new);
    pthread_once(&once, watch_forks);
}

/* Lines of an epoll descriptor's fdinfo: "tfd: 18 events: ..." */
static void protect_watched(int epoll)
{
    char path[64], line[256];
    FILE *info;

    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", epoll);
    info = fopen(path, "re");
    if (!info)
        return;
    while (fgets(line, sizeof line, info))
        if (strncmp(line, "tfd:", 4) == 0)
            protect(atoi(line + 4));
    fclose(info);
}

void ucxm_descriptors_connected(void)
{
    if (ucxm.place.node_n_procs == ucxm.place.n_procs && !getenv("UCX_TLS"))
        return; /* no sockets (transports.c) */
    for (int i = 0; i < fds.n_epolls; i++)
        protect_watched(fds.epolls[i]);
}
