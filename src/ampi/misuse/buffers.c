/* SPDX-License-Identifier: BSD-3-Clause
 *
 * buffers.c: +check usage: the memory of pending sends, receives and results of collectives (MPI 5.0, section 3.7.2): from the call that
 * starts one to the call that reports its completion to the program, even if the library completes it earlier.
 *
 * The data of a send has the same checksum at both ends, and the buffer of a receive until its message comes. Each rank has a set of the blocks of its pending operations, as runs.
 * A new operation must not overlap any of them; a send may overlap those of sends. Blocking calls are compared with
 * it, too. Data in GPU memory is not checked, and data of more than RUNS_MAX runs not for overlaps.
 */
#include "ampi/misuse/misuse.h"

#include "ampi/datatype/buffer.h"
#include "ampi/datatype/cursor.h"
#include "ampi/object/sanitizer.h"
#include "ampi/p2p/p2p_watch.h"
#include "base/log.h"
#include "base/text.h"

#define RUNS_MAX 1024
/* What the comparison of a new operation with pending runs may cost. */
#define COST_MAX 16384
#define COST_OF_SENDS 16 /* of a send with a send, which is never a conflict; of others 1 */

/* ---- Data ---- */

static BASE_NO_SANITIZE uint64_t add_bytes(uint64_t sum, const unsigned char *bytes, size_t n)
{
    uint64_t lanes[4] = {sum, ~sum, sum << 1, n}, word;

    for (; n >= 32; n -= 32, bytes += 32)
        for (int i = 0; i < 4; i++) {
            memcpy(&word, bytes + 8 * i, sizeof word);
            lanes[i] = (lanes[i] ^ word) * 0x9e3779b97f4a7c15u;
        }
    for (int i = 0; n >= 8; n -= 8, bytes += 8, i++) {
        memcpy(&word, bytes, sizeof word);
        lanes[i] = (lanes[i] ^ word) * 0x9e3779b97f4a7c15u;
    }
    for (; n > 0; n--, bytes++)
        lanes[n % 4] = (lanes[n % 4] ^ *bytes) * 0x9e3779b97f4a7c15u;
    for (int i = 1; i < 4; i++)
        lanes[0] = (lanes[0] ^ lanes[0] >> 29 ^ lanes[i]) * 0xbf58476d1ce4e5b9u;
    return lanes[0] ^ lanes[0] >> 32;
}

void ampi_misuse_each_block(const void *buf, MPI_Count count, const struct ampi_type *type,
                            bool (*visit)(uintptr_t begin, size_t n_bytes, void *arg), void *arg)
{
    struct ampi_cursor cursor;

    if (count == 0 || type->size_bytes == 0)
        return;
    if (ampi_type_is_block(type, count)) {
        visit((uintptr_t)ampi_type_address(buf, type->true_lb_bytes), (size_t)(count * type->size_bytes),
              arg);
        return;
    }
    ampi_cursor_init(&cursor, buf, count, type);
    do {
        for (size_t i = 0; i < cursor.run.n_blocks; i++)
            if (!visit(cursor.run.ptr + (uintptr_t)((int64_t)i * cursor.run.stride), cursor.run.block, arg))
                return;
        cursor.packed_bytes += (MPI_Count)(cursor.run.n_blocks * cursor.run.block);
    } while (ampi_cursor_next_run(&cursor));
}

static bool sum_block(uintptr_t begin, size_t n_bytes, void *arg)
{
    uint64_t *sum = arg;

    *sum = add_bytes(*sum, (const unsigned char *)begin, n_bytes);
    return true;
}

uint64_t ampi_misuse_sum(const void *bytes, size_t n_bytes)
{
    return ampi_sanitizer_hide(add_bytes(0, bytes, n_bytes) | 1);
}

uint64_t ampi_misuse_sum_of(const void *buf, MPI_Count count, const struct ampi_type *type)
{
    uint64_t sum = 0;

    if (!ampi_device_has(buf, count, type))
        ampi_misuse_each_block(buf, count, type, sum_block, &sum);
    return ampi_sanitizer_hide(sum);
}

