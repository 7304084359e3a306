/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream_stock.c: see stream_stock.h.
 */
#include "gpu/rank/stream_stock.h"

#include <pthread.h>

#include "gpu/driver/driver.h"
#include "gpu/driver/pe_state.h"
#include "gpu/rank/offload.h"
#include "gpu/rank/repeats.h"
#include "gpu/rank/stream_api.h"
#include "gpu/rank/streams.h"
#include "gpu/rank/ucx_streams.h"
#include "gpu/rank/waits.h"
#include "ult/pe.h"

/* A rank uses its default stream, often one more, and one to make graphs (repeats.c). */
#define STREAMS_PER_RANK 3
#define STREAMS_MAX 192

/* For ranks that have such streams and create others while streams wait. Few: beyond 32 streams of a GPU, two share a
 * connection, and work behind a stream that waits in it waits, too (streams/connections.c). */
#define STREAMS_PER_RANK_LATER 2

/* Streams of priority 0, and of other priorities. */
#define ROOM (4 * STREAMS_MAX)

static struct stock {
    CUcontext context;
    int greatest; /* priority; the least is 0 */
    int n;
    struct {
        CUstream stream;
        int priority;
        bool is_used; /* the program had it: its work may not be done */
    } streams[ROOM];
} stocks[GPU_DEVICES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Lock held; the stock's context is current. */
static void add(struct stock *stock, int n, int priority)
{
    for (; n > 0 && stock->n < ROOM; n--) {
        if (gpu_driver.cuStreamCreateWithPriority(&stock->streams[stock->n].stream, CU_STREAM_NON_BLOCKING,
                                                  priority) != CUDA_SUCCESS)
            return;
        stock->streams[stock->n].is_used = false;
        stock->streams[stock->n++].priority = priority;
    }
}

static int at_most(int n)
{
    return n < STREAMS_MAX ? n : STREAMS_MAX;
}

void gpu_stock_fill(int device, CUcontext context, int n_ranks)
{
    struct stock *stock;
    CUcontext before;

    if (device < 0 || device >= GPU_DEVICES_MAX || gpu_context_enter(context, &before))
        return;
    stock = &stocks[device];
    pthread_mutex_lock(&lock);
    stock->context = context;
    stock->n = 0;
    add(stock, at_most(STREAMS_PER_RANK * n_ranks), 0);
    pthread_mutex_unlock(&lock);
    gpu_context_leave(context, before);
}

void gpu_stock_prepare(int device, CUcontext context)
{
    struct stock *stock = &stocks[device];
    int least = 0, greatest = 0, n_of_ucx = gpu_ucx_streams_take_over();

    if (gpu_call(cuCtxGetStreamPriorityRange, (&least, &greatest)))
        return;
    pthread_mutex_lock(&lock);
    stock->context = context;
    stock->greatest = greatest;
    add(stock, at_most((GPU_STREAM_ROLES + n_of_ucx) * ult_job.n_pes), greatest);
    add(stock, at_most(STREAMS_PER_RANK_LATER * gpu_streams_n_ranks), 0);
    pthread_mutex_unlock(&lock);
}

static struct stock *find(CUcontext context)
{
    for (int i = 0; i < GPU_DEVICES_MAX; i++)
        if (stocks[i].context == context)
            return &stocks[i];
    return NULL;
}

/* The priority that the driver makes of it. */
static int within(const struct stock *stock, int priority)
{
    return stock->greatest == 0 ? priority
           : priority > 0       ? 0
                                : (priority < stock->greatest ? stock->greatest : priority);
}

bool gpu_stock_put(CUcontext context, CUstream stream, int priority, bool is_used)
{
    struct stock *stock;
    bool has_room;

    pthread_mutex_lock(&lock);
    stock = find(context);
    has_room = stock && stock->n < ROOM;
    if (has_room) {
        stock->streams[stock->n].stream = stream;
        stock->streams[stock->n].is_used = is_used;
        stock->streams[stock->n++].priority = within(stock, priority);
    }
    pthread_mutex_unlock(&lock);
    return has_room;
}

/* Lock held. */
static CUstream take_one(struct stock *stock, int i)
{
    CUstream taken = stock->streams[i].stream;

    if (stock->streams[i].is_used && gpu_driver.cuStreamQuery(taken) != CUDA_SUCCESS)
        return NULL;
    stock->streams[i] = stock->streams[--stock->n];
    return taken;
}

/* Lock held. */
static CUstream take(struct stock *stock, int priority)
{
    CUstream taken = NULL;

    for (int i = stock->n; i > 0 && !taken; i--)
        if (stock->streams[i - 1].priority == priority)
            taken = take_one(stock, i - 1);
    return taken;
}

/* One of another priority, but not the greatest: those are for PEs. Lock held. */
static CUstream take_other(struct stock *stock)
{
    CUstream taken = take(stock, 0);

    for (int i = stock->n; i > 0 && !taken; i--)
        if (stock->streams[i - 1].priority != stock->greatest)
            taken = take_one(stock, i - 1);
    return taken;
}

/* A stream of another priority that gets this one: the creation of a stream may never end now. Lock held. */
static CUstream take_and_change(struct stock *stock, int priority)
{
    CUstreamAttrValue value = {.priority = priority};
    CUstream taken;
    int found = 0;

    if (stock->greatest == 0 || !gpu_stream_real.r_cuStreamSetAttribute ||
        !gpu_stream_real.r_cuStreamGetPriority)
        return NULL;
    taken = take_other(stock);
    if (!taken ||
        (gpu_stream_real.r_cuStreamSetAttribute(taken, CU_STREAM_ATTRIBUTE_PRIORITY, &value) ==
             CUDA_SUCCESS &&
         gpu_stream_real.r_cuStreamGetPriority(taken, &found) == CUDA_SUCCESS && found == value.priority))
        return taken;
    stock->streams[stock->n].stream = taken;
    stock->streams[stock->n].is_used = false;
    stock->streams[stock->n++].priority = found;
    return NULL;
}

CUstream gpu_stock_take(CUcontext context, int priority)
{
    CUstream taken = NULL;
    struct stock *stock;

    pthread_mutex_lock(&lock);
    stock = find(context);
    if (stock)
        taken = take(stock, within(stock, priority));
    if (stock && !taken && atomic_load_explicit(&gpu_streams_n_waiting, memory_order_relaxed) > 0)
        taken = take_and_change(stock, within(stock, priority));
    pthread_mutex_unlock(&lock);
    return taken;
}

void gpu_stock_forget(CUcontext context)
{
    struct stock *stock;

    pthread_mutex_lock(&lock);
    stock = find(context);
    if (stock)
        *stock = (struct stock){0};
    pthread_mutex_unlock(&lock);
}

/* ---- Creating others ---- */

/* Creates a stream in the current context, non-blocking for the driver. At times this waits for the whole
 * GPU (seen on H200s). So it is offloaded if a call from this code may do so. */
struct creation {
    struct gpu_offload offload;
    CUstream stream; /* NULL: not created yet */
    int priority;
    bool has_spare; /* another one goes to the stock, for captures of repeated launches */
};

static void run_creation(struct gpu_offload *offload)
{
    struct creation *creation = BASE_CONTAINER(offload, struct creation, offload);
    CUstream spare;

    if (!creation->stream)
        offload->result = gpu_driver.cuStreamCreateWithPriority(&creation->stream, CU_STREAM_NON_BLOCKING,
                                                                creation->priority);
    if (creation->has_spare && offload->result == CUDA_SUCCESS &&
        gpu_driver.cuStreamCreateWithPriority(&spare, CU_STREAM_NON_BLOCKING, creation->priority) ==
            CUDA_SUCCESS &&
        !gpu_stock_put(offload->context, spare, creation->priority, false))
        gpu_driver.cuStreamDestroy(spare);
}

CUresult gpu_stock_make(CUstream *stream_out, int priority, const void *caller)
{
    bool may_wait = atomic_load_explicit(&gpu_streams_wait_for_pes, memory_order_relaxed);
    struct creation creation = {.offload = {.label = "the creation of a stream",
                                            .run = run_creation,
                                            .drain_tries = GPU_DRAIN_BRIEFLY},
                                .stream = may_wait ? gpu_stock_take(gpu_context_current(), priority) : NULL,
                                .priority = priority};
    CUresult result = CUDA_SUCCESS;

    creation.has_spare =
        priority != 0 && gpu_repeats_are_on && (!creation.stream || atomic_load(&gpu_streams_n_waiting) == 0);
    if (!creation.stream || creation.has_spare)
        result = gpu_offload_call(&creation.offload, caller && gpu_offload_is_wanted(caller));
    *stream_out = creation.stream;
    return result;
}
