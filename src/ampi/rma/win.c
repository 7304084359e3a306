/* SPDX-License-Identifier: BSD-3-Clause
 *
 * win.c: creating and freeing windows. See win.h.
 *
 * Creation is a collective with its own plan: the members' data goes to all processes, and in each the last
 * member to arrive creates the window for all members there.
 */
#include "ampi/rma/win.h"

#include <stdarg.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "ampi/coll/engine/coll.h"
#include "ampi/coll/engine/items.h"
#include "ampi/datatype/program_memory.h"
#include "ampi/object/attr.h"
#include "ampi/object/errhandler.h"
#include "ampi/rma/rma_remote.h"
#include "base/arch/relax.h"
#include "base/log.h"
#include "base/settings.h"

/* ---- Errors ---- */

/* A user's handler may have changed the code, but callers must not continue. */
static int still_an_error(int returned, int error_code)
{
    return returned ? returned : error_code;
}

int ampi_win_raise(struct ampi_win *win, int error_code, const char *fmt, ...)
{
    MPI_Win handle = (MPI_Win)win;
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return still_an_error(ampi_raise_on(win->errhandler, &handle, error_code, "%s", text), error_code);
}

int ampi_win_raise_invalid(MPI_Win handle)
{
    if (handle == MPI_WIN_NULL)
        return still_an_error(ampi_raise_self(MPI_ERR_WIN, "the window is MPI_WIN_NULL"), MPI_ERR_WIN);
    return still_an_error(
        ampi_raise_self(MPI_ERR_WIN, "%p is not a valid window, or has been freed", (void *)handle),
        MPI_ERR_WIN);
}

/* ---- Sets ---- */

void ampi_win_set_bit(struct ampi_win *win, uint64_t **bits, int rank)
{
    if (BASE_UNLIKELY(!*bits))
        *bits =
            base_calloc(((size_t)win->shared->n_ranks + 63) / 64, sizeof **bits, "the epochs of a window");
    (*bits)[rank / 64] |= (uint64_t)1 << (rank % 64);
}

/* ---- Waiting for the target's memory ---- */

/* Takes the guard from a failed process. */
static bool take_from_failed(struct ampi_win_guard *guard)
{
    uint32_t owner = atomic_load_explicit(&guard->owner, memory_order_relaxed);

    if (owner == 0 || !ampi_failed_is((int)owner - 1) ||
        !atomic_compare_exchange_strong_explicit(&guard->owner, &owner, (uint32_t)ampi_job.proc_id + 1,
                                                 memory_order_acquire, memory_order_relaxed))
        return false;
    atomic_fetch_add_explicit(&guard->n_torn, 1, memory_order_release);
    return true;
}

/* Waits while another PE combines; the kernel may have interrupted that PE. */
void ampi_win_combine_await(struct ampi_win *target)
{
    do {
        for (int i = 0; i < 200; i++) {
            if (ampi_win_guard_try(target->guard))
                return;
            base_relax();
        }
        sched_yield();
    } while (!ampi_failed_any() || !take_from_failed(target->guard));
}

uint32_t ampi_win_count_torn(const struct ampi_win_shared *shared)
{
    uint32_t n = 0;

    for (int i = 0; i < shared->n_ranks; i++)
        if (shared->targets[i].at)
            n += atomic_load_explicit(&shared->targets[i].at->guard->n_torn, memory_order_acquire);
    return n;
}

/* ---- Creation ---- */

static size_t shared_bytes(const struct ampi_win_payload *payload)
{
    size_t n_bytes = (size_t)payload->size_bytes;

    return payload->is_noncontiguous ? base_round_up(n_bytes, payload->alignment_bytes) : n_bytes;
}

/* MPI_Win_allocate_shared: one range of memory, the members' parts by rank. False: out of memory. */
static bool allocate_shared(struct ampi_win_shared *shared, const struct ampi_win_payload *const *payloads)
{
    size_t at = 0;

    for (int i = 0; i < shared->n_ranks; i++)
        if (__builtin_add_overflow(at, shared_bytes(payloads[i]), &at))
            return false;
    shared->memory_bytes = at;
    if (at > 0 && posix_memalign(&shared->memory, shared->alignment_bytes, at))
        return false;
    at = 0;
    for (int i = 0; i < shared->n_ranks; i++) {
        shared->targets[i].base = shared->memory ? (char *)shared->memory + at : NULL;
        at += shared_bytes(payloads[i]);
    }
    return true;
}

