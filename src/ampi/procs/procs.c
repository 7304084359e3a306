/* SPDX-License-Identifier: BSD-3-Clause
 *
 * procs.c: the life of a job of several processes, and the common handling of its messages. See procs.h.
 */
#include "ampi/procs/procs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ampi/object/error.h"
#include "base/settings.h"
#include "ampi/procs/launcher_env.h"
#include "ampi/object/sanitizer.h"
#include "base/launched.h"
#include "base/log.h"
#include "gpu/nccl/nccl.h"
#include "image/image.h"

const struct machine *ampi_machine;

/* ---- The rooms above ---- */

#define CLIENTS_MAX 8
static const struct ampi_procs_client *clients[CLIENTS_MAX];
static int n_clients;
static ampi_am_handler_fn handlers[AMPI_AM_KINDS];

void ampi_procs_add_client(const struct ampi_procs_client *client)
{
    BASE_ASSERT(n_clients < CLIENTS_MAX);
    clients[n_clients++] = client;
}

void ampi_procs_set_handler(enum ampi_am_kind kind, ampi_am_handler_fn handler)
{
    handlers[kind] = handler;
}

void ampi_procs_call_begin(void)
{
    for (int i = 0; i < n_clients && ampi_machine; i++)
        if (clients[i]->begin)
            clients[i]->begin();
}

void ampi_procs_call_forget(int pe_id, int proc_id)
{
    for (int i = 0; i < n_clients; i++)
        if (clients[i]->forget)
            clients[i]->forget(pe_id, proc_id);
}

void ampi_procs_call_check(int pe_id)
{
    for (int i = 0; i < n_clients; i++)
        if (clients[i]->look_again)
            clients[i]->look_again(pe_id);
}

bool ampi_procs_are_linked(bool *is_linked)
{
    bool has_links = false;

    for (int i = 0; i < n_clients; i++)
        if (clients[i]->is_linked && clients[i]->is_linked(is_linked))
            has_links = true;
    return has_links;
}

int ampi_procs_call_ask(void)
{
    int n_asked = 0;

    for (int i = 0; i < n_clients; i++)
        if (clients[i]->ask_for_report)
            n_asked += clients[i]->ask_for_report();
    return n_asked;
}

static bool handle_termination(int pe_id, const struct ampi_am_header *am, const void *header,
                               const struct machine_data *data)
{
    return ampi_procs_take(pe_id, am, data, ampi_procs_handle_termination);
}

/* ---- Life ---- */

/* All processes come here, and disconnect from the launcher together: if one ended while others still connect, Open
 * MPI's mpirun would wait for ever. That mpirun also ends the job when the first process fails, and may lose the
 * output of the others. So the message is printed before the others end, and only the printing process fails. */
static BASE_NORETURN void refuse_few_ranks(const struct machine *machine, long n_ranks,
                                           const struct machine_place *place)
{
    bool is_first = place->proc_id == place->job_first;

    if (is_first)
        base_log("%ld ranks are fewer than the %d processes; each process needs at least one", n_ranks,
                 place->spawn_n_procs);
    machine->close(10);
    _exit(is_first ? 2 : 0);
}

/* A process that was spawned must not run as a job of its own. The parents notice its end: MPI_ERR_SPAWN. */
static BASE_NORETURN void refuse_spawn(const struct machine *machine)
{
    base_log(
        "this process was spawned, but cannot join the universe of its parents, which has numbers for %d "
        "processes in its life",
        BASE_LAUNCHED_UNIVERSE_MAX - 1);
    machine->close(10);
    _exit(0);
}

bool ampi_procs_streams_wait(void)
{
    return image_process_refers_to("mpix_stream_create") || image_process_refers_to("mpix_prequest_create") ||
           image_process_refers_to("ampi_gpu_handlers_create");
}

