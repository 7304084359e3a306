/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma_remote_target.c: handles messages from origins in other processes, on the target's PE. See
 * rma_remote.h.
 *
 * Owns the list of windows across several processes. A message finds its window through the communicator with its context
 * id, which no other one gets later. The communicator, and with it the window, is destroyed when no PE can be in a handler
 * that has found it (comm_retire.c), so a late message finds a window that is complete, or none.
 */
#include "ampi/comm/contexts.h"
#include "ampi/rma/rma_remote.h"
#include "ampi/rma/rma_remote_header.h"

#include "base/log.h"

/* ---- Windows ---- */

static struct {
    pthread_mutex_t lock;
    struct ampi_win_shared *first;
} windows = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A lock held by an origin in another process: in the list of the window, so that it can be broken if that process
 * fails. */
struct ampi_remote_holder {
    struct ampi_remote_holder *next;
    struct ampi_win *at; /* LOCK: the target; LOCK_ALL: a member of the process */
    int rank;            /* of the origin */
    bool is_all;         /* LOCK_ALL: of the process's lock or, exclusive, of its gate */
    enum ampi_win_lock_as as;
};

/* The first member in each other process, for messages to processes. */
static void find_others(struct ampi_win_shared *shared)
{
    const struct ampi_layout *layout = shared->comm->side[0].layout;
    bool *is_known = base_calloc((size_t)ampi_job.max_procs, sizeof *is_known, "a window");

    shared->others = base_calloc((size_t)ampi_job.max_procs, sizeof *shared->others, "a window");
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
    pthread_mutex_init(&shared->members_lock, NULL);
    shared->keys = base_calloc((size_t)ampi_job.n_pes, sizeof(struct ampi_win_keys *), "a window");
    pthread_mutex_lock(&windows.lock);
    shared->next = windows.first;
    shared->link = &windows.first;
    if (shared->next)
        shared->next->link = &shared->next;
    windows.first = shared;
    pthread_mutex_unlock(&windows.lock);
    shared->comm->window = shared;
}

void ampi_rma_remote_remove(struct ampi_win_shared *shared)
{
    pthread_mutex_lock(&windows.lock);
    *shared->link = shared->next;
    if (shared->next)
        shared->next->link = shared->link;
    pthread_mutex_unlock(&windows.lock);
}

void ampi_rma_remote_fini(struct ampi_win_shared *shared)
{
    while (shared->holders) { /* of members whose unlocking message is late */
        struct ampi_remote_holder *holder = shared->holders;
        shared->holders = holder->next;
        free(holder);
    }
    pthread_mutex_destroy(&shared->members_lock);
    free(shared->others);
    free(shared->keys);
    shared->others = NULL;
    shared->keys = NULL;
}

struct ampi_win_shared *ampi_rma_find_window(const struct ampi_am_header *am)
{
    struct ampi_comm_shared *comm = ampi_contexts_find(ult_pe_id(ult_self()->pe), am->context_id);

    return comm ? comm->window : NULL;
}

/* The member that a message is for; NULL: it has freed the window. */
static struct ampi_win *find_target(const struct ampi_am_header *am)
{
    struct ampi_win_shared *shared = ampi_rma_find_window(am);
    struct ampi_win *at = shared ? shared->targets[am->dest].handle : NULL;

    return at && at->magic == AMPI_MAGIC_WIN ? at : NULL;
}

struct ampi_am_header ampi_rma_answer_to(const struct ampi_am_header *am, enum ampi_rma_message message)
{
    struct ampi_am_header answer = *am;

    answer.tag = message;
    answer.source = am->dest;
    answer.dest = am->source;
    answer.flags = 0;
    return answer;
}

/* Answers a request to a member that has freed the window. */
static BASE_COLD void refuse_request(const struct ampi_am_header *am)
{
    bool is_operation = am->tag == AMPI_RMA_OP || am->tag == AMPI_RMA_CLAIM,
         is_lock = am->tag == AMPI_RMA_LOCK || am->tag == AMPI_RMA_LOCK_ALL;
    struct ampi_am_header answer = ampi_rma_answer_to(am, is_operation ? AMPI_RMA_ANSWER
                                                          : is_lock    ? AMPI_RMA_GRANT
                                                                       : AMPI_RMA_KEY);

    if (is_operation)
        answer.seq = MPI_ERR_WIN;
    if (is_lock)
        answer.flags = AMPI_RMA_REFUSED;
    ampi_procs_post((int)am->src_proc, am->src_pe, &answer, NULL, 0);
}

