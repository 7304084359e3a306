/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_remote.c: operations on targets of other processes, at the origin. See rma_remote.h;
 * rma_remote_target.c is the target's side, rma_remote_lock.c has the locks.
 */
#include "ampi/rma/rma_remote.h"

#include <string.h>

#include "ampi/rma/rma_remote_header.h"
#include "base/log.h"

/* Maximum data size of a message. */
#define DATA_BYTES ((size_t)128 << 10)

/* Maximum number of ranges in a message. */
#define MESSAGE_PIECES 512

/* The same if the target pulls the data. The target's PE does nothing else meanwhile. */
#define PULLED_BYTES ((size_t)1 << 20)

/* An operation of the program, split into as many messages as its data needs. */
struct operation {
    struct ampi_win *win;
    struct ampi_request *request; /* NULL: none */
    int n_left;                   /* unanswered messages, and one while they are being sent */
    int error;
    struct ampi_rma_side result; /* type NULL: none; else it holds a reference */
    char *staged;                /* packed data for a result in GPU memory */
    size_t n_bytes;              /* of data */
    const char *pulled;          /* the data, which the target pulls (rma_pull.c); NULL: it is sent */
    struct ampi_rma_head head;   /* pulled: of all messages */
    uintptr_t to;                /* pulled: address at the target */
};

/* A message that waits for its answer; identified by the cookie. */
struct ampi_rma_part {
    struct operation *operation;
    size_t offset;                      /* of its data */
    int target;                         /* rank */
    uint64_t number;                    /* in the order of the handle's parts */
    struct ampi_rma_part *next, **link; /* in the handle's list */
};

static void send_rest(struct ampi_rma_part *part, size_t done);

/* ---- Answers ---- */

int ampi_rma_raise_remote(struct ampi_win *win, int error)
{
    char text[AMPI_FAILED_TEXT_MAX];

    if (error == MPI_ERR_RMA_RANGE)
        return ampi_win_raise(win, error, "an operation accessed memory that its target has not attached");
    if (error == MPI_ERR_PROC_ABORTED) {
        ampi_failed_describe(win->comm->local->layout->group, text);
        return ampi_win_raise(win, error, "%s", text);
    }
    if (error == MPI_ERR_WIN)
        return ampi_win_raise(win, error, "the target has freed the window");
    return ampi_win_raise(win, error, "an operation failed at its target");
}

/* Returns its error, unless its request has it. */
static int finish(struct operation *operation)
{
    struct ampi_win *win = operation->win;
    int error = MPI_SUCCESS;

    if (operation->staged && !operation->error) {
        struct gpu_data to =
            ampi_type_gpu_data(operation->result.buf, operation->result.count, operation->result.type);
        struct gpu_data from = ampi_bytes_gpu_data(operation->staged, operation->n_bytes);
        error = gpu_move_now(&to, &from, operation->n_bytes);
        operation->error = error ? ampi_device_error(win->owner, error) : MPI_SUCCESS;
    }
    free(operation->staged);
    if (operation->result.type)
        ampi_type_unref(operation->result.type);
    error = operation->error;
    if (operation->request) {
        operation->request->status.MPI_ERROR = error;
        ampi_request_complete(operation->request);
        error = MPI_SUCCESS;
    }
    free(operation);
    return error;
}

static struct ampi_rma_part *add_part(struct operation *operation, int target, size_t offset)
{
    struct ampi_rma_part *part = base_malloc(sizeof *part, "a one-sided operation");
    struct ampi_win *win = operation->win;
    struct ampi_rma_part **first = &win->parts;

    *part = (struct ampi_rma_part){operation, offset, target, win->n_begun++, *first, first};
    if (*first)
        (*first)->link = &part->next;
    *first = part;
    operation->n_left++;
    win->n_under_way++;
    return part;
}

static void remove_part(struct ampi_rma_part *part)
{
    *part->link = part->next;
    if (part->next)
        part->next->link = part->link;
    free(part);
}

/* Returns the error of the operation if this was its last part. */
static int drop_part(struct operation *operation)
{
    return --operation->n_left == 0 ? finish(operation) : MPI_SUCCESS;
}

