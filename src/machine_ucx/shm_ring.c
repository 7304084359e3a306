/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shm_ring.c: rings: small messages between ports of one node, through memory that both processes have
 * mapped.
 *
 * UCX has such queues, too, but each message passes several of its layers on either side. A ring is an
 * array of cells from one port to another: the sender writes a cell, and the receiver finds the message and
 * its flag in the same cache line. Data that does not fit into a cell follows in the ring's bulk, a circular
 * buffer, in one piece. A message that is too large for that, finds the ring full, or goes to another node is
 * sent through UCX, and may be overtaken (machine.h, rule 2).
 *
 * The rings of all ports of a process are in one memfd, whose pages are allocated by the first message.
 * Other processes open it by /proc/PID/fd if the kernel allows that; else there is no ring. Nothing is left
 * behind, however a process ends.
 *
 * A sender begins with a ring when it connects; its greeting (ucx_connect.c) tells the receiver to poll it.
 *
 * Invariants of a ring:
 *      1. Position n is cell n modulo the size; it is full when its turn is n + 1.
 *      2. The sender writes position n only while n - head_known < size. Only the sender writes cells, so a
 *         process that ends in the middle of a message leaves one ring whose receiver waits, and no other
 *         ring.
 *      3. head_seen and bulk_seen are copies of the receiver's positions that it publishes from time to time.
 *         Data begins at the next position of the bulk, or at its start if the rest is too small: both sides
 *         compute this from the sizes, which are in the cells.
 *      4. Before the receiver handles a message it gets ready to write an answer of the same size, and the sender of a
 *         stream gets ready for later messages: see src/ult/inbox.h.
 *
 * Sleeping: the receiver sets is_asleep, checks its rings once more, and sleeps on UCX's descriptor. A
 * sender writes, then reads is_asleep, and if it is set wakes the receiver with a UCX message. Each side
 * needs a barrier between its two steps. The sleeper pays for both by membarrier(2). If sleeping is
 * frequent because there are more PEs than cores, or if the kernel lacks membarrier, senders use a fence.
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

#include "base/arch/relax.h"
#include "base/base.h"
#include "base/log.h"
#include "base/memory_file.h"
#include "machine_ucx/ucxm.h"

#define CELL_BYTES 320 /* room for the client's small messages: 256 bytes and a header */
#define RING_CELLS 128u
#define PUBLISH_EVERY (RING_CELLS / 4)
#define OWN_AHEAD \
    4u /* cells of a stream: 10,000 messages take 136 ns each without, 69 with 1, 46 with 4 (far cores) */
#define FULL_LOOKS 400 /* of a sender at a full ring, before UCX carries the messages: some microseconds */

/* Size of a bulk, a power of two. Its memory is allocated as it is used: in a node with many PEs, all of which may send to
 * each other, the bulks are smaller, and together this large at most. */
#define BULK_BYTES_MAX (128u << 10)
#define BULK_BYTES_MIN (16u << 10)
#define BULKS_BYTES ((size_t)256 << 20)
#define BULK_SHARE \
    4 /* data has at most this part of the bulk; the receiver publishes its position as often */

/* Larger data goes through UCX. Two copies take less time than the kernel's one up to some 64 KiB if the cores are idle and
 * close to each other, but only up to this size if they are not. */
#define BULK_DATA_MAX (16u << 10)

/* Maximum number of a process's ports with rings to a port; others send through UCX. */
#define SENDER_PES_MAX 64

struct cell {
    _Atomic uint32_t turn; /* position + 1 when the cell is full (invariant 1) */
    uint16_t header_bytes;
    uint16_t n_bytes;
    unsigned char body[CELL_BYTES - 8]; /* the header, followed by the data, aligned to 8 */
} BASE_CACHE_ALIGNED;
_Static_assert(sizeof(struct cell) == CELL_BYTES, "no padding");

struct ring_memory {
    struct cell cells[RING_CELLS];
    _Atomic uint32_t head_seen BASE_CACHE_ALIGNED; /* the receiver's (invariant 3) */
    _Atomic uint32_t bulk_seen;
    unsigned char bulk[] BASE_CACHE_ALIGNED;
};

/* State that a port's senders share. */
struct ucxm_doorbell {
    _Atomic bool is_asleep BASE_CACHE_ALIGNED; /* set by the receiver; the sender that clears it wakes the
                                                * receiver */
    bool senders_fence BASE_CACHE_ALIGNED;     /* never changed */
};