void ampi_procs_attach(long n_ranks)
{
    const struct machine *machine;
    struct machine_place place = {.wants_universe = ampi_launched_wants_universe(),
                                  .streams_wait = ampi_procs_streams_wait()};
    const char *spawn = ampi_launched_spawn(), *error = NULL;

    ampi_sanitizer_prepare_ucx();
    machine = ampi_procs_load(base_settings.ucx);
    ampi_launched_lend();
    if (!machine->attach(&place, &error))
        base_fatal(1, "the launcher does not answer: %s", error);
    ampi_launched_withdraw();
    if (spawn && place.max_procs == place.n_procs)
        refuse_spawn(machine);
    if (place.max_procs == 1) {
        machine->close(0);
        return;
    }
    if (n_ranks == 0)
        n_ranks = place.spawn_n_procs;
    if (n_ranks < place.spawn_n_procs && !spawn)
        refuse_few_ranks(machine, n_ranks, &place);
    if (!spawn && place.asks_pmix)
        spawn = ampi_procs_describe_start(n_ranks, place.spawn_n_procs);
    if (spawn)
        n_ranks = atoi(spawn);
    ampi_machine = machine;
    ampi_job.n_procs = place.n_procs;
    ampi_job.max_procs = place.max_procs;
    ampi_job.proc_id = place.proc_id;
    ampi_job.own_first = place.job_first;
    ampi_job.own_end = place.job_end;
    ampi_job.universe = place.universe;
    ampi_job.asks_pmix = place.asks_pmix;
    ampi_job.node_first = place.node_first;
    ampi_job.n_ranks = (int)n_ranks;
    ampi_job.app_num = place.app_num;
    if (ampi_launched_programs())
        ampi_procs_read_programs(ampi_launched_programs());
    if (spawn) {
        ampi_procs_read_spawn(spawn, &place);
    } else {
        ampi_job.first_rank = ampi_procs_first_rank(place.proc_id);
        ampi_job.n_local = ampi_procs_first_rank(place.proc_id + 1) - ampi_job.first_rank;
    }
    ampi_job.node_index = place.node_index;
    ampi_job.node_n_procs = place.node_n_procs;
    if (ampi_job.spawned && ampi_job.spawned->number == 0) { /* at the start of a job in a universe */
        ampi_job.node_index = place.proc_id - place.spawn_first;
        ampi_job.node_n_procs = place.spawn_n_procs;
    }
    ult_job_share_node(ampi_job.node_index, ampi_job.node_n_procs);
    ampi_failed_init();
    if (place.keeps_going)
        ampi_failed_tolerate();
    ampi_procs_set_handler(AMPI_AM_TERMINATION, handle_termination);
}

/* ---- Progress ---- */

/* One per PE. */
struct machine_source {
    struct ult_source source;
    int pe_id;
} BASE_CACHE_ALIGNED;

static int poll_source(struct ult_source *source)
{
    int pe_id = ((struct machine_source *)source)->pe_id;

    int n_events = ampi_machine->poll(pe_id);

    for (int i = 0; i < n_clients; i++)
        if (clients[i]->retry)
            n_events += clients[i]->retry(pe_id);
    return n_events + ampi_failed_handle(pe_id);
}

static bool arm_source(struct ult_source *source)
{
    int pe_id = ((struct machine_source *)source)->pe_id;

    for (int i = 0; i < n_clients; i++)
        if (clients[i]->must_retry && clients[i]->must_retry(pe_id))
            return false;
    return !ampi_failed_must_handle(pe_id) && ampi_machine->arm(pe_id);
}

static bool is_moving_source(const struct ult_source *source)
{
    return ampi_machine->is_moving && ampi_machine->is_moving(((const struct machine_source *)source)->pe_id);
}

/* ---- Received messages ---- */

/* Data that is being fetched. */
struct incoming {
    struct ampi_am_header am;
    ampi_procs_then_fn then;
    void *bytes;
    size_t n_bytes;
};

