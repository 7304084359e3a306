/* SPDX-License-Identifier: BSD-3-Clause
 *
 * spawn_procs.c: see spawn.h. How ranks are spawned in new processes:
 *
 *      1. the spawning rank opens a port, and asks mpirun to start the processes (base/launched.h), which get its name
 *      2. it accepts at the port; the first of the new ranks connects there in MPI_Init
 *      3. both groups create the intercommunicator, as after MPI_Comm_accept and MPI_Comm_connect
 *
 * If a new process fails before that, the accept fails, too. mpirun starts all processes, or none.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ampi/dynamic/registry.h"
#include "ampi/dynamic/spawn.h"
#include "ampi/procs/launcher_env.h"
#include "ampi/procs/procs.h"
#include "base/launched.h"
#include "base/log.h"

/* Interval at which the spawning rank polls for mpirun's answer, in ns: first and at most. */
#define LOOK_NS_MIN 50000
#define LOOK_NS_MAX 2000000

bool ampi_spawn_can_start_processes(void)
{
    return ampi_machine && ampi_job.max_procs > ampi_job.n_procs;
}

/* ---- The request ---- */

/* A packet under construction. */
struct packet {
    char *bytes; /* BASE_LAUNCHED_REQUEST_MAX */
    size_t n;    /* may be larger: then it is too long */
};

static void put(struct packet *packet, const char *word)
{
    size_t n_bytes = strlen(word) + 1;

    if (packet->n + n_bytes <= BASE_LAUNCHED_REQUEST_MAX)
        memcpy(packet->bytes + packet->n, word, n_bytes);
    packet->n += n_bytes;
}

static void put_int(struct packet *packet, int value)
{
    char text[16];

    snprintf(text, sizeof text, "%d", value);
    put(packet, text);
}

static void put_part(struct packet *packet, const struct ampi_spawn_part *part)
{
    int n = 0;

    while (part->argv && part->argv[n])
        n++;
    put_int(packet, part->n_ranks);
    put(packet, part->path);
    put(packet, part->dir);
    put_int(packet, n + 1);
    put(packet, part->command);
    for (int i = 0; i < n; i++)
        put(packet, part->argv[i]);
}