/* The sender's side. */
struct ucxm_ring_out {
    struct ring_memory *memory;
    struct ucxm_doorbell *doorbell;
    uint32_t tail;       /* next position to write */
    uint32_t head_known; /* positions below are free again */
    uint32_t tail_owned; /* the last position whose cell was owned ahead (invariant 4) */
    uint32_t bulk_bytes; /* size of the bulk */
    uint32_t data_max;   /* of a message */
    uint32_t bulk_tail;  /* next position to write in the bulk */
    uint32_t bulk_known; /* positions below are free again */
    bool was_full;       /* UCX carries the messages until the ring is empty, so that few are overtaken */
    bool must_fence;
};

/* The receiver's side. */
struct ucxm_ring_in {
    struct ucxm_ring_in *next; /* next in the port's list */
    struct ring_memory *memory;
    uint32_t head;      /* next position to read */
    uint32_t bulk_head; /* next position to read in the bulk */
    uint32_t bulk_told; /* copy of bulk_seen */
    int proc_id, pe_id; /* of the sender */
    uint64_t n_handled; /* messages */
};

static struct {
    int fd; /* of the rings to this process; -1: none */
    struct ucxm_ring_place place;
    uint32_t bulk_bytes;
    bool has_membarrier; /* of the kind that affects other processes */
    int *near_index;     /* by process: its index on this node */
    int n_near;
} rings = {.fd = -1};

/* ---- The file ---- */

static size_t page_round(size_t n_bytes)
{
    return base_round_up(n_bytes, (size_t)sysconf(_SC_PAGESIZE));
}

static size_t ring_bytes(uint32_t bulk_bytes)
{
    return page_round(sizeof(struct ring_memory) + bulk_bytes);
}

static size_t port_bytes(uint32_t bulk_bytes)
{
    return page_round(sizeof(struct ucxm_doorbell)) +
           (size_t)rings.n_near * SENDER_PES_MAX * ring_bytes(bulk_bytes);
}

static size_t doorbell_offset(int pe_id, uint32_t bulk_bytes)
{
    return (size_t)pe_id * port_bytes(bulk_bytes);
}

/* Offset of the ring to a port from a port of another process of this node; the first one's process chose the size of the
 * bulk. */
static size_t ring_offset(int pe_id, uint32_t bulk_bytes, int from_proc, int from_pe)
{
    return doorbell_offset(pe_id, bulk_bytes) + page_round(sizeof(struct ucxm_doorbell)) +
           ((size_t)rings.near_index[from_proc] * SENDER_PES_MAX + (size_t)from_pe) * ring_bytes(bulk_bytes);
}

static void *map(int fd, size_t offset, size_t n_bytes)
{
    void *at = mmap(NULL, page_round(n_bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                    (off_t)offset);

    return at == MAP_FAILED ? NULL : at;
}

/* ---- Opening ---- */

/* True if UCX_TLS, the user's choice of transports, allows transports within a node: a list of names or,
 * after a ^, of those to exclude. */
bool ucxm_rings_are_chosen(void)
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
    rings.near_index = calloc((size_t)ucxm.place.max_procs, sizeof *rings.near_index);
    for (int i = 0; rings.near_index && i < ucxm.place.max_procs; i++)
        if (ucxm.is_near[i])
            rings.near_index[i] = rings.n_near++;
    return rings.near_index && rings.n_near > 1;
}

static uint32_t choose_bulk_bytes(void)
{
    size_t n_pes = (size_t)ucxm.place.node_n_procs * (size_t)ucxm.n_pes;
    uint32_t n_bytes = BULK_BYTES_MAX;

    while (n_bytes > BULK_BYTES_MIN && n_pes * n_pes * n_bytes > BULKS_BYTES)
        n_bytes /= 2;
    return n_bytes;
}

static bool open_port(struct ucxm_port *port)
{
    port->doorbell =
        map(rings.fd, doorbell_offset(port->pe_id, rings.bulk_bytes), sizeof(struct ucxm_doorbell));
    if (port->doorbell)
        port->doorbell->senders_fence = !rings.has_membarrier || ucxm.place.node_n_procs * ucxm.n_pes >
                                                                     (int)sysconf(_SC_NPROCESSORS_ONLN);
    return port->doorbell != NULL;
}

void ucxm_rings_open(void)
{
    struct stat file;

    if (!ucxm_rings_are_chosen() || !count_near())
        return;
    rings.has_membarrier = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
    rings.bulk_bytes = choose_bulk_bytes();
    rings.fd = base_memory_file_create("heddle rings", (size_t)ucxm.n_pes * port_bytes(rings.bulk_bytes));
    if (rings.fd < 0)
        return;
    for (int i = 0; i < ucxm.n_pes; i++)
        if (!open_port(&ucxm.ports[i])) {
            ucxm_rings_close();
            return;
        }
    if (fstat(rings.fd, &file) == 0)
        rings.place = (struct ucxm_ring_place){getpid(), rings.fd, (uint64_t)file.st_dev,
                                               (uint64_t)file.st_ino, rings.bulk_bytes};
}