static void init_handle(struct ampi_win *win, struct ampi_win_shared *shared, int rank)
{
    struct ampi_comm *comm = &shared->comm->side[0].handles[rank];

    win->magic = AMPI_MAGIC_WIN;
    win->rank = rank;
    win->shared = shared;
    win->owner = comm->owner;
    win->comm = comm;
    win->disp_unit = (int)shared->targets[rank].disp_unit;
    win->model = MPI_WIN_UNIFIED;
    ampi_win_lock_init(&win->lock, false, shared->n_ranks);
    win->guard = &win->combining;
    shared->targets[rank].at = win;
}

static void free_shared(struct ampi_win_shared *shared)
{
    free(shared->memory);
    free(shared->targets);
    free(shared->handles);
    free(shared);
}

/* Creates the window for the members of this process; NULL: out of memory. Takes over the communicator. */
static struct ampi_win_shared *build(struct ampi_comm_shared *comm,
                                     const struct ampi_win_payload *const *payloads)
{
    const struct ampi_layout *layout = comm->side[0].layout;
    struct ampi_win_shared *shared = base_calloc(1, sizeof *shared, "a window");
    int n = 0;

    shared->n_ranks = comm->side[0].n_ranks;
    shared->alignment_bytes = BASE_CACHE_LINE;
    shared->n_local = layout->n_local;
    shared->flavor = payloads[0]->flavor;
    shared->is_remote = layout->n_local < shared->n_ranks;
    shared->is_one_pe = layout->n_parts == 1;
    shared->comm = comm;
    atomic_init(&shared->refs, (uint32_t)layout->n_local);
    shared->targets = base_calloc((size_t)shared->n_ranks, sizeof *shared->targets, "a window");
    shared->handles = base_calloc_aligned((size_t)shared->n_local, sizeof *shared->handles, "a window");
    for (int i = 0; i < shared->n_ranks; i++)
        shared->targets[i] = (struct ampi_win_target){.base = payloads[i]->base,
                                                      .size_bytes = payloads[i]->size_bytes,
                                                      .disp_unit = payloads[i]->disp_unit,
                                                      .node = payloads[i]->node,
                                                      .is_device = payloads[i]->is_device};
    for (int i = 0; i < shared->n_ranks; i++) {
        shared->has_own_memory |= payloads[i]->has_own_memory;
        shared->alignment_bytes = base_max_u64(shared->alignment_bytes, payloads[i]->alignment_bytes);
    }
    if (shared->flavor == MPI_WIN_FLAVOR_SHARED && !shared->is_remote && !allocate_shared(shared, payloads)) {
        free_shared(shared);
        return NULL;
    }
    ampi_win_lock_init(&shared->everybody, true, shared->n_ranks);
    ampi_win_lock_init(&shared->gate, false, shared->n_ranks);
    for (int i = 0; i < shared->n_ranks; i++)
        if (layout->pe_of[i] != AMPI_PE_REMOTE) {
            shared->targets[i].handle = &shared->handles[n++];
            init_handle(shared->targets[i].handle, shared, i);
        }
    return shared;
}

/* The first error of a member, or an inconsistency between members. */
static int first_error(const struct ampi_win_payload *const *payloads, int n_members)
{
    for (int i = 0; i < n_members; i++)
        if (payloads[i]->error)
            return payloads[i]->error;
    for (int i = 1; i < n_members && payloads[0]->flavor == MPI_WIN_FLAVOR_SHARED; i++)
        if (payloads[i]->node != payloads[0]->node)
            return MPI_ERR_RMA_SHARED;
    return MPI_SUCCESS;
}

static struct ampi_win_shared *try_build(struct ampi_coll_slot *slot,
                                         const struct ampi_win_payload *const *payloads, int *error_out)
{
    struct ampi_comm_shared *comm;
    struct ampi_win_shared *shared;

    *error_out = first_error(payloads, slot->state->n_members);
    if (*error_out)
        return NULL;
    *error_out = MPI_ERR_OTHER;
    comm = ampi_comm_build_as(slot->state->shared->side[0].layout, NULL, slot->context_id);
    if (!comm)
        return NULL;
    *error_out = MPI_ERR_NO_MEM;
    shared = build(comm, payloads);
    if (!shared) {
        for (int i = 0; i < comm->side[0].n_ranks; i++)
            if (comm->side[0].layout->pe_of[i] != AMPI_PE_REMOTE)
                ampi_comm_release(&comm->side[0].handles[i]);
        return NULL;
    }
    if (shared->is_remote)
        ampi_rma_remote_add(shared);
    return shared;
}

