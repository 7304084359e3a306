/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lane.c: lanes: small messages between ports of one node, through memory that both processes have mapped.
 *
 * UCX has such queues, too, but each message passes several of its layers on either side. A lane is one ring
 * from one port to another: the sender writes a cell, the receiver finds the message and the flag that says
 * so in the same cache line. What does not fit into a cell, finds the ring full, or goes to another node
 * takes UCX's way, and may be overtaken (machine.h, rule 2).
 *
 * The rings of all ports of a process lie in one file without a name (memfd), whose pages exist only from the
 * first message on. Other processes open it by /proc/PID/fd, as long as the kernel allows them to; else there
 * is no lane. Nothing is left behind, however a process ends.
 *
 * A sender begins with a lane when it connects; its greeting (ucx_connect.c) tells the receiver to look
 * there.
 *
 * Invariants of a ring:
 *   1. Position n is cell n modulo the size; it is full when its turn is n + 1.
 *   2. The sender writes position n only while n - head_known < size. It alone writes cells, so a process
 *      that ends in the middle of a message leaves a ring whose receiver waits, and no other ring.
 *   3. head_seen is a copy of the receiver's position that it publishes from time to time.
 *
 * Sleeping: the receiver says that it is about to (is_asleep), looks into its rings once more, and sleeps on
 * UCX's descriptor. A sender writes, then looks at is_asleep, and if it is set nudges the receiver by a
 * message of UCX. Between the two steps of each there must be a barrier. The sleeper pays for both by
 * membarrier(2); where sleeping is frequent, because there are more PEs than cores, or the kernel lacks it,
 * senders fence.
 */
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "base/log.h"
#include "machine_ucx/ucxm.h"

#define CELL_BYTES 320 /* room for the client's small messages: 256 bytes and a header */
#define RING_CELLS 128u
#define PUBLISH_EVERY (RING_CELLS / 4)

/* Ports of a process that may have lanes to a port; others send by UCX. */
#define SENDER_PES_MAX 64

struct cell {
    _Atomic uint32_t turn; /* position + 1 when the cell is full (invariant 1) */
    uint16_t header_bytes;
    uint16_t n_bytes;
    unsigned char body[CELL_BYTES - 8]; /* the header, and behind it, aligned to 8, the data */
} BASE_CACHE_ALIGNED;
_Static_assert(sizeof(struct cell) == CELL_BYTES, "no padding");

struct ring {
    struct cell cells[RING_CELLS];
    _Atomic uint32_t head_seen BASE_CACHE_ALIGNED; /* the receiver's (invariant 3) */
};

/* State that a port's senders share. */
struct ucxm_doorbell {
    _Atomic bool is_asleep BASE_CACHE_ALIGNED; /* the receiver sets it; who clears it nudges */
    bool senders_fence BASE_CACHE_ALIGNED;     /* never changed */
};

/* The sender's side. */
struct ucxm_lane_out {
    struct ring *ring;
    struct ucxm_doorbell *doorbell;
    uint32_t tail;       /* next position to write */
    uint32_t head_known; /* positions below are free again */
    bool was_full;       /* until it is empty UCX takes the messages: they shall overtake few others */
    bool must_fence;
};

/* The receiver's side. */
struct ucxm_lane_in {
    struct ucxm_lane_in *next; /* of the port's list */
    struct ring *ring;
    uint32_t head;      /* next position to read */
    int proc_id;        /* of the sender */
    uint64_t n_handled; /* messages */
};

static struct {
    int fd; /* of the rings to this process; -1: there are none */
    struct ucxm_lane_place place;
    bool has_membarrier; /* of the kind that reaches other processes */
    int *near_index;     /* by process: which one of this node */
    int n_near;
} lanes = {.fd = -1};

/* ---- The file ---- */

static size_t page_round(size_t n_bytes)
{
    return base_round_up(n_bytes, (size_t)sysconf(_SC_PAGESIZE));
}

static size_t port_bytes(void)
{
    return page_round(sizeof(struct ucxm_doorbell)) +
           (size_t)lanes.n_near * SENDER_PES_MAX * page_round(sizeof(struct ring));
}

static size_t doorbell_offset(int pe_id)
{
    return (size_t)pe_id * port_bytes();
}

/* The ring to a port of some process of this node from a port of another. */
static size_t ring_offset(int pe_id, int from_proc, int from_pe)
{
    return doorbell_offset(pe_id) + page_round(sizeof(struct ucxm_doorbell)) +
           ((size_t)lanes.near_index[from_proc] * SENDER_PES_MAX + (size_t)from_pe) *
               page_round(sizeof(struct ring));
}