static void fetched(void *arg, int result)
{
    struct incoming *in = arg;

    /* Of a failed process: the object that it refers to may be gone (handle). */
    if (result == MACHINE_DONE && BASE_LIKELY(!ampi_failed_is((int)in->am.src_proc)))
        in->then(&in->am, in->bytes, in->n_bytes);
    else
        free(in->bytes);
    free(in);
}

bool ampi_procs_take(int pe_id, const struct ampi_am_header *am, const struct machine_data *data,
                     ampi_procs_then_fn then)
{
    void *bytes = data->n_bytes ? base_malloc(data->n_bytes, "a message between processes") : NULL;
    struct incoming *in;
    int result;

    if (data->bytes || data->n_bytes == 0) {
        if (bytes)
            memcpy(bytes, data->bytes, data->n_bytes);
        then(am, bytes, data->n_bytes);
        return false;
    }
    in = base_malloc(sizeof *in, "a message between processes");
    *in = (struct incoming){*am, then, bytes, data->n_bytes};
    result = ampi_machine->fetch(pe_id, (int)am->src_proc, data->token, bytes, data->n_bytes, MACHINE_HOST,
                                 fetched, in);
    if (result != MACHINE_PENDING)
        fetched(in, result);
    return true;
}

static bool handle(int pe_id, const void *header, size_t header_bytes, const struct machine_data *data)
{
    struct ampi_am_header am;

    BASE_ASSERT(header_bytes >= sizeof am);
    memcpy(&am, header, sizeof am);
    if (BASE_UNLIKELY(ampi_failed_is((int)am.src_proc)))
        return false; /* the object it refers to may be gone: requests that it answers have failed */
    if (BASE_LIKELY(am.kind < AMPI_AM_KINDS && handlers[am.kind]))
        return handlers[am.kind](pe_id, &am, header, data);
    base_log("a message of unknown kind %d from process %u was dropped", am.kind, am.src_proc);
    return false;
}

static int source_of(const void *header)
{
    struct ampi_am_header am;

    memcpy(&am, header, sizeof am);
    return (int)am.src_proc;
}

static void say_machine(void)
{
    char text[1024];

    if (!ampi_machine->describe || ampi_job.proc_id != 0)
        return;
    ampi_machine->describe(text, sizeof text);
    base_log_verbose(1, "%d processes, connected by %s", ampi_job.n_procs, text);
}

void ampi_procs_open(void)
{
    static const struct machine_client client = {
        .handle = handle, .failed = ampi_failed_record, .source = source_of, .idle = ampi_procs_echo};
    struct machine_source *sources;
    const char *error = NULL;

    if (!ampi_machine->open(ampi_job.n_pes, &client, &error))
        base_fatal(1, "process %d of %d cannot be connected: %s", ampi_job.proc_id, ampi_job.n_procs, error);
    ampi_machine = ampi_procs_relax(ampi_machine);
    say_machine();
    sources = base_calloc_aligned((size_t)ampi_job.n_pes, sizeof *sources, "the PEs");
    for (int i = 0; i < ampi_job.n_pes; i++) {
        sources[i].pe_id = i;
        sources[i].source = (struct ult_source){.poll = poll_source,
                                                .arm = arm_source,
                                                .fd = ampi_machine->fd(i),
                                                .pending = 1,
                                                .is_moving = is_moving_source};
        ult_pe_add_source(ult_pe_get(i), &sources[i].source);
    }
}

/* Time that a failed process gives the others to end by themselves, and to print their messages. */
#define PATIENCE_S 1.0

/* Takes the lock, which another thread may hold while it closes. False: that takes too long, and this
 * process has failed. */
static bool lock_end(pthread_mutex_t *lock, int exit_code)
{
    struct timespec until;

    if (exit_code == 0)
        return pthread_mutex_lock(lock) == 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)PATIENCE_S;
    return pthread_mutex_timedlock(lock, &until) == 0;
}

