/* SPDX-License-Identifier: BSD-3-Clause
 *
 * settle.c: calls that CUDA calls synchronous, but that may return before their work is done (cudaMemcpy from pageable
 * memory, cudaMemset): a call of MPI on such memory waits for them first.
 */
#include "gpu/rank/streams.h"

void gpu_streams_record_early(const struct gpu_call *call)
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();
    struct gpu_face *face = call->face;

    pthread_mutex_lock(&rank->lock);
    if ((face->early || gpu_driver.cuEventCreate(&face->early, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) &&
        gpu_driver.cuEventRecord(face->early, call->stream) == CUDA_SUCCESS)
        face->n_early++;
    pthread_mutex_unlock(&rank->lock);
}

void gpu_streams_settle(void)
{
    struct gpu_rank_streams *rank = gpu_streams_of_self();

    if (!rank)
        return;
    pthread_mutex_lock(&rank->lock);
    for (struct gpu_face *face = rank->faces; face; face = face->next) {
        uint64_t n_early = face->n_early;
        if (n_early == face->n_settled)
            continue;
        pthread_mutex_unlock(&rank->lock); /* other threads may make more such calls meanwhile */
        gpu_driver.cuEventSynchronize(face->early);
        pthread_mutex_lock(&rank->lock);
        if (face->n_settled < n_early)
            face->n_settled = n_early;
    }
    pthread_mutex_unlock(&rank->lock);
}