static uint64_t sum_of(const struct ampi_misuse_pending *op)
{
    return ampi_misuse_sum_of(op->buf, op->count, op->type);
}

/* ---- The table ---- */

static struct ampi_misuse_pending **find(struct ampi_misuse *own, const struct ampi_request *request)
{
    static struct ampi_misuse_pending *none;
    struct ampi_misuse_pending **link = &none;

    if (own->pending)
        link = &own->pending[((uintptr_t)request >> 6 ^ (uintptr_t)request >> 14) & (own->n_chains - 1)];
    while (*link && (*link)->request != request)
        link = &(*link)->next;
    return link;
}

static void insert(struct ampi_misuse *own, struct ampi_misuse_pending *op)
{
    struct ampi_misuse_pending **link = find(own, op->request);

    op->next = *link;
    *link = op;
}

/* With the lock. */
static void add(struct ampi_misuse *own, struct ampi_misuse_pending *op)
{
    struct ampi_misuse_pending **chains = own->pending;
    size_t n_chains = own->n_chains;

    if (own->n_pending++ == n_chains) {
        own->n_chains = n_chains ? 2 * n_chains : AMPI_MISUSE_CHAINS;
        own->pending = base_calloc(own->n_chains, sizeof(struct ampi_misuse_pending *), "+check usage");
        for (size_t i = 0; i < n_chains; i++)
            for (struct ampi_misuse_pending *moved = chains[i], *next; moved; moved = next) {
                next = moved->next;
                insert(own, moved);
            }
        free(chains);
    }
    insert(own, op);
}

struct ampi_misuse_pending *ampi_misuse_find(struct ampi_rank *rank, const struct ampi_request *request)
{
    struct ampi_misuse *own = ampi_misuse_of(rank);
    struct ampi_misuse_pending *op;

    pthread_mutex_lock(&own->lock);
    op = *find(own, request);
    pthread_mutex_unlock(&own->lock);
    return op;
}

bool ampi_misuse_find_call(struct ampi_rank *rank, const struct ampi_request *request,
                           struct ampi_misuse_call *call_out)
{
    struct ampi_misuse *own = rank->misuse;
    const struct ampi_misuse_pending *op;

    if (!own)
        return false;
    pthread_mutex_lock(&own->lock);
    op = *find(own, request);
    if (op)
        *call_out = op->call;
    pthread_mutex_unlock(&own->lock);
    return op != NULL;
}

static void free_runs(struct ampi_interval *run)
{
    while (run) {
        struct ampi_interval *with = run->with;
        free(ampi_misuse_run_of(run));
        run = with;
    }
}

static bool add_run(const struct ampi_misuse_run *run, void *arg)
{
    struct ampi_misuse_pending *op = arg;
    struct ampi_misuse_run *made;

    if (op->n_runs++ >= RUNS_MAX) {
        free_runs(op->runs);
        op->runs = NULL;
        return false;
    }
    made = base_malloc(sizeof *made, "+check usage");
    *made = *run;
    made->interval.owner = op;
    made->interval.with = op->runs;
    op->runs = &made->interval;
    return true;
}

void ampi_misuse_add_runs(struct ampi_misuse_pending *op, const void *buf, MPI_Count count,
                          const struct ampi_type *type)
{
    ampi_misuse_each_run(buf, count, type, add_run, op);
}

/* With MPI_PROC_NULL the buffer is not used, so it may be invalid, or belong to other operations. */
static bool has_no_peer(const struct ampi_request *request)
{
    if (ampi_request_is_send(request))
        return request->u.p2p.peer_rank == MPI_PROC_NULL;
    return request->state == AMPI_REQUEST_COMPLETE && request->status.MPI_SOURCE == MPI_PROC_NULL;
}

/* Puts its runs into the rank's set. */
static void show_runs(struct ampi_misuse *own, const struct ampi_misuse_pending *op)
{
    pthread_mutex_lock(&own->lock);
    for (struct ampi_interval *run = op->runs; run; run = run->with)
        ampi_misuse_memory_add(&own->memory, ampi_misuse_run_of(run));
    pthread_mutex_unlock(&own->lock);
}

