/* SPDX-License-Identifier: BSD-3-Clause
 *
 * spawn_procs.c: see spawn.h. How ranks are spawned in new processes:
 *
 *      1. the spawning rank opens a port, and asks the launcher to start the processes, which get its name: Heddle's mpirun
 *         (base/launched.h), or another one by PMIx_Spawn
 *      2. it accepts at the port; the first of the new ranks connects there in MPI_Init
 *      3. both groups create the intercommunicator, as after MPI_Comm_accept and MPI_Comm_connect
 *
 * If a new process fails before that, the accept fails, too. The launcher starts all processes, or none.
 */
#include <dirent.h>
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

/* How long no process of a spawn must be there until they are known to have ended. */
#define ABSENT_NS 500000000

bool ampi_spawn_can_start_processes(void)
{
    return ampi_machine && ampi_job.max_procs > ampi_job.n_procs;
}

/* The processes that are spawned. */
struct children {
    const char *port;      /* where this process accepts */
    int first;             /* of mpirun's answer: the first one's number ... */
    int n_procs;           /* ... and how many there are; 0: another launcher's */
    uint64_t next_look_ns; /* another launcher's: time to look for them */
    int n_absent;          /* ... and how often in a row there was none */
};

/* ---- The request to Heddle's mpirun ---- */

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

/* The word with the port: before it, a digit for the error handler of each program, and "!"; malloc'ed. */
static char *describe_port(const struct ampi_spawn_part *parts, int n_parts, const char *port)
{
    size_t n_bytes = strlen(port) + 1;
    char *word = base_malloc((size_t)n_parts + 1 + n_bytes, "MPI_Comm_spawn");

    for (int i = 0; i < n_parts; i++)
        word[i] = (char)('0' + parts[i].initial_errors);
    word[n_parts] = '!';
    memcpy(word + n_parts + 1, port, n_bytes);
    return word;
}

/* Returns true if the processes were started: which ones. */
static bool start_by_mpirun(const struct ampi_spawn_part *parts, int n_parts, struct children *children,
                            char *text, size_t text_bytes)
{
    struct packet packet = {.bytes = base_malloc(BASE_LAUNCHED_REQUEST_MAX, "MPI_Comm_spawn")};
    char *port = describe_port(parts, n_parts, children->port);

    put_int(&packet, ampi_job.n_ranks);
    put(&packet, port);
    free(port);
    put_int(&packet, n_parts);
    for (int i = 0; i < n_parts; i++)
        put_part(&packet, &parts[i]);
    ask_launcher(&packet, text, text_bytes);
    free(packet.bytes);
    return sscanf(text, "=%d,%d", &children->first, &children->n_procs) == 2;
}

/* ---- PMIx_Spawn ---- */

/* Copies of this process's program share a process; of another program it is not known whether it can be copied. */
static int count_procs(const struct ampi_spawn_part *part)
{
    return ampi_job.is_virtual && part->is_own_program && part->n_ranks ? 1 : part->n_ranks;
}

/* What the processes have to know (BASE_LAUNCHED_SPAWN_ENV), with the variable's name; malloc'ed. They find their own
 * numbers. */
static char *describe(const struct ampi_spawn_part *parts, int n_parts, const char *port)
{
    static _Atomic int n_spawns;
    size_t room = 64 + MPI_MAX_PORT_NAME + (size_t)n_parts * 25, n;
    char *text = base_malloc(room, "MPI_Comm_spawn"), *word = describe_port(parts, n_parts, port);

    n = (size_t)snprintf(text, room, BASE_LAUNCHED_SPAWN_ENV "=1,0,%d", atomic_fetch_add(&n_spawns, 1) + 1);
    for (int i = 0; i < n_parts; i++)
        n += (size_t)snprintf(text + n, room - n, ",%dx%d", parts[i].n_ranks, count_procs(&parts[i]));
    snprintf(text + n, room - n, ";%s", word);
    free(word);
    return text;
}

/* "NAME=value" of this process; malloc'ed. NULL: not set. */
static char *variable(const char *name)
{
    const char *value = secure_getenv(name);
    size_t n_bytes = value ? strlen(name) + strlen(value) + 2 : 0;
    char *entry = value ? base_malloc(n_bytes, "MPI_Comm_spawn") : NULL;

    if (entry)
        snprintf(entry, n_bytes, "%s=%s", name, value);
    return entry;
}

/* The command and its arguments, as main gets them; malloc'ed. */
static char **make_argv(const struct ampi_spawn_part *part)
{
    size_t n = 0;
    char **argv;

    while (part->argv && part->argv[n])
        n++;
    argv = base_calloc(n + 2, sizeof *argv, "MPI_Comm_spawn");
    argv[0] = (char *)(uintptr_t)part->command;
    for (size_t i = 0; i < n; i++)
        argv[i + 1] = part->argv[i];
    return argv;
}

