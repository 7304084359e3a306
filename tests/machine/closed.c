/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a job's processes open nothing that other users or hosts could use: each rank lists the open
 * descriptors of its process after messages of all sizes. Then rank 0 runs a command (if there is one) with
 * the ids of all processes as arguments; it may try to access them, and must end with 0. Messages still
 * arrive afterwards.
 *
 *   closed [-i INTERFACE] [COMMAND]      -i: listeners are allowed, at addresses of this interface only
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <stdbool.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../mpi_conformance/mtest.h"

#define LARGE (8 << 20)

#define FDS_MAX 1024

static const char *interface;      /* NULL: nothing may listen */
static bool is_inherited[FDS_MAX]; /* by descriptor: the launcher's (slurmstepd leaves a listener open) */

static void exchange(int round)
{
    unsigned char *in = mtest_alloc(LARGE), *out = mtest_alloc(LARGE);
    for (int bytes = 1; bytes <= LARGE; bytes *= 2) {
        memset(out, mtest_rank + round, (size_t)bytes);
        MTEST_OK(MPI_Sendrecv(out, bytes, MPI_BYTE, (mtest_rank + 1) % mtest_size, 1, in, bytes, MPI_BYTE,
                              (mtest_rank + mtest_size - 1) % mtest_size, 1, MPI_COMM_WORLD,
                              MPI_STATUS_IGNORE));
        MTEST_CHECK(in[0] == (mtest_rank + mtest_size - 1) % mtest_size + round && in[bytes - 1] == in[0],
                    "%d bytes: got %d", bytes, in[0]);
    }
    free(in);
    free(out);
}

/* The interface with this address. */
static void name_interface(const struct sockaddr_in *address, char *name_out, size_t size)
{
    struct ifaddrs *all = NULL;
    snprintf(name_out, size, "none");
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *at = all; at; at = at->ifa_next)
        if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET &&
            ((const struct sockaddr_in *)at->ifa_addr)->sin_addr.s_addr == address->sin_addr.s_addr)
            snprintf(name_out, size, "%s", at->ifa_name);
    freeifaddrs(all);
}

static void check_socket(int fd)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address, n_bytes = sizeof(int);
    int listens = 0;
    char name[64], text[64] = "?";
    if (fd < FDS_MAX && is_inherited[fd])
        return;
    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0 || address.ss_family != AF_INET ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n_bytes) != 0 || !listens)
        return;
    name_interface((const struct sockaddr_in *)&address, name, sizeof name);
    inet_ntop(AF_INET, &((const struct sockaddr_in *)&address)->sin_addr, text, sizeof text);
    MTEST_CHECK(interface && strcmp(name, interface) == 0, "descriptor %d listens at %s of interface %s", fd,
                text, name);
}

static void check_descriptors(void)
{
    DIR *listing = opendir("/proc/self/fd");
    for (const struct dirent *entry; listing && (entry = readdir(listing));) {
        int fd = atoi(entry->d_name);
        struct stat status;
        char path[64], name[512] = "";
        if (entry->d_name[0] == '.' || fd == dirfd(listing) || fstat(fd, &status) != 0)
            continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (readlink(path, name, sizeof name - 1) > 0 && strncmp(name, "/dev/shm/", 9) == 0)
            MTEST_CHECK((status.st_mode & 077) == 0, "%s has the mode %o", name,
                        (unsigned)status.st_mode & 0777);
        if (S_ISSOCK(status.st_mode))
            check_socket(fd);
    }
    if (listing)
        closedir(listing);
}

/* When this process was started, in seconds since 1970, up to one too late. */
static long start_s(void)
{
    FILE *file = fopen("/proc/self/stat", "r");
    unsigned long long ticks = 0;
    struct timespec now;
    /* The 22nd field; the second one is in parentheses. */
    if (!file || fscanf(file,
                        "%*d (%*[^)]) %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
                        " %*s %llu",
                        &ticks) != 1)
        ticks = 0;
    if (file)
        fclose(file);
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (long)time(NULL) - (long)now.tv_sec + (long)(ticks / (unsigned long long)sysconf(_SC_CLK_TCK));
}

/* The lines of /proc/sysvipc/shm: key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime. An older process
 * with the same number may have left one. */
static void check_segments(void)
{
    FILE *list = fopen("/proc/sysvipc/shm", "r");
    char line[512];
    for (long pid, id, made_s; list && fgets(line, sizeof line, list);)
        if (sscanf(line, "%*s %ld %*s %*s %ld %*s %*s %*s %*s %*s %*s %*s %*s %ld", &id, &pid, &made_s) == 3)
            MTEST_CHECK(pid != (long)getpid() || made_s + 1 < start_s(),
                        "this process has made the SysV segment %ld", id);
    if (list)
        fclose(list);
}

static void run(const char *command)
{
    char text[8192];
    int length = snprintf(text, sizeof text, "%s", command);
    long *pids = mtest_alloc((size_t)mtest_size * sizeof *pids), pid = (long)getpid();
    MTEST_OK(MPI_Gather(&pid, 1, MPI_LONG, pids, 1, MPI_LONG, 0, MPI_COMM_WORLD));
    for (int i = 0; i < mtest_size && mtest_rank == 0; i++)
        if (i == 0 || pids[i] != pids[i - 1])
            length += snprintf(text + length, sizeof text - (size_t)length, " %ld", pids[i]);
    if (mtest_rank == 0)
        MTEST_CHECK(system(text) == 0, "%s has failed", text);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    free(pids);
}

int main(int argc, char **argv)
{
    for (int fd = 0; fd < FDS_MAX && argc > 1 && strcmp(argv[1], "-i") == 0; fd++)
        is_inherited[fd] = fcntl(fd, F_GETFD) >= 0; /* one rank per process: nothing is open yet */
    mtest_init(&argc, &argv, 2);
    if (argc > 2 && strcmp(argv[1], "-i") == 0) {
        interface = argv[2];
        argv += 2;
        argc -= 2;
    }
    exchange(0);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    check_descriptors();
    check_segments();
    if (argc > 1)
        run(argv[1]);
    exchange(1);
    return mtest_end();
}
