/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream_stock.c: see stream_stock.h.
 */
#include "gpu/rank/stream_stock.h"

#include <pthread.h>

#include "gpu/driver/driver.h"
#include "gpu/driver/pe_state.h"
#include "gpu/rank/streams.h"
#include "gpu/rank/ucx_streams.h"
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
        stock->streams[stock->n++].priority = priority;
    }
    pthread_mutex_unlock(&lock);
    return has_room;
}

/* Lock held. */
static bool is_free(const struct stock *stock, int i, int priority)
{
    return stock->streams[i].priority == priority &&
           (!stock->streams[i].is_used || gpu_driver.cuStreamQuery(stock->streams[i].stream) == CUDA_SUCCESS);
}

CUstream gpu_stock_take(CUcontext context, int priority)
{
    CUstream taken = NULL;
    struct stock *stock;
    int i;

    pthread_mutex_lock(&lock);
    stock = find(context);
    i = stock ? stock->n : 0;
    while (i > 0 && !is_free(stock, i - 1, priority))
        i--;
    if (i > 0) {
        taken = stock->streams[i - 1].stream;
        stock->streams[i - 1] = stock->streams[--stock->n];
    }
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