/* ---- Operations ---- */

static bool are_attached(struct ampi_win *at, const struct ampi_rma_piece *pieces, uint32_t n_pieces)
{
    for (uint32_t i = 0; i < n_pieces; i++)
        if (!ampi_win_is_attached(at, pieces[i].address, pieces[i].address + pieces[i].n_bytes))
            return false;
    return true;
}

/* Performs the operation; returns MPI's error class. */
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

static void handle_pull(struct ampi_win *at, const struct ampi_am_header *am,
                        const struct ampi_rma_head *head, const char *bytes)
{
    struct ampi_am_header answer = ampi_rma_answer_to(am, AMPI_RMA_ANSWER);
    struct ampi_rma_piece to;
    uint64_t from, done, *refused = NULL;

    memcpy(&to, bytes, sizeof to);
    memcpy(&from, bytes + sizeof to, sizeof from);
    done = ampi_rma_pull(at, (int)am->src_proc, ampi_op_of((MPI_Op)(uintptr_t)head->op),
                         (enum ampi_basic)head->basic, to, (uintptr_t)from);
    answer.seq = MPI_SUCCESS;
    if (BASE_UNLIKELY(done < to.n_bytes)) {
        refused = base_malloc(sizeof done, "the answer to a one-sided operation");
        *refused = done;
        answer.flags = AMPI_RMA_SEND_REST;
    }
    ampi_rma_post(at->shared, &answer, refused, refused ? sizeof done : 0);
}

