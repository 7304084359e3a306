/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_remote_target.c: messages of other processes' origins, on the target's PE. See rma_remote.h.
 *
 * Owns the table of windows over several processes, by the context id of their communicator.
 */
#include "ampi/rma/rma_remote_wire.h"

#include "base/log.h"

/* ---- Windows ---- */

static struct {
    pthread_mutex_t lock;
    struct ampi_win_shared *first;
} windows = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The first member in each other process, for messages to processes. */
static void find_others(struct ampi_win_shared *shared)
{
    const struct ampi_layout *layout = shared->comm->side[0].layout;
    bool *is_known = base_calloc((size_t)ampi_job.n_procs, sizeof *is_known, "a window");

    shared->others = base_calloc((size_t)ampi_job.n_procs, sizeof *shared->others, "a window");
    for (int i = 0; i < shared->n_ranks; i++) {
        int proc = ampi_procs_of_rank(ampi_group_world_rank(layout->group, i));
        if (layout->pe_of[i] == AMPI_PE_REMOTE && !is_known[proc]) {
            is_known[proc] = true;
            shared->others[shared->n_others++] = i;
        }
    }
    free(is_known);
}

void ampi_rma_remote_add(struct ampi_win_shared *shared)
{
    find_others(shared);
    pthread_mutex_lock(&windows.lock);
    shared->next = windows.first;
    windows.first = shared;
    pthread_mutex_unlock(&windows.lock);
}

void ampi_rma_remote_remove(struct ampi_win_shared *shared)
{
    struct ampi_win_shared **link = &windows.first;

    pthread_mutex_lock(&windows.lock);
    while (*link != shared)
        link = &(*link)->next;
    *link = shared->next;
    pthread_mutex_unlock(&windows.lock);
    free(shared->others);
    shared->others = NULL;
}

/* The member that a message is for; NULL: the window is gone (a late UNLOCK). */
static struct ampi_win *find_target(const struct ampi_wire *wire)
{
    struct ampi_win_shared *shared;

    pthread_mutex_lock(&windows.lock);
    for (shared = windows.first; shared && shared->comm->context_id != wire->context_id;
         shared = shared->next)
        ;
    pthread_mutex_unlock(&windows.lock);
    return shared ? shared->targets[wire->dest].handle : NULL;
}

/* Answers a message: swaps its ends. */
static struct ampi_wire answer_to(const struct ampi_wire *wire, enum ampi_rma_message message)
{
    struct ampi_wire answer = *wire;

    answer.tag = message;
    answer.source = wire->dest;
    answer.dest = wire->source;
    answer.flags = 0;
    return answer;
}

/* ---- Operations ---- */

static bool are_attached(struct ampi_win *at, const struct ampi_rma_piece *pieces, uint32_t n_pieces)
{
    for (uint32_t i = 0; i < n_pieces; i++)
        if (!ampi_win_is_attached(at, pieces[i].address, pieces[i].address + pieces[i].n_bytes))
            return false;
    return true;
}

/* Does it; returns MPI's class of an error. */
static int apply(struct ampi_win *at, const struct ampi_rma_head *head, const struct ampi_rma_piece *pieces,
                 const char *data, char *fetched)
{
    const struct ampi_op *op = head->op ? ampi_op_of((MPI_Op)(uintptr_t)head->op) : NULL;
    int error;

    if (at->shared->flavor == MPI_WIN_FLAVOR_DYNAMIC && !are_attached(at, pieces, head->n_pieces))
        return MPI_ERR_RMA_RANGE;
    if (head->kind == AMPI_RMA_COMPARE_AND_SWAP)
        error = ampi_rma_compare_and_swap(at, (void *)pieces->address, data, data + head->n_bytes, fetched,
                                          head->n_bytes);
    else
        error =
            ampi_rma_combine_pieces(head->kind == AMPI_RMA_PLAIN ? NULL : at, op,
                                    (enum ampi_basic)head->basic, pieces, (int)head->n_pieces, data, fetched);
    return error ? ampi_device_class(error) : MPI_SUCCESS;
}

static void handle_op(const struct ampi_wire *wire, const char *bytes)
{
    struct ampi_win *at = find_target(wire);
    struct ampi_wire answer = answer_to(wire, AMPI_RMA_ANSWER);
    struct ampi_rma_head head;
    const struct ampi_rma_piece *pieces = (const void *)(bytes + sizeof head);
    char *fetched = NULL;

    BASE_ASSERT(at);
    memcpy(&head, bytes, sizeof head);
    if (head.is_fetching)
        fetched = base_malloc(head.n_bytes + 1, "the answer to a one-sided operation");
    answer.seq = (uint32_t)apply(at, &head, pieces, (const char *)(pieces + head.n_pieces), fetched);
    if (answer.seq) {
        free(fetched);
        fetched = NULL;
    }
    ampi_rma_post(at->shared, &answer, fetched, fetched ? head.n_bytes : 0);
}

/* ---- Locks ---- */

/* Stands in queues for an origin of another process. */
struct remote_waiter {
    struct ampi_win_waiter waiter;
    struct ampi_wire wire; /* of the request */
    struct ampi_win *at;
    bool has_process; /* exclusive: the process's lock is taken, the target's comes next */
};