void ampi_misuse_enter(struct ampi_misuse *own, struct ampi_misuse_pending *op)
{
    ampi_type_ref(op->type);
    if (!op->is_recv || (op->request && op->request->state != AMPI_REQUEST_COMPLETE))
        op->sum = sum_of(op);
    ampi_misuse_add_runs(op, op->buf, op->count, op->type);
    show_runs(own, op);
}

void ampi_misuse_leave(struct ampi_rank *rank, struct ampi_misuse_pending *op, struct ampi_misuse_call call,
                       bool is_given_up)
{
    char bytes[2 * AMPI_CALL_SITE_BYTES];
    struct base_text site = base_text_in(bytes, sizeof bytes);

    pthread_mutex_lock(&rank->misuse->lock);
    for (struct ampi_interval *run = op->runs; run; run = run->with)
        ampi_misuse_memory_remove(&rank->misuse->memory, ampi_misuse_run_of(run));
    pthread_mutex_unlock(&rank->misuse->lock);
    ampi_misuse_open(op);
    if (op->type && (!op->is_recv || op->is_settled) && !is_given_up && sum_of(op) != op->sum) {
        ampi_misuse_add_site(&site, call.from);
        ampi_misuse_end_job(rank, &op->call, "the %s has changed before the %s was completed by %s%s",
                            op->win ? "buffer at the origin" : "send buffer", op->win ? "operation" : "send",
                            call.name, bytes);
    }
    ampi_misuse_end_parts(rank, op, call, is_given_up);
    free_runs(op->runs);
    if (op->type)
        ampi_type_unref(op->type);
    free(op);
}

void ampi_misuse_begin(struct ampi_rank *rank, struct ampi_misuse_call call,
                       const struct ampi_request *request)
{
    struct ampi_misuse *own = ampi_misuse_of(rank);
    const struct ampi_p2p *p2p = &request->u.p2p;
    struct ampi_misuse_pending *op;

    ampi_misuse_finish(rank, call, request, true);
    op = base_calloc(1, sizeof *op, "+check usage");
    op->request = request;
    op->call = call;
    if (!has_no_peer(request) && (ampi_request_is_send(request) || ampi_request_is_recv(request))) {
        op->buf = p2p->buf;
        op->count = p2p->count;
        op->type = p2p->type;
        op->is_recv = ampi_request_is_recv(request);
        ampi_misuse_enter(own, op);
        if (BASE_UNLIKELY(base_settings.check_buffers) && ampi_p2p_is_checked(request->comm) &&
            !ampi_device_has(op->buf, op->count, op->type) &&
            (!op->is_recv || p2p->is_posted || request->state == AMPI_REQUEST_COMPLETE))
            ampi_misuse_guard(op);
    } else {
        ampi_misuse_set_parts(rank, op);
        show_runs(own, op);
    }
    pthread_mutex_lock(&own->lock);
    add(own, op);
    pthread_mutex_unlock(&own->lock);
}

void ampi_misuse_finish(struct ampi_rank *rank, struct ampi_misuse_call call,
                        const struct ampi_request *request, bool is_given_up)
{
    struct ampi_misuse *own = ampi_misuse_of(rank);
    struct ampi_misuse_pending *op, **link;

    pthread_mutex_lock(&own->lock);
    link = find(own, request);
    op = *link;
    if (op) {
        *link = op->next;
        own->n_pending--;
    }
    pthread_mutex_unlock(&own->lock);
    if (op)
        ampi_misuse_leave(rank, op, call, is_given_up);
}

void ampi_misuse_set_guarded(const struct ampi_request *recv, bool is_guarded)
{
    struct ampi_misuse *own = recv->owner->misuse;
    struct ampi_misuse_pending *op;

    if (BASE_LIKELY(!base_settings.check_buffers) || !own)
        return;
    pthread_mutex_lock(&own->lock);
    op = *find(own, recv);
    if (op)
        (is_guarded ? ampi_misuse_guard : ampi_misuse_open)(op);
    pthread_mutex_unlock(&own->lock);
}

