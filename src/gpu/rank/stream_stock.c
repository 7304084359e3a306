/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream_stock.c: see stream_stock.h.
 */
#include "gpu/rank/stream_stock.h"

#include <pthread.h>

#include "gpu/driver/driver.h"
#include "gpu/driver/pe_state.h"

/* A rank uses its default stream, often one more, and one to make graphs (repeats.c). */
#define STREAMS_PER_RANK 3
#define STREAMS_MAX 192

static struct stock {
    CUcontext context;
    int n;
    CUstream streams[STREAMS_MAX];
} stocks[GPU_DEVICES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void gpu_stock_fill(int device, CUcontext context, int n_ranks)
{
    int wanted = n_ranks < STREAMS_MAX / STREAMS_PER_RANK ? STREAMS_PER_RANK * n_ranks : STREAMS_MAX;
    struct stock *stock;
    CUcontext before;

    if (device < 0 || device >= GPU_DEVICES_MAX || gpu_context_enter(context, &before))
        return;
    stock = &stocks[device];
    pthread_mutex_lock(&lock);
    stock->context = context;
    stock->n = 0;
    while (stock->n < wanted && gpu_driver.cuStreamCreateWithPriority(
                                    &stock->streams[stock->n], CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS)
        stock->n++;
    pthread_mutex_unlock(&lock);
    gpu_context_leave(context, before);
}

CUstream gpu_stock_take(CUcontext context)
{
    CUstream taken = NULL;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < GPU_DEVICES_MAX && !taken; i++)
        if (stocks[i].context == context && stocks[i].n > 0)
            taken = stocks[i].streams[--stocks[i].n];
    pthread_mutex_unlock(&lock);
    return taken;
}

void gpu_stock_forget(CUcontext context)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < GPU_DEVICES_MAX; i++)
        if (stocks[i].context == context)
            stocks[i] = (struct stock){0};
    pthread_mutex_unlock(&lock);
}
