/* SPDX-License-Identifier: BSD-3-Clause
 *
 * registrations.c: see registrations.h.
 */
#include "gpu/rank/registrations.h"

#include <pthread.h>

#include "base/log.h"
#include "gpu/rank/offload.h"
#include "gpu/rank/rank_context.h"
#include "gpu/rank/streams.h"

/* A rank's registration. */
struct registration {
    struct registration *next;
    uintptr_t from, to;
    const void *rank;            /* its state, which is never freed; NULL: of no rank */
    CUcontext context;           /* the current one when it was made */
    unsigned flags;              /* as given to the driver */
    struct registration *within; /* the driver has that one instead; NULL: it has this one */
    int n_inside;                /* registrations within this one */
    bool is_over;                /* the rank has unregistered it, but other ranks not all of those within */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held while the driver registers and unregisters */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list; taken last, held briefly */
static struct registration *list;

/* The state of the rank that makes the call. */
static const void *rank_here(void)
{
    struct ult *u = gpu_offload_rank();

    return u ? gpu_rank_context_of(u) : NULL;
}

/* The rank's registration that begins there. List lock held. */
static struct registration *find_own(const void *rank, uintptr_t from)
{
    struct registration *i = list;

    while (i && (i->rank != rank || i->from != from || i->is_over))
        i = i->next;
    return i;
}

/* The driver's registration of all of this memory with at least these rights, if the rank itself has registered none of
 * it. List lock held. */
static struct registration *find_other(const struct registration *wanted)
{
    struct registration *found = NULL;

    for (struct registration *i = list; i; i = i->next) {
        if (i->rank == wanted->rank && !i->is_over && i->from < wanted->to && wanted->from < i->to)
            return NULL;
        if (!i->within && i->from <= wanted->from && wanted->to <= i->to && !(i->flags & ~wanted->flags))
            found = i;
    }
    return found;
}

static void drop(struct registration *gone)
{
    struct registration **link = &list;

    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    free(gone);
}

CUresult gpu_registration_begin(CUresult(CUDAAPI *driver)(void *, size_t, unsigned), void *memory,
                                size_t n_bytes, unsigned flags)
{
    struct registration *made;
    CUresult result;

    if (gpu_streams_n_ranks <= 1)
        return driver(memory, n_bytes, flags);
    flags |= CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP; /* for all ranks */
    made = base_malloc(sizeof *made, "a registration of memory");
    *made = (struct registration){.from = (uintptr_t)memory,
                                  .to = (uintptr_t)memory + n_bytes,
                                  .rank = rank_here(),
                                  .context = gpu_context_current(),
                                  .flags = flags};
    pthread_mutex_lock(&lock);
    result = driver(memory, n_bytes, flags);
    pthread_mutex_lock(&list_lock);
    if (result == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED && (made->within = find_other(made))) {
        made->within->n_inside++;
        result = CUDA_SUCCESS;
    }
    if (result == CUDA_SUCCESS) {
        made->next = list;
        list = made;
        made = NULL;
    }
    pthread_mutex_unlock(&list_lock);
    pthread_mutex_unlock(&lock);
    free(made);
    return result;
}

/* The driver's registration that ends with this one; NULL: none. List lock held. */
static struct registration *ends_with(const struct registration *own)
{
    struct registration *driver = own->within;

    if (!driver)
        return own->n_inside == 0 ? (struct registration *)own : NULL;
    return driver->n_inside == 1 && driver->is_over ? driver : NULL;
}

bool gpu_registration_is_last(void *memory)
{
    const struct registration *own;
    bool is_last;

    pthread_mutex_lock(&list_lock);
    own = find_own(rank_here(), (uintptr_t)memory);
    is_last = !own || ends_with(own);
    pthread_mutex_unlock(&list_lock);
    return is_last;
}

void *gpu_registration_left(CUcontext *context_out)
{
    const struct registration *i;
    uintptr_t from;

    pthread_mutex_lock(&list_lock);
    for (i = list; i && (i->rank != rank_here() || i->is_over); i = i->next)
        ;
    from = i ? i->from : 0;
    *context_out = i ? i->context : NULL;
    pthread_mutex_unlock(&list_lock);
    return (void *)from;
}

/* Ends the registration of the rank. The driver's that is over with it remains on the list. *is_anothers_out: the rank has none,
 * but another has. List lock held. */
static struct registration *end(const void *rank, uintptr_t from, bool *is_anothers_out)
{
    struct registration *own = find_own(rank, from), *driver = own ? ends_with(own) : NULL;

    *is_anothers_out = false;
    for (const struct registration *i = list; i && !own && !*is_anothers_out; i = i->next)
        *is_anothers_out = i->from == from;
    if (!own)
        return NULL;
    own->is_over = true;
    if (own->within) {
        own->within->n_inside--;
        drop(own);
    }
    return driver;
}

CUresult gpu_registration_end(CUresult(CUDAAPI *driver)(void *), void *memory)
{
    CUresult result = CUDA_SUCCESS;
    struct registration *ended;
    bool is_own, is_anothers;

    if (gpu_streams_n_ranks <= 1)
        return driver(memory);
    pthread_mutex_lock(&lock);
    pthread_mutex_lock(&list_lock);
    is_own = find_own(rank_here(), (uintptr_t)memory) != NULL;
    ended = end(rank_here(), (uintptr_t)memory, &is_anothers);
    pthread_mutex_unlock(&list_lock);
    if (is_anothers)
        result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    else if (ended || !is_own)
        result = driver(ended ? (void *)ended->from : memory);
    pthread_mutex_lock(&list_lock);
    if (ended)
        drop(ended);
    pthread_mutex_unlock(&list_lock);
    pthread_mutex_unlock(&lock);
    return result;
}