/* Returns a descriptor; -1 with errno. */
static int call_launcher(void)
{
    const char *path = ampi_launched_folder();
    int folder = open(path ? path : "", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = folder < 0 ? -1 : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un address;
    int error;

    base_launched_control_address(folder, &address);
    error = fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ? errno : 0;
    if (folder >= 0)
        close(folder);
    if (error && fd >= 0)
        close(fd);
    errno = error;
    return error ? -1 : fd;
}

/* Other ranks run meanwhile. Returns 0 or an errno. */
static int receive(int fd, char *answer, size_t n_bytes)
{
    uint64_t pause_ns = LOOK_NS_MIN;

    for (;;) {
        ssize_t n = recv(fd, answer, n_bytes - 1, MSG_DONTWAIT);
        if (n > 0) {
            answer[n] = '\0';
            return 0;
        }
        if (n == 0)
            return EPIPE;
        if (errno != EAGAIN && errno != EINTR)
            return errno;
        ult_sleep_ns(pause_ns);
        pause_ns = 2 * pause_ns < LOOK_NS_MAX ? 2 * pause_ns : LOOK_NS_MAX;
    }
}

/* Sends the request, and gets the answer, or the reason why there is none. */
static void ask_launcher(const struct packet *packet, char *answer, size_t answer_bytes)
{
    int fd, error;

    if (packet->n > BASE_LAUNCHED_REQUEST_MAX) {
        snprintf(answer, answer_bytes, "the arguments have more than %zu KiB",
                 BASE_LAUNCHED_REQUEST_MAX >> 10);
        return;
    }
    fd = call_launcher();
    error = fd < 0 ? errno
            : send(fd, packet->bytes, packet->n, MSG_NOSIGNAL) != (ssize_t)packet->n
                ? errno
                : receive(fd, answer, answer_bytes);
    if (error)
        snprintf(answer, answer_bytes, "mpirun does not answer: %s", strerror(error));
    if (fd >= 0)
        close(fd);
}

/* ---- The spawning rank ---- */

/* Accepts at the port, unless a process fails, or ends, before. */
static int accept_children(struct ampi_registry_call *call, int first, int n_procs)
{
    int error;

    do {
        for (int i = first; i < first + n_procs; i++)
            if (ampi_failed_is(i) || !ampi_procs_is_present(i))
                return MPI_ERR_SPAWN;
        call->timeout_s = 0.05;
        error = ampi_registry_run(call);
    } while (error == MPI_ERR_PENDING);
    return error;
}

static int spawn_at_port(const struct packet *packet, const char *port, struct ampi_comm_leader *leader,
                         char *text, size_t text_bytes)
{
    struct ampi_registry_call *call;
    int first = 0, n_procs = 0, error;

    ask_launcher(packet, text, text_bytes);
    if (sscanf(text, "=%d,%d", &first, &n_procs) != 2)
        return MPI_ERR_SPAWN;
    call = base_calloc(1, sizeof *call, "MPI_Comm_spawn");
    *call = (struct ampi_registry_call){.op = AMPI_REGISTRY_ACCEPT, .port = port};
    error = accept_children(call, first, n_procs);
    if (error)
        snprintf(text, text_bytes, "a process that was started has ended before it called MPI_Init");
    leader->key = (struct ampi_meet){.function = "comm_spawn", .tag = first};
    leader->remote_world_rank = call->peer_world_rank;
    free(call);
    return error ? MPI_ERR_SPAWN : MPI_SUCCESS;
}

int ampi_spawn_run_processes(const struct ampi_spawn_part *parts, int n_parts,
                             struct ampi_comm_leader *leader, char *text, size_t text_bytes)
{
    struct packet packet = {.bytes = base_malloc(BASE_LAUNCHED_REQUEST_MAX, "MPI_Comm_spawn")};
    struct ampi_registry_call close_call = {.op = AMPI_REGISTRY_CLOSE};
    char *port = base_malloc(MPI_MAX_PORT_NAME, "MPI_Comm_spawn");
    int error = MPI_ERR_SPAWN;

    if (!ampi_registry_open_port(port)) {
        snprintf(text, text_bytes, "the kernel gives no random number");
    } else {
        put_int(&packet, ampi_job.n_ranks);
        put(&packet, port);
        put_int(&packet, n_parts);
        for (int i = 0; i < n_parts; i++)
            put_part(&packet, &parts[i]);
        error = spawn_at_port(&packet, port, leader, text, text_bytes);
        close_call.port = port;
        ampi_registry_run(&close_call);
    }
    free(packet.bytes);
    free(port);
    return error;
}

/* ---- The new ranks ---- */

int ampi_spawn_meet_parents(struct ampi_rank *self)
{
    struct ampi_comm *world = self->world;
    struct ampi_comm_leader leader = {.rank = 0};
    struct ampi_registry_call *call;
    int error;

    if (world->rank == 0) {
        call = base_calloc(1, sizeof *call, "MPI_Init");
        *call = (struct ampi_registry_call){
            .op = AMPI_REGISTRY_CONNECT, .port = ampi_job.parent_port, .timeout_s = -1};
        leader.error = ampi_registry_run(call);
        leader.key =
            (struct ampi_meet){.function = "comm_spawn", .tag = ampi_procs_of_rank(ampi_job.world_ranks[0])};
        leader.remote_world_rank = call->peer_world_rank;
        free(call);
    }
    error = ampi_comm_create_inter(world, &leader, &self->parent);
    return error ? ampi_comm_raise_creation(world, error) : MPI_SUCCESS;
}
