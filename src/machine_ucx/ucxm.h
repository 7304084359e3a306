/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ucxm.h: the inside of the UCX machine; for the files of src/machine_ucx alone.
 *
 *      table.c         the table of functions, attach and close
 *      launcher.c      PMIx: place, publishing and looking up, fence, abort
 *      watchdog.c      time limits for requests to the launcher
 *      silence.c       reports nodes that do not answer
 *      host.c          description of this host for error messages of others
 *      transports.c    chooses UCX's transports and network devices
 *      descriptors.c   keeps UCX's and PMIx's descriptors from children of ranks
 *      noise.c         UCX's own messages
 *      room.c          finds a folder for UCX's shared memory
 *      port.c          one UCX worker per PE: addresses, progress, sleeping
 *      ucx_connect.c   endpoints to ports of other processes
 *      ucx_message.c   active messages: sending, handling, fetching
 *      ucx_memory.c    access to other processes' memory
 *      shm_ring.c      small messages within a node, past UCX
 *      failed_peer.c   failed processes
 *      program_number.c  MPI_APPNUM if the launcher does not say it
 *      members.c       the processes of a job that may grow
 *      join_universe.c the universe, for jobs of other launchers
 *      pmix_spawn.c    starts processes through another launcher
 *      shutdown.c      the end: processes wait for each other before connections are closed
 */
#ifndef UCXM_H
#define UCXM_H

#include <pthread.h>
#include <signal.h>
#include <sys/types.h>
#include <ucp/api/ucp.h>

#include "machine_ucx/machine.h"

struct base_launched_table;

/* Maximum length of a host's name and addresses. */
#define UCXM_HOST_BYTES 256

/* Ids of active messages: for the client, and between machines. */
#define UCXM_MESSAGE_ID 1
#define UCXM_GREETING_ID 2
#define UCXM_SHUTDOWN_ID 3
#define UCXM_NUDGE_ID 4

/* A port of the job. */
struct ucxm_port_name {
    int32_t proc_id;
    int32_t pe_id;
};

/* The greeting that a port sends after connecting to another. */
struct ucxm_greeting_text {
    struct ucxm_port_name from;
    uint32_t has_ring; /* 1: its sender uses a ring for small messages */
};

/* A connection to a port of another process. */
struct ucxm_peer {
    ucp_ep_h ep;                /* NULL: not connected yet, or abandoned */
    struct ucxm_ring_out *ring; /* NULL: all messages go through UCX */
    int proc_id;
    int pe_id;       /* of its own port */
    uint64_t n_sent; /* client messages sent to it */
};

/* The location of a process's rings. */
struct ucxm_ring_place {
    pid_t pid; /* 0: none */
    int32_t fd;
    uint64_t device; /* of the file, to identify it */
    uint64_t inode;
    uint32_t bulk_bytes; /* of each ring; shm_ring.c */
};

/* A port of another process that has connected to one of this process's. */
struct ucxm_greeting {
    struct ucxm_greeting *next; /* next in the port's list */
    struct ucxm_greeting_text text;
};

/* A number in this process's memory. Another process that can read it there may copy data from and to this
 * process. */
struct ucxm_probe {
    uint64_t address;
    uint64_t number;
};

/* The header of the data that a process publishes, followed by the length (4 bytes) and bytes of each PE's
 * address. */
struct ucxm_published {
    char host[UCXM_HOST_BYTES];
    uint32_t n_pes;
    uint64_t program_id; /* of its executable (program_number.c) */
    struct ucxm_ring_place rings;
    struct ucxm_probe probe;
};

/* State of a process. */
struct ucxm_process {
    int n_pes; /* 0: not looked up yet */
    const struct ucxm_published *published;
    const void **addresses; /* by PE */
    bool is_failed;         /* set by any thread (failed_peer.c) */
    bool has_rings;         /* its rings were reached. Any thread */
    int access;             /* 0: not known yet; 1 + enum machine_access (ucx_memory.c). Any thread */
};