/* Called when all parts have been sent. */
static void end_sending(struct operation *operation)
{
    struct ampi_win *win = operation->win;
    int error = drop_part(operation);

    if (BASE_UNLIKELY(error))
        win->error = error;
}

uint32_t ampi_rma_count_under_way(const struct ampi_win *win, int rank)
{
    uint32_t n = 0;

    for (const struct ampi_rma_part *part = win->parts; part; part = part->next)
        n += part->target == rank;
    return n;
}

/* Called when the message of a part is complete. */
static void end_part(struct ampi_rma_part *part)
{
    struct ampi_win *win = part->operation->win;
    int target = part->target, error = drop_part(part->operation);
    uint64_t number = part->number;

    remove_part(part);
    win->n_under_way--;
    if (BASE_UNLIKELY(ampi_rma_checker.settled != NULL) && win->n_under_way == 0)
        ampi_rma_checker.settled(win);
    ampi_epoch_count_down(win, number, target, error);
}

void ampi_rma_handle_answer(const struct ampi_am_header *am, const void *bytes, size_t n_bytes)
{
    struct ampi_rma_part *part = (struct ampi_rma_part *)(uintptr_t)am->cookie;
    struct operation *operation = part->operation;
    struct ampi_cursor cursor;

    if (BASE_UNLIKELY(am->flags & AMPI_RMA_SEND_REST)) {
        uint64_t done;
        memcpy(&done, bytes, sizeof done);
        send_rest(part, done);
        return;
    }
    if (am->seq && !operation->error)
        operation->error = (int)am->seq;
    if (n_bytes > 0 && operation->staged) {
        memcpy(operation->staged + part->offset, bytes, n_bytes);
    } else if (n_bytes > 0) {
        ampi_cursor_init(&cursor, operation->result.buf, operation->result.count, operation->result.type);
        ampi_cursor_seek(&cursor, (MPI_Count)part->offset);
        ampi_cursor_unpack(&cursor, bytes, n_bytes);
    }
    end_part(part);
}

void ampi_rma_part_end(struct ampi_rma_part *part, int error)
{
    if (error && !part->operation->error)
        part->operation->error = error;
    end_part(part);
}

void ampi_rma_handle_key(const struct ampi_am_header *am, const void *bytes, size_t n_bytes)
{
    struct ampi_rma_part *part = (struct ampi_rma_part *)(uintptr_t)am->cookie;

    ampi_rma_access_handle_key(part->operation->win, am->source, bytes, n_bytes);
    end_part(part);
}

/* ---- Sending ---- */

struct ampi_am_header ampi_rma_am(const struct ampi_win *win, enum ampi_rma_message message, int to)
{
    return (struct ampi_am_header){.kind = AMPI_AM_RMA,
                                   .context_id = win->shared->comm->context_id,
                                   .tag = message,
                                   .source = win->rank,
                                   .dest = to};
}

bool ampi_rma_post(const struct ampi_win_shared *shared, const struct ampi_am_header *am, void *data,
                   size_t n_bytes)
{
    int world_rank = ampi_group_world_rank(shared->comm->side[0].layout->group, am->dest);
    int pe_id = ampi_procs_pe_of(world_rank);

    if (BASE_UNLIKELY(pe_id < 0)) {
        free(data);
        return false;
    }
    return ampi_procs_post(ampi_procs_of_rank(world_rank), pe_id, am, data, n_bytes);
}

/* Sends the message of a part of an operation: head, pieces, data. */
static void send_message(struct ampi_rma_part *part, const struct ampi_rma_head *head,
                         const struct ampi_rma_piece *pieces, const void *data, size_t data_bytes)
{
    struct ampi_win *win = part->operation->win;
    struct ampi_am_header am = ampi_rma_am(win, AMPI_RMA_OP, part->target);
    size_t pieces_bytes = (size_t)head->n_pieces * sizeof *pieces;
    char *message = base_malloc(sizeof *head + pieces_bytes + data_bytes, "a one-sided operation");

    memcpy(message, head, sizeof *head);
    memcpy(message + sizeof *head, pieces, pieces_bytes);
    if (data_bytes)
        memcpy(message + sizeof *head + pieces_bytes, data, data_bytes);
    am.cookie = (uintptr_t)part;
    if (BASE_UNLIKELY(!ampi_rma_post(win->shared, &am, message, sizeof *head + pieces_bytes + data_bytes))) {
        am.seq = MPI_ERR_PROC_ABORTED;
        ampi_rma_handle_answer(&am, NULL, 0);
    }
}

