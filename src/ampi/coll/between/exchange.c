/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange.c: running the steps of exchanges, and the messages between them. See exchange.h.
 *
 * Invariants, all on the leader PE:
 *   1. A received message is in one list: a bucket's arrived (coll_remote.h), then x->got of the exchange that awaits it, then
 *      x->kept of the same.
 *   2. A step runs only when n_awaited, n_held and, unless steps run ahead, n_sending are 0. The exchange ends when
 *      all three are.
 */
#include "ampi/coll/between/exchange.h"
#include "ampi/coll/device/coll_device.h"

#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/between/parts.h"
#include "ampi/coll/between/reduction.h"
#include "ampi/procs/procs.h"
#include "base/log.h"

#define ALLOC_ALIGN 16u

/* ---- Steps ---- */

static void advance(struct ampi_exchange *x);

static void fetched(void *arg, int result)
{
    struct ampi_exchange_message *message = arg;
    struct ampi_exchange *x = message->x;

    x->n_held--;
    x->has_failed |= result < 0;
    advance(x);
}

/* Fetches the data into memory that the exchange uses. */
static void fetch(struct ampi_exchange *x, struct ampi_exchange_message *message)
{
    const struct ampi_coll_remote *remote = x->slot->state->remote;
    void *token = message->token;
    int result;

    bool is_scratch = (x->device >= 0 && ampi_exchange_is_direct(message->algorithm)) || x->is_staged;

    if (is_scratch && message->n_bytes >= AMPI_EXCHANGE_DIRECT_BYTES)
        message->bytes = ampi_coll_device_scratch(x, message->n_bytes);
    else if (message->is_bare && !message->is_again)
        message->bytes = ampi_part_place(x, ampi_exchange_part_of(message).origin.member, message->n_bytes);
    message->is_lent = message->bytes != NULL;
    if (!message->bytes)
        message->bytes = base_malloc(message->n_bytes, "a message between processes");
    message->token = NULL;
    message->x = x;
    x->n_held++;
    result = ampi_machine->fetch(
        ult_pe_id(ult_self()->pe), remote->proc_id[message->proc], token, message->bytes, message->n_bytes,
        x->device < 0 ? MACHINE_HOST : ampi_coll_device_memory(message->bytes), fetched, message);
    if (result != MACHINE_PENDING)
        fetched(message, result);
}

/* Copies the data from the sender's memory to its place. False: it comes once more, as a message with data. */
static bool copy_directly(struct ampi_exchange *x, struct ampi_exchange_message *message)
{
    int result;

    if (x->reduction)
        message->bytes = ampi_reduction_room(x, message);
    else
        message->bytes = ampi_part_place(x, ampi_exchange_part_of(message).origin.member, message->n_bytes);
    message->is_lent = message->bytes != NULL;
    if (!message->bytes)
        message->bytes = base_malloc(message->n_bytes, "a message between processes");
    result = ampi_exchange_direct_fetch(message->direct, message->bytes);
    message->direct = NULL;
    x->has_failed |= result == MACHINE_PEER_FAILED;
    return result != MACHINE_FAILED;
}

/* The same for elements that are combined while they are copied. */
static bool absorb_directly(struct ampi_exchange *x, struct ampi_exchange_message *message)
{
    int result = x->reduction->absorb(x, message);

    ampi_exchange_direct_answer(message->direct, result);
    message->direct = NULL;
    x->has_failed |= result == MACHINE_PEER_FAILED;
    return result != MACHINE_FAILED;
}

static bool take_directly(struct ampi_exchange *x, struct ampi_exchange_message *message)
{
    return ampi_reduction_can_absorb(x, message) ? absorb_directly(x, message) : copy_directly(x, message);
}

static void take(struct ampi_exchange *x, struct ampi_exchange_message *message)
{
    ampi_exchange_check(x, message);
    if (message->direct && message->is_bare && !take_directly(x, message)) {
        ampi_exchange_message_free(message);
        return;
    }
    x->n_listed += ampi_exchange_is_list(message);
    message->next = x->got;
    x->got = message;
    x->n_awaited--;
    if (BASE_UNLIKELY(message->token != NULL))
        fetch(x, message);
}

/* Handles a message that is not awaited now, and perhaps never will be: if sizes do not match, one process
 * may vote on NCCL and another not. */
static void check_early(const struct ampi_exchange *x, const struct ampi_exchange_message *message)
{
    bool votes = message->algorithm == AMPI_BETWEEN_NCCL;

    if (x->nccl ? !votes && !message->has_voted : votes && !x->has_voted)
        ampi_exchange_check(x, message);
}