static bool start_by_pmix(const struct ampi_spawn_part *parts, int n_parts, const struct children *children,
                          char *text, size_t text_bytes)
{
    struct machine_program *programs = base_calloc((size_t)n_parts, sizeof *programs, "MPI_Comm_spawn");
    struct machine_start start = {.state = 0};
    char *env[] = {describe(parts, n_parts, children->port), variable("HEDDLE_OPTIONS"), NULL, NULL};
    int n = 0;

    env[env[1] ? 2 : 1] = variable("HEDDLE_UNIVERSE");
    for (int i = 0; i < n_parts; i++)
        if (parts[i].n_ranks)
            programs[n++] = (struct machine_program){.path = parts[i].path,
                                                     .argv = make_argv(&parts[i]),
                                                     .dir = parts[i].dir,
                                                     .n_procs = count_procs(&parts[i])};
    ampi_machine->start(programs, n, env, &start);
    for (uint64_t pause_ns = LOOK_NS_MIN; !atomic_load(&start.state);
         pause_ns = 2 * pause_ns < LOOK_NS_MAX ? 2 * pause_ns : LOOK_NS_MAX)
        ult_sleep_ns(pause_ns);
    snprintf(text, text_bytes,
             "the launcher does not start the processes (%s): it may lack this function, or free slots; "
             "Heddle's own "
             "mpirun --procs starts them",
             start.error);
    for (int i = 0; i < n; i++)
        free((void *)(uintptr_t)programs[i].argv);
    for (int i = 0; env[i]; i++)
        free(env[i]);
    free(programs);
    return atomic_load(&start.state) == MACHINE_STARTED;
}

/* True if the environment of a process holds the text. */
static bool has_in_environment(const char *process, const char *text, char **bytes, size_t *room)
{
    char path[64];
    FILE *file;
    bool is_found = false;

    snprintf(path, sizeof path, "/proc/%.20s/environ", process);
    file = fopen(path, "re");
    while (file && !is_found && getdelim(bytes, room, 0, file) > 0)
        is_found = strstr(*bytes, text) != NULL;
    if (file)
        fclose(file);
    return is_found;
}

/* True if there is a process that was started with this port's name. */
static bool has_process_with(const char *port)
{
    DIR *all = opendir("/proc");
    const struct dirent *entry;
    char *bytes = NULL;
    size_t room = 0;
    bool is_found = !all;

    while (!is_found && (entry = readdir(all)))
        is_found = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
                   has_in_environment(entry->d_name, port, &bytes, &room);
    if (all)
        closedir(all);
    free(bytes);
    return is_found;
}

/* ---- The spawning rank ---- */

static bool have_ended(struct children *children)
{
    uint64_t now_ns = ult_now_ns();

    for (int i = children->first; i < children->first + children->n_procs; i++)
        if (ampi_failed_is(i) || !ampi_procs_is_present(i))
            return true;
    if (!ampi_job.asks_pmix || now_ns < children->next_look_ns)
        return false;
    children->next_look_ns = now_ns + ABSENT_NS;
    if (has_process_with(children->port))
        children->n_absent = 0;
    else
        children->n_absent++;
    return children->n_absent > 1;
}

/* Accepts at the port, unless a process fails, or ends, before. */
static int accept_children(struct ampi_registry_call *call, struct children *children)
{
    int error;

    do {
        if (have_ended(children))
            return MPI_ERR_SPAWN;
        call->timeout_s = 0.05;
        error = ampi_registry_run(call);
    } while (error == MPI_ERR_PENDING);
    return error;
}

static int meet_children(struct children *children, struct ampi_comm_leader *leader, char *text,
                         size_t text_bytes)
{
    struct ampi_registry_call *call = base_calloc(1, sizeof *call, "MPI_Comm_spawn");
    int error;

    *call = (struct ampi_registry_call){.op = AMPI_REGISTRY_ACCEPT, .port = children->port};
    children->next_look_ns = ult_now_ns() + ABSENT_NS;
    error = accept_children(call, children);
    if (error)
        snprintf(text, text_bytes, "a process that was started has ended before it called MPI_Init");
    leader->key =
        (struct ampi_meet){.function = "comm_spawn", .tag = ampi_procs_of_rank(call->peer_world_rank)};
    leader->remote_world_rank = call->peer_world_rank;
    free(call);
    return error ? MPI_ERR_SPAWN : MPI_SUCCESS;
}

int ampi_spawn_run_processes(const struct ampi_spawn_part *parts, int n_parts,
                             struct ampi_comm_leader *leader, char *text, size_t text_bytes)
{
    struct ampi_registry_call close_call = {.op = AMPI_REGISTRY_CLOSE};
    char *port = base_malloc(MPI_MAX_PORT_NAME, "MPI_Comm_spawn");
    struct children children = {.port = port};
    int error = MPI_ERR_SPAWN;

    if (!ampi_registry_open_port(port)) {
        snprintf(text, text_bytes, "the kernel gives no random number");
    } else {
        if (ampi_job.asks_pmix ? start_by_pmix(parts, n_parts, &children, text, text_bytes)
                               : start_by_mpirun(parts, n_parts, &children, text, text_bytes))
            error = meet_children(&children, leader, text, text_bytes);
        close_call.port = port;
        ampi_registry_run(&close_call);
    }
    free(port);
    return error;
}

/* ---- The new ranks ---- */

int ampi_spawn_meet_parents(struct ampi_rank *self)
{
    struct ampi_comm *world = self->world;
    struct ampi_comm_leader leader = {.rank = 0};
    struct ampi_registry_call *call;
    bool is_waiting = false;
    int error;

    if (world->rank == 0) {
        is_waiting = ampi_registry_begin_wait(AMPI_REGISTRY_CONNECT, ampi_job.parent_port);
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
    ampi_registry_end_wait(is_waiting);
    return error ? ampi_comm_raise_creation(world, error) : MPI_SUCCESS;
}