/* The machine's header of each UCX request. */
struct ucxm_request {
    machine_done_fn done; /* NULL: given up */
    void *arg;
    struct ucxm_port *port;
    int proc_id;   /* of the peer */
    bool is_fetch; /* or access to memory: the program may wait for it although no message is under way */
    struct ucxm_request *next;  /* next in the port's list of pending requests */
    struct ucxm_request **link; /* the pointer to this request */
};

struct ucxm_port {
    ucp_worker_h worker;
    struct ucxm_peer **peers; /* by process, then by PE; NULL: no peer in that process yet */
    struct ucxm_port_name name;
    int pe_id;
    int fd;
    bool is_busy; /* there was an event, or an operation was started, since UCX was last polled in vain */
    _Atomic uint64_t n_armed; /* times that UCX was armed; read by other PEs */
    bool is_armed;        /* UCX was armed, or that was tried, since the last poll: the PE may be asleep */
    bool is_disconnected; /* nothing can be sent any more */
    unsigned ring_polls;  /* during this number of polls UCX is polled less often (port.c) */
    unsigned n_polls;
    struct ucxm_request *pending;    /* requests in progress */
    uint64_t n_fetching;             /* fetches in progress that were not given up */
    uint64_t *n_handled;             /* by process: messages that came through UCX */
    struct ucxm_greeting *greetings; /* from ports that connected to this one; not answered yet */
    struct ucxm_ring_in *rings;      /* to this port */
    struct ucxm_doorbell *doorbell;  /* of the rings; NULL: none */
};

/* The machine of this process. */
struct ucxm {
    struct machine_place place;
    bool *is_near; /* by process: on this node */
    struct machine_client client;
    ucp_context_h context;
    uint64_t memory_types; /* supported by UCX, bits of ucs_memory_type_t */
    int n_pes;
    struct ucxm_port *ports;
    struct ucxm_process *processes;
    bool has_rdma;   /* networks on which asking before data is sent takes little time */
    bool is_closing; /* other processes may end from now on: UCX's errors are not failures. Read by any
                      * thread */
};
extern struct ucxm ucxm;

static inline bool ucxm_is_failed(int proc_id)
{
    return __atomic_load_n(&ucxm.processes[proc_id].is_failed, __ATOMIC_RELAXED);
}

/* ---- launcher.c. Errors are texts in static storage; NULL: success. ---- */
const char *ucxm_launcher_attach(struct machine_place *place_out);
/* True if it says which program of the job this process runs; spawned processes know that. */
bool ucxm_launcher_says_app_num(void);
/* The name of the host of a process; false: unknown. */
bool ucxm_launcher_host_of(int proc_id, char *host_out, size_t size);
const char *ucxm_launcher_publish(const void *blob, size_t n_bytes);
/* The processes on this node: true for those, malloc'ed. */
const char *ucxm_launcher_find_near(bool **is_near_out);
/* The data that a process published, malloc'ed. */
const char *ucxm_launcher_look_up(int proc_id, void **blob_out, size_t *n_bytes_out);
/* Waits for all processes, or until a time (0: no limit); calls progress meanwhile (NULL: none). */
const char *ucxm_launcher_fence(void (*progress)(void), double until_s);
/* The fence's result after a timeout. */
extern const char ucxm_launcher_is_late[];
/* Requests reports of failed processes (ucxm_peer_failed). The second call has no effect. */
void ucxm_launcher_watch(void);
/* The same, and requests to continue without them. */
void ucxm_launcher_tolerate(void);
/* Exponential back-off while polling other processes, which leaves them the cores. Initially 0. */
void ucxm_pause(useconds_t *pause_us);
/* Monotonic time in seconds. */
double ucxm_now_s(void);
/* While this process waits for the others to call MPI_Init: reports this once, after a while. */
void ucxm_report_waiting(const struct machine_place *place, double since_s);
void ucxm_launcher_detach(void);
void ucxm_launcher_abort(int exit_code, const char *why);

/* ---- members.c ---- */

/* Reads the place of this process in a job of Heddle's mpirun, to which processes can be added: sets max_procs, and the
 * fields about its spawn. While the launcher's variables are in the environment. */