static bool is_awaited(const struct ampi_exchange *x, const struct ampi_exchange_message *message)
{
    return x->n_awaited > 0 && (x->tag == message->tag || x->tag == AMPI_EXCHANGE_ANY_TAG);
}

/* Takes messages that have arrived early. Searches from the beginning after each, because taking it may call a user's
 * operation, which lets others arrive. */
static void take_arrived(struct ampi_exchange *x)
{
    struct ampi_exchange_table *table = &x->slot->state->remote->table;
    struct ampi_exchange_message **link = &ampi_exchange_bucket(table, x->seq, x->series)->arrived, *message;

    while ((message = *link) && x->n_awaited > 0) {
        bool is_ours = message->seq == x->seq && message->series == x->series;
        if (is_ours && is_awaited(x, message)) {
            *link = message->next;
            table->n_entries--;
            take(x, message);
            link = &ampi_exchange_bucket(table, x->seq, x->series)->arrived;
        } else {
            if (BASE_UNLIKELY(is_ours))
                check_early(x, message);
            link = &message->next;
        }
    }
}

static void keep_got(struct ampi_exchange *x)
{
    while (x->got) {
        struct ampi_exchange_message *message = x->got;
        x->got = message->next;
        message->next = x->kept;
        x->kept = message;
    }
}

/* True if the next step can run, or the exchange can end. */
static bool can_go_on(const struct ampi_exchange *x)
{
    if (x->n_held > 0 || (x->n_awaited > 0 && !x->has_failed))
        return false;
    return x->n_sending == 0 || (x->is_ahead && !x->is_over && !x->has_failed);
}

/* Answers messages whose data the failed exchange will not copy. Their senders' exchanges have failed, too,
 * and end only when the answers have come, as this one does. */
static BASE_COLD void drop_uncopied(struct ampi_exchange *x)
{
    struct ampi_exchange_message *const lists[] = {x->got, x->kept};

    for (size_t i = 0; i < BASE_COUNT(lists); i++)
        for (struct ampi_exchange_message *message = lists[i]; message; message = message->next) {
            if (message->direct)
                ampi_exchange_direct_drop(message->direct);
            message->direct = NULL;
        }
}

/* Runs as many steps as possible. */
static void advance(struct ampi_exchange *x)
{
    if (x->is_running) /* a step has called a user's operation, which let other ranks poll */
        return;
    if (BASE_UNLIKELY(x->has_failed) && x->n_held == 0) /* no PE copies */
        drop_uncopied(x);
    while (can_go_on(x)) {
        if (x->is_over || x->has_failed) {
            ampi_exchange_over(x); /* x may be reused from here on */
            return;
        }
        x->is_running = true;
        x->is_over = true; /* unless the step awaits messages */
        x->run_step(x);
        if (x->step++ == 0 && x->has_early && x->n_sending > 0 && x->slot->plan->early)
            x->slot->plan->early(x->slot);
        x->is_running = false;
        if (x->is_over && x->n_listed > 0) {
            x->run_step = ampi_exchange_copy_listed;
            x->is_over = false;
            ampi_exchange_run_ahead(x);
        }
    }
}

void ampi_exchange_start(struct ampi_exchange *x)
{
    x->step = x->n_awaited = x->n_sending = x->n_held = 0;
    x->is_running = x->is_ahead = false;
    x->is_over = x->n < 2 || !x->run_step;
    if (x->prepare && !x->is_over && !x->has_failed) {
        x->is_running = true;
        ampi_exchange_share(x, x->prepare, x->prepare_bytes);
        x->is_running = false;
    }
    advance(x);
}

void ampi_exchange_fail(struct ampi_exchange *x)
{
    x->has_failed = true;
    ampi_exchange_direct_fail(x);
    advance(x);
}

void ampi_exchange_await(struct ampi_exchange *x, int tag, int n)
{
    keep_got(x);
    x->tag = tag;
    x->n_awaited = n;
    x->is_over = false;
    take_arrived(x);
}

void ampi_exchange_run_ahead(struct ampi_exchange *x)
{
    x->is_ahead = true;
}

void ampi_exchange_hold(struct ampi_exchange *x)
{
    x->n_held++;
    x->is_over = false;
}

void ampi_exchange_go_on(struct ampi_exchange *x)
{
    x->n_held--;
    advance(x);
}

/* ---- Work for all PEs ---- */

/* From this many bytes on, sharing the work with other PEs is faster. */
#define SHARE_FROM ((size_t)64 << 10)

static void handle_shared(struct ult_wakeup *wakeup)
{
    ampi_exchange_go_on(&BASE_CONTAINER(wakeup, struct ampi_between_slot, wakeup)->x);
}

