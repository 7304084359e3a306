/* SPDX-License-Identifier: BSD-3-Clause
 *
 * names.c: published names in a universe (mpirun --universe): a file for each, in a folder that only this user can open. It
 * needs no daemon. See registry.h.
 *
 * A file's name is a hash of the published name; it holds the port and the name, each with a 0 at its end. It is
 * complete when it appears (rename). A process that publishes or unpublishes holds the folder's lock. When the
 * process of a port ends, the port's names are no longer published.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "ampi/dynamic/registry.h"
#include "ampi/procs/procs.h"
#include "base/launched.h"
#include "base/log.h"

/* How often a rank tries to lock the folder, in ns. */
#define LOOK_NS 500000

/* The file of a name, or with a suffix another one beside it. */
static void path_of(const char *service, const char *suffix, char *path_out, size_t path_bytes)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (const char *at = service; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    snprintf(path_out, path_bytes, "%s" BASE_LAUNCHED_NAMES "/%016llx%s", ampi_job.universe,
             (unsigned long long)hash, suffix);
}

/* True if the name is published; port_out has MPI_MAX_PORT_NAME bytes. */
static bool read_name(const char *path, const char *service, char *port_out)
{
    FILE *file = fopen(path, "re");
    size_t n_service = strlen(service) + 1, n_bytes = MPI_MAX_PORT_NAME + n_service;
    char *bytes = base_calloc(1, n_bytes + 1, "a published name");
    size_t n = file ? fread(bytes, 1, n_bytes, file) : 0, n_port = strlen(bytes) + 1;
    bool is_found = n == n_port + n_service && memcmp(bytes + n_port, service, n_service) == 0 &&
                    ampi_registry_is_alive(bytes);

    if (file)
        fclose(file);
    if (is_found)
        snprintf(port_out, MPI_MAX_PORT_NAME, "%s", bytes);
    free(bytes);
    return is_found;
}

/* With the lock. Returns an error class. */
static int publish(const char *path, const char *service, const char *port, char *old_port)
{
    char other[512];
    FILE *file;
    bool is_written;

    if (read_name(path, service, old_port))
        return MPI_ERR_SERVICE;
    path_of(service, "-new", other, sizeof other);
    file = fopen(other, "we");
    is_written = file && fwrite(port, strlen(port) + 1, 1, file) == 1 &&
                 fwrite(service, strlen(service) + 1, 1, file) == 1;
    if (file && fclose(file) != 0)
        is_written = false;
    if (is_written && rename(other, path) == 0)
        return MPI_SUCCESS;
    unlink(other);
    return MPI_ERR_NO_SPACE;
}

/* Locks the folder against others that publish, who may be stopped: waits at most timeout_s, while other ranks run. A process
 * that ends drops its lock. Returns an error class. */
static int lock_folder(double timeout_s, int *fd_out)
{
    uint64_t end_ns = ult_now_ns() + (uint64_t)(timeout_s * 1e9);
    char path[512];
    int fd, error = MPI_SUCCESS;

    snprintf(path, sizeof path, "%s" BASE_LAUNCHED_NAMES, ampi_job.universe);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return MPI_ERR_NO_SPACE;
    while (!error && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            error = MPI_ERR_NO_SPACE;
        else if (ult_now_ns() >= end_ns)
            error = MPI_ERR_PENDING;
        else
            ult_sleep_ns(LOOK_NS);
    }
    if (error)
        close(fd);
    else
        *fd_out = fd;
    return error;
}

int ampi_names_run(struct ampi_registry_call *call)
{
    char path[512];
    int error, lock;

    path_of(call->service, "", path, sizeof path);
    if (call->op == AMPI_REGISTRY_LOOKUP)
        return read_name(path, call->service, call->answer) ? MPI_SUCCESS : MPI_ERR_NAME;
    if ((error = lock_folder(call->timeout_s, &lock)))
        return error;
    if (call->op == AMPI_REGISTRY_PUBLISH)
        error = publish(path, call->service, call->port, call->answer);
    else
        error = read_name(path, call->service, call->answer) && strcmp(call->answer, call->port) == 0 &&
                        unlink(path) == 0
                    ? MPI_SUCCESS
                    : MPI_ERR_SERVICE;
    close(lock);
    return error;
}