static void send_part(struct operation *operation, int rank, const struct ampi_rma_head *head,
                      const struct ampi_rma_piece *pieces, const char *data, size_t offset)
{
    size_t data_bytes = data ? head->n_bytes * (head->kind == AMPI_RMA_COMPARE_AND_SWAP ? 2 : 1) : 0;

    send_message(add_part(operation, rank, offset), head, pieces, data, data_bytes);
}

static const struct ampi_request_kind rma_kind = {.name = "one-sided operation"};

static struct operation *begin(struct ampi_rma *rma)
{
    struct operation *operation = base_calloc(1, sizeof *operation, "a one-sided operation");

    operation->win = rma->win;
    operation->n_left = 1;
    if (rma->request) {
        operation->request = ampi_request_create(rma->win->owner, &rma_kind, NULL, false);
        *rma->request = (MPI_Request)operation->request;
    }
    return operation;
}

struct ampi_rma_part *ampi_rma_part_begin(struct ampi_rma *rma)
{
    struct operation *operation = begin(rma);
    struct ampi_rma_part *part = add_part(operation, rma->rank, 0);

    operation->n_left--; /* no more parts are sent */
    return part;
}

static void set_result(struct operation *operation, const struct ampi_rma_side *result, size_t n_bytes)
{
    operation->result = *result;
    operation->n_bytes = n_bytes;
    ampi_type_ref(result->type);
    if (ampi_device_has(result->buf, result->count, result->type))
        operation->staged = base_malloc(n_bytes, "the result of a one-sided operation");
}

/* The origin's data, packed piece by piece; data in GPU memory is first packed as a whole. */
struct input {
    struct ampi_cursor cursor;
    char *staged; /* NULL: none */
    size_t at;
};

static int input_begin(struct input *input, struct ampi_win *win, const struct ampi_rma_side *origin)
{
    size_t n_bytes = (size_t)ampi_rma_bytes(origin);
    struct gpu_data to, from;
    int error;

    input->staged = NULL;
    input->at = 0;
    if (BASE_LIKELY(!ampi_device_has(origin->buf, origin->count, origin->type))) {
        ampi_cursor_init(&input->cursor, origin->buf, origin->count, origin->type);
        return MPI_SUCCESS;
    }
    input->staged = base_malloc(n_bytes, "data of a one-sided operation");
    to = ampi_bytes_gpu_data(input->staged, n_bytes);
    from = ampi_type_gpu_data(origin->buf, origin->count, origin->type);
    error = gpu_move_wait(&to, &from, n_bytes);
    if (!error)
        return MPI_SUCCESS;
    free(input->staged);
    return ampi_win_raise(win, ampi_device_class(error), AMPI_DEVICE_FAILED, gpu_error_text(error));
}

static void input_take(struct input *input, char *out, size_t n_bytes)
{
    if (input->staged) {
        memcpy(out, input->staged + input->at, n_bytes);
        input->at += n_bytes;
    } else {
        ampi_cursor_pack(&input->cursor, out, n_bytes);
    }
}

/* Sends an operation: the messages for n_bytes of the target's data. input NULL: no origin data. */
static void send_all(struct operation *operation, struct ampi_rma *rma, struct ampi_rma_head head,
                     struct input *input, size_t n_bytes)
{
    struct ampi_rma_piece *pieces = base_malloc(MESSAGE_PIECES * sizeof *pieces, "a one-sided operation");
    size_t elem_bytes = ampi_rma_elem_bytes((enum ampi_basic)head.basic);
    char *data = input ? base_malloc(base_min_u64(n_bytes, DATA_BYTES) + 1, "a one-sided operation") : NULL;
    struct ampi_cursor at;
    size_t done = 0, some;