const char *ucxm_members_attach(struct machine_place *place);
/* The same for a job of another launcher in the universe. */
const char *ucxm_members_use(struct base_launched_table *universe_table, const char *folder);
/* True if this job belongs to a universe: then the next two functions replace those of launcher.c. */
bool ucxm_members_has_universe(void);
const char *ucxm_members_publish(const void *blob, size_t n_bytes);
/* *blob_out must be NULL. */
const char *ucxm_members_look_up(int proc_id, void **blob_out, size_t *n_bytes_out);
/* struct machine, link. */
void ucxm_members_link(const bool *is_linked);
/* False for a process of another job that is not linked to this one. Any thread. */
bool ucxm_members_concern(int proc_id);
/* True for a process that was started with this one, outside a universe. */
bool ucxm_members_end_together(int proc_id);
/* True if processes can be added: then the functions below are used instead of fences and notifications. */
bool ucxm_members_may_grow(void);
bool ucxm_is_started(int proc_id);
bool ucxm_is_present(int proc_id);
bool ucxm_is_parting(int proc_id);
/* True if it sends nothing more, and has received all that was sent to it; it may have ended. */
bool ucxm_has_parted(int proc_id);
/* struct machine, is_failing. */
bool ucxm_is_failing(int proc_id);
/* Sets this process's state (enum base_launched_state). */
void ucxm_members_set(int state);
/* Waits until those that were spawned with this one (BASE_LAUNCHED_OPEN), or all that concern it, have this state or ended.
 * Calls progress meanwhile (NULL: none). Returns after until_s (0: no limit) ucxm_launcher_is_late, after a failure a
 * text. */
const char *ucxm_members_await(int state, void (*progress)(void), double until_s);

/* ---- join_universe.c ---- */

/* Enters the universe with a job of another launcher, if the first process wants it and all are on this node: then changes
 * the numbers in place. Waits for the first process. Returns an error, or NULL. */
const char *ucxm_universe_enter(struct machine_place *place, const char *name_space);
/* When all processes are open: begins to watch other jobs. */
void ucxm_universe_begin(void);
/* At the end; if it is not called, this process has failed for other jobs. */
void ucxm_universe_leave(void);

/* ---- pmix_spawn.c ---- */

/* struct machine, start. */
void ucxm_start(const struct machine_program *programs, int n_programs, char *const *env,
                struct machine_start *start);

/* ---- watchdog.c ---- */

/* A request to the launcher. On the stack of the caller. */
struct ucxm_watchdog {
    const char *what; /* for the message: the request */
    char who[16];     /* for the message: the requesting process */
    int limit_s;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* guards the following fields */
    pthread_cond_t ended;
    bool is_over;
};
/* Starts the time limit, which ends the process with a message unless ucxm_watchdog_end is called in time. */
void ucxm_watchdog_begin(struct ucxm_watchdog *watch_out, const char *what);
void ucxm_watchdog_end(struct ucxm_watchdog *watch);
/* The launcher's time limit for a reply. */
int ucxm_watchdog_limit_s(void);
/* A time limit in seconds from the environment; preset_s: the variable is not set. A wrong value ends the
 * process. */
int ucxm_watchdog_read(const char *variable, int preset_s);
/* Starts a thread on which the program's signal handlers do not run; false: there is none. */
bool ucxm_watchdog_thread(pthread_t *thread_out, void *(*function)(void *), void *arg);
/* The same for threads that libraries start until signals are allowed again: a signal that all threads of the program block stays
 * pending, and sigwait takes it. */
void ucxm_signals_block(sigset_t *before_out);
void ucxm_signals_allow(const sigset_t *before);

/* ---- silence.c ---- */

/* From now on other nodes that do not answer are reported. Once the ports are open. */
void ucxm_silence_begin(void);
void ucxm_silence_end(void);

/* ---- host.c ---- */
void ucxm_host_describe(char *text_out, size_t size);

/* ---- noise.c ---- */

/* From now on UCX's errors are suppressed once a process has failed, even if the launcher has not reported it yet, or
 * the connections are being closed. */
void ucxm_noise_filter(void);
/* UCX's messages between the two calls are kept; the second call prints or drops them. */
void ucxm_noise_hold(void);
void ucxm_noise_release(bool is_printed);

/* ---- room.c ---- */