static void make_middle(struct ampi_coll_slot *slot)
{
    int n_members = slot->state->n_members;
    const struct ampi_win_payload **payloads = base_calloc((size_t)n_members, sizeof *payloads, "a window");
    struct ampi_win_shared *shared;
    int error;

    for (int i = 0; i < n_members; i++)
        payloads[i] = slot->args[i]->send.buf;
    shared = try_build(slot, payloads, &error);
    for (int i = 0; i < n_members; i++) {
        if (slot->args[i]->is_remote)
            continue;
        if (shared)
            slot->args[i]->extra = shared->targets[i].handle;
        else
            slot->args[i]->error = error;
    }
    free(payloads);
}

static void make_pack(const struct ampi_coll_slot *slot, const struct ampi_coll_args *args,
                      struct ampi_coll_packer *out)
{
    (void)slot;
    ampi_coll_put_bytes(out, 0, args->send.buf, sizeof(struct ampi_win_payload));
}

static void make_unpack(struct ampi_coll_slot *slot, struct ampi_coll_args *args,
                        struct ampi_coll_unpacker *in)
{
    (void)slot;
    ampi_coll_unpack_whole(args, in);
}

static const struct ampi_coll_plan make_plan = {.name = "window creation",
                                                .flow = AMPI_COLL_FLOW_ALL,
                                                .makes_comm = true,
                                                .pack = make_pack,
                                                .unpack = make_unpack,
                                                .middle = make_middle};

static int raise_creation(struct ampi_comm *comm, int error)
{
    char text[AMPI_FAILED_TEXT_MAX];

    switch (error) {
    case MPI_ERR_PROC_ABORTED:
        ampi_failed_describe(comm->local->layout->group, text);
        return ampi_raise(comm, error, "%s", text);
    case MPI_ERR_NO_MEM:
        return ampi_raise(comm, error, "out of memory: cannot allocate the window");
    case MPI_ERR_RMA_SHARED:
        return ampi_raise(comm, error, "the members of the communicator do not share memory");
    default:
        return ampi_raise(comm, error, "no context id is left: free communicators that are not needed");
    }
}

/* ---- Freeing ---- */

/* Recently freed windows are kept, so that a reused handle is detected as invalid: RETIRED_MAX windows,
 * and, except for the newest, at most RETIRED_BYTES_MAX. */
#define RETIRED_MAX 64
#define RETIRED_BYTES_MAX ((size_t)16 << 20)
static struct {
    pthread_mutex_t lock;
    struct ampi_win_shared *windows[RETIRED_MAX]; /* oldest first */
    int n;
    size_t n_bytes;
} retired = {.lock = PTHREAD_MUTEX_INITIALIZER};

static size_t handles_bytes(const struct ampi_win_shared *shared)
{
    return (size_t)shared->n_local * sizeof *shared->handles;
}

static void retire(struct ampi_win_shared *shared)
{
    free(shared->memory);
    free(shared->targets);
    shared->memory = NULL;
    shared->targets = NULL;
    pthread_mutex_lock(&retired.lock);
    retired.n_bytes += handles_bytes(shared);
    while (retired.n == RETIRED_MAX || (retired.n > 0 && retired.n_bytes > RETIRED_BYTES_MAX)) {
        retired.n_bytes -= handles_bytes(retired.windows[0]);
        free_shared(retired.windows[0]);
        retired.n--;
        memmove(retired.windows, retired.windows + 1, (size_t)retired.n * sizeof retired.windows[0]);
    }
    retired.windows[retired.n++] = shared;
    pthread_mutex_unlock(&retired.lock);
}

void ampi_win_destroy(struct ampi_win_shared *shared)
{
    if (shared->is_remote)
        ampi_rma_remote_fini(shared);
    for (int i = 0; i < shared->n_local; i++)
        ampi_win_lock_fini(&shared->handles[i].lock);
    ampi_win_lock_fini(&shared->everybody);
    ampi_win_lock_fini(&shared->gate);
    retire(shared);
}

struct ampi_rma_checker ampi_rma_checker;

