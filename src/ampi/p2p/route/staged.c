/* SPDX-License-Identifier: BSD-3-Clause
 *
 * staged.c: the receiving half of staged.h.
 *
 * Invariant: a flow is freed when every piece from its sender has arrived and none is pending, also after
 * an error; or when its sender has failed.
 */
#include "ampi/p2p/route/staged.h"

#include "ampi/p2p/p2p_device.h"
#include "base/log.h"
#include "gpu/copy/pool.h"

/* Maximum number of a PE's pieces on their way to a GPU: each has pinned memory. They never wait for
 * others, so those that wait for memory get some. */
#define PIECES_OF_PE 16

struct flow {
    struct flow *next; /* links of the PE's list */
    struct flow **link;
    struct ampi_request *recv;
    const struct ampi_peer *peer;
    size_t wanted_bytes; /* number of bytes that will arrive */
    size_t done_bytes;   /* of these, number of bytes handled */
    int n_pieces;        /* pieces that have arrived and are pending */
    bool is_failed;
    int error; /* CUDA's */
};

struct piece {
    struct gpu_move move;
    struct piece *next; /* next in the PE's list of pieces waiting for pinned memory */
    struct flow *flow;
    size_t offset;
    size_t n_bytes;
    void *token;     /* of data that the machine keeps until it is fetched; else NULL */
    void *pinned;    /* destination of the fetch; NULL: other memory */
    void *memory;    /* the same, malloc'ed */
    bool is_counted; /* in the PE's count */
};

/* By PE. */
static struct {
    struct flow *flows;
    struct piece *waiting_first;
    struct piece *waiting_last;
    int n_pieces;
} BASE_CACHE_ALIGNED pipes[AMPI_PES_MAX];

static int own_pe(void)
{
    return ult_pe_id(ult_self()->pe);
}

/* ---- Flows ---- */

/* May free the flow. */
static void end_if_over(struct flow *flow)
{
    struct ampi_request *recv = flow->recv;

    if (flow->n_pieces > 0 || (flow->done_bytes < flow->wanted_bytes && !flow->is_failed))
        return;
    *flow->link = flow->next;
    if (flow->next)
        flow->next->link = flow->link;
    if (BASE_UNLIKELY(flow->is_failed))
        recv->status.MPI_ERROR = MPI_ERR_PROC_ABORTED;
    else if (BASE_UNLIKELY(flow->error))
        recv->status.MPI_ERROR = ampi_device_error(recv->owner, flow->error);
    free(flow);
    ampi_request_complete(recv);
}

void ampi_staged_receive(struct ampi_request *recv, const struct ampi_peer *peer, uint64_t cookie,
                         size_t n_bytes, int source, int tag)
{
    size_t room_bytes = (size_t)(recv->u.p2p.count * recv->u.p2p.type->size_bytes);
    struct flow *flow = base_calloc(1, sizeof *flow, "a GPU message from another process");
    struct flow **list = &pipes[own_pe()].flows;
    struct ampi_am_header am = {
        .kind = AMPI_AM_PULL, .context_id = (uint64_t)(uintptr_t)flow, .cookie = cookie};

    ampi_p2p_fill_status(&recv->status, source, tag, n_bytes, room_bytes);
    flow->recv = recv;
    flow->peer = peer;
    flow->wanted_bytes = base_min_u64(n_bytes, room_bytes);
    flow->next = *list;
    flow->link = list;
    if (*list)
        (*list)->link = &flow->next;
    *list = flow;
    am.seq = (uint32_t)flow->wanted_bytes;
    am.tag = (int32_t)(uint32_t)(flow->wanted_bytes >> 32);
    flow->is_failed = !ampi_procs_post(peer->proc_id, peer->pe_id, &am, NULL, 0);
    end_if_over(flow);
}

/* ---- Pieces ---- */

static void fetch(struct piece *piece);

static void serve_waiting(int pe_id)
{
    struct piece *piece;

    while ((piece = pipes[pe_id].waiting_first) && pipes[pe_id].n_pieces < PIECES_OF_PE) {
        pipes[pe_id].waiting_first = piece->next;
        fetch(piece);
    }
}

static void piece_end(struct piece *piece)
{
    struct flow *flow = piece->flow;
    int pe_id = own_pe();

    if (piece->token)
        ampi_machine->release(pe_id, piece->token);
    if (piece->pinned)
        gpu_pinned_put(piece->pinned);
    free(piece->memory);
    pipes[pe_id].n_pieces -= piece->is_counted;
    flow->n_pieces--;
    flow->done_bytes += piece->n_bytes;
    free(piece);
    end_if_over(flow);
    serve_waiting(pe_id);
}

static void moved(struct gpu_move *move, int error)
{
    struct piece *piece = BASE_CONTAINER(move, struct piece, move);

    if (BASE_UNLIKELY(error) && !piece->flow->error)
        piece->flow->error = error;
    piece_end(piece);
}