    ampi_cursor_init(&at, rma->target.buf, rma->target.count, rma->target.type);
    while (done < n_bytes) {
        head.n_pieces = (uint32_t)ampi_rma_next_pieces(
            &at, elem_bytes, base_min_u64(n_bytes - done, DATA_BYTES), pieces, MESSAGE_PIECES, &some);
        head.n_bytes = some;
        if (input)
            input_take(input, data, some);
        send_part(operation, rma->rank, &head, pieces, data, done);
        done += some;
    }
    free(data);
    free(pieces);
    end_sending(operation);
}

/* ---- Data that the target pulls ---- */

static size_t pulled_step(const struct operation *operation)
{
    size_t elem_bytes = ampi_rma_elem_bytes((enum ampi_basic)operation->head.basic);

    return PULLED_BYTES / elem_bytes * elem_bytes;
}

static void send_addresses(struct operation *operation, const struct ampi_rma *rma)
{
    size_t step = pulled_step(operation);

    operation->head.is_pulled = true;
    operation->head.n_pieces = 1;
    for (size_t done = 0; done < operation->n_bytes; done += step) {
        struct ampi_rma_piece piece = {operation->to + done, base_min_u64(step, operation->n_bytes - done)};
        uint64_t from = (uintptr_t)operation->pulled + done;
        operation->head.n_bytes = piece.n_bytes;
        send_message(add_part(operation, rma->rank, done), &operation->head, &piece, &from, sizeof from);
    }
    end_sending(operation);
}

/* Sends the data of a part behind the first `done` bytes, which the target has copied. */
static void send_rest(struct ampi_rma_part *part, size_t done)
{
    struct operation *operation = part->operation;
    size_t left = base_min_u64(pulled_step(operation), operation->n_bytes - part->offset) - done;
    struct ampi_rma_piece piece = {operation->to + part->offset + done, left};

    operation->head.is_pulled = false;
    operation->head.n_bytes = left;
    send_message(part, &operation->head, &piece, operation->pulled + part->offset + done, left);
}

int ampi_rma_remote_put(struct ampi_rma *rma)
{
    struct ampi_rma_head head = {.kind = AMPI_RMA_PLAIN, .op = (uint16_t)(uintptr_t)MPI_REPLACE};
    struct input input;
    int error;

    if (ampi_rma_access(rma, true))
        return MPI_SUCCESS;
    if ((error = input_begin(&input, rma->win, &rma->origin)))
        return error;
    send_all(begin(rma), rma, head, &input, (size_t)ampi_rma_bytes(&rma->origin));
    free(input.staged);
    return MPI_SUCCESS;
}

int ampi_rma_remote_get(struct ampi_rma *rma)
{
    struct ampi_rma_head head = {
        .kind = AMPI_RMA_PLAIN, .op = (uint16_t)(uintptr_t)MPI_NO_OP, .is_fetching = true};
    size_t n_bytes = (size_t)ampi_rma_bytes(&rma->target);
    struct operation *operation;

    if (ampi_rma_access(rma, false))
        return MPI_SUCCESS;
    operation = begin(rma);
    set_result(operation, &rma->origin, n_bytes);
    send_all(operation, rma, head, NULL, n_bytes);
    return MPI_SUCCESS;
}

/* Keeps accumulates on one target in order: see rma_remote.h. Those of a window without order are recorded, too,
 * because MPI_Win_set_info may demand an order for the next ones. */
static int keep_order(struct ampi_rma *rma)
{
    struct ampi_win *win = rma->win;
    int error = MPI_SUCCESS;

    if (!win->is_unordered && win->n_under_way > 0 && ampi_win_bit(win->combining_at, rma->rank))
        error = ampi_epoch_drain_remote(win, rma->rank);
    if (win->n_under_way == 0 && win->combining_at)
        memset(win->combining_at, 0, ((size_t)win->shared->n_ranks + 63) / 64 * sizeof *win->combining_at);
    ampi_win_set_bit(win, &win->combining_at, rma->rank);
    return error;
}

