/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bsend_buffer.c: attached buffers and sending through them. See bsend_buffer.h.
 */
#include "ampi/p2p/bsend_buffer.h"

#include "ampi/datatype/buffer.h"
#include "ampi/object/session.h"
#include "ampi/p2p/p2p_watch.h"
#include "base/log.h"

/* ---- Segments ---- */

static bool is_automatic(const struct ampi_bsend_buffer *buffer)
{
    return buffer->user_address == MPI_BUFFER_AUTOMATIC;
}

static bool is_empty(const struct ampi_bsend_buffer *buffer)
{
    return !buffer->inside.first && !buffer->outside.first;
}

static void link_after(struct ampi_bsend_segments *list, struct ampi_bsend_segment *prev,
                       struct ampi_bsend_segment *segment)
{
    segment->prev = prev;
    segment->next = prev ? prev->next : list->first;
    if (segment->next)
        segment->next->prev = segment;
    else
        list->last = segment;
    if (prev)
        prev->next = segment;
    else
        list->first = segment;
}

static void unlink_segment(struct ampi_bsend_segments *list, struct ampi_bsend_segment *segment)
{
    if (segment->prev)
        segment->prev->next = segment->next;
    else
        list->first = segment->next;
    if (segment->next)
        segment->next->prev = segment->prev;
    else
        list->last = segment->prev;
}

static size_t room_of(size_t size_bytes)
{
    return base_round_up(sizeof(struct ampi_bsend_segment) + size_bytes, 16);
}

/* The first gap of the buffer that is large enough for a segment; NULL: none. *prev_out: the segment before
 * it, if any. */
static struct ampi_bsend_segment *find_gap(const struct ampi_bsend_buffer *buffer, size_t size_bytes,
                                           struct ampi_bsend_segment **prev_out)
{
    char *gap = buffer->begin;

    *prev_out = NULL;
    for (struct ampi_bsend_segment *next = buffer->inside.first;; next = next->next) {
        char *gap_end = next ? (char *)next : buffer->end;
        if (gap_end - gap >= (ptrdiff_t)room_of(size_bytes))
            return (struct ampi_bsend_segment *)gap;
        if (!next)
            return NULL;
        *prev_out = next;
        gap = (char *)next + room_of(next->size_bytes);
    }
}

static bool has_room(const struct ampi_bsend_buffer *buffer, size_t size_bytes)
{
    return is_automatic(buffer) || size_bytes <= (size_t)buffer->user_bytes - buffer->used_bytes;
}

/* NULL: no room. */
static struct ampi_bsend_segment *segment_alloc(struct ampi_bsend_buffer *buffer, size_t size_bytes)
{
    struct ampi_bsend_segment *prev, *segment;
    bool is_outside;

    if (!has_room(buffer, size_bytes)) {
        ult_progress_fully(); /* data of some segments may have been fetched */
        if (!has_room(buffer, size_bytes))
            return NULL;
    }
    segment = is_automatic(buffer) ? NULL : find_gap(buffer, size_bytes, &prev);
    is_outside = segment == NULL;
    if (is_outside)
        segment = base_malloc(room_of(size_bytes), "a buffered message");
    segment->buffer = buffer;
    segment->size_bytes = size_bytes;
    segment->number = buffer->next_number++;
    segment->is_outside = is_outside;
    buffer->used_bytes += size_bytes;
    if (is_outside)
        link_after(&buffer->outside, buffer->outside.last, segment);
    else
        link_after(&buffer->inside, prev, segment);
    return segment;
}

/* The number of the oldest remaining segment; next_number if there is none. */
static uint64_t oldest(const struct ampi_bsend_buffer *buffer)
{
    /* Messages outside are in the order of their numbers. */
    uint64_t number = buffer->outside.first ? buffer->outside.first->number : buffer->next_number;

    for (const struct ampi_bsend_segment *segment = buffer->inside.first; segment; segment = segment->next)
        if (segment->number < number)
            number = segment->number;
    return number;
}

/* Completes the flushes that no longer wait for any message. */
static void complete_flushes(struct ampi_bsend_buffer *buffer)
{
    struct ampi_request **link = &buffer->flushes;
    uint64_t gone_up_to = oldest(buffer);

    while (*link) {
        struct ampi_request *flush = *link;
        if ((uint64_t)(uintptr_t)flush->u.extra > gone_up_to) {
            link = &flush->next;
            continue;
        }
        *link = flush->next;
        ampi_request_complete(flush);
    }
}

static void remove_segment(struct ampi_bsend_segment *segment)
{
    struct ampi_bsend_buffer *buffer = segment->buffer;

    buffer->used_bytes -= segment->size_bytes;
    unlink_segment(segment->is_outside ? &buffer->outside : &buffer->inside, segment);
    if (segment->is_outside)
        free(segment);
    if (buffer->flushes)
        complete_flushes(buffer);
    if (buffer->is_released && is_empty(buffer))
        free(buffer);
}

/* The data of a segment has been fetched. */
static void segment_done(struct ampi_request *request, struct ampi_request *whole)
{
    struct ampi_comm *comm = request->comm;

    (void)whole;
    remove_segment(BASE_CONTAINER(request, struct ampi_bsend_segment, request));
    ampi_comm_drop_pending(comm);
}