static void unref(struct ampi_win_shared *shared)
{
    if (atomic_fetch_sub_explicit(&shared->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (BASE_UNLIKELY(base_settings.check_usage))
        ampi_rma_checker.freed(shared);
    if (shared->is_remote) {
        ampi_rma_remote_remove(shared);
        ampi_win_unshare(shared);
    } else {
        ampi_win_destroy(shared);
    }
}

static void release(struct ampi_win *win)
{
    struct ampi_comm *comm = win->comm;

    win->magic = AMPI_MAGIC_DEAD;
    comm->window = NULL;
    ampi_errhandler_unref(win->errhandler);
    ampi_info_destroy(win->info);
    free(win->name);
    ampi_program_memory_free(win->allocated);
    free(win->open_to);
    free(win->exclusive);
    free(win->unchecked);
    free(win->posted);
    free(win->awaited);
    free(win->combining_at);
    free(win->asked);
    free(win->busy);
    if (win->shared->is_remote)
        ampi_rma_access_release(win);
    free(win->regions);
    unref(win->shared);
    ampi_comm_release(comm); /* afterwards, so that the communicator exists as long as the window can be
                              * found */
}

/* ---- Creating ---- */

/* Across processes: allocates shared memory; no message about the window may reach a process that has not created it.
 * If a process fails now, others may already have the window and access the program's memory. So the window exists
 * here, too, and calls that involve the failed process return errors. */
static int settle(struct ampi_win *win, const struct ampi_win_payload *payload)
{
    int error;

    if (payload->flavor == MPI_WIN_FLAVOR_SHARED || payload->flavor == MPI_WIN_FLAVOR_ALLOCATE)
        return ampi_win_share(win, payload->is_noncontiguous);
    error = ampi_coll_barrier(win->comm, AMPI_COLL_WITHIN_WIN_CREATE);
    return error == MPI_ERR_PROC_ABORTED ? MPI_SUCCESS : error;
}

int ampi_win_make(struct ampi_comm *comm, struct ampi_win_payload *payload, const struct ampi_info *info,
                  void *allocated, struct ampi_win **win_out)
{
    struct ampi_coll_args args;
    struct ampi_win *win;
    int error;

    payload->node = ampi_job.node_first;
    payload->is_device = payload->base && gpu_is_device(payload->base);
    memset(&args, 0, sizeof args);
    ampi_coll_args_init(&args, &make_plan);
    args.comm = comm;
    args.send.buf = payload;
    error = ampi_coll_run(&args);
    if (error) {
        ampi_program_memory_free(allocated);
        return raise_creation(comm, error);
    }
    win = args.extra;
    ampi_win_connect_comm(win);
    win->allocated = allocated;
    win->info = ampi_win_info_filter(NULL, info);
    ampi_win_apply_hints(win);
    error = win->shared->is_remote ? settle(win, payload) : MPI_SUCCESS;
    if (error) {
        ampi_rma_leave(win);
        release(win);
        return raise_creation(comm, error);
    }
    *win_out = win;
    return MPI_SUCCESS;
}

/* ---- MPI_Win_free ---- */

/* Checks that no epoch is open. */
static int check_idle(struct ampi_win *win)
{
    if (win->is_exposed)
        return ampi_win_raise(win, MPI_ERR_RMA_SYNC, "the window is exposed: call MPI_Win_wait first");
    if (win->access > AMPI_ACCESS_FENCE)
        return ampi_win_raise(win, MPI_ERR_RMA_SYNC, "an access epoch is open");
    if (win->access == AMPI_ACCESS_FENCE && win->has_accessed)
        return ampi_win_raise(win, MPI_ERR_RMA_SYNC,
                              "operations were issued since the last MPI_Win_fence, which needs another one");
    return MPI_SUCCESS;
}

AMPI_EXPORT(Win_free);
int PMPI_Win_free(MPI_Win *win)
{
    struct ampi_win *object;
    struct ampi_attr_owner owner;
    int error;

    ampi_enter("MPI_Win_free");
    if (!win)
        return ampi_raise_self(MPI_ERR_ARG, "the address of the window is NULL");
    object = ampi_win_of(*win);
    if (!object)
        return ampi_win_raise_invalid(*win);
    if ((error = check_idle(object)))
        return error;
    owner = ampi_win_attr_owner(object);
    if ((error = ampi_attr_delete_all(&owner)))
        return error;
    ult_self()->call = "MPI_Win_free";
    if (object->shared->is_remote)
        ampi_rma_leave(object);
    if (ampi_coll_barrier(object->comm, AMPI_COLL_WITHIN_WIN_FREE) && object->shared->is_remote)
        ampi_rma_await_leaving(object);
    release(object);
    *win = MPI_WIN_NULL;
    return MPI_SUCCESS;
}