/* True if UCX uses shared memory in files. */
bool ucxm_room_is_needed(void);
/* False if the user's limit of file sizes (ulimit -f) is below a port's shared memory: SIGXFSZ would end the process. */
bool ucxm_room_is_permitted(void);
/* True if the folder of UCX's shared memory has room for the ports of n_procs processes. */
bool ucxm_room_suffices(int n_pes, int n_procs);
/* Moves UCX's shared memory to the next folder that has room for this process; false: there is none, and it
 * is back in the first one. For a process without workers. */
bool ucxm_room_move(int n_pes);
/* Reports where UCX's shared memory was moved, or that no folder had room. */
void ucxm_room_report(int n_pes);
/* Waits until no other process of this user opens ports in the same folder. Returns a descriptor for
 * unlock; -1: locking failed. */
int ucxm_room_lock(void);
void ucxm_room_unlock(int fd);
/* Removes this process's folder, if any. At the end; any thread. */
void ucxm_room_remove(void);

/* ---- transports.c ---- */

/* Restricts UCX's transports and devices to those that the job needs, unless the user has chosen them. */
void ucxm_transports_choose(ucp_config_t *config);
/* True if there are RDMA devices with an active port. */
bool ucxm_transports_have_rdma(void);

/* ---- descriptors.c ---- */

/* Descriptors opened between the two calls are not inherited by programs that ranks start. One thread at a
 * time. */
void ucxm_descriptors_begin(void);
void ucxm_descriptors_end(void);
/* The same for descriptors that UCX has opened to connect to other ports. */
void ucxm_descriptors_connected(void);
/* Calls fn for each open descriptor. Any thread. */
void ucxm_descriptors_each(void (*fn)(int fd));

/* ---- port.c ---- */
const char *ucxm_ports_open(int n_pes);
/* limit_s: see machine.h, close. False: the others did not come in time, so the ports cannot be closed. */
bool ucxm_ports_flush(double limit_s);
void ucxm_ports_close(void);
bool ucxm_takes(enum machine_memory memory);
void ucxm_describe(char *text, size_t text_bytes);
int ucxm_port_poll(int pe_id);
int ucxm_port_fd(int pe_id);
bool ucxm_port_arm(int pe_id);

/* ---- ucx_connect.c ---- */
const char *ucxm_connect_init(struct ucxm_port *port);
int ucxm_n_pes_of(int proc_id);
/* The endpoint for an operation, connected if necessary; NULL: the process has failed, or connecting failed. */
ucp_ep_h ucxm_endpoint(struct ucxm_port *port, int proc_id, int pe_id);
/* Connects back to the ports that have connected to this one. */
void ucxm_answer_greetings(struct ucxm_port *port);
void ucxm_disconnect(struct ucxm_port *port);
/* The process has failed: makes UCX complete the requests of the port's endpoints to it with errors; UCX
 * touches no buffer afterwards. Endpoints to a process of this node are left as they are. */
void ucxm_abandon(struct ucxm_port *port, int proc_id);

/* ---- ucx_message.c ---- */
/* The handler of active messages with this number. */
const char *ucxm_handler_set(struct ucxm_port *port, unsigned id, ucp_am_recv_callback_t handler);
const char *ucxm_messages_init(struct ucxm_port *port);
/* Sends a message that is only a header, which is copied; there is no completion. If it fails, later
 * messages fail, too. */
void ucxm_send_control(struct ucxm_port *port, ucp_ep_h ep, unsigned id, const void *header,
                       size_t header_bytes);
int ucxm_send(int pe_id, int dest_proc, int dest_pe, const void *header, size_t header_bytes,
              const void *data, size_t n_bytes, enum machine_memory memory, machine_done_fn done, void *arg);
int ucxm_push(int pe_id, int dest_proc, int dest_pe, const void *header, size_t header_bytes,
              const void *data, size_t n_bytes, enum machine_memory memory, machine_done_fn done, void *arg);
int ucxm_fetch(int pe_id, int src_proc, void *token, void *buf, size_t n_bytes, enum machine_memory memory,
               machine_done_fn done, void *arg);