struct ucxm_ring_place ucxm_rings_place(void)
{
    return rings.place;
}

void ucxm_rings_close(void)
{
    for (int i = 0; i < ucxm.n_pes; i++) {
        struct ucxm_port *port = &ucxm.ports[i];
        if (port->doorbell)
            munmap(port->doorbell, page_round(sizeof(struct ucxm_doorbell)));
        port->doorbell = NULL;
        ucxm_rings_forget(port, -1);
    }
    if (rings.fd >= 0)
        close(rings.fd);
    rings.fd = -1;
    rings.place = (struct ucxm_ring_place){0};
}

/* ---- Connecting ---- */

#define PATH_BYTES 64

static void find_path(const struct ucxm_ring_place *place, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "/proc/%d/fd/%d", (int)place->pid, (int)place->fd);
}

static bool is_at(const struct ucxm_ring_place *place, const struct stat *file)
{
    return (uint64_t)file->st_dev == place->device && (uint64_t)file->st_ino == place->inode;
}

/* Opens the file of another process; -1: it cannot be opened, or is not the announced one. */
static int open_file(const struct ucxm_ring_place *place)
{
    char path[PATH_BYTES];
    struct stat file;
    int fd;

    find_path(place, path);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &file) != 0 || !is_at(place, &file))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

bool ucxm_rings_exist(const struct ucxm_ring_place *place)
{
    char path[PATH_BYTES];
    struct stat file;

    find_path(place, path);
    return stat(path, &file) == 0 && is_at(place, &file);
}

struct ucxm_ring_out *ucxm_ring_connect(const struct ucxm_port *port, int proc_id, int pe_id,
                                        const struct ucxm_ring_place *place)
{
    struct ucxm_ring_out *ring;
    int fd;

    if (!place->pid || !rings.place.pid || !ucxm.is_near[proc_id] || port->pe_id >= SENDER_PES_MAX ||
        (fd = open_file(place)) < 0)
        return NULL;
    ring = calloc(1, sizeof *ring);
    if (ring) {
        ring->bulk_bytes = place->bulk_bytes;
        ring->data_max = place->bulk_bytes / BULK_SHARE;
        if (ring->data_max > BULK_DATA_MAX)
            ring->data_max = BULK_DATA_MAX;
        ring->memory = map(fd, ring_offset(pe_id, place->bulk_bytes, ucxm.place.proc_id, port->pe_id),
                           ring_bytes(place->bulk_bytes));
        ring->doorbell = map(fd, doorbell_offset(pe_id, place->bulk_bytes), sizeof *ring->doorbell);
    }
    close(fd);
    if (ring && ring->memory && ring->doorbell) {
        ring->must_fence = !rings.has_membarrier || ring->doorbell->senders_fence;
        return ring;
    }
    ucxm_ring_disconnect(ring);
    return NULL;
}

void ucxm_ring_disconnect(struct ucxm_ring_out *ring)
{
    if (ring && ring->memory)
        munmap(ring->memory, ring_bytes(ring->bulk_bytes));
    if (ring && ring->doorbell)
        munmap(ring->doorbell, page_round(sizeof *ring->doorbell));
    free(ring);
}

void ucxm_ring_accept(struct ucxm_port *port, const struct ucxm_port_name *from)
{
    struct ucxm_ring_in *ring;

    if (rings.fd < 0 || from->pe_id >= SENDER_PES_MAX || ucxm_is_failed(from->proc_id))
        return;
    ring = calloc(1, sizeof *ring);
    if (ring)
        ring->memory = map(rings.fd, ring_offset(port->pe_id, rings.bulk_bytes, from->proc_id, from->pe_id),
                           ring_bytes(rings.bulk_bytes));
    if (!ring || !ring->memory) /* the sender relies on it */
        base_fatal(1, "out of memory: cannot receive messages from process %d of %d", from->proc_id,
                   ucxm.place.n_procs);
    ring->proc_id = from->proc_id;
    ring->pe_id = from->pe_id;
    ring->next = port->rings;
    port->rings = ring;
}

/* ---- Data outside the cells ---- */

static inline bool is_bulk(size_t header_bytes, size_t n_bytes)
{
    return base_round_up(header_bytes, 8) + n_bytes > sizeof((struct cell *)NULL)->body;
}