/* The machine must wait for processes of other jobs, and of other spawns, that still share a communicator with this one. */
static void link_others(void)
{
    bool *is_linked;

    if (!ampi_job.own_end && !ampi_job.spawned)
        return;
    is_linked = base_calloc((size_t)ampi_job.max_procs, sizeof *is_linked, "the end");
    ampi_procs_are_linked(is_linked);
    ampi_machine->link(is_linked);
}

void ampi_procs_close(int exit_code)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    if (!lock_end(&lock, exit_code))
        return;
    ult_progress_stop();
    if (ampi_machine) {
        if (exit_code == 0)
            gpu_nccl_settle(GPU_NCCL_SETTLE_S);
        link_others();
        ampi_machine->close(exit_code ? PATIENCE_S : 0);
        ampi_machine = NULL;
    }
    pthread_mutex_unlock(&lock);
}

void ampi_procs_abort(int exit_code)
{
    if (ampi_machine)
        ampi_machine->abort(exit_code, "the job was aborted");
}

int ampi_procs_pe_of(int world_rank)
{
    int proc_id = ampi_procs_of_rank(world_rank);
    int first = ampi_procs_first_rank(proc_id);
    int n_pes = ampi_machine->n_pes_of(proc_id);

    if (n_pes < 0)
        return -1;
    if (ampi_job_is_spawned(world_rank))
        return (world_rank - ampi_job.n_ranks) % AMPI_SPAWN_MAX % n_pes;
    return (int)((int64_t)(world_rank - first) * n_pes / (ampi_procs_first_rank(proc_id + 1) - first));
}

/* ---- Sent messages ---- */

/* A message of the library that the machine may still need. */
struct outgoing {
    struct outgoing *next; /* next free one */
    struct ampi_am_header am;
    machine_done_fn done;
    void *arg;
    int pe_id;
};

/* Free ones, by PE. */
struct outgoing_pool {
    struct outgoing *free;
} BASE_CACHE_ALIGNED;
static struct outgoing_pool outgoing_pools[AMPI_PES_MAX];

static inline struct outgoing *outgoing_alloc(int pe_id)
{
    struct outgoing_pool *pool = &outgoing_pools[pe_id];
    struct outgoing *out = pool->free;

    if (BASE_LIKELY(out != NULL))
        pool->free = out->next;
    else
        out = base_malloc(sizeof *out, "a message between processes");
    out->pe_id = pe_id;
    return out;
}

static inline void outgoing_free(struct outgoing *out)
{
    out->next = outgoing_pools[out->pe_id].free;
    outgoing_pools[out->pe_id].free = out;
}

static void left(void *arg, int result)
{
    struct outgoing out = *(struct outgoing *)arg;

    outgoing_free(arg);
    out.done(out.arg, result);
}

int ampi_procs_send(int dest_proc, int dest_pe, const struct ampi_am_header *am, const void *data,
                    size_t n_bytes, enum machine_memory memory, machine_done_fn done, void *arg)
{
    int pe_id = ult_pe_id(ult_self()->pe);
    struct outgoing *out = outgoing_alloc(pe_id);
    int result;

    out->am = *am;
    out->done = done;
    out->arg = arg;
    out->am.src_proc = (uint32_t)ampi_job.proc_id;
    out->am.src_pe = (uint16_t)pe_id;
    result = (ampi_machine->push ? ampi_machine->push : ampi_machine->send)(
        pe_id, dest_proc, dest_pe, &out->am, sizeof out->am, data, n_bytes, memory, left, out);
    if (result != MACHINE_PENDING)
        outgoing_free(out);
    return result;
}

static void posted(void *data, int result)
{
    (void)result;
    free(data);
}

bool ampi_procs_post(int dest_proc, int dest_pe, const struct ampi_am_header *am, void *data, size_t n_bytes)
{
    int result = ampi_procs_send(dest_proc, dest_pe, am, data, n_bytes, MACHINE_HOST, posted, data);

    if (result != MACHINE_PENDING)
        free(data);
    return result >= 0;
}
