/* SPDX-License-Identifier: BSD-3-Clause
 *
 * current.c: the current CUDA context belongs to the rank, not to the thread.
 *
 * CUDA keeps it per OS thread, and the ranks of a PE share one. So it is swapped with the ULT, as errno is,
 * once CUDA is in this process (gpu_watch.h): a rank finds what it left, whether by cudaSetDevice or
 * cuCtxSetCurrent.
 *
 * A rank that has not had one begins with the primary context of its PE's device, or with none if that is
 * device 0, which is what CUDA's runtime takes by itself: at its first turn once CUDA is here, or when it
 * loads CUDA itself. What lies below the top of the driver's context stack (cuCtxPushCurrent twice) stays
 * with the thread.
 */
#include "gpu/driver.h"
#include "gpu_detect.h"
#include "ult/ult.h"

/* In ult.hook_state: the rank had no current context; NULL there: it has not run since CUDA came. */
static char none;

int gpu_device_of_self(void)
{
    int count = 0, n_pes, index = ult_pe_node_index(ult_self()->pe, &n_pes);

    if (gpu_driver.cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return -1;
    return gpu_device_of_pe(index, n_pes, count);
}

/* What a rank begins with. */
static BASE_COLD void *first_state(void)
{
    int device = gpu_device_of_self();
    CUcontext context = device > 0 ? gpu_context_of(device) : NULL;

    return context ? (void *)context : &none;
}

void gpu_current_swap(struct ult *from, struct ult *to)
{
    CUcontext now = NULL, wanted;

    if (!gpu_is_used() || gpu_driver.cuCtxGetCurrent(&now) != CUDA_SUCCESS)
        return; /* not CUDA, or not initialized: nothing to keep yet */
    from->hook_state = now ? (void *)now : &none;
    if (BASE_UNLIKELY(!to->hook_state))
        to->hook_state = first_state();
    wanted = to->hook_state == &none ? NULL : (CUcontext)to->hook_state;
    if (wanted != now)
        gpu_driver.cuCtxSetCurrent(wanted);
}

void gpu_current_prepare(void)
{
    gpu_call(cuInit, (0));
}

void gpu_current_begin(void)
{
    struct ult *self = ult_self();
    CUcontext now = NULL;

    if (self->hook_state || !gpu_is_used() || gpu_call(cuInit, (0)) || gpu_call(cuCtxGetCurrent, (&now)))
        return;
    self->hook_state = now ? (void *)now : first_state();
    if (!now && self->hook_state != &none)
        gpu_driver.cuCtxSetCurrent((CUcontext)self->hook_state);
}