void ucxm_release(int pe_id, void *token);
bool ucxm_is_moving(int pe_id);
void ucxm_traffic(int pe_id, const bool *is_left_out, struct machine_traffic *traffic_out);
/* UCX's constant for a kind of memory. */
static inline ucs_memory_type_t ucxm_memory_type(enum machine_memory memory)
{
    return memory == MACHINE_HOST   ? UCS_MEMORY_TYPE_HOST
           : memory == MACHINE_CUDA ? UCS_MEMORY_TYPE_CUDA
                                    : UCS_MEMORY_TYPE_CUDA_MANAGED;
}

/* Adds a pending request of UCX, whose done is not NULL, to the port's list. */
void ucxm_request_link(struct ucxm_request *request, struct ucxm_port *port, int proc_id, bool is_fetch,
                       machine_done_fn done, void *arg);
/* UCX's callback for such requests, except for fetches. */
void ucxm_request_sent(void *request, ucs_status_t status, void *arg);
/* The machine's result. Ends the process if UCX is out of memory. */
int ucxm_result_of(ucs_status_t status);
void ucxm_request_unlink(struct ucxm_request *request);
/* Reports to the request's owner that the peer has failed; later events of the request are ignored. */
void ucxm_request_give_up(struct ucxm_request *request);

/* ---- ucx_memory.c ---- */

/* The number of this process, to publish. */
struct ucxm_probe ucxm_memory_probe(void);
/* True if UCX's put and get are used. */
bool ucxm_memory_is_keyed(void);
extern const struct machine_rma ucxm_rma;

/* ---- shm_ring.c ---- */

/* True if the user allows shared memory for messages (UCX_TLS). */
bool ucxm_rings_are_chosen(void);
/* Creates the rings to this process's ports; if that is impossible, all messages go through UCX. */
void ucxm_rings_open(void);
void ucxm_rings_close(void);
/* Their location, for other processes. */
struct ucxm_ring_place ucxm_rings_place(void);
/* A ring to a port of another process with rings at this place; NULL: none. */
struct ucxm_ring_out *ucxm_ring_connect(const struct ucxm_port *port, int proc_id, int pe_id,
                                        const struct ucxm_ring_place *place);
void ucxm_ring_disconnect(struct ucxm_ring_out *ring);
/* False: the process that has rings at this place has ended. Any thread. */
bool ucxm_rings_exist(const struct ucxm_ring_place *place);
/* Another port has connected a ring to this one. */
void ucxm_ring_accept(struct ucxm_port *port, const struct ucxm_port_name *from);
/* Sends a message through the peer's ring; false: it must go through UCX. */
bool ucxm_ring_send(struct ucxm_peer *peer, const void *header, size_t header_bytes, const void *data,
                    size_t n_bytes);
/* Handles messages that have arrived; returns their number. */
int ucxm_rings_poll(struct ucxm_port *port);
/* The number of messages received through rings, without those of excluded processes (NULL: none). */
uint64_t ucxm_rings_count(const struct ucxm_port *port, const bool *is_left_out);
/* From arm on, senders wake the port when a message arrives; false: one is there already. */
bool ucxm_rings_arm(struct ucxm_port *port);
void ucxm_rings_disarm(struct ucxm_port *port);
/* Handles the messages that a process had sent, and stops reading its rings. */
void ucxm_rings_forget(struct ucxm_port *port, int proc_id);

/* ---- program_number.c ---- */

/* Stands for the executable of this process. */
uint64_t ucxm_program_id(void);
int ucxm_program_number(void);

/* ---- failed_peer.c ---- */

/* Reports a failed process. Any thread; the first call for each process counts. */
void ucxm_peer_failed(int proc_id, const char *why);
bool ucxm_has_failed_peers(void);
/* The same, or a process of another job or spawn that is known here has ended: UCX may wait for it for ever. */
bool ucxm_has_gone_peers(void);
void ucxm_drop_peer(int pe_id, int proc_id);

/* ---- shutdown.c ---- */
const char *ucxm_shutdown_init(struct ucxm_port *port);
/* Waits until every process has called it, or one has failed; calls progress meanwhile. Returns false after
 * until_s (0: no limit). */
bool ucxm_shutdown(void (*progress)(void), double until_s);

#endif