/* The used bytes of a cell with all data of its message. */
static inline size_t cell_bytes(const struct cell *cell)
{
    return offsetof(struct cell, body) + base_round_up(cell->header_bytes, 8) + cell->n_bytes;
}

/* Takes the place of the next data and moves the position behind it; returns the start. */
static inline uint32_t take_bulk(uint32_t *position, size_t n_bytes, uint32_t bulk_bytes)
{
    uint32_t rest = bulk_bytes - *position % bulk_bytes;
    uint32_t start = n_bytes > rest ? *position + rest : *position;

    *position = start + (uint32_t)base_round_up(n_bytes, BASE_CACHE_LINE);
    return start;
}

/* Waits a little until positions up to this end are in use at most, because a receiver that reads makes room soon. False: it
 * has not. */
static bool await_room(const _Atomic uint32_t *seen, uint32_t *known, uint32_t end, uint32_t size)
{
    for (int i = 0; i < FULL_LOOKS; i++) {
        *known = atomic_load_explicit(seen, memory_order_acquire);
        if (end - *known <= size)
            return true;
        base_relax();
    }
    return false;
}

/* Copies the data; false: no room. */
static bool write_bulk(struct ucxm_ring_out *ring, const void *data, size_t n_bytes)
{
    uint32_t tail = ring->bulk_tail;
    uint32_t start = take_bulk(&tail, n_bytes, ring->bulk_bytes);

    if (BASE_UNLIKELY(tail - ring->bulk_known > ring->bulk_bytes) &&
        !await_room(&ring->memory->bulk_seen, &ring->bulk_known, tail, ring->bulk_bytes)) {
        ring->was_full = true;
        return false;
    }
    memcpy(ring->memory->bulk + start % ring->bulk_bytes, data, n_bytes);
    ring->bulk_tail = tail;
    return true;
}

/* The receiver has handled the data before bulk_head. */
static inline void publish_bulk(struct ucxm_ring_in *ring)
{
    if (ring->bulk_head - ring->bulk_told < rings.bulk_bytes / BULK_SHARE)
        return;
    ring->bulk_told = ring->bulk_head;
    atomic_store_explicit(&ring->memory->bulk_seen, ring->bulk_head, memory_order_release);
}

/* ---- Sending ---- */

static bool is_full(struct ucxm_ring_out *ring)
{
    struct ring_memory *memory = ring->memory;

    if (ring->was_full) { /* the receiver does not publish its last few positions */
        ring->head_known = atomic_load_explicit(&memory->head_seen, memory_order_acquire);
        ring->bulk_known = atomic_load_explicit(&memory->bulk_seen, memory_order_acquire);
        ring->was_full = ring->tail - ring->head_known >= PUBLISH_EVERY ||
                         ring->bulk_tail - ring->bulk_known >= ring->bulk_bytes / BULK_SHARE;
    } else {
        ring->was_full = !await_room(&memory->head_seen, &ring->head_known, ring->tail + 1, RING_CELLS);
    }
    return ring->was_full;
}

bool ucxm_ring_send(struct ucxm_peer *peer, const void *header, size_t header_bytes, const void *data,
                    size_t n_bytes)
{
    struct ucxm_ring_out *ring = peer->ring;
    struct cell *cell = &ring->memory->cells[ring->tail % RING_CELLS];

    if (BASE_UNLIKELY(n_bytes > ring->data_max))
        return false;
    if (BASE_UNLIKELY(ring->was_full || ring->tail - ring->head_known >= RING_CELLS) && is_full(ring))
        return false;
    if (is_bulk(header_bytes, n_bytes)) {
        if (BASE_UNLIKELY(!write_bulk(ring, data, n_bytes)))
            return false;
    } else if (n_bytes) {
        memcpy(cell->body + base_round_up(header_bytes, 8), data, n_bytes);
    }
    memcpy(cell->body, header, header_bytes);
    cell->header_bytes = (uint16_t)header_bytes;
    cell->n_bytes = (uint16_t)n_bytes;
    atomic_store_explicit(&cell->turn, ++ring->tail, memory_order_release);
    if (ring->tail != ring->tail_owned + 1) /* not an answer */
        base_own_line(&ring->memory->cells[(ring->tail + OWN_AHEAD - 1) % RING_CELLS]);
    peer->n_sent++;
    if (ring->must_fence)
        atomic_thread_fence(memory_order_seq_cst);
    else
        atomic_signal_fence(memory_order_seq_cst);
    if (BASE_UNLIKELY(atomic_load_explicit(&ring->doorbell->is_asleep, memory_order_relaxed)) &&
        atomic_exchange(&ring->doorbell->is_asleep, false))
        ucxm_send_control(&ucxm.ports[peer->pe_id], peer->ep, UCXM_NUDGE_ID, NULL, 0);
    return true;
}

