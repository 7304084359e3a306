/* SPDX-License-Identifier: BSD-3-Clause
 *
 * peers.c: copies between devices in a rank's default stream.
 *
 * CUDA's rule: such a copy begins when all earlier work of both devices is done, and later work of either waits for it. The
 * default stream of the current device orders the work of that device. This file orders the other device: the copy waits
 * for the default stream there, and so for its blocking streams, and that stream waits for the copy afterwards.
 */
#include "gpu/rank/rank_context.h"
#include "gpu/rank/streams.h"

/* The device whose memory this is; -1: the host's, managed, or unknown. */
static int device_of(CUdeviceptr address)
{
    CUmemorytype type = 0;
    unsigned is_managed = 0;
    int device = -1;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *answers[] = {&type, &is_managed, &device};

    return address &&
                   gpu_driver.cuPointerGetAttributes(BASE_COUNT(wanted), wanted, answers, address) ==
                       CUDA_SUCCESS &&
                   type == CU_MEMORYTYPE_DEVICE && !is_managed
               ? device
               : -1;
}

/* Makes the call's stream wait for the other device's streams. Lock held. */
static CUresult join(struct gpu_call *call, struct gpu_face *peer)
{
    CUcontext before;
    CUresult result;

    if (gpu_context_enter(peer->context, &before))
        return (CUresult)gpu_driver_last();
    result = gpu_streams_join(call->orders, peer);
    if (result == CUDA_SUCCESS)
        result = gpu_streams_mark(&peer->base);
    gpu_context_leave(peer->context, before);
    if (result == CUDA_SUCCESS)
        peer->marked = peer->n_base;
    return result == CUDA_SUCCESS ? gpu_driver.cuStreamWaitEvent(call->stream, peer->base.mark, 0) : result;
}

/* The rank's streams on the device of this memory; NULL: it is the call's own, or the rank does not use it. Lock held. */
static struct gpu_face *find(const struct gpu_call *call, CUdeviceptr address)
{
    int device = device_of(address);
    struct gpu_face *face;

    if (device < 0 || device >= GPU_DEVICES_MAX || !(call->orders->devices >> device & 1))
        return NULL;
    face = gpu_streams_face(call->orders, gpu_context_of(device));
    return face == call->face ? NULL : face;
}

CUresult gpu_peers_begin(struct gpu_call *call, CUdeviceptr to, CUdeviceptr from)
{
    CUdeviceptr ends[2] = {to, from};
    CUresult result = CUDA_SUCCESS;
    int n = 0;

    if (!call->face || call->stream != call->face->base.stream)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&call->orders->lock);
    for (int i = 0; i < 2 && result == CUDA_SUCCESS; i++) {
        struct gpu_face *peer = find(call, ends[i]);
        if (!peer || peer == call->peers[0])
            continue;
        result = join(call, peer);
        call->peers[n++] = peer;
    }
    pthread_mutex_unlock(&call->orders->lock);
    return result;
}

/* An error comes back from a later call. */
void gpu_peers_end(const struct gpu_call *call)
{
    struct gpu_face *face = call->face;
    CUcontext before;

    pthread_mutex_lock(&call->orders->lock);
    if (!gpu_context_enter(face->context, &before)) {
        if (gpu_streams_mark(&face->base) == CUDA_SUCCESS)
            face->marked = face->n_base;
        for (int i = 0; i < 2 && call->peers[i]; i++) {
            (void)gpu_driver.cuStreamWaitEvent(call->peers[i]->base.stream, face->base.mark, 0);
            call->peers[i]->n_base++;
        }
        gpu_context_leave(face->context, before);
    }
    pthread_mutex_unlock(&call->orders->lock);
}
