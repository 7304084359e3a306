/* SPDX-License-Identifier: BSD-3-Clause
 *
 * remote_peer.h: the state of a PE about PEs of other processes; for remote.c and remote_send.c alone.
 */
#ifndef AMPI_P2P_REMOTE_PEER_H
#define AMPI_P2P_REMOTE_PEER_H

#include "ampi/procs/procs.h"

/* Flow control: the window limits the total size of one PE's messages that another PE has not received yet. Each
 * counts as its data plus this many bytes. Beyond the window a standard send waits for its receive, as a synchronous
 * one does. As receives take messages, the receiver returns the window in large pieces. */
#define AMPI_WINDOW_MESSAGE_BYTES 256u

/* The window: smaller in a job of many processes, all of which may send to one. */
static inline size_t ampi_remote_window_bytes(void)
{
    const size_t most = (size_t)64 << 20, least = (size_t)1 << 20;
    size_t share = ((size_t)1 << 30) / (size_t)ampi_job.n_procs;

    return share > most ? most : share < least ? least : share;
}

struct ampi_p2p;
struct ampi_request;
struct waiting;

/* A PE of another process, from the view of one of this process's. */
struct ampi_peer {
    int proc_id;
    int pe_id;
    uint32_t next_sent;     /* number of the next message to it */
    uint32_t next_expected; /* number of the next message from it */
    struct waiting *early;  /* messages from it with later numbers, in order */
    struct waiting *early_last;
    size_t used_bytes;      /* of the window, by messages to it */
    size_t owed_bytes;      /* of the window, received and not returned yet */
    void *announced;        /* +check usage: the next message's data, malloc'ed; NULL: not known */
    uint32_t announced_seq; /* the announcement's number */
};

struct ampi_peers_of_proc {
    struct ampi_peer **peers; /* by PE; NULL: no message so far */
    int n_pes;                /* number of entries */
};

/* A cache entry: the location of a rank, whose computation takes several divisions. */
struct ampi_route_entry {
    int world_rank_plus_1; /* 0: empty */
    struct ampi_peer *peer;
};
#define AMPI_ROUTE_ENTRIES 256 /* index: the low bits of the world rank */

/* State of a PE. */
struct ampi_remote {
    struct ampi_peers_of_proc *procs; /* by process */
    struct waiting *orphans_first;
    struct waiting *orphans_last;
    uint32_t generation;             /* of the communicators at the last attempt with the orphans */
    struct ampi_route_entry *routes; /* AMPI_ROUTE_ENTRIES entries; NULL: nothing was sent yet */
    struct ampi_parcel *parcels;     /* free ones */
    int n_parcels_out;               /* held by the machine */
    struct ampi_request *unmatched;  /* sends that wait to be matched */
} BASE_CACHE_ALIGNED;
extern struct ampi_remote ampi_remotes[AMPI_PES_MAX];

struct ampi_peer *ampi_remote_add_peer(struct ampi_remote *remote, int proc_id, int pe_id) BASE_COLD;

static inline struct ampi_peer *ampi_remote_peer(struct ampi_remote *remote, int proc_id, int pe_id)
{
    if (BASE_UNLIKELY(!remote->procs || pe_id >= remote->procs[proc_id].n_pes ||
                      !remote->procs[proc_id].peers[pe_id]))
        return ampi_remote_add_peer(remote, proc_id, pe_id);
    return remote->procs[proc_id].peers[pe_id];
}

struct ampi_p2p;

/* The machine has finished with a send's buffer, or the process has failed. (remote_send.c) */
void ampi_remote_send_done(struct ampi_request *request, int result);

/* The machine's kind of memory for sending from a GPU buffer; MACHINE_HOST: only from a copy. */
enum machine_memory ampi_remote_memory(const struct ampi_p2p *p2p);

/* Reports once that messages are slow without such support. */
void ampi_remote_log_slow(void);

#endif
