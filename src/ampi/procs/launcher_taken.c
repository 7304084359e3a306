/* SPDX-License-Identifier: BSD-3-Clause
 *
 * launcher_taken.c: a rank of another MPI that starts a program of this library (system, posix_spawn, fork
 * and exec) passes on the variables of its launcher, although it is connected to that launcher itself, and
 * so its place in the job is taken. A shell or an interpreter in front of a program has the same variables,
 * and is not connected.
 *
 * A client of PMIx keeps a connection to the address in PMIX_SERVER_URI. This file looks for that
 * connection in this process, which may have inherited it, and in its ancestors with the same place. The
 * kernel's tables of connections take long to read on a busy node, and are not read if there is no such
 * ancestor.
 *
 * Not detected: a program that is started before its rank's MPI_Init or after its MPI_Finalize, because the
 * rank is not connected then.
 */
#include "ampi/procs/launcher_taken.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

/* Maximum number of server addresses, and of connections to them: a launcher writes the same address into
 * several variables. */
#define SERVERS_MAX 16
#define CONNECTIONS_MAX 1024

/* Maximum number of ancestors to check. */
#define ANCESTORS_MAX 64

/* Longer environments are read only in part. */
#define ENVIRONMENT_MAX ((size_t)1 << 20)

/* A server's address in the format of /proc/net/tcp. */
struct server {
    char text[48];
    bool is_v6;
};

struct servers {
    struct server of[SERVERS_MAX];
    int n;
};

/* ---- Addresses ---- */

static void write_address(char *text, size_t size, bool is_v6, const uint32_t *words, unsigned port)
{
    if (is_v6)
        snprintf(text, size, "%08X%08X%08X%08X:%04X", words[0], words[1], words[2], words[3], port & 0xffff);
    else
        snprintf(text, size, "%08X:%04X", words[0], port & 0xffff);
}

/* "NAMESPACE.RANK;tcp4://127.0.0.1:46501", or tcp6://[::1]:46501. */
static bool parse_server(const char *uri, struct server *server)
{
    const char *at = strstr(uri, ";tcp");
    char host[INET6_ADDRSTRLEN];
    uint32_t words[4];
    unsigned port;

    if (!at)
        return false;
    server->is_v6 = at[4] == '6';
    if (sscanf(at, server->is_v6 ? ";tcp6://[%45[^]]]:%u" : ";tcp4://%45[^:]:%u", host, &port) != 2 ||
        inet_pton(server->is_v6 ? AF_INET6 : AF_INET, host, words) != 1)
        return false;
    write_address(server->text, sizeof server->text, server->is_v6, words, port);
    return true;
}

static void find_servers(char *const *entries, size_t n, struct servers *servers)
{
    for (size_t i = 0; i < n && servers->n < SERVERS_MAX; i++)
        if (strncmp(entries[i], "PMIX_SERVER_URI", strlen("PMIX_SERVER_URI")) == 0 &&
            parse_server(entries[i], &servers->of[servers->n]))
            servers->n++;
}

static bool is_server(const struct servers *servers, const char *text, bool is_v6)
{
    for (int i = 0; i < servers->n; i++)
        if (servers->of[i].is_v6 == is_v6 && strcmp(servers->of[i].text, text) == 0)
            return true;
    return false;
}

/* ---- This process's sockets ---- */

static bool is_to_server(int fd, const struct servers *servers)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } peer;
    socklen_t n_bytes = sizeof peer;
    uint32_t words[4];
    char text[48];

    if (getpeername(fd, &peer.any, &n_bytes) != 0)
        return false;
    if (peer.any.sa_family == AF_INET) {
        write_address(text, sizeof text, false, &peer.v4.sin_addr.s_addr, ntohs(peer.v4.sin_port));
        return is_server(servers, text, false);
    }
    if (peer.any.sa_family != AF_INET6)
        return false;
    memcpy(words, &peer.v6.sin6_addr, sizeof words);
    write_address(text, sizeof text, true, words, ntohs(peer.v6.sin6_port));
    return is_server(servers, text, true);
}

static bool is_connected_here(const struct servers *servers)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    bool is_found = false;

    while (dir && !is_found && (entry = readdir(dir)) != NULL)
        is_found = entry->d_name[0] != '.' && is_to_server(atoi(entry->d_name), servers);
    if (dir)
        closedir(dir);
    return is_found;
}

/* ---- Other processes' sockets ---- */

/* The sockets of this network namespace that are connected to a server, by inode number. */
struct connections {
    unsigned long inodes[CONNECTIONS_MAX];
    int n;
};

static void read_table(const char *path, bool is_v6, const struct servers *servers,
                       struct connections *connections)
{
    FILE *file = fopen(path, "re");
    char line[512], peer[48];
    unsigned state;
    unsigned long inode;