static void let_go(struct ampi_win *at, const struct ampi_wire *wire, enum ampi_win_lock_as as)
{
    if (wire->tag == AMPI_RMA_LOCK || wire->tag == AMPI_RMA_UNLOCK)
        ampi_win_lock_drop(&at->lock, as);
    else
        ampi_win_lock_drop(&at->shared->everybody, as);
    if (wire->tag != AMPI_RMA_LOCK_ALL && wire->tag != AMPI_RMA_UNLOCK_ALL && as == AMPI_LOCK_EXCLUSIVE)
        ampi_win_lock_drop(&at->shared->everybody, as);
}

static void grant(struct remote_waiter *remote)
{
    struct ampi_wire answer = answer_to(&remote->wire, AMPI_RMA_GRANT);

    if (BASE_UNLIKELY(!ampi_rma_post(remote->at->shared, &answer, NULL, 0)))
        let_go(remote->at, &remote->wire, remote->waiter.as); /* who wanted it is lost */
    free(remote);
}

static void take_next(struct remote_waiter *remote);

static void granted(struct ampi_win_waiter *waiter)
{
    struct remote_waiter *remote = BASE_CONTAINER(waiter, struct remote_waiter, waiter);

    if (remote->wire.tag == AMPI_RMA_LOCK && !remote->has_process) {
        remote->has_process = true;
        take_next(remote);
    } else {
        grant(remote);
    }
}

/* The process's lock for all, and for exclusive ones before the target's. */
static void take_next(struct remote_waiter *remote)
{
    struct ampi_win_lock *lock = remote->has_process ? &remote->at->lock : &remote->at->shared->everybody;

    if (ampi_win_lock_take(lock, &remote->waiter, remote->wire.flags & AMPI_RMA_HAS_OTHERS))
        granted(&remote->waiter);
}

static void handle_lock(const struct ampi_wire *wire)
{
    struct remote_waiter *remote = base_calloc(1, sizeof *remote, "a lock of a window");
    bool is_exclusive = wire->flags & AMPI_RMA_EXCLUSIVE;

    remote->at = find_target(wire);
    BASE_ASSERT(remote->at);
    remote->wire = *wire;
    remote->waiter.as = is_exclusive ? AMPI_LOCK_EXCLUSIVE : AMPI_LOCK_SHARED;
    remote->waiter.rank = wire->source;
    remote->waiter.granted = granted;
    remote->has_process = wire->tag == AMPI_RMA_LOCK && !is_exclusive;
    take_next(remote);
}

static void handle_unlock(const struct ampi_wire *wire)
{
    struct ampi_win *at = find_target(wire);
    enum ampi_win_lock_as as = wire->flags & AMPI_RMA_EXCLUSIVE ? AMPI_LOCK_EXCLUSIVE : AMPI_LOCK_SHARED;

    if (at)
        let_go(at, wire, as);
}

/* ---- All messages ---- */

static void handle_signal(const struct ampi_wire *wire)
{
    struct ampi_win *at = find_target(wire);

    if (at)
        ampi_epoch_signalled(at, wire->tag == AMPI_RMA_POST ? AMPI_SIGNAL_POST : AMPI_SIGNAL_COMPLETE,
                             wire->source);
}

static void handle_message(const struct ampi_wire *wire, void *bytes, size_t n_bytes)
{
    switch ((enum ampi_rma_message)wire->tag) {
    case AMPI_RMA_OP:
        handle_op(wire, bytes);
        break;
    case AMPI_RMA_ANSWER:
        ampi_rma_handle_answer(wire, bytes, n_bytes);
        break;
    case AMPI_RMA_LOCK:
    case AMPI_RMA_LOCK_ALL:
        handle_lock(wire);
        break;
    case AMPI_RMA_GRANT:
        ampi_rma_handle_grant(wire);
        break;
    case AMPI_RMA_UNLOCK:
    case AMPI_RMA_UNLOCK_ALL:
        handle_unlock(wire);
        break;
    case AMPI_RMA_POST:
    case AMPI_RMA_COMPLETE:
        handle_signal(wire);
        break;
    }
    free(bytes);
}

/* ---- Lost processes ---- */

/* The members of this PE learn of it. */
static void lose_window(struct ampi_win_shared *shared, int pe_id)
{
    for (int i = 0; i < shared->n_local; i++) {
        struct ampi_win *win = &shared->handles[i];
        if (win->magic != AMPI_MAGIC_WIN || win->owner->pe_id != pe_id)
            continue;
        win->has_lost = true;
        ampi_rma_lose_parts(win);
        ampi_rma_lose_lock(win);
        if (win->waiting && !win->is_draining) {
            win->waiting->status.MPI_ERROR = MPI_ERR_PROC_ABORTED;
            ampi_epoch_wake(win);
        }
    }
}

/* Ends the waits of the PE's members in windows with lost members. */
static void look_again(int pe_id)
{
    pthread_mutex_lock(&windows.lock);
    for (struct ampi_win_shared *shared = windows.first; shared; shared = shared->next)
        if (ampi_lost_in_group(shared->comm->side[0].layout->group))
            lose_window(shared, pe_id);
    pthread_mutex_unlock(&windows.lock);
}

/* ---- Connecting ---- */

static bool handle(int pe_id, const struct ampi_wire *wire, const void *header,
                   const struct machine_data *data)
{
    (void)header;
    return ampi_procs_take(pe_id, wire, data, handle_message);
}

void ampi_rma_connect(void)
{
    static const struct ampi_procs_client client = {.look_again = look_again};

    ampi_procs_add_client(&client);
    ampi_procs_set_handler(AMPI_WIRE_RMA, handle);
}