/* ---- Receiving ---- */

static inline bool has_mail(const struct ucxm_ring_in *ring)
{
    const struct cell *cell = &ring->memory->cells[ring->head % RING_CELLS];

    return atomic_load_explicit(&cell->turn, memory_order_acquire) == ring->head + 1;
}

static inline void expect_answer(const struct ucxm_port *port, const struct ucxm_ring_in *from,
                                 const struct cell *message)
{
    const struct ucxm_peer *peers = port->peers[from->proc_id];
    struct ucxm_ring_out *ring = peers ? peers[from->pe_id].ring : NULL;

    if (ring && ring->tail != ring->tail_owned) {
        bool is_in_cell = !is_bulk(message->header_bytes, message->n_bytes);
        size_t n_bytes = is_in_cell ? cell_bytes(message) : BASE_CACHE_LINE;
        ring->tail_owned = ring->tail;
        for (size_t at = 0; at < n_bytes; at += BASE_CACHE_LINE)
            base_own_line((char *)&ring->memory->cells[ring->tail % RING_CELLS] + at);
    }
}

/* Called for a ring that has mail. At most one round, so that a fast sender cannot occupy the PE. Not part of the poll, which is
 * called more often than there is mail and needs no stack. */
static BASE_NOINLINE int drain(struct ucxm_port *port, struct ucxm_ring_in *ring)
{
    int n_handled = 0;

    do {
        const struct cell *cell = &ring->memory->cells[ring->head % RING_CELLS];
        struct machine_data data = {.bytes = cell->body + base_round_up(cell->header_bytes, 8),
                                    .n_bytes = cell->n_bytes};
        if (is_bulk(cell->header_bytes, data.n_bytes))
            data.bytes = ring->memory->bulk +
                         take_bulk(&ring->bulk_head, data.n_bytes, rings.bulk_bytes) % rings.bulk_bytes;
        ring->n_handled++;
        expect_answer(port, ring, cell);
        ucxm.client.handle(port->pe_id, cell->body, cell->header_bytes, &data);
        n_handled++;
        publish_bulk(ring);
        if (++ring->head % PUBLISH_EVERY == 0)
            atomic_store_explicit(&ring->memory->head_seen, ring->head, memory_order_release);
    } while (n_handled < (int)RING_CELLS && has_mail(ring));
    return n_handled;
}

int ucxm_rings_poll(struct ucxm_port *port)
{
    int n_handled = 0;

    for (struct ucxm_ring_in *ring = port->rings; ring; ring = ring->next)
        if (has_mail(ring))
            n_handled += drain(port, ring);
    return n_handled;
}

uint64_t ucxm_rings_count(const struct ucxm_port *port, const bool *is_left_out)
{
    uint64_t n = 0;

    for (const struct ucxm_ring_in *ring = port->rings; ring; ring = ring->next)
        if (!is_left_out || !is_left_out[ring->proc_id])
            n += ring->n_handled;
    return n;
}

bool ucxm_rings_arm(struct ucxm_port *port)
{
    if (!port->doorbell)
        return true;
    atomic_store(&port->doorbell->is_asleep, true);
    if (port->doorbell->senders_fence) {
        atomic_thread_fence(memory_order_seq_cst);
    } else if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) != 0) {
        ucxm_rings_disarm(port); /* a sender could miss that this port sleeps: the PE polls */
        return false;
    }
    for (const struct ucxm_ring_in *ring = port->rings; ring; ring = ring->next)
        if (has_mail(ring)) {
            ucxm_rings_disarm(port);
            return false;
        }
    return true;
}

void ucxm_rings_disarm(struct ucxm_port *port)
{
    if (port->doorbell)
        atomic_store_explicit(&port->doorbell->is_asleep, false, memory_order_relaxed);
}

void ucxm_rings_forget(struct ucxm_port *port, int proc_id)
{
    struct ucxm_ring_in **link = &port->rings;

    while (*link) {
        struct ucxm_ring_in *ring = *link;
        if (proc_id >= 0 && ring->proc_id != proc_id) {
            link = &ring->next;
            continue;
        }
        while (proc_id >= 0 && has_mail(ring))
            drain(port, ring);
        *link = ring->next;
        munmap(ring->memory, ring_bytes(rings.bulk_bytes));
        free(ring);
    }
}
