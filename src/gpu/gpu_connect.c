/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_connect.c: joins the rooms of src/gpu: the functions that lower rooms call in higher ones, and the progress of a PE on its GPUs,
 * which has a part in each room.
 */
#include "gpu/copy/batch.h"
#include "gpu/copy/queue.h"
#include "gpu/copy/resident.h"
#include "gpu/driver/gpu_upper.h"
#include "gpu/nccl/nccl.h"
#include "gpu/rank/guard.h"
#include "gpu/rank/guard_calls.h"
#include "gpu/rank/offload.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/repeats.h"
#include "gpu/rank/stream_stock.h"
#include "gpu/rank/streams.h"
#include "gpu/rank/waits.h"
#include "gpu/streams/stream_sync.h"

/* Handlers may begin more of everything that is polled here. */
static int poll(struct ult_source *source)
{
    struct gpu_pe *pe = BASE_CONTAINER(source, struct gpu_pe, source);
    int n_handled = 0;

    if (BASE_UNLIKELY(ult_polls_in_part))
        return 0;
    if (pe->gathered)
        gpu_batch_start(pe);
    if (pe->repeats)
        gpu_repeats_end(pe->repeats);
    if (BASE_UNLIKELY(pe->offloads != NULL))
        gpu_offload_look(pe);
    n_handled += pe->residents ? gpu_resident_poll(pe) : 0;
    n_handled += pe->questions ? gpu_wait_poll(pe) : 0;
    n_handled += pe->syncs ? gpu_sync_poll(pe) : 0;
    n_handled += pe->watches ? gpu_watch_poll(pe) : 0;
    n_handled += pe->graph_ends ? gpu_graph_poll(pe) : 0;
    n_handled += pe->busy ? gpu_queue_poll(pe) : 0;
    return n_handled;
}

const struct gpu_upper gpu_upper = {.poll = poll,
                                    .replacement = gpu_guard,
                                    .replacement_for_library = gpu_guard_library,
                                    .swap_context = gpu_current_swap,
                                    .prepare_context = gpu_current_prepare,
                                    .begin_context = gpu_current_begin,
                                    .take_stream = gpu_stock_take,
                                    .make_synchronous = gpu_streams_make_synchronous,
                                    .free_later = gpu_guard_free_later,
                                    .other_error_text = gpu_nccl_error_text,
                                    .catch_up = gpu_sync_catch_up};