int ampi_rma_remote_accumulate(struct ampi_rma *rma)
{
    bool has_input = rma->op->predefined != MPI_NO_OP;
    struct ampi_rma_head head = {.kind = AMPI_RMA_COMBINE,
                                 .op = (uint16_t)(uintptr_t)rma->op->predefined,
                                 .basic = (uint16_t)rma->target.type->basic,
                                 .is_fetching = rma->result.type != NULL};
    size_t n_bytes = (size_t)ampi_rma_bytes(has_input ? &rma->origin : &rma->target);
    struct operation *operation;
    struct input input;
    int error = keep_order(rma);

    if (!error && ampi_rma_can_pull(rma)) {
        operation = begin(rma);
        operation->n_bytes = n_bytes;
        operation->head = head;
        operation->pulled = ampi_type_address(rma->origin.buf, rma->origin.type->true_lb_bytes);
        operation->to = (uintptr_t)ampi_type_address(rma->target.buf, rma->target.type->true_lb_bytes);
        send_addresses(operation, rma);
        return MPI_SUCCESS;
    }
    if (error || (has_input && (error = input_begin(&input, rma->win, &rma->origin))))
        return error;
    operation = begin(rma);
    if (rma->result.type)
        set_result(operation, &rma->result, n_bytes);
    send_all(operation, rma, head, has_input ? &input : NULL, n_bytes);
    if (has_input)
        free(input.staged);
    return MPI_SUCCESS;
}

int ampi_rma_remote_compare_and_swap(struct ampi_rma *rma, const void *expected, const void *desired)
{
    size_t n_bytes = (size_t)rma->target.type->size_bytes;
    struct ampi_rma_head head = {
        .kind = AMPI_RMA_COMPARE_AND_SWAP, .is_fetching = true, .n_pieces = 1, .n_bytes = n_bytes};
    struct ampi_rma_piece piece = {(uintptr_t)rma->target.buf + (uintptr_t)rma->target.type->true_lb_bytes,
                                   n_bytes};
    struct operation *operation;
    char data[32];
    int error = keep_order(rma);

    if (error)
        return error;
    memcpy(data, expected, n_bytes);
    memcpy(data + n_bytes, desired, n_bytes);
    operation = begin(rma);
    set_result(operation, &rma->result, n_bytes);
    send_part(operation, rma->rank, &head, &piece, data, 0);
    end_sending(operation);
    return MPI_SUCCESS;
}

void ampi_rma_remote_claim(struct ampi_win *win, int target, void *message, size_t n_bytes)
{
    struct ampi_rma rma = {.rank = target, .win = win};
    struct ampi_rma_part *part = ampi_rma_part_begin(&rma);
    struct ampi_am_header am = ampi_rma_am(win, AMPI_RMA_CLAIM, target);

    am.cookie = (uintptr_t)part;
    if (!ampi_rma_post(win->shared, &am, message, n_bytes))
        ampi_rma_part_end(part, MPI_ERR_PROC_ABORTED);
}

/* ---- Signals ---- */

void ampi_rma_remote_signal(struct ampi_win *win, int to, enum ampi_epoch_signal signal)
{
    struct ampi_am_header am =
        ampi_rma_am(win, signal == AMPI_SIGNAL_POST ? AMPI_RMA_POST : AMPI_RMA_COMPLETE, to);

    ampi_rma_post(win->shared, &am, NULL, 0);
}

/* ---- Failed processes ---- */

void ampi_rma_fail_pieces(struct ampi_win *win)
{
    const struct ampi_group *group = win->comm->local->layout->group;
    struct ampi_am_header am = {.seq = MPI_ERR_PROC_ABORTED};
    struct ampi_rma_part *next;

    for (struct ampi_rma_part *part = win->parts; part; part = next) {
        next = part->next;
        am.cookie = (uintptr_t)part;
        if (ampi_failed_is_rank(ampi_group_world_rank(group, part->target)))
            ampi_rma_handle_answer(&am, NULL, 0);
    }
}
