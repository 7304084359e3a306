/* SPDX-License-Identifier: BSD-3-Clause
 *
 * loaded_modules.c: see loaded_modules.h.
 */
#include "gpu/rank/loaded_modules.h"

#include <pthread.h>

#include "base/log.h"
#include "gpu/driver/driver.h"
#include "gpu/rank/rank_context.h"

struct loaded {
    struct loaded *next; /* the one that was loaded before */
    void *handle;
    CUcontext context;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct loaded *list;

/* Takes the first one with this handle, or of this context, off the list. NULL: there is none. */
static struct loaded *take(const void *handle, CUcontext context)
{
    struct loaded **link = &list, *found;

    pthread_mutex_lock(&lock);
    while ((found = *link) && found->handle != handle && found->context != context)
        link = &found->next;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

void gpu_module_note(void *const *handle, CUresult result)
{
    CUcontext context = gpu_context_current();
    struct loaded *made;

    if (result != CUDA_SUCCESS || !context)
        return;
    free(take(*handle, NULL)); /* it was unloaded without the library's knowledge */
    made = base_malloc(sizeof *made, "a loaded module");
    *made = (struct loaded){.handle = *handle, .context = context};
    pthread_mutex_lock(&lock);
    made->next = list;
    list = made;
    pthread_mutex_unlock(&lock);
}

bool gpu_module_take(void *handle, CUcontext *context_out)
{
    struct loaded *taken = take(handle, NULL);

    if (!taken)
        return false;
    *context_out = taken->context;
    free(taken);
    return gpu_rank_is_primary(*context_out);
}

void gpu_modules_forget(CUcontext context)
{
    struct loaded *taken;

    while ((taken = take(NULL, context)))
        free(taken);
}
