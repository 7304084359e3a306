/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kept.c: see kept.h.
 *
 * The list changes on PEs only, but any thread of a rank may look.
 */
#include "gpu/rank/kept.h"

#include <pthread.h>
#include <time.h>

#include "gpu/rank/stream_api.h"
#include "gpu/rank/streams.h"
#include "gpu/rank/waits.h"

/* Pause of a thread that is not a PE's between two looks. */
#define PAUSE_NS 20000

_Atomic int gpu_n_kept;

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* may be held while that of a rank's streams is taken */
static struct gpu_kept *list;
static _Atomic uint32_t last_number;

uint32_t gpu_kept_number(void)
{
    uint32_t number = atomic_fetch_add(&last_number, 1) + 1;

    return number != 0 ? number : gpu_kept_number();
}

uint32_t gpu_kept_last(void)
{
    return atomic_load(&last_number);
}

void gpu_kept_add(struct gpu_kept *kept)
{
    kept->rank = gpu_streams_of_self();
    pthread_mutex_lock(&lock);
    kept->next = list;
    list = kept;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&gpu_n_kept, 1);
}

void gpu_kept_pass_to(struct gpu_kept *kept, uint32_t first)
{
    pthread_mutex_lock(&lock);
    kept->first = first;
    pthread_mutex_unlock(&lock);
    gpu_works_go_on();
}

/* Late works go on first: other threads of the rank wait until the stream is not in the list. */
void gpu_kept_remove(struct gpu_kept *kept)
{
    struct gpu_kept **link = &list;

    gpu_kept_pass_to(kept, gpu_kept_last() + 1);
    pthread_mutex_lock(&lock);
    while (*link != kept)
        link = &(*link)->next;
    *link = kept->next;
    pthread_mutex_unlock(&lock);
    atomic_fetch_sub(&gpu_n_kept, 1);
}

static bool is_legacy(CUstream stream)
{
    return stream == NULL || stream == CU_STREAM_LEGACY;
}

/* True for a stream that CUDA orders with the default stream. */
static bool is_blocking(struct gpu_rank_streams *rank, CUstream stream)
{
    const struct gpu_stream *known;
    unsigned flags = 0;
    bool is_it;

    if (stream == CU_STREAM_PER_THREAD)
        return true;
    if (!rank)
        return gpu_stream_real.r_cuStreamGetFlags &&
               gpu_stream_real.r_cuStreamGetFlags(stream, &flags) == CUDA_SUCCESS &&
               !(flags & CU_STREAM_NON_BLOCKING);
    pthread_mutex_lock(&rank->lock);
    known = gpu_streams_find(rank, stream);
    is_it = known && known->is_blocking;
    pthread_mutex_unlock(&rank->lock);
    return is_it;
}

static bool is_before(const struct gpu_kept *kept, struct gpu_rank_streams *rank, CUstream stream,
                      uint32_t last)
{
    if (kept->rank != rank || (int32_t)(kept->first - last) > 0)
        return false;
    if (stream == GPU_KEPT_ALL || kept->stream == stream)
        return true;
    if (is_legacy(stream))
        return kept->context == gpu_context_current() &&
               (is_legacy(kept->stream) || is_blocking(rank, kept->stream));
    return is_legacy(kept->stream) && is_blocking(rank, stream);
}

static struct gpu_kept *find_before(struct gpu_rank_streams *rank, CUstream stream, uint32_t last)
{
    struct gpu_kept *found;

    pthread_mutex_lock(&lock);
    for (found = list; found && !is_before(found, rank, stream, last); found = found->next)
        ;
    pthread_mutex_unlock(&lock);
    return found;
}

static struct gpu_kept *find(CUstream stream, bool is_per_thread)
{
    return find_before(gpu_streams_of_self(), !stream && is_per_thread ? CU_STREAM_PER_THREAD : stream,
                       gpu_kept_last());
}

bool gpu_kept_is_before(struct gpu_rank_streams *rank, CUstream stream, uint32_t last)
{
    return find_before(rank, stream, last) != NULL;
}

bool gpu_kept_is_behind(CUstream stream, bool is_per_thread)
{
    return gpu_kept_is_any() && find(stream, is_per_thread) != NULL;
}

/* A rank's streams are kept by its PE, so `found` stays while the PE's own thread looks at it. */
void gpu_kept_pass(CUstream stream, bool is_per_thread, const void *caller)
{
    const struct ult *self = ult_self();
    struct gpu_kept *found;

    while ((found = find(stream, is_per_thread))) {
        if (caller && gpu_wait_may_lend_pe(caller))
            gpu_wait_before_asking_again(caller);
        else if (self && ult_has_pe(self))
            found->let_go(found);
        else
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
}
