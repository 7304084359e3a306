/* SPDX-License-Identifier: BSD-3-Clause
 *
 * staged_send.c: the sending half of staged.h.
 *
 * Invariant: a flow is freed when it has ended and neither its offer nor a piece is pending.
 */
#include "ampi/p2p/p2p_device.h"
#include "ampi/p2p/route/staged.h"
#include "base/log.h"
#include "gpu/copy/pool.h"

/* Maximum number of pending pieces of a message, and of all messages of a PE: each has pinned memory. */
#define PIECES 4
#define PIECES_OF_PE 16

struct flow {
    struct flow *next; /* links of the PE's list */
    struct flow **link;
    struct ampi_offer offer;
    struct ampi_request *request; /* NULL: complete already, because its data could not be read */
    const struct ampi_peer *peer;
    uint64_t inflow;     /* the receiver's */
    size_t wanted_bytes; /* requested by the receiver */
    size_t taken_bytes;  /* of these, assigned to pieces so far */
    size_t sent_bytes;   /* of these, in pieces that have left */
    int n_pieces;        /* pending */
    bool is_offering;    /* the offer is pending */
    bool is_pulled;
    bool is_failed;
    int error; /* CUDA's */
};

struct piece {
    struct gpu_move move;
    struct flow *flow;
    struct ampi_am_header am;
    void *pinned;
    size_t n_bytes;
};

/* By PE. */
static struct {
    struct flow *flows;
    int n_pieces;
} BASE_CACHE_ALIGNED pipes[AMPI_PES_MAX];

static int own_pe(void)
{
    return ult_pe_id(ult_self()->pe);
}

static struct flow *flow_create(const struct ampi_am_header *am, const struct ampi_peer *peer, size_t n_bytes)
{
    struct flow *flow = base_calloc(1, sizeof *flow, "a GPU message to another process");
    struct flow **list = &pipes[own_pe()].flows;

    flow->offer.am = *am;
    flow->offer.am.flags = (uint8_t)((am->flags & ~AMPI_AM_SYNC) | AMPI_AM_STAGED);
    flow->offer.am.cookie = (uint64_t)(uintptr_t)flow;
    flow->offer.n_bytes = n_bytes;
    flow->peer = peer;
    flow->next = *list;
    flow->link = list;
    if (*list)
        (*list)->link = &flow->next;
    *list = flow;
    return flow;
}

static void flow_end(struct flow *flow)
{
    struct ampi_request *request = flow->request;

    *flow->link = flow->next;
    if (flow->next)
        flow->next->link = flow->link;
    if (request) {
        request->u.p2p.gpu_error = flow->error;
        ampi_remote_send_done(request, flow->is_failed ? MACHINE_PEER_FAILED : MACHINE_DONE);
    }
    free(flow);
}

/* Sends a last piece that reports that the data cannot be read. */
static void send_failure_piece(const struct flow *flow)
{
    struct ampi_am_header am = {.kind = AMPI_AM_PIECE,
                                .flags = AMPI_AM_FAILED,
                                .context_id = flow->sent_bytes,
                                .tag = flow->error,
                                .cookie = flow->inflow};

    ampi_procs_post(flow->peer->proc_id, flow->peer->pe_id, &am, NULL, 0);
}

static void start_piece(struct flow *flow);

/* Continues the flow; may free it. */
static void flow_step(struct flow *flow)
{
    int pe_id = own_pe();

    while (flow->is_pulled && !flow->error && !flow->is_failed && flow->taken_bytes < flow->wanted_bytes &&
           flow->n_pieces < PIECES && pipes[pe_id].n_pieces < PIECES_OF_PE)
        start_piece(flow);
    if (flow->n_pieces > 0 || flow->is_offering)
        return;
    if (flow->is_failed) {
        flow_end(flow);
    } else if (flow->is_pulled && (flow->error || flow->sent_bytes == flow->wanted_bytes)) {
        if (flow->error)
            send_failure_piece(flow);
        flow_end(flow);
    }
}

static void piece_end(struct piece *piece)
{
    struct flow *flow = piece->flow, *next;
    int pe_id = own_pe();
    bool was_full = pipes[pe_id].n_pieces == PIECES_OF_PE;

    gpu_pinned_put(piece->pinned);
    free(piece);
    flow->n_pieces--;
    pipes[pe_id].n_pieces--;
    flow_step(flow);
    for (flow = pipes[pe_id].flows; was_full && flow; flow = next) { /* others may have waited for it */
        next = flow->next;
        flow_step(flow);
    }
}

