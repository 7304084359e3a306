/* SPDX-License-Identifier: BSD-3-Clause
 *
 * orphans.c: work of destroyed streams, which continues: the rank's default stream and cuCtxSynchronize wait for it.
 *
 * The list is a queue. Each new orphan looks at the two oldest ones, and drops those that are done: so their number stays
 * near that of the unfinished ones even if nothing else looks at them.
 */
#include "gpu/rank/streams.h"

#include "base/log.h"
#include "gpu/rank/stream_stock.h"

#define LOOKS_PER_ORPHAN 2

/* While a thread waits for the event it must stay. */
static bool can_drop(const struct gpu_face *face, const struct gpu_orphan *orphan)
{
    return face->rank->n_waiters == 0 && gpu_driver.cuEventQuery(orphan->event) != CUDA_ERROR_NOT_READY;
}

static void drop(struct gpu_orphan *orphan)
{
    gpu_driver.cuEventDestroy(orphan->event);
    free(orphan);
}

static void append(struct gpu_face *face, struct gpu_orphan *orphan)
{
    orphan->next = NULL;
    if (face->orphans)
        face->orphans_last->next = orphan;
    else
        face->orphans = orphan;
    face->orphans_last = orphan;
}

static struct gpu_orphan *take_oldest(struct gpu_face *face)
{
    struct gpu_orphan *oldest = face->orphans;

    face->orphans = oldest->next;
    return oldest;
}

CUresult gpu_orphans_join(struct gpu_face *face)
{
    struct gpu_orphan *last = face->orphans_last;
    CUresult result = CUDA_SUCCESS;
    bool is_last;

    do {
        struct gpu_orphan *orphan = take_oldest(face);
        is_last = orphan == last;
        if (can_drop(face, orphan)) {
            drop(orphan);
            continue;
        }
        if (orphan->is_blocking && result == CUDA_SUCCESS)
            result = gpu_driver.cuStreamWaitEvent(face->base.stream, orphan->event, 0);
        orphan->is_blocking = false; /* waiting once is enough */
        append(face, orphan);
    } while (!is_last);
    return result;
}

CUresult gpu_orphans_leave(struct gpu_stream *stream)
{
    struct gpu_face *face = stream->face;
    struct gpu_orphan *orphan;
    CUcontext before;
    CUresult result;

    for (int i = 0; i < LOOKS_PER_ORPHAN && face->orphans; i++) {
        orphan = take_oldest(face);
        if (can_drop(face, orphan))
            drop(orphan);
        else
            append(face, orphan);
    }
    result = gpu_driver.cuStreamQuery(stream->stream);
    if (result != CUDA_ERROR_NOT_READY)
        return result;
    if (gpu_context_enter(face->context, &before))
        return CUDA_SUCCESS;
    if (gpu_streams_mark(stream) == CUDA_SUCCESS) {
        orphan = base_malloc(sizeof *orphan, "work of a destroyed stream");
        *orphan = (struct gpu_orphan){NULL, stream->mark, stream->is_blocking};
        append(face, orphan);
        stream->mark = NULL;
    }
    gpu_context_leave(face->context, before);
    return CUDA_SUCCESS;
}

void gpu_orphans_forget(struct gpu_face *face)
{
    while (face->orphans)
        free(take_oldest(face));
}

/* ---- Streams that are destroyed while threads wait for them ---- */

void gpu_orphans_begin_wait(struct gpu_rank_streams *rank)
{
    rank->n_waiters++;
}

bool gpu_orphans_keep(struct gpu_rank_streams *rank, const struct gpu_stream *stream, bool is_reusable)
{
    struct gpu_ended *made;

    if (rank->n_waiters == 0)
        return false;
    made = base_malloc(sizeof *made, "a destroyed stream");
    *made = (struct gpu_ended){.next = rank->ended,
                               .stream = stream->stream,
                               .context = stream->face->context,
                               .priority = stream->priority,
                               .is_reusable = is_reusable};
    rank->ended = made;
    return true;
}

void gpu_orphans_end_wait(struct gpu_rank_streams *rank, const void *caller)
{
    struct gpu_ended *list = NULL, *ended;

    pthread_mutex_lock(&rank->lock);
    if (--rank->n_waiters == 0) {
        list = rank->ended;
        rank->ended = NULL;
    }
    pthread_mutex_unlock(&rank->lock);
    while ((ended = list)) {
        list = ended->next;
        if (!ended->is_reusable || !gpu_stock_put(ended->context, ended->stream, ended->priority, true))
            (void)gpu_streams_end(ended->stream, caller);
        free(ended);
    }
}