/* The piece's bytes are here: moves them to their destination. */
static void place(struct piece *piece, const void *bytes)
{
    const struct ampi_p2p *p2p = &piece->flow->recv->u.p2p;
    struct ampi_cursor cursor;

    if (BASE_UNLIKELY(piece->flow->error || piece->flow->is_failed)) {
        piece_end(piece);
    } else if (p2p->is_device) {
        piece->move.dst = ampi_request_gpu_data(piece->flow->recv);
        piece->move.dst_skip_bytes = piece->offset;
        piece->move.src = ampi_bytes_gpu_data(bytes, piece->n_bytes);
        piece->move.n_bytes = piece->n_bytes;
        piece->move.done = moved;
        gpu_move_start(&piece->move);
    } else {
        ampi_cursor_init(&cursor, p2p->buf, p2p->count, p2p->type);
        ampi_cursor_seek(&cursor, (MPI_Count)piece->offset);
        ampi_cursor_unpack(&cursor, bytes, piece->n_bytes);
        piece_end(piece);
    }
}

static void fetched(void *arg, int result)
{
    struct piece *piece = arg;

    piece->flow->is_failed |= result < 0;
    if (piece->pinned || piece->memory)
        place(piece, piece->pinned ? piece->pinned : piece->memory);
    else
        piece_end(piece);
}

/* Fetches to pinned memory on the way to a GPU, or directly to a host buffer that is one block. */
static void fetch(struct piece *piece)
{
    const struct ampi_p2p *p2p = &piece->flow->recv->u.p2p;
    int pe_id = own_pe(), result, error = 0;
    void *token = piece->token, *to;
    size_t size;

    if (p2p->is_device) {
        piece->pinned = gpu_pinned_get(piece->n_bytes, &size, &error);
        piece->is_counted = true;
        pipes[pe_id].n_pieces++;
    }
    if (piece->pinned)
        to = piece->pinned;
    else if (!p2p->is_device && ampi_type_is_block(p2p->type, p2p->count))
        to = ampi_type_address(p2p->buf, p2p->type->true_lb_bytes + (MPI_Count)piece->offset);
    else
        to = piece->memory = base_malloc(piece->n_bytes, "a GPU message from another process");
    piece->token = NULL;
    result = ampi_machine->fetch(pe_id, piece->flow->peer->proc_id, token, to, piece->n_bytes, MACHINE_HOST,
                                 fetched, piece);
    if (result != MACHINE_PENDING)
        fetched(piece, result);
}

static void wait_for_memory(struct piece *piece, int pe_id)
{
    if (pipes[pe_id].waiting_first)
        pipes[pe_id].waiting_last->next = piece;
    else
        pipes[pe_id].waiting_first = piece;
    pipes[pe_id].waiting_last = piece;
}

/* The piece arrived with its bytes; true: they are kept. */
static bool place_now(struct piece *piece, const struct machine_data *data)
{
    bool is_device = piece->flow->recv->u.p2p.is_device;
    bool is_kept = is_device && data->can_keep;

    if (is_kept)
        piece->token = data->token;
    else if (is_device)
        piece->memory = base_malloc(data->n_bytes, "a GPU message from another process");
    if (piece->memory)
        memcpy(piece->memory, data->bytes, data->n_bytes);
    place(piece, piece->memory ? piece->memory : data->bytes);
    return is_kept;
}

bool ampi_staged_handle_piece(int pe_id, const struct ampi_am_header *am, const struct machine_data *data)
{
    struct flow *flow = (struct flow *)(uintptr_t)am->cookie;
    struct piece *piece;

    if (am->flags & AMPI_AM_FAILED) {
        flow->error = am->tag;
        flow->wanted_bytes = am->context_id;
        end_if_over(flow);
        return false;
    }
    piece = base_calloc(1, sizeof *piece, "a GPU message from another process");
    piece->flow = flow;
    piece->offset = am->context_id;
    piece->n_bytes = data->n_bytes;
    flow->n_pieces++;
    if (BASE_UNLIKELY(flow->error || flow->is_failed)) {
        piece_end(piece);
        return false;
    }
    if (data->bytes)
        return place_now(piece, data);
    piece->token = data->token;
    if (flow->recv->u.p2p.is_device && pipes[pe_id].n_pieces >= PIECES_OF_PE)
        wait_for_memory(piece, pe_id);
    else
        fetch(piece);
    return true;
}

/* ---- Failures ---- */

/* Data of a failed process that the machine keeps is not released. */
static void drop_waiting(int pe_id, int proc_id)
{
    struct piece *piece = pipes[pe_id].waiting_first;

    pipes[pe_id].waiting_first = NULL;
    while (piece) {
        struct piece *next = piece->next;
        piece->next = NULL;
        if (piece->flow->peer->proc_id != proc_id) {
            wait_for_memory(piece, pe_id);
        } else {
            piece->flow->n_pieces--;
            free(piece);
        }
        piece = next;
    }
}

void ampi_staged_handle_failure(int pe_id, int proc_id)
{
    struct flow *flow = pipes[pe_id].flows, *next;

    drop_waiting(pe_id, proc_id);
    for (; flow; flow = next) {
        next = flow->next;
        if (flow->peer->proc_id == proc_id) {
            flow->is_failed = true;
            end_if_over(flow);
        }
    }
    ampi_staged_send_handle_failure(pe_id, proc_id);
}
