/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ucxm.h: the inside of the UCX machine; for the files of src/machine_ucx alone.
 *
 *      table.c    the table of functions, attach and close
 *      launcher.c PMIx: place, publishing and looking up, fence, abort
 *      watch.c    time limits for what the launcher is asked
 *      host.c     what others are told of where this process is
 *      transports.c  which of UCX's transports and network devices are used
 *      descriptors.c  keeps UCX's and PMIx's descriptors from children of ranks
 *      noise.c    UCX's own messages
 *      room.c     where UCX's shared memory lies
 *      port.c     one UCX worker per PE: addresses, progress, sleeping
 *      ucx_connect.c  endpoints to ports of other processes
 *      ucx_message.c  active messages: sending, handling, fetching
 *      lane.c     small messages within a node, past UCX
 *      failed_peer.c     processes that are gone
 *      part.c     the end: waiting for each other before connections are closed
 */
#ifndef UCXM_H
#define UCXM_H

#include <pthread.h>
#include <sys/types.h>
#include <ucp/api/ucp.h>

#include "machine_ucx/machine.h"

/* Longest name and addresses of a host. */
#define UCXM_HOST_BYTES 256

/* Our active messages' numbers: for the client, and between machines. */
#define UCXM_MESSAGE_ID 1
#define UCXM_GREETING_ID 2
#define UCXM_PARTING_ID 3
#define UCXM_NUDGE_ID 4

/* Which port of the job. */
struct ucxm_port_name {
    int32_t proc_id;
    int32_t pe_id;
};

/* The greeting of a port to one that it has connected to. */
struct ucxm_greeting_text {
    struct ucxm_port_name from;
    uint32_t has_lane; /* 1: it sends small messages by a lane */
};

/* A connection to a port of another process. */
struct ucxm_peer {
    ucp_ep_h ep;                /* NULL: not connected yet, or abandoned */
    struct ucxm_lane_out *lane; /* NULL: all messages go by UCX */
    int proc_id;
    int pe_id;       /* of the port that it belongs to */
    uint64_t n_sent; /* messages of the client to it */
};

/* Where the lanes to a process are. */
struct ucxm_lane_place {
    pid_t pid; /* 0: there are none */
    int32_t fd;
    uint64_t device; /* of the file, so that no other is taken for it */
    uint64_t inode;
};

/* A port of another process has connected to one of this process's. */
struct ucxm_greeting {
    struct ucxm_greeting *next; /* of the port's list */
    struct ucxm_greeting_text text;
};

/* The head of the data that a process publishes; length (4 bytes) and bytes of each PE's address follow. */
struct ucxm_published {
    char host[UCXM_HOST_BYTES];
    uint32_t n_pes;
    struct ucxm_lane_place lanes;
};

/* A process, as far as this one knows it. */
struct ucxm_process {
    int n_pes; /* 0: not looked up yet */
    const struct ucxm_published *published;
    const void **addresses; /* by PE */
    bool is_lost;           /* any thread sets it (failed_peer.c) */
};

/* The machine's part in front of each request of UCX. */
struct ucxm_request {
    machine_done_fn done; /* NULL: given up, nobody wants to know */
    void *arg;
    struct ucxm_port *port;
    int proc_id; /* of the other side */
    bool is_fetch;
    struct ucxm_request *next;  /* links of the port's list of those under way */
    struct ucxm_request **link; /* what points to it */
};

struct ucxm_port {
    ucp_worker_h worker;
    struct ucxm_peer **peers; /* by process, then by PE; NULL: nobody of that process yet */
    struct ucxm_port_name name;
    int pe_id;
    int fd;
    bool is_busy;         /* something came since it was last asked in vain */
    bool is_armed;        /* the PE may be asleep */
    bool is_disconnected; /* nothing can be sent any more */
    unsigned lane_polls;  /* for so many polls UCX is asked only now and then (port.c) */
    unsigned n_polls;
    struct ucxm_request *pending;    /* under way */
    uint64_t n_fetching;             /* fetches under way that were not given up */
    uint64_t *n_handled;             /* by process: messages that came by UCX */
    struct ucxm_greeting *greetings; /* of ports that connected to this one; not answered yet */
    struct ucxm_lane_in *lanes;      /* to this port */
    struct ucxm_doorbell *doorbell;  /* of the lanes; NULL: there are none */
};