static void *map(int fd, size_t offset, size_t n_bytes)
{
    void *at = mmap(NULL, page_round(n_bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                    (off_t)offset);

    return at == MAP_FAILED ? NULL : at;
}

/* A file of that size, of which nothing exists yet. */
static int make_file(size_t n_bytes)
{
    int fd = memfd_create("heddle lanes", MFD_CLOEXEC);

    if (fd >= 0 && ftruncate(fd, (off_t)n_bytes) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* ---- Opening ---- */

/* Whether UCX_TLS, the user's choice of transports, leaves those within a node: a list of names, or, behind a
 * ^, of those not to use. */
bool ucxm_lanes_are_chosen(void)
{
    const char *transports = getenv("UCX_TLS");
    static const char *const shared[] = {"all", "sm", "shm", "mm", "posix", "sysv", "xpmem"};
    bool is_negated = transports && transports[0] == '^', is_listed = false;
    const char *at = transports ? transports + is_negated : "all";

    for (size_t length; *at; at += length + (at[length] == ',')) {
        length = strcspn(at, ",");
        for (size_t i = 0; i < BASE_COUNT(shared); i++)
            is_listed |=
                strcspn(at, ",:") == strlen(shared[i]) && strncmp(at, shared[i], strlen(shared[i])) == 0;
    }
    return is_listed != is_negated;
}

static bool count_near(void)
{
    lanes.near_index = calloc((size_t)ucxm.place.n_procs, sizeof *lanes.near_index);
    for (int i = 0; lanes.near_index && i < ucxm.place.n_procs; i++)
        if (ucxm.is_near[i])
            lanes.near_index[i] = lanes.n_near++;
    return lanes.near_index && lanes.n_near > 1;
}

static bool open_port(struct ucxm_port *port)
{
    port->doorbell = map(lanes.fd, doorbell_offset(port->pe_id), sizeof(struct ucxm_doorbell));
    if (port->doorbell)
        port->doorbell->senders_fence =
            !lanes.has_membarrier || lanes.n_near * ucxm.n_pes > (int)sysconf(_SC_NPROCESSORS_ONLN);
    return port->doorbell != NULL;
}

void ucxm_lanes_open(void)
{
    struct stat file;

    if (!ucxm_lanes_are_chosen() || !count_near())
        return;
    lanes.has_membarrier = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
    lanes.fd = make_file((size_t)ucxm.n_pes * port_bytes());
    if (lanes.fd < 0)
        return;
    for (int i = 0; i < ucxm.n_pes; i++)
        if (!open_port(&ucxm.ports[i])) {
            ucxm_lanes_close();
            return;
        }
    if (fstat(lanes.fd, &file) == 0)
        lanes.place =
            (struct ucxm_lane_place){getpid(), lanes.fd, (uint64_t)file.st_dev, (uint64_t)file.st_ino};
}

struct ucxm_lane_place ucxm_lanes_place(void)
{
    return lanes.place;
}

void ucxm_lanes_close(void)
{
    for (int i = 0; i < ucxm.n_pes; i++) {
        struct ucxm_port *port = &ucxm.ports[i];
        if (port->doorbell)
            munmap(port->doorbell, page_round(sizeof(struct ucxm_doorbell)));
        port->doorbell = NULL;
        ucxm_lanes_forget(port, -1);
    }
    if (lanes.fd >= 0)
        close(lanes.fd);
    lanes.fd = -1;
    lanes.place = (struct ucxm_lane_place){0};
}

/* ---- Connecting ---- */

/* The file of another process; -1: it cannot be opened, or is not what it said. */
static int open_file(const struct ucxm_lane_place *place)
{
    char path[64];
    struct stat file;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)place->pid, (int)place->fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &file) != 0 || (uint64_t)file.st_dev != place->device ||
                    (uint64_t)file.st_ino != place->inode)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

struct ucxm_lane_out *ucxm_lane_connect(const struct ucxm_port *port, int proc_id, int pe_id,
                                        const struct ucxm_lane_place *place)
{
    struct ucxm_lane_out *lane;
    int fd;

    if (!place->pid || !lanes.place.pid || !ucxm.is_near[proc_id] || port->pe_id >= SENDER_PES_MAX ||
        (fd = open_file(place)) < 0)
        return NULL;
    lane = calloc(1, sizeof *lane);
    if (lane) {
        lane->ring = map(fd, ring_offset(pe_id, ucxm.place.proc_id, port->pe_id), sizeof *lane->ring);
        lane->doorbell = map(fd, doorbell_offset(pe_id), sizeof *lane->doorbell);
    }
    close(fd);
    if (lane && lane->ring && lane->doorbell) {
        lane->must_fence = !lanes.has_membarrier || lane->doorbell->senders_fence;
        return lane;
    }
    ucxm_lane_disconnect(lane);
    return NULL;
}

void ucxm_lane_disconnect(struct ucxm_lane_out *lane)
{
    if (lane && lane->ring)
        munmap(lane->ring, page_round(sizeof *lane->ring));
    if (lane && lane->doorbell)
        munmap(lane->doorbell, page_round(sizeof *lane->doorbell));
    free(lane);
}

void ucxm_lane_accept(struct ucxm_port *port, const struct ucxm_port_name *from)
{
    struct ucxm_lane_in *lane;

    if (lanes.fd < 0 || from->pe_id >= SENDER_PES_MAX || ucxm_is_lost(from->proc_id))
        return;
    lane = calloc(1, sizeof *lane);
    if (lane)
        lane->ring = map(lanes.fd, ring_offset(port->pe_id, from->proc_id, from->pe_id), sizeof *lane->ring);
    if (!lane || !lane->ring) /* the sender trusts in it */
        base_fatal(1, "no memory for messages from process %d of %d", from->proc_id, ucxm.place.n_procs);
    lane->proc_id = from->proc_id;
    lane->next = port->lanes;
    port->lanes = lane;
}

/* ---- Sending ---- */

static bool is_full(struct ucxm_lane_out *lane)
{
    lane->head_known = atomic_load_explicit(&lane->ring->head_seen, memory_order_acquire);
    /* The receiver does not publish the last few. */
    if (lane->was_full)
        lane->was_full = lane->tail - lane->head_known >= PUBLISH_EVERY;
    else
        lane->was_full = lane->tail - lane->head_known >= RING_CELLS;
    return lane->was_full;
}

bool ucxm_lane_send(struct ucxm_peer *peer, const void *header, size_t header_bytes, const void *data,
                    size_t n_bytes)
{
    struct ucxm_lane_out *lane = peer->lane;
    size_t data_at = base_round_up(header_bytes, 8);
    struct cell *cell = &lane->ring->cells[lane->tail % RING_CELLS];

    if (BASE_UNLIKELY(data_at + n_bytes > sizeof cell->body))
        return false;
    if (BASE_UNLIKELY(lane->was_full || lane->tail - lane->head_known >= RING_CELLS) && is_full(lane))
        return false;
    memcpy(cell->body, header, header_bytes);
    if (n_bytes)
        memcpy(cell->body + data_at, data, n_bytes);
    cell->header_bytes = (uint16_t)header_bytes;
    cell->n_bytes = (uint16_t)n_bytes;
    atomic_store_explicit(&cell->turn, ++lane->tail, memory_order_release);
    peer->n_sent++;
    if (lane->must_fence)
        atomic_thread_fence(memory_order_seq_cst);
    else
        atomic_signal_fence(memory_order_seq_cst);
    if (BASE_UNLIKELY(atomic_load_explicit(&lane->doorbell->is_asleep, memory_order_relaxed)) &&
        atomic_exchange(&lane->doorbell->is_asleep, false))
        ucxm_say(peer->ep, UCXM_NUDGE_ID, NULL, 0);
    return true;
}

/* ---- Receiving ---- */

static inline bool has_mail(const struct ucxm_lane_in *lane)
{
    const struct cell *cell = &lane->ring->cells[lane->head % RING_CELLS];

    return atomic_load_explicit(&cell->turn, memory_order_acquire) == lane->head + 1;
}

/* One round at most, so that a fast sender cannot keep the PE. */
static inline int drain(struct ucxm_port *port, struct ucxm_lane_in *lane)
{
    int n_handled = 0;

    while (n_handled < (int)RING_CELLS && has_mail(lane)) {
        const struct cell *cell = &lane->ring->cells[lane->head % RING_CELLS];
        struct machine_data data = {.bytes = cell->body + base_round_up(cell->header_bytes, 8),
                                    .n_bytes = cell->n_bytes};
        lane->n_handled++;
        ucxm.client.handle(port->pe_id, cell->body, cell->header_bytes, &data);
        n_handled++;
        if (++lane->head % PUBLISH_EVERY == 0)
            atomic_store_explicit(&lane->ring->head_seen, lane->head, memory_order_release);
    }
    return n_handled;
}

int ucxm_lanes_poll(struct ucxm_port *port)
{
    int n_handled = 0;

    for (struct ucxm_lane_in *lane = port->lanes; lane; lane = lane->next)
        n_handled += drain(port, lane);
    return n_handled;
}

uint64_t ucxm_lanes_count(const struct ucxm_port *port, const bool *is_left_out)
{
    uint64_t n = 0;

    for (const struct ucxm_lane_in *lane = port->lanes; lane; lane = lane->next)
        if (!is_left_out || !is_left_out[lane->proc_id])
            n += lane->n_handled;
    return n;
}

bool ucxm_lanes_arm(struct ucxm_port *port)
{
    if (!port->doorbell)
        return true;
    atomic_store(&port->doorbell->is_asleep, true);
    if (port->doorbell->senders_fence)
        atomic_thread_fence(memory_order_seq_cst);
    else
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
    for (const struct ucxm_lane_in *lane = port->lanes; lane; lane = lane->next)
        if (has_mail(lane)) {
            ucxm_lanes_disarm(port);
            return false;
        }
    return true;
}

void ucxm_lanes_disarm(struct ucxm_port *port)
{
    if (port->doorbell)
        atomic_store_explicit(&port->doorbell->is_asleep, false, memory_order_relaxed);
}

void ucxm_lanes_forget(struct ucxm_port *port, int proc_id)
{
    struct ucxm_lane_in **link = &port->lanes;

    while (*link) {
        struct ucxm_lane_in *lane = *link;
        if (proc_id >= 0 && lane->proc_id != proc_id) {
            link = &lane->next;
            continue;
        }
        while (proc_id >= 0 && drain(port, lane) > 0)
            ;
        *link = lane->next;
        munmap(lane->ring, page_round(sizeof *lane->ring));
        free(lane);
    }
}
