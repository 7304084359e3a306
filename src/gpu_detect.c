/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_detect.c: tells device buffers from host buffers. See gpu_detect.h.
 */
#include "gpu_detect.h"

#include "gpu/query.h"

atomic_bool gpu_is_active;

/* What gpu_hint points to while there is nothing to look for, and when there always is. */
static void *const nothing = NULL;
static void *const something = (void *)&nothing;
void *const *_Atomic gpu_hint = &nothing;

void gpu_detect_init(void)
{
    if (gpu_driver_open(NULL)) {
        atomic_store(&gpu_is_active, true);
        atomic_store(&gpu_hint, &something);
    }
}

static __thread struct gpu_range answer __attribute__((tls_model("initial-exec")));

const struct gpu_range *gpu_resolve(const void *addr)
{
    gpu_query((uintptr_t)addr, &answer);
    return &answer;
}

const struct gpu_range *gpu_find(const void *addr)
{
    return gpu_resolve(addr);
}

bool gpu_look(const void *addr)
{
    return gpu_find(addr)->memory >= GPU_MEMORY_MANAGED;
}