/* The machine of this process. */
struct ucxm {
    struct machine_place place;
    bool *is_near; /* by process: on this node */
    struct machine_client client;
    ucp_context_h context;
    uint64_t memory_types; /* that UCX knows, bits of ucs_memory_type_t */
    int n_pes;
    struct ucxm_port *ports;
    struct ucxm_process *processes;
    bool is_closing; /* the others may leave now: UCX's errors are no losses. Any thread reads it */
};
extern struct ucxm ucxm;

static inline bool ucxm_is_lost(int proc_id)
{
    return __atomic_load_n(&ucxm.processes[proc_id].is_lost, __ATOMIC_RELAXED);
}

/* ---- launcher.c. Errors are texts in static storage; NULL: it worked. ---- */
const char *ucxm_launcher_attach(struct machine_place *place_out);
/* The name of the host of a process; false: the launcher does not say. */
bool ucxm_launcher_host_of(int proc_id, char *host_out, size_t size);
const char *ucxm_launcher_publish(const void *blob, size_t n_bytes);
/* Which processes are on this node: true for those, malloc'ed. */
const char *ucxm_launcher_find_near(bool **is_near_out);
/* The blob of a process, malloc'ed. */
const char *ucxm_launcher_look_up(int proc_id, void **blob_out, size_t *n_bytes_out);
/* Waits for all processes, or until a time (0: no limit); calls progress meanwhile (NULL: nothing). */
const char *ucxm_launcher_fence(void (*progress)(void), double until_s);
/* The fence's result when the others did not come in time. */
extern const char ucxm_launcher_is_late[];
/* Asks to be told of lost processes (ucxm_lost_note), and to go on without them. */
void ucxm_launcher_tolerate(void);
/* Between two looks at what others are doing, each longer than the last: their cores shall be theirs. 0 at
 * first. */
void ucxm_pause(useconds_t *pause_us);
/* Monotonic time. */
double ucxm_now_s(void);
void ucxm_launcher_detach(void);
void ucxm_launcher_abort(int exit_code, const char *why);

/* ---- watch.c ---- */

/* Something that the launcher is asked. Lives on the stack of who asks. */
struct ucxm_watch {
    const char *what; /* for the message: what is waited for */
    char who[16];     /* the same: which process asks */
    int limit_s;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t ended;
    bool is_over;
};
/* Until the end is said, the time limit runs; when it has, the process ends with a message. */
void ucxm_watch_begin(struct ucxm_watch *watch_out, const char *what);
void ucxm_watch_end(struct ucxm_watch *watch);
/* How long the launcher may take for an answer. */
int ucxm_watch_limit_s(void);

/* ---- host.c ---- */
void ucxm_host_describe(char *text_out, size_t size);

/* ---- noise.c ---- */

/* From now on UCX reports no errors once a process is lost or the connections are being closed. */
void ucxm_noise_filter(void);
/* Between the two UCX's reports are kept; then they are printed, or forgotten. */
void ucxm_noise_hold(void);
void ucxm_noise_release(bool is_printed);

/* ---- room.c ---- */

/* UCX uses shared memory in files. */
bool ucxm_room_is_needed(void);
/* The folder of UCX's shared memory has room for the ports of that many processes. */
bool ucxm_room_suffices(int n_pes, int n_procs);
/* Moves UCX's shared memory to the next place that has room for this process; false: there is none, and it is
 * where it was at first. For a process that has no worker. */
bool ucxm_room_move(int n_pes);
/* Says where UCX's shared memory has been moved to, or that there was no place for it. */
void ucxm_room_say(int n_pes);
/* Waits until no other process of this user opens ports in the same folder. Returns a descriptor for unlock;
 * -1: there can be no lock. */
int ucxm_room_lock(void);
void ucxm_room_unlock(int fd);
/* Removes this process's folder, if it has one. At the end; any thread. */
void ucxm_room_remove(void);

/* ---- transports.c ---- */

/* Restricts UCX's transports and devices to those that the job needs, but for what the user has chosen. */
void ucxm_transports_choose(ucp_config_t *config);

/* ---- descriptors.c ---- */

/* Descriptors that are opened between the two calls are not inherited by programs that ranks start. One thread at a
 * time. */
void ucxm_descriptors_begin(void);
void ucxm_descriptors_end(void);
/* The same for what UCX has opened to connect to other ports. */
void ucxm_descriptors_connected(void);