    while (file && connections->n < CONNECTIONS_MAX && fgets(line, sizeof line, file))
        if (sscanf(line, " %*d: %*s %47s %x %*s %*s %*s %*s %*s %lu", peer, &state, &inode) == 3 &&
            state == 1 && is_server(servers, peer, is_v6))
            connections->inodes[connections->n++] = inode;
    if (file)
        fclose(file);
}

static struct connections *read_connections(const struct servers *servers)
{
    struct connections *connections = base_malloc(sizeof *connections, "the launcher's connections");

    connections->n = 0;
    read_table("/proc/net/tcp", false, servers, connections);
    read_table("/proc/net/tcp6", true, servers, connections);
    return connections;
}

/* True if the process has one of these sockets. */
static bool has_connection(pid_t pid, const struct connections *connections)
{
    char path[64], target[64];
    struct dirent *entry;
    bool is_found = false;
    DIR *dir;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    while (dir && !is_found && (entry = readdir(dir)) != NULL) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        unsigned long inode;
        target[n > 0 ? n : 0] = '\0';
        if (sscanf(target, "socket:[%lu]", &inode) != 1)
            continue;
        for (int i = 0; i < connections->n && !is_found; i++)
            is_found = connections->inodes[i] == inode;
    }
    if (dir)
        closedir(dir);
    return is_found;
}

/* ---- Ancestors ---- */

static pid_t parent_of(pid_t pid)
{
    char path[64], text[512];
    const char *end;
    int fd, parent = 0;
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    end = strrchr(text, ')'); /* the program's name may contain any character */
    return end && sscanf(end, ") %*c %d", &parent) == 1 ? parent : 0;
}

static size_t read_environment(pid_t pid, char *text, size_t size)
{
    char path[64];
    size_t n = 0;
    ssize_t n_read;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && n < size - 1 && (n_read = read(fd, text + n, size - 1 - n)) > 0)
        n += (size_t)n_read;
    if (fd >= 0)
        close(fd);
    text[n] = '\0';
    return n;
}

/* True if a process was started with this variable. */
static bool has_entry(const char *environment, size_t n_bytes, const char *entry)
{
    for (const char *at = environment; at < environment + n_bytes; at += strlen(at) + 1)
        if (strcmp(at, entry) == 0)
            return true;
    return false;
}

/* True if it was started with the variables of this process's place. */
static bool has_same_place(pid_t pid, const char *job, const char *rank)
{
    char *environment = base_malloc(ENVIRONMENT_MAX, "the environment of a process");
    size_t n = read_environment(pid, environment, ENVIRONMENT_MAX);
    bool is_same = has_entry(environment, n, job) && has_entry(environment, n, rank);

    free(environment);
    return is_same;
}

static const char *find_entry(char *const *entries, size_t n, const char *start)
{
    for (size_t i = 0; i < n; i++)
        if (strncmp(entries[i], start, strlen(start)) == 0)
            return entries[i];
    return NULL;
}

/* True if an ancestor with the same place is connected to a server. */
static bool is_connected_above(const char *job, const struct servers *servers)
{
    const char *value = secure_getenv("PMIX_RANK");
    struct connections *connections = NULL;
    pid_t pid = getppid();
    bool is_found = false;
    char rank[64];

    snprintf(rank, sizeof rank, "PMIX_RANK=%s", value ? value : "");
    for (int i = 0; i < ANCESTORS_MAX && !is_found && pid > 1 && has_same_place(pid, job, rank); i++) {
        if (!connections)
            connections = read_connections(servers);
        is_found = has_connection(pid, connections);
        pid = parent_of(pid);
    }
    free(connections);
    return is_found;
}

/* ---- Launchers without PMIx ---- */

static bool has_name(pid_t pid, const char *name)
{
    char path[64], text[32] = "";
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    file = fopen(path, "re");
    if (file && !fgets(text, sizeof text, file))
        text[0] = '\0';
    if (file)
        fclose(file);
    text[strcspn(text, "\n")] = '\0';
    return strcmp(text, name) == 0;
}

/* True if a process has loaded an MPI library, whichever. */
static bool has_mpi(pid_t pid)
{
    char path[64], *line = NULL;
    size_t size = 0;
    bool is_found = false;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    file = fopen(path, "re");
    while (file && !is_found && getline(&line, &size, file) > 0)
        is_found = strstr(line, "/libmpi") != NULL;
    free(line);
    if (file)
        fclose(file);
    return is_found;
}

bool ampi_launcher_is_above(const char *launcher)
{
    pid_t pid = getppid();

    for (int i = 0; i < ANCESTORS_MAX && pid > 1 && !has_mpi(pid); i++) {
        if (has_name(pid, launcher))
            return true;
        pid = parent_of(pid);
    }
    return false;
}

bool ampi_launcher_is_taken(char *const *entries, size_t n)
{
    const char *job = find_entry(entries, n, "PMIX_NAMESPACE=");
    struct servers servers = {.n = 0};

    find_servers(entries, n, &servers);
    return job && servers.n > 0 && (is_connected_here(&servers) || is_connected_above(job, &servers));
}