static void shared(struct ampi_coll_slot *slot)
{
    struct ult_pe *leader = slot->state->remote->leader;

    if (leader == ult_self()->pe) {
        ampi_exchange_go_on(&slot->between->x);
        return;
    }
    slot->between->wakeup.handle = handle_shared;
    ult_post_wakeup(leader, &slot->between->wakeup);
}

void ampi_exchange_share(struct ampi_exchange *x, ampi_coll_work_fn work, size_t n_bytes)
{
    struct ampi_coll_slot *slot = x->slot;

    if (slot->state->n_parts > 1 && n_bytes >= SHARE_FROM) {
        ampi_exchange_hold(x);
        ampi_coll_work(slot, slot->state->remote->leader_part, work, shared);
        return;
    }
    for (int part = 0; part < slot->state->n_parts; part++)
        work(slot, part);
    ampi_exchange_again(x);
}

void ampi_exchange_again(struct ampi_exchange *x)
{
    x->is_over = false;
}

/* ---- Messages that come ---- */

struct ampi_exchange *ampi_exchange_find(struct ampi_coll_remote *remote, uint32_t seq, uint32_t series)
{
    struct ampi_between_slot *slot = &remote->slots[seq % AMPI_COLL_SLOTS];

    if (BASE_UNLIKELY(series))
        for (slot = ampi_exchange_bucket(&remote->table, seq, series)->active;
             slot && (slot->x.series != series || slot->x.seq != seq);)
            slot = slot->next_active;
    return slot && slot->is_active && slot->x.seq == seq ? &slot->x : NULL;
}

void ampi_exchange_handle(struct ampi_coll_remote *remote, struct ampi_exchange_message *message)
{
    struct ampi_exchange *x = ampi_exchange_find(remote, message->seq, message->series);

    if (!x || !is_awaited(x, message)) {
        if (x)
            check_early(x, message);
        ampi_exchange_add_arrived(&remote->table, message);
        return;
    }
    take(x, message);
    advance(x);
}

static void drop_early(struct ampi_coll_remote *remote, struct ampi_exchange_message **link)
{
    struct ampi_exchange_message *message;

    while ((message = *link)) {
        if (!message->direct && !message->token) {
            link = &message->next;
            continue;
        }
        *link = message->next;
        remote->table.n_entries--;
        if (message->token && !ampi_failed_is(remote->proc_id[message->proc]))
            ampi_machine->release(ult_pe_id(ult_self()->pe), message->token);
        message->token = NULL;
        ampi_exchange_message_free(message);
    }
}

void ampi_exchange_drop_arrived(struct ampi_coll_remote *remote)
{
    for (uint32_t i = 0; i < remote->table.n_buckets; i++)
        drop_early(remote, &remote->table.buckets[i].arrived);
}

/* ---- Sending ---- */

void ampi_exchange_sent(void *arg, int result)
{
    struct ampi_exchange *x = arg;

    (void)result; /* a failed process is reported by the machine */
    x->n_sending--;
    advance(x);
}

void ampi_exchange_send_bytes(struct ampi_exchange *x, int proc, const struct ampi_am_header *am,
                              const void *bytes, size_t n_bytes)
{
    const struct ampi_coll_remote *remote = x->slot->state->remote;

    if (ampi_procs_send(remote->proc_id[proc], remote->leader_pe[proc], am, bytes, n_bytes,
                        x->device < 0 || n_bytes == 0 ? MACHINE_HOST : ampi_coll_device_memory(bytes),
                        ampi_exchange_sent, x) == MACHINE_PENDING)
        x->n_sending++;
}

void ampi_exchange_send_data(struct ampi_exchange *x, int proc, const struct ampi_am_header *am,
                             const void *bytes, size_t n_bytes)
{
    struct ampi_am_header lent = *am;
    struct ampi_node_ref ref;

    if (n_bytes < ampi_coll_selections[AMPI_COLL_NODE_MEMORY].share_from ||
        !ampi_exchange_node_lend(x, proc, bytes, n_bytes, &ref)) {
        ampi_exchange_send_bytes(x, proc, am, bytes, n_bytes);
        return;
    }
    lent.flags |= AMPI_AM_LENT;
    ampi_exchange_send_bytes(x, proc, &lent, memcpy(ampi_exchange_alloc(x, sizeof ref), &ref, sizeof ref),
                             sizeof ref);
}