/* ---- port.c ---- */
const char *ucxm_ports_open(int n_pes);
/* limit_s: see machine.h, close. False: it was too short for the others, so the ports cannot be closed. */
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
/* The endpoint, connected if need be; NULL: lost, or cannot be had. */
ucp_ep_h ucxm_endpoint(struct ucxm_port *port, int proc_id, int pe_id);
/* Connects to the ports that have connected to this one. */
void ucxm_answer_greetings(struct ucxm_port *port);
void ucxm_disconnect(struct ucxm_port *port);
/* The process is lost: UCX completes what is under way on the port's endpoints to it with errors, and touches
 * no buffer afterwards. Those to a process of this node are left to UCX as they are. */
void ucxm_abandon(struct ucxm_port *port, int proc_id);

/* ---- ucx_message.c ---- */
/* The handler of active messages with this number. */
const char *ucxm_handler_set(struct ucxm_port *port, unsigned id, ucp_am_recv_callback_t handler);
const char *ucxm_messages_init(struct ucxm_port *port);
/* Sends a message of a header alone, of which it keeps a copy, that nobody waits for. If it fails, so will
 * what is sent afterwards. */
void ucxm_say(ucp_ep_h ep, unsigned id, const void *header, size_t header_bytes);
int ucxm_send(int pe_id, int dest_proc, int dest_pe, const void *header, size_t header_bytes,
              const void *data, size_t n_bytes, enum machine_memory memory, machine_done_fn done, void *arg);
int ucxm_fetch(int pe_id, int src_proc, void *token, void *buf, size_t n_bytes, enum machine_memory memory,
               machine_done_fn done, void *arg);
void ucxm_release(int pe_id, void *token);
bool ucxm_is_moving(int pe_id);
void ucxm_traffic(int pe_id, const bool *is_left_out, struct machine_traffic *traffic_out);
/* UCX's word for a kind of memory. */
static inline ucs_memory_type_t ucxm_memory_type(enum machine_memory memory)
{
    return memory == MACHINE_HOST   ? UCS_MEMORY_TYPE_HOST
           : memory == MACHINE_CUDA ? UCS_MEMORY_TYPE_CUDA
                                    : UCS_MEMORY_TYPE_CUDA_MANAGED;
}

void ucxm_request_unlink(struct ucxm_request *request);
/* Tells its owner that the other side is lost; what UCX says of it later is ignored. */
void ucxm_request_give_up(struct ucxm_request *request);

/* ---- lane.c ---- */

/* Whether the user lets messages go through shared memory (UCX_TLS). */
bool ucxm_lanes_are_chosen(void);
/* Makes the lanes to this process's ports; if that is not possible, all messages go by UCX. */
void ucxm_lanes_open(void);
void ucxm_lanes_close(void);
/* Where others find them. */
struct ucxm_lane_place ucxm_lanes_place(void);
/* A lane to a port of another process, whose lanes are there; NULL: none. */
struct ucxm_lane_out *ucxm_lane_connect(const struct ucxm_port *port, int proc_id, int pe_id,
                                        const struct ucxm_lane_place *place);
void ucxm_lane_disconnect(struct ucxm_lane_out *lane);
/* Another port has connected a lane to this one. */
void ucxm_lane_accept(struct ucxm_port *port, const struct ucxm_port_name *from);
/* Sends a message by the lane that the peer has; false: it has to go by UCX. */
bool ucxm_lane_send(struct ucxm_peer *peer, const void *header, size_t header_bytes, const void *data,
                    size_t n_bytes);
/* Handles what has come; returns how many messages that was. */
int ucxm_lanes_poll(struct ucxm_port *port);
/* How many messages have come by lanes, but for those of processes that are left out (NULL: none). */
uint64_t ucxm_lanes_count(const struct ucxm_port *port, const bool *is_left_out);
/* From arm on, senders wake the port when something comes; false: something is there. */
bool ucxm_lanes_arm(struct ucxm_port *port);
void ucxm_lanes_disarm(struct ucxm_port *port);
/* Handles what a process had sent, and reads nothing of it any more. */
void ucxm_lanes_forget(struct ucxm_port *port, int proc_id);

/* ---- failed_peer.c ---- */

/* A process was found to be lost. Any thread; the first call for each process counts. */
void ucxm_lost_note(int proc_id, const char *why);
bool ucxm_lost_any(void);
void ucxm_forget(int pe_id, int proc_id);

/* ---- part.c ---- */
const char *ucxm_part_init(struct ucxm_port *port);
/* Waits until every process has called it, or one is lost; calls progress meanwhile. False: it is later than
 * until_s (0: no limit). */
bool ucxm_part(void (*progress)(void), double until_s);

#endif