void ampi_misuse_check_untouched(const struct ampi_request *recv)
{
    struct ampi_misuse *own = recv->owner->misuse;
    const struct ampi_misuse_pending *op;

    if (!own)
        return;
    pthread_mutex_lock(&own->lock);
    op = *find(own, recv);
    pthread_mutex_unlock(&own->lock);
    if (op && op->type && op->is_recv && sum_of(op) != op->sum)
        ampi_misuse_end_job(recv->owner, &op->call,
                            "the receive buffer has changed before the message was received");
}

/* ---- Overlaps ---- */

/* A new operation. */
struct check {
    struct ampi_rank *rank;
    const struct ampi_misuse_memory *memory; /* of others; NULL: of the rank's pending ones */
    const struct ampi_misuse_run *run;       /* of it */
    uintptr_t begin, end;                    /* bytes of another one */
    int cost_left;                           /* of COST_MAX; 0 or less: it is over */
    bool is_recv;
};

static bool conflicts(const struct ampi_misuse_run *run, void *arg)
{
    struct check *check = arg;
    bool is_any_recv = ((const struct ampi_misuse_pending *)run->interval.owner)->is_recv || check->is_recv;

    check->cost_left -= is_any_recv ? 1 : COST_OF_SENDS;
    return check->cost_left <= 0 ||
           (is_any_recv && ampi_misuse_runs_overlap(run, check->run, &check->begin, &check->end));
}

static bool check_run(const struct ampi_misuse_run *run, void *arg)
{
    struct check *check = arg;
    const struct ampi_misuse_memory *memory = check->memory ? check->memory : &check->rank->misuse->memory;
    char bytes[2 * AMPI_CALL_SITE_BYTES];
    struct base_text site = base_text_in(bytes, sizeof bytes);
    const struct ampi_misuse_pending *op;
    struct ampi_misuse_call call;
    struct ampi_misuse_run *found;

    if (memory->n == 0)
        return false;
    check->run = run;
    found = ampi_misuse_memory_find(memory, run, conflicts, check);
    if (BASE_LIKELY(!found))
        return true;
    if (check->cost_left <= 0)
        return false;
    op = found->interval.owner;
    call = ampi_misuse_call();
    if (check->memory)
        ampi_misuse_end_job(check->rank, &call, "its send and receive buffers have %zu bytes in common",
                            (size_t)(check->end - check->begin));
    ampi_misuse_add_site(&site, op->call.from);
    ampi_misuse_end_job(check->rank, &call,
                        "its %s buffer has %zu bytes of the %s buffer of a pending operation, that of %s%s",
                        check->is_recv ? "receive" : "send", (size_t)(check->end - check->begin),
                        op->is_recv ? "receive" : "send", op->call.name, bytes);
}

void ampi_misuse_check_memory(struct ampi_rank *rank, const void *buf, MPI_Count count,
                              const struct ampi_type *type, bool is_recv)
{
    struct check check = {.rank = rank, .cost_left = COST_MAX, .is_recv = is_recv};

    if (rank->misuse && rank->misuse->memory.n > 0)
        ampi_misuse_each_run(buf, count, type, check_run, &check);
}

void ampi_misuse_check_pair(struct ampi_rank *rank, struct ampi_misuse_pending *recv, const void *buf,
                            MPI_Count count, const struct ampi_type *type)
{
    struct ampi_misuse_memory memory = {0};
    struct check check = {.rank = rank, .memory = &memory, .cost_left = COST_MAX};

    ampi_misuse_add_runs(recv, recv->buf, recv->count, recv->type);
    for (struct ampi_interval *run = recv->runs; run; run = run->with)
        ampi_misuse_memory_add(&memory, ampi_misuse_run_of(run));
    ampi_misuse_each_run(buf, count, type, check_run, &check);
    free_runs(recv->runs);
}
