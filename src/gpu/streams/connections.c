/* SPDX-License-Identifier: BSD-3-Clause
 *
 * connections.c: whether streams of MPI can wait without holding up others. Streams that have work share the connections to
 * a GPU; one that waits keeps the work behind it in its connection. Each rank has a default stream beside its
 * stream of MPI, so half of the connections count. A rank that has no stream of MPI yet counts, too: those that wait when
 * it creates one would hold up the library's own copies. And all streams together must not be more than the connections.
 */
#include <stdlib.h>

#include "base/log.h"
#include "gpu/rank/waits.h"
#include "gpu/streams/stream_sync.h"

/* Connections to a GPU without CUDA_DEVICE_MAX_CONNECTIONS. */
#define CONNECTIONS_DEFAULT 8

static _Atomic int n_connections; /* to each GPU; 0: not known yet */
static _Atomic int n_syncs[GPU_DEVICES_MAX];

static BASE_COLD int find_connections(void)
{
    const char *text = secure_getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    int n = text && atoi(text) > 0 ? atoi(text) : CONNECTIONS_DEFAULT;

    atomic_store_explicit(&n_connections, n, memory_order_relaxed);
    return n;
}

/* Where calls of CUDA are not intercepted, streams have to wait themselves. */
static BASE_COLD void report(int device, int n)
{
    static atomic_flag has_said = ATOMIC_FLAG_INIT;

    if (!gpu_waits_suspend && !atomic_flag_test_and_set(&has_said))
        base_log("more than %d streams of MPI on GPU %d share its %d connections "
                 "(CUDA_DEVICE_MAX_CONNECTIONS): a stream "
                 "that waits for a message holds up others, and messages that depend on those never come",
                 n, device, n);
}

void gpu_connections_count(int device, int by)
{
    int n = atomic_fetch_add(&n_syncs[device], by) + by, all = find_connections();

    if (n > all)
        report(device, all);
}

bool gpu_connections_are_short(int device)
{
    int n = atomic_load_explicit(&n_syncs[device], memory_order_relaxed), n_devices = gpu_device_count();
    int n_later = n_devices > 0 ? (gpu_streams_n_ranks + n_devices - 1) / n_devices : 0;

    int all = atomic_load_explicit(&n_connections, memory_order_relaxed);

    return BASE_UNLIKELY(2 * (n > n_later ? n : n_later) > all ||
                         atomic_load_explicit(&gpu_streams_n_on[device], memory_order_relaxed) > all) &&
           gpu_waits_suspend;
}