/* ---- Attaching and flushing ---- */

int ampi_bsend_attach(struct ampi_comm *comm, struct ampi_bsend_buffer **slot, void *buffer,
                      MPI_Count size_bytes)
{
    struct ampi_bsend_buffer *made;
    const char *wrong = NULL;

    if (*slot)
        wrong = "a buffer is attached already";
    else if (size_bytes < 0)
        wrong = "the size of the buffer is negative";
    else if (!buffer && size_bytes > 0)
        wrong = "the buffer is NULL";
    if (wrong)
        return ampi_raise_on_comm(comm, size_bytes < 0 ? MPI_ERR_ARG : MPI_ERR_BUFFER, "%s", wrong);
    /* The memory may have belonged to a released buffer. Other PEs' last wake-ups for that buffer may not
     * have been handled yet. */
    ult_progress();
    made = base_calloc(1, sizeof *made, "an attached buffer");
    made->user_address = buffer;
    made->user_bytes = size_bytes;
    if (!is_automatic(made) && !ampi_device_has(buffer, size_bytes, ampi_type_of(MPI_BYTE))) {
        made->begin = (char *)base_round_up((uintptr_t)buffer, 16);
        made->end = (char *)buffer + size_bytes;
    }
    *slot = made;
    return MPI_SUCCESS;
}

void ampi_bsend_release(struct ampi_bsend_buffer *buffer)
{
    if (buffer && !is_empty(buffer))
        buffer->is_released = true;
    else if (buffer)
        free(buffer);
}

static const struct ampi_request_kind flush_kind = {.name = "buffer flush"};

static void start_flush(struct ampi_bsend_buffer *buffer, struct ampi_request *request)
{
    if (!buffer || is_empty(buffer)) {
        ampi_request_complete(request);
        return;
    }
    request->u.extra = (void *)(uintptr_t)buffer->next_number;
    request->next = buffer->flushes;
    buffer->flushes = request;
}

void ampi_bsend_flush(struct ampi_bsend_buffer *buffer)
{
    struct ampi_request request;

    ampi_request_init_on_stack(&request, ampi_self(), &flush_kind, NULL);
    start_flush(buffer, &request);
    ampi_request_await(&request);
}

struct ampi_request *ampi_bsend_iflush(struct ampi_rank *self, struct ampi_bsend_buffer *buffer)
{
    struct ampi_request *request = ampi_request_create(self, &flush_kind, NULL, false);

    start_flush(buffer, request);
    return request;
}

int ampi_bsend_detach(struct ampi_comm *comm, struct ampi_bsend_buffer **slot, void *buffer_addr,
                      MPI_Count *size_out)
{
    struct ampi_bsend_buffer *buffer = *slot;

    if (!buffer)
        return ampi_raise_on_comm(comm, MPI_ERR_BUFFER, "no buffer is attached");
    ampi_bsend_flush(buffer);
    *(void **)buffer_addr = buffer->user_address;
    *size_out = buffer->user_bytes;
    free(buffer);
    *slot = NULL;
    return MPI_SUCCESS;
}

/* ---- Sending ---- */

/* The communicator's buffer, else its session's, else the rank's. */
static struct ampi_bsend_buffer *buffer_for(const struct ampi_rank *self, const struct ampi_comm *comm)
{
    if (comm->bsend)
        return comm->bsend;
    return comm->session && comm->session->bsend ? comm->session->bsend : self->bsend;
}

int ampi_bsend(struct ampi_rank *self, const struct ampi_send_args *args)
{
    struct ampi_bsend_buffer *buffer = buffer_for(self, args->comm);
    size_t n_bytes = (size_t)(args->count * args->type->size_bytes);
    struct ampi_bsend_segment *segment;
    struct ampi_send_args packed = *args;
    int error;

    if (args->dest == MPI_PROC_NULL)
        return MPI_SUCCESS;
    if (BASE_UNLIKELY(!buffer))
        return ampi_raise(args->comm, MPI_ERR_BUFFER, "no buffer is attached (MPI_Buffer_attach)");
    segment = segment_alloc(buffer, n_bytes);
    if (BASE_UNLIKELY(!segment))
        return ampi_raise(args->comm, MPI_ERR_BUFFER,
                          "the attached buffer of %lld bytes holds messages of %zu bytes that have not been "
                          "received yet, and has no room for %zu more",
                          (long long)buffer->user_bytes, buffer->used_bytes, n_bytes);
    error = ampi_device_pack(args->comm, segment->data, args->buf, args->count, args->type);
    if (BASE_UNLIKELY(error)) {
        remove_segment(segment);
        return error;
    }
    packed.buf = segment->data;
    packed.count = (MPI_Count)n_bytes;
    packed.type = ampi_type_of(MPI_BYTE);
    ampi_request_init_on_stack(&segment->request, self, &ampi_send_kind, args->comm);
    segment->request.on_complete = segment_done;
    args->comm->n_pending++;
    ampi_send_fill(&segment->request, &packed);
    if (BASE_UNLIKELY(args->comm->at_post & AMPI_AT_POST_EVENTS)) {
        ampi_p2p_before_send(args);
        ampi_p2p_after_send(args);
    }
    ampi_send_queue(self, &segment->request);
    return MPI_SUCCESS;
}
