/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whether a job whose program can connect to other jobs is in a universe without --universe. The program perhaps never
 * connects, so it must run as well where that is impossible: then there is no universe, and nothing is said. Called by
 * run.c.
 */
#include "launch/launch.h"
#include "launch/libraries.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

enum {
    SHM_MIB_MIN = 32, /* free in /dev/shm; UCX uses 9 per process */
    FILES_MIN = 128,  /* descriptors that mpirun-procs, and then each process, can have */
};

/* True if libpmix can listen: it needs a network interface that is up, though only this node uses it. */
static bool has_network(void)
{
    struct ifaddrs *all;
    bool is_there = false;
    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next)
        is_there |= one->ifa_addr != NULL && one->ifa_addr->sa_family == AF_INET && (one->ifa_flags & IFF_UP);
    freeifaddrs(all);
    return is_there;
}

/* True if libpmix can learn the current folder, which is perhaps removed. */
static bool has_folder(void)
{
    char *folder = getcwd(NULL, 0);
    bool is_there = folder != NULL;
    free(folder);
    return is_there;
}

static bool has_memory(void)
{
    struct statvfs shm;
    return access("/dev/shm", W_OK) == 0 && statvfs("/dev/shm", &shm) == 0 &&
           (unsigned long long)shm.f_bavail * shm.f_frsize >> 20 >= SHM_MIB_MIN;
}

static bool has_descriptors(void)
{
    struct rlimit files;
    return getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur >= FILES_MIN;
}

/* A program with capabilities does not load UCX. One that is setuid is not an MPI program here. */
static bool has_rights(const char *path)
{
    return getxattr(path, "security.capability", NULL, 0) >= 0;
}

bool launch_can_connect(const char *path, const char *loader)
{
    return !has_rights(path) && has_folder() && has_memory() && has_descriptors() && has_network() &&
           launch_libraries_have_transport(loader);
}