static void piece_sent(void *arg, int result)
{
    struct piece *piece = arg;

    if (result < 0)
        piece->flow->is_failed = true;
    else
        piece->flow->sent_bytes += piece->n_bytes;
    piece_end(piece);
}

/* A piece is in pinned memory. */
static void piece_read(struct gpu_move *move, int error)
{
    struct piece *piece = BASE_CONTAINER(move, struct piece, move);
    struct flow *flow = piece->flow;
    int result;

    if (BASE_UNLIKELY(error) && !flow->error)
        flow->error = error;
    if (flow->error || flow->is_failed) {
        piece_end(piece);
        return;
    }
    result =
        ampi_machine->send(own_pe(), flow->peer->proc_id, flow->peer->pe_id, &piece->am, sizeof piece->am,
                           piece->pinned, piece->n_bytes, MACHINE_HOST, piece_sent, piece);
    if (result != MACHINE_PENDING)
        piece_sent(piece, result);
}

/* Smaller for smaller messages, so that the steps overlap. */
static size_t piece_bytes(const struct flow *flow)
{
    size_t n_bytes = 2 * GPU_PINNED_SMALL;

    while (n_bytes < AMPI_STAGED_PIECE_BYTES && n_bytes < flow->wanted_bytes / 4)
        n_bytes *= 2;
    return n_bytes;
}

static void start_piece(struct flow *flow)
{
    size_t from = flow->taken_bytes, size;
    size_t n_bytes = base_min_u64(piece_bytes(flow), flow->wanted_bytes - from);
    void *pinned = gpu_pinned_get(n_bytes, &size, &flow->error);
    struct piece *piece;

    if (!pinned)
        return;
    piece = base_calloc(1, sizeof *piece, "a GPU message to another process");
    *piece = (struct piece){.flow = flow, .pinned = pinned, .n_bytes = n_bytes};
    piece->am = (struct ampi_am_header){.kind = AMPI_AM_PIECE,
                                        .src_pe = (uint16_t)own_pe(),
                                        .src_proc = (uint32_t)ampi_job.proc_id,
                                        .context_id = from,
                                        .cookie = flow->inflow};
    piece->move.src = ampi_request_gpu_data(flow->request);
    piece->move.src_skip_bytes = from;
    piece->move.dst = ampi_bytes_gpu_data(pinned, n_bytes);
    piece->move.n_bytes = n_bytes;
    piece->move.done = piece_read;
    flow->taken_bytes += n_bytes;
    flow->n_pieces++;
    pipes[own_pe()].n_pieces++;
    gpu_move_start(&piece->move);
}

/* ---- Offers ---- */

static void offered(void *arg, int result)
{
    struct flow *flow = arg;

    flow->is_offering = false;
    flow->is_failed |= result < 0;
    flow_step(flow);
}

static void offer(struct flow *flow)
{
    int result;

    flow->is_offering = true;
    result = ampi_machine->send(own_pe(), flow->peer->proc_id, flow->peer->pe_id, &flow->offer,
                                sizeof flow->offer, NULL, 0, MACHINE_HOST, offered, flow);
    if (result != MACHINE_PENDING)
        offered(flow, result);
}

void ampi_staged_send(struct ampi_request *request, const struct ampi_peer *peer, size_t n_bytes)
{
    struct flow *flow = flow_create(&request->u.p2p.am, peer, n_bytes);

    flow->request = request;
    offer(flow);
}

void ampi_staged_send_failure(const struct ampi_am_header *am, const struct ampi_peer *peer, size_t n_bytes,
                              int error)
{
    struct flow *flow = flow_create(am, peer, n_bytes);

    flow->error = error;
    offer(flow);
}

void ampi_staged_handle_pull(int pe_id, const struct ampi_am_header *am)
{
    struct flow *flow = (struct flow *)(uintptr_t)am->cookie;

    (void)pe_id;
    flow->inflow = am->context_id;
    flow->wanted_bytes = (uint64_t)(uint32_t)am->tag << 32 | am->seq;
    flow->is_pulled = true;
    flow_step(flow);
}

void ampi_staged_send_handle_failure(int pe_id, int proc_id)
{
    struct flow *flow = pipes[pe_id].flows, *next;

    for (; flow; flow = next) {
        next = flow->next;
        if (flow->peer->proc_id == proc_id) {
            flow->is_failed = true;
            flow_step(flow);
        }
    }
}
