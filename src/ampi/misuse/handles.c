/* SPDX-License-Identifier: BSD-3-Clause
 *
 * handles.c: +check usage: handles that are used after they have been freed, and requests as the gates see them.
 *
 * Each rank remembers its last FREED_MAX freed handles, with the calls that freed them, until a new object has the
 * same address. To delay that, completed requests return to the rank's pool only when REQUESTS_KEPT more have been
 * completed.
 */
#include "ampi/misuse/misuse.h"

#include "base/log.h"
#include "base/text.h"

#define FREED_MAX 4096
#define REQUESTS_KEPT 256

const char *const ampi_leak_nouns[AMPI_LEAK_KINDS] = {
    "communicator", "group",   "datatype", "operation", "window",      "file",
    "request",      "message", "keyval",   "session",   "info object", "error handler"};

struct ampi_misuse_freed {
    struct ampi_misuse_freed *next;            /* in its chain */
    struct ampi_misuse_freed *later, *earlier; /* in the order of their calls */
    const void *handle;
    struct ampi_misuse_call call; /* that freed it */
    bool is_kept;                 /* a request that is not in the pool */
};

static struct ampi_misuse_freed **find(struct ampi_misuse *own, const void *handle)
{
    struct ampi_misuse_freed **link =
        &own->freed[((uintptr_t)handle >> 4 ^ (uintptr_t)handle >> 12) % AMPI_MISUSE_CHAINS];

    while (*link && (*link)->handle != handle)
        link = &(*link)->next;
    return link;
}

/* Takes the record out of the table, and its request back to the pool. */
static void forget(struct ampi_rank *rank, struct ampi_misuse_freed *freed)
{
    struct ampi_misuse *own = rank->misuse;
    struct ampi_request *request = (struct ampi_request *)(uintptr_t)freed->handle;

    *find(own, freed->handle) = freed->next;
    *(freed->earlier ? &freed->earlier->later : &own->freed_first) = freed->later;
    *(freed->later ? &freed->later->earlier : &own->freed_last) = freed->earlier;
    own->n_freed--;
    if (freed->is_kept) {
        own->n_kept--;
        request->next = rank->free_requests;
        rank->free_requests = request;
    }
    free(freed);
}

static void remember(struct ampi_rank *rank, const void *handle, struct ampi_misuse_call call)
{
    struct ampi_misuse *own = ampi_misuse_of(rank);
    struct ampi_misuse_freed *freed = base_malloc(sizeof *freed, "+check usage"), **link = find(own, handle);

    if (*link)
        forget(rank, *link);
    *freed = (struct ampi_misuse_freed){.handle = handle, .call = call, .earlier = own->freed_last};
    link = find(own, handle);
    freed->next = *link;
    *link = freed;
    *(own->freed_last ? &own->freed_last->later : &own->freed_first) = freed;
    own->freed_last = freed;
    if (++own->n_freed > FREED_MAX)
        forget(rank, own->freed_first);
}

/* Takes requests that have just been freed out of the pool. */
static void keep_requests(struct ampi_rank *rank)
{
    struct ampi_misuse *own = rank->misuse;
    struct ampi_misuse_freed *freed;

    while (rank->free_requests && (freed = *find(own, rank->free_requests)) && !freed->is_kept) {
        rank->free_requests = rank->free_requests->next;
        freed->is_kept = true;
        own->n_kept++;
    }
    for (freed = own->freed_first; own->n_kept > REQUESTS_KEPT && freed;) {
        struct ampi_misuse_freed *later = freed->later;
        if (freed->is_kept)
            forget(rank, freed);
        freed = later;
    }
}

void ampi_misuse_leave_rank(struct ampi_rank *rank)
{
    struct ampi_misuse *own = rank->misuse;

    if (!own)
        return;
    ampi_misuse_leave_messages(rank);
    while (own->freed_first)
        forget(rank, own->freed_first);
    pthread_mutex_destroy(&own->lock);
    free(own->pending);
    free(own);
    rank->misuse = NULL;
}

/* True if the handle is valid: another one with the same value has not been freed. */
static bool is_alive(enum ampi_leak kind, const void *handle)
{
    static const enum ampi_magic magic[AMPI_LEAK_KINDS] = {
        AMPI_MAGIC_COMM,    AMPI_MAGIC_GROUP,   AMPI_MAGIC_TYPE,
        AMPI_MAGIC_OP,      AMPI_MAGIC_WIN,     AMPI_MAGIC_FILE,
        AMPI_MAGIC_REQUEST, AMPI_MAGIC_MESSAGE, 0,
        AMPI_MAGIC_SESSION, AMPI_MAGIC_INFO,    AMPI_MAGIC_ERRHANDLER};

    if (!ampi_handle_has_magic(handle, magic[kind]))
        return false;
    if (kind == AMPI_LEAK_DATATYPE)
        return atomic_load(&((struct ampi_type *)(uintptr_t)handle)->handles) > 0;
    return kind != AMPI_LEAK_COMM || !((const struct ampi_comm *)handle)->is_freed;
}

/* MPI_Waitall and MPI_Testall complete each entry of the array: a request that is freed by that must be there once. A persistent
 * one only becomes inactive (MPI 5.0, section 3.7.5). */