static void handle_op(const struct ampi_am_header *am, const char *bytes)
{
    struct ampi_win *at = find_target(am);
    struct ampi_am_header answer = ampi_rma_answer_to(am, AMPI_RMA_ANSWER);
    struct ampi_rma_head head;
    const struct ampi_rma_piece *pieces = (const void *)(bytes + sizeof head);
    char *fetched = NULL;

    if (BASE_UNLIKELY(!at)) {
        refuse_request(am);
        return;
    }
    memcpy(&head, bytes, sizeof head);
    if (head.is_pulled) {
        handle_pull(at, am, &head, bytes + sizeof head);
        return;
    }
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

/* Stands in queues for an origin in another process. */
struct remote_waiter {
    struct ampi_win_waiter waiter;
    struct ampi_am_header am; /* of the request */
    struct ampi_win *at;
    bool has_process; /* exclusive: holds the process's lock, the target's comes next */
};

static void add_holder(const struct remote_waiter *remote)
{
    struct ampi_win_shared *shared = remote->at->shared;
    struct ampi_remote_holder *holder = base_malloc(sizeof *holder, "a lock of a window");

    *holder = (struct ampi_remote_holder){.at = remote->at,
                                          .rank = remote->am.source,
                                          .is_all = remote->am.tag == AMPI_RMA_LOCK_ALL,
                                          .as = remote->waiter.as};
    pthread_mutex_lock(&shared->members_lock);
    holder->next = shared->holders;
    shared->holders = holder;
    pthread_mutex_unlock(&shared->members_lock);
}

/* Takes a holder out of the list; NULL: it has failed and is not there any more. at NULL: any whose process has
 * failed. */
static struct ampi_remote_holder *take_holder(struct ampi_win_shared *shared, const struct ampi_win *at,
                                              int rank, bool is_all, enum ampi_win_lock_as as)
{
    const struct ampi_group *group = shared->comm->side[0].layout->group;
    struct ampi_remote_holder **link = &shared->holders, *holder;

    pthread_mutex_lock(&shared->members_lock);
    for (; (holder = *link); link = &holder->next)
        if (at ? holder->at == at && holder->rank == rank && holder->is_all == is_all && holder->as == as
               : ampi_failed_is_rank(ampi_group_world_rank(group, holder->rank)))
            break;
    if (holder)
        *link = holder->next;
    pthread_mutex_unlock(&shared->members_lock);
    return holder;
}

/* has_failed: the holder's process has failed: if it held the lock exclusively, its data may be half written. */
static void release_lock(struct ampi_win *at, bool is_all, enum ampi_win_lock_as as, bool has_failed)
{
    if (is_all) {
        ampi_win_lock_drop(as == AMPI_LOCK_EXCLUSIVE ? &at->shared->gate : &at->shared->everybody, as);
        return;
    }
    if (has_failed && as == AMPI_LOCK_EXCLUSIVE)
        ampi_win_lock_break(&at->lock);
    else
        ampi_win_lock_drop(&at->lock, as);
    if (as == AMPI_LOCK_EXCLUSIVE)
        ampi_win_lock_drop(&at->shared->everybody, as);
}

static void grant(struct remote_waiter *remote)
{
    struct ampi_am_header answer = ampi_rma_answer_to(&remote->am, AMPI_RMA_GRANT);
    bool is_all = remote->am.tag == AMPI_RMA_LOCK_ALL;
    struct ampi_remote_holder *holder;

    answer.flags = remote->waiter.has_passed ? AMPI_RMA_PASSED : 0;
    add_holder(remote); /* the answer to the grant may be handled on another PE at once */
    if (BASE_UNLIKELY(!ampi_rma_post(remote->at->shared, &answer, NULL, 0)) &&
        (holder =
             take_holder(remote->at->shared, remote->at, remote->am.source, is_all, remote->waiter.as))) {
        ampi_win_lock_close(&remote->at->shared->everybody);
        release_lock(remote->at, is_all, remote->waiter.as,
                     false); /* the failed origin has written nothing */
        free(holder);
    }
    free(remote);
}

/* Refuses the lock: the target's was broken, or the process's is closed. */
static void refuse(struct remote_waiter *remote)
{
    struct ampi_am_header answer = ampi_rma_answer_to(&remote->am, AMPI_RMA_GRANT);

    if (remote->waiter.as == AMPI_LOCK_EXCLUSIVE) /* it holds the process's lock */
        ampi_win_lock_drop(&remote->at->shared->everybody, AMPI_LOCK_EXCLUSIVE);
    answer.flags = AMPI_RMA_REFUSED;
    ampi_rma_post(remote->at->shared, &answer, NULL, 0);
    free(remote);
}

static void take_next(struct remote_waiter *remote);

static void granted(struct ampi_win_waiter *waiter)
{
    struct remote_waiter *remote = BASE_CONTAINER(waiter, struct remote_waiter, waiter);

    if (waiter->is_refused) {
        refuse(remote);
    } else if (remote->am.tag == AMPI_RMA_LOCK && !remote->has_process) {
        remote->has_process = true;
        take_next(remote);
    } else {
        grant(remote);
    }
}

/* Takes the process's lock for LOCK_ALL and, for exclusive locks, before the target's; or the gate. */
static void take_next(struct remote_waiter *remote)
{
    struct ampi_win_shared *shared = remote->at->shared;
    bool is_gate = remote->am.tag == AMPI_RMA_LOCK_ALL && remote->waiter.as == AMPI_LOCK_EXCLUSIVE;
    struct ampi_win_lock *lock = is_gate               ? &shared->gate
                                 : remote->has_process ? &remote->at->lock
                                                       : &shared->everybody;

    switch (ampi_win_lock_take(lock, &remote->waiter)) {
    case AMPI_LOCK_TAKEN:
        granted(&remote->waiter);
        break;
    case AMPI_LOCK_REFUSED:
        refuse(remote);
        break;
    case AMPI_LOCK_QUEUED:
        break;
    }
}

static void answer_busy(const struct ampi_win *at, const struct ampi_am_header *am)
{
    struct ampi_am_header answer = ampi_rma_answer_to(am, AMPI_RMA_GRANT);

    answer.flags = AMPI_RMA_BUSY;
    ampi_rma_post(at->shared, &answer, NULL, 0);
}

static void handle_lock(const struct ampi_am_header *am)
{
    struct ampi_win *at = find_target(am);
    bool is_exclusive = am->flags & AMPI_RMA_EXCLUSIVE;
    struct remote_waiter *remote;

    if (BASE_UNLIKELY(!at)) {
        refuse_request(am);
        return;
    }
    if ((am->flags & AMPI_RMA_TRY) &&
        !ampi_win_lock_try(&at->shared->everybody, AMPI_LOCK_SHARED, am->source)) {
        answer_busy(at, am);
        return;
    }
    remote = base_calloc(1, sizeof *remote, "a lock of a window");
    remote->at = at;
    remote->am = *am;
    remote->waiter.as = is_exclusive ? AMPI_LOCK_EXCLUSIVE : AMPI_LOCK_SHARED;
    remote->waiter.rank = am->source;
    remote->waiter.has_others = am->flags & AMPI_RMA_HAS_OTHERS;
    remote->waiter.granted = granted;
    remote->has_process = am->tag == AMPI_RMA_LOCK && !is_exclusive;
    if (am->flags & AMPI_RMA_TRY)
        grant(remote);
    else
        take_next(remote);
}

static void handle_unlock(const struct ampi_am_header *am)
{
    struct ampi_win *at = find_target(am);
    bool is_all = am->tag == AMPI_RMA_UNLOCK_ALL;
    enum ampi_win_lock_as as = am->flags & AMPI_RMA_EXCLUSIVE ? AMPI_LOCK_EXCLUSIVE : AMPI_LOCK_SHARED;
    struct ampi_remote_holder *holder = at ? take_holder(at->shared, at, am->source, is_all, as) : NULL;

    if (!holder)
        return;
    release_lock(at, is_all, as, false);
    free(holder);
}

/* ---- Reports of deadlocks ---- */

static void handle_holders_wanted(const struct ampi_am_header *am)
{
    struct ampi_win *at = find_target(am);
    struct ampi_am_header answer = ampi_rma_answer_to(am, AMPI_RMA_HOLDERS);
    struct ampi_win_holders *holders = base_calloc(1, sizeof *holders, "a report");

    if (at && !(am->flags & AMPI_RMA_IS_ALL) && ampi_win_lock_is_awaited(&at->lock, am->source))
        *holders = ampi_win_lock_holders(&at->lock);
    else if (at)
        *holders = ampi_win_lock_holders(&at->shared->everybody);
    ampi_procs_post((int)am->src_proc, 0, &answer, holders, sizeof *holders);
}

static int ask_for_report(void)
{
    int n_asked = 0;

    pthread_mutex_lock(&windows.lock);
    for (struct ampi_win_shared *shared = windows.first; shared; shared = shared->next)
        for (int i = 0; i < shared->n_local; i++)
            if (shared->handles[i].magic == AMPI_MAGIC_WIN)
                n_asked += ampi_rma_ask_for_holders(&shared->handles[i]);
    pthread_mutex_unlock(&windows.lock);
    return n_asked;
}

/* ---- Keys ---- */

static void handle_key_wanted(const struct ampi_am_header *am)
{
    struct ampi_win *at = find_target(am);
    struct ampi_am_header answer = ampi_rma_answer_to(am, AMPI_RMA_KEY);
    size_t n_bytes;
    void *key;

    if (BASE_UNLIKELY(!at)) {
        refuse_request(am);
        return;
    }
    key = ampi_rma_access_pack_key(at, &n_bytes);
    ampi_rma_post(at->shared, &answer, key, n_bytes);
}

/* ---- Claims ---- */

static void handle_claim(const struct ampi_am_header *am, const void *message)
{
    const struct ampi_win *at = find_target(am);
    struct ampi_am_header answer = ampi_rma_answer_to(am, AMPI_RMA_ANSWER);

    if (BASE_UNLIKELY(!at)) {
        refuse_request(am);
        return;
    }
    ampi_rma_checker.claimed(at->shared, am->source, am->dest, message);
    answer.seq = MPI_SUCCESS;
    ampi_rma_post(at->shared, &answer, NULL, 0);
}

/* ---- All messages ---- */

static void handle_signal(const struct ampi_am_header *am)
{
    struct ampi_win *at = find_target(am);

    if (at)
        ampi_epoch_signalled(at, am->tag == AMPI_RMA_POST ? AMPI_SIGNAL_POST : AMPI_SIGNAL_COMPLETE,
                             am->source);
}

static void handle_message(const struct ampi_am_header *am, void *bytes, size_t n_bytes)
{
    switch ((enum ampi_rma_message)am->tag) {
    case AMPI_RMA_OP:
        handle_op(am, bytes);
        break;
    case AMPI_RMA_ANSWER:
        ampi_rma_handle_answer(am, bytes, n_bytes);
        break;
    case AMPI_RMA_LOCK:
    case AMPI_RMA_LOCK_ALL:
        handle_lock(am);
        break;
    case AMPI_RMA_GRANT:
        ampi_rma_handle_grant(am);
        break;
    case AMPI_RMA_UNLOCK:
    case AMPI_RMA_UNLOCK_ALL:
        handle_unlock(am);
        break;
    case AMPI_RMA_KEY_WANTED:
        handle_key_wanted(am);
        break;
    case AMPI_RMA_KEY:
        ampi_rma_handle_key(am, bytes, n_bytes);
        break;
    case AMPI_RMA_HOLDERS_WANTED:
        handle_holders_wanted(am);
        break;
    case AMPI_RMA_HOLDERS:
        ampi_rma_handle_holders(am, bytes);
        break;
    case AMPI_RMA_POST:
    case AMPI_RMA_COMPLETE:
        handle_signal(am);
        break;
    case AMPI_RMA_CLAIM:
        handle_claim(am, bytes);
        break;
    case AMPI_RMA_LEAVE:
        ampi_rma_handle_leave(am);
        break;
    }
    free(bytes);
}

/* ---- Failed processes ---- */

/* Releases the locks of failed origins. */
static void break_locks(struct ampi_win_shared *shared)
{
    struct ampi_remote_holder *holder;

    while ((holder = take_holder(shared, NULL, -1, false, AMPI_LOCK_SHARED))) {
        release_lock(holder->at, holder->is_all, holder->as, true);
        free(holder);
    }
}

/* Called when a member has failed: ends the operations and waits of this PE's members. */
static void fail_window(struct ampi_win_shared *shared, int pe_id)
{
    ampi_win_lock_close(&shared->everybody); /* first: else breaking locks could grant MPI_Win_lock_all */
    break_locks(shared);
    for (int i = 0; i < shared->n_local; i++) {
        struct ampi_win *win = &shared->handles[i];
        if (win->magic != AMPI_MAGIC_WIN || win->owner->pe_id != pe_id)
            continue;
        win->has_failed = true;
        ampi_rma_fail_pieces(win);
        ampi_rma_fail_grants(win);
        ampi_epoch_fail_waits(win);
    }
}

/* Ends the waits of the PE's members in windows with failed members. */
static void look_again(int pe_id)
{
    pthread_mutex_lock(&windows.lock);
    for (struct ampi_win_shared *shared = windows.first; shared; shared = shared->next)
        if (ampi_failed_in_group(shared->comm->side[0].layout->group))
            fail_window(shared, pe_id);
    pthread_mutex_unlock(&windows.lock);
}

/* ---- Connecting ---- */

static void destroy_window(struct ampi_comm_shared *comm)
{
    if (comm->window)
        ampi_win_destroy(comm->window);
}

static bool handle(int pe_id, const struct ampi_am_header *am, const void *header,
                   const struct machine_data *data)
{
    (void)header;
    return ampi_procs_take(pe_id, am, data, handle_message);
}

void ampi_rma_connect(void)
{
    static const struct ampi_procs_client client = {.look_again = look_again,
                                                    .ask_for_report = ask_for_report};

    static const struct ampi_comm_client comm_client = {.destroy = destroy_window, .watch = ampi_win_watch};

    ampi_comm_add_client(&comm_client);
    ampi_procs_add_client(&client);
    ampi_procs_set_handler(AMPI_AM_RMA, handle);
}