static void send_message(struct ampi_exchange *x, int to, int tag, uint64_t cookie,
                         const struct ampi_exchange_block *part)
{
    struct ampi_coll_remote *remote = x->slot->state->remote;
    int proc = x->proc[to];
    struct ampi_am_header am = {
        .kind = AMPI_AM_COLL,
        .flags = (uint8_t)((x->has_voted ? AMPI_AM_VOTED : 0) |
                           (atomic_load_explicit(&x->slot->state->has_refused, memory_order_relaxed)
                                ? AMPI_AM_REFUSED
                                : 0) |
                           (part->is_bare ? AMPI_AM_BARE : 0)),
        .context_id = x->slot->state->shared->context_id,
        .seq = x->seq,
        .tag = tag,
        .source = (int32_t)x->series,
        .dest = (int32_t)(x->plan_hash << 8) | x->algorithm,
        .cookie = cookie};

    if (remote->leader_pe[proc] < 0)
        remote->leader_pe[proc] = ampi_procs_pe_of(remote->leader_rank[proc]);
    if (remote->leader_pe[proc] < 0) /* the process has failed, which is handled elsewhere */
        return;
    if (x->reduction && ampi_reduction_lends(x, proc, part->n_bytes)) {
        am.flags |= AMPI_AM_BARE;
        ampi_exchange_direct_send(x, proc, &am, part->bytes, part->n_bytes);
        return;
    }
    if (part->addresses)
        ampi_exchange_direct_send_list(x, proc, &am, part);
    else if (part->is_bare && ampi_exchange_direct_reaches(remote->proc_id[proc]))
        ampi_exchange_direct_send(x, proc, &am, part->bytes, part->n_bytes);
    else
        ampi_exchange_send_data(x, proc, &am, part->bytes, part->n_bytes);
}

void ampi_exchange_send(struct ampi_exchange *x, int to, int tag, uint64_t cookie, const void *bytes,
                        size_t n_bytes)
{
    struct ampi_exchange_block data = {.bytes = bytes, .n_bytes = n_bytes};

    send_message(x, to, tag, cookie, &data);
}

void ampi_exchange_send_part(struct ampi_exchange *x, int to, int tag, const struct ampi_exchange_block *part)
{
    uint64_t cookie = 0;

    if (part->is_bare)
        memcpy(&cookie, &part->origin, sizeof cookie);
    send_message(x, to, tag, cookie, part);
}

int ampi_exchange_sender(const struct ampi_exchange *x, const struct ampi_exchange_message *message)
{
    int i = 0;

    if (x->n == x->slot->state->remote->n_procs)
        return message->proc;
    while (i < x->n && x->proc[i] != message->proc)
        i++;
    BASE_ASSERT(i < x->n);
    return i;
}

/* ---- Memory ---- */

void *ampi_exchange_alloc(struct ampi_exchange *x, size_t n_bytes)
{
    void **memory = base_malloc(ALLOC_ALIGN + n_bytes, "a collective between processes");

    *memory = x->memory;
    x->memory = memory;
    return (char *)memory + ALLOC_ALIGN;
}

void *ampi_exchange_alloc_data(struct ampi_exchange *x, size_t n_bytes)
{
    void *data = (x->device >= 0 || x->is_staged) && n_bytes >= AMPI_EXCHANGE_DIRECT_BYTES
                     ? ampi_coll_device_scratch(x, n_bytes)
                     : ampi_exchange_node_alloc(x, n_bytes);

    return data ? data : ampi_exchange_alloc(x, n_bytes);
}

void ampi_exchange_copy(struct ampi_exchange *x, void *to, const void *from, size_t n_bytes)
{
    if (n_bytes == 0)
        return;
    if (BASE_UNLIKELY(x->device >= 0))
        ampi_coll_gpu_copy(x->slot->last, to, ampi_coll_bytes(NULL, 0).type, from,
                           ampi_coll_bytes(NULL, 0).type, (MPI_Count)n_bytes);
    else
        memcpy(to, from, n_bytes);
}

void ampi_exchange_message_free(struct ampi_exchange_message *message)
{
    if (BASE_UNLIKELY(message->token != NULL) && !ampi_failed_any()) /* of a failed process: not released */
        ampi_machine->release(ult_pe_id(ult_self()->pe), message->token);
    if (BASE_UNLIKELY(message->direct != NULL))
        ampi_exchange_direct_drop(message->direct);
    if (message->ref.n_bytes)
        ampi_node_memory_release(&message->ref);
    if (!message->is_lent)
        free(message->bytes);
    free(message);
}

void ampi_exchange_release(struct ampi_exchange *x)
{
    keep_got(x);
    if (BASE_UNLIKELY(x->scratch != NULL))
        ampi_coll_device_release(x);
    if (x->node_blocks)
        ampi_exchange_node_release(x);
    while (x->kept) {
        struct ampi_exchange_message *message = x->kept;
        x->kept = message->next;
        ampi_exchange_message_free(message);
    }
    while (x->memory) {
        void *memory = x->memory;
        x->memory = *(void **)memory;
        free(memory);
    }
}