static void check_twice(struct ampi_rank *rank, struct ampi_misuse_call call, MPI_Count n,
                        const MPI_Request *all)
{
    uint64_t number = ++rank->misuse->n_waits;
    char bytes[2 * AMPI_CALL_SITE_BYTES];
    struct base_text site = base_text_in(bytes, sizeof bytes);

    for (MPI_Count i = 0; i < n; i++) {
        const struct ampi_request *request = ampi_request_of(all[i]);
        struct ampi_misuse_pending *op =
            request && !request->is_persistent ? ampi_misuse_find(rank, request) : NULL;
        if (!op)
            continue;
        if (BASE_UNLIKELY(op->waited == number)) {
            call.from = ampi_misuse_site(call.from);
            ampi_rank_set_call(call.name, call.from);
            ampi_misuse_add_site(&site, op->call.from);
            ampi_misuse_end_job(rank, &call, "requests %lld and %lld of the array are the same, of %s%s",
                                (long long)op->waited_at, (long long)i, op->call.name, bytes);
        }
        op->waited = number;
        op->waited_at = i;
    }
}

void ampi_misuse_used(enum ampi_leak kind, const char *name, const void *from, MPI_Count n,
                      const void *handles)
{
    struct ampi_rank *rank = ampi_self();
    const void *const *all = handles;
    char bytes[4 * AMPI_CALL_SITE_BYTES];
    struct base_text text = base_text_in(bytes, sizeof bytes);
    const struct ampi_misuse_freed *freed;

    if (!rank || !rank->misuse || !all || !ampi_misuse_is_on())
        return;
    if (kind == AMPI_LEAK_REQUEST && n > 1 &&
        (strcmp(name, "MPI_Waitall") == 0 || strcmp(name, "MPI_Testall") == 0))
        check_twice(rank, (struct ampi_misuse_call){name, from}, n, handles);
    if (rank->misuse->n_freed == 0)
        return;
    for (MPI_Count i = 0; i < n; i++) {
        if (ampi_handle_is_predefined(all[i]) || !(freed = *find(rank->misuse, all[i])) ||
            is_alive(kind, all[i]))
            continue;
        ampi_misuse_add_site(&text, ampi_misuse_site(from));
        base_text_add(&text, strchr("aeiou", *ampi_leak_nouns[kind]) ? ": wrong usage of an "
                                                                     : ": wrong usage of a ");
        base_text_add(&text, ampi_leak_nouns[kind]);
        base_text_add(&text, ", which has been freed by ");
        base_text_add(&text, freed->call.name);
        ampi_misuse_add_site(&text, freed->call.from);
        base_log("rank %d of %d: %s%s", ampi_rank_number(rank), ampi_rank_world_size(rank), name, bytes);
        return;
    }
}

/* ---- The gates ---- */

void ampi_misuse_made(enum ampi_leak kind, const char *name, const void *from, MPI_Count n,
                      const void *handles)
{
    struct ampi_rank *rank = ampi_self();
    void *const *all = handles;
    struct ampi_misuse_call call = {name, NULL};
    const struct ampi_request *request;

    if (!rank)
        return;
    call.from = ampi_misuse_site(from);
    for (MPI_Count i = 0; i < n; i++) {
        struct ampi_misuse_freed *freed = *find(ampi_misuse_of(rank), all[i]);
        if (freed && !ampi_handle_is_predefined(all[i]))
            forget(rank, freed);
        if (kind == AMPI_LEAK_REQUEST && (request = ampi_request_of(all[i])) &&
            request != &ampi_request_done && request->state != AMPI_REQUEST_INACTIVE)
            ampi_misuse_begin(rank, call, request);
    }
}

void ampi_misuse_freed(enum ampi_leak kind, const char *name, const void *from, MPI_Count n,
                       const void *before, const void *handles)
{
    struct ampi_rank *rank = ampi_self();
    void *const *old = before, *const *new = handles;
    struct ampi_misuse_call call = {name, NULL};
    bool is_given_up = strncmp(name, "MPI_Request_free", 16) == 0;

    if (!rank)
        return;
    call.from = ampi_misuse_site(from);
    for (MPI_Count i = 0; i < n; i++) {
        const struct ampi_request *request = old[i];
        if (ampi_handle_is_predefined(request) || request == &ampi_request_done)
            continue;
        if (kind == AMPI_LEAK_REQUEST && (new[i] != request || request->state == AMPI_REQUEST_INACTIVE))
            ampi_misuse_finish(rank, call, request, is_given_up);
        if (new[i] != request)
            remember(rank, request, call);
    }
    if (kind == AMPI_LEAK_REQUEST && rank->misuse)
        keep_requests(rank);
}

void ampi_misuse_started(const char *name, const void *from, int n, const MPI_Request *requests)
{
    struct ampi_misuse_call call = {name, ampi_misuse_site(from)};

    for (int i = 0; i < n && ampi_self() && ampi_misuse_is_on(); i++)
        ampi_misuse_begin(ampi_self(), call, ampi_request_of(requests[i]));
}

void ampi_misuse_seen(const char *name, const void *from, int n, const MPI_Request *requests)
{
    struct ampi_misuse_call call = {name, ampi_misuse_site(from)};
    const struct ampi_request *request;

    ampi_misuse_acquired();
    for (int i = 0; i < n && ampi_self() && ampi_misuse_is_on(); i++)
        if ((request = ampi_request_of(requests[i])) && request->state != AMPI_REQUEST_ACTIVE)
            ampi_misuse_finish(ampi_self(), call, request, false);
}
