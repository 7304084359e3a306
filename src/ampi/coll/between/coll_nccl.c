/* SPDX-License-Identifier: BSD-3-Clause
 *
 * coll_nccl.c: decides which operations go through NCCL, and owns its communicators. See coll_nccl.h.
 *
 * A vote is a dissemination: in round k each participant sends the intersection of all votes it knows to
 * the one 2^k places further, so after ceil(log2 p) rounds every participant knows the result. Cost: one
 * message without data per round.
 */
#include "ampi/coll/between/coll_nccl.h"

#include <pthread.h>

#include "ampi/coll/between/coll_remote.h"
#include "ampi/coll/engine/series.h"
#include "base/log.h"

/* The bits of a vote. */
#define VOTE_POSSIBLE 1u /* this process might use NCCL */
#define VOTE_TAKES 2u    /* the transport between processes supports GPU memory */
#define VOTE_WHOLE 4u    /* NCCL's communicator has not failed */
#define VOTE_YES 8u      /* this operation can be done */
#define VOTE_NO_CUDA 16u /* this process has not touched CUDA */

/* Votes of one operation have separate tags; rounds are counted from there. */
#define TAG_VOTE(vote) (1000 + 40 * (vote))
#define TAG_CARD 1100

/* Each persistent collective has its own NCCL communicator, because processes may start them in different
 * orders: at most this many per communicator. */
#define NCCL_SERIES_MAX 256

/* While no process uses CUDA, only one in this many operations is voted on. */
#define SKIPPED_WITHOUT_CUDA 63

/* State of a communicator, or of a persistent collective; used by the leader PE. Equal in all processes at
 * an operation's turn, except comm and is_broken. */
struct ampi_coll_nccl {
    enum { NOT_ASKED, ASKED, READY, NEVER } state; /* ASKED: usable, but not connected yet */
    bool are_taken;                                /* the transport supports every process's GPU memory */
    int n_skip;                                    /* number of operations to skip without a vote */
    bool is_broken;                                /* in this process */
    int device;                                    /* the participating device */
    struct gpu_nccl *comm;                         /* NULL: none */
};

/* ---- The token (invariant 2) ---- */

static struct {
    pthread_mutex_t lock;
    const struct ampi_coll_nccl *holder; /* NULL: free */
    int n_held;                          /* pending operations of the holder */
} token = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Where an operation's state is stored. */
static struct ampi_coll_nccl **nccl_at(const struct ampi_exchange *x)
{
    return x->slot->series ? &x->slot->series->nccl : &x->slot->state->remote->nccl;
}

static struct ampi_coll_nccl *nccl_of(const struct ampi_exchange *x)
{
    return *nccl_at(x);
}

struct gpu_nccl *ampi_coll_nccl_comm(const struct ampi_exchange *x)
{
    return nccl_of(x)->comm;
}

static bool take_token(struct ampi_exchange *x)
{
    pthread_mutex_lock(&token.lock);
    if (!token.holder || token.holder == nccl_of(x)) {
        token.holder = nccl_of(x);
        token.n_held++;
        x->nccl->has_token = true;
    }
    pthread_mutex_unlock(&token.lock);
    return x->nccl->has_token;
}

static void give_token(struct ampi_exchange *x)
{
    if (!x->nccl->has_token)
        return;
    x->nccl->has_token = false;
    pthread_mutex_lock(&token.lock);
    if (--token.n_held == 0)
        token.holder = NULL;
    pthread_mutex_unlock(&token.lock);
}

/* ---- Turns (invariant 1) ---- */

static void begin_vote(struct ampi_exchange *x);
static void refuse(struct ampi_exchange *x);

/* The minimum size for a vote. */
static size_t least_bytes(const struct ampi_coll_nccl *nccl, enum ampi_coll_kind kind)
{
    size_t from = ampi_coll_selections[kind].nccl_from;

    return nccl && nccl->state != NOT_ASKED && nccl->are_taken
               ? from
               : base_min_u64(from, AMPI_COLL_NCCL_STAGED_BYTES);
}

/* True if the processes vote on the operation, which is the next one. */
static bool is_worth_asking(struct ampi_coll_nccl *nccl, const struct ampi_coll_nccl_op *op)
{
    if (nccl->state == NEVER || op->n_bytes < least_bytes(nccl, op->kind))
        return false;
    return nccl->n_skip == 0 || nccl->n_skip-- == 0;
}

static void serve(struct ampi_coll_remote *remote)
{
    struct ampi_coll_turns *turns = &remote->turns;

    for (;;) {
        unsigned char *state = &turns->states[turns->next % AMPI_COLL_SLOTS];
        struct ampi_exchange *x = &remote->slots[turns->next % AMPI_COLL_SLOTS].x;
        if (*state == AMPI_COLL_TURN_PAST) {
            *state = AMPI_COLL_TURN_NOT_HERE;
            turns->next++;
        } else if (*state == AMPI_COLL_TURN_WAITS && x->nccl->phase == AMPI_COLL_NCCL_WAITS) {
            if (is_worth_asking(remote->nccl, x->nccl))
                begin_vote(x);
            else
                refuse(x);
            return; /* it ends its turn */
        } else {
            return;
        }
    }
}

void ampi_coll_nccl_pass_number(struct ampi_coll_remote *remote, uint32_t seq)
{
    remote->turns.states[seq % AMPI_COLL_SLOTS] = AMPI_COLL_TURN_PAST;
    serve(remote);
}

void ampi_coll_nccl_pass(struct ampi_exchange *x)
{
    if (!x->series) /* these are in order anyway */
        ampi_coll_nccl_pass_number(x->slot->state->remote, x->seq);
}

static bool is_large_enough(const struct ampi_exchange *x, enum ampi_coll_kind *kind_out, size_t *n_bytes_out)
{
    return x->slot->plan->has_nccl && ampi_coll_nccl_has(x, kind_out, n_bytes_out) &&
           *n_bytes_out >=
               base_min_u64(ampi_coll_selections[*kind_out].nccl_from, AMPI_COLL_NCCL_STAGED_BYTES);
}

static void make_op(struct ampi_exchange *x, enum ampi_coll_kind kind, size_t n_bytes)
{
    struct ampi_coll_nccl **nccl = nccl_at(x);

    if (!*nccl)
        *nccl = base_calloc(1, sizeof **nccl, "a communicator across processes");
    x->nccl = ampi_exchange_alloc(x, sizeof *x->nccl);
    *x->nccl = (struct ampi_coll_nccl_op){.x = x, .kind = kind, .n_bytes = n_bytes};
}

/* For a start of a persistent collective: the previous one is complete, so it is its turn. */
static bool ask_for_series(struct ampi_exchange *x)
{
    enum ampi_coll_kind kind;
    size_t n_bytes;

    if (x->series > NCCL_SERIES_MAX || !is_large_enough(x, &kind, &n_bytes))
        return false;
    make_op(x, kind, n_bytes);
    if (is_worth_asking(nccl_of(x), x->nccl))
        begin_vote(x);
    else
        refuse(x);
    return true;
}

bool ampi_coll_nccl_ask(struct ampi_exchange *x)
{
    struct ampi_coll_remote *remote = x->slot->state->remote;
    unsigned char *state = &remote->turns.states[x->seq % AMPI_COLL_SLOTS];
    enum ampi_coll_kind kind;
    size_t n_bytes;

    if (BASE_UNLIKELY(x->series))
        return ask_for_series(x);
    if (BASE_LIKELY(!is_large_enough(x, &kind, &n_bytes))) {
        ampi_coll_nccl_pass_number(remote, x->seq);
        return false;
    }
    make_op(x, kind, n_bytes);
    *state = AMPI_COLL_TURN_WAITS;
    serve(remote);
    return true;
}

/* ---- Votes ---- */

static uint64_t own_ballot(struct ampi_exchange *x)
{
    const struct ampi_coll_nccl *nccl = nccl_of(x);
    bool is_whole = !nccl->is_broken && (nccl->state != READY || gpu_nccl_state(nccl->comm) == 0);
    uint64_t ballot = is_whole ? VOTE_WHOLE : 0;

    if (ampi_machine->takes(MACHINE_CUDA))
        ballot |= VOTE_TAKES;
    if (!gpu_is_used())
        ballot |= VOTE_NO_CUDA;
    if (!gpu_nccl_is_possible())
        return ballot;
    ballot |= VOTE_POSSIBLE;
    if (!gpu_is_used() || !is_whole)
        return ballot;
    if (x->device < 0)
        x->device = ampi_coll_device_for(x->slot);
    if (x->device < 0 || (nccl->comm && x->device != nccl->device))
        return ballot;
    if (nccl->state == READY && !take_token(x))
        return ballot;
    return x->nccl->call.count || ampi_coll_nccl_plan(x) ? ballot | VOTE_YES : ballot;
}

static void begin_vote(struct ampi_exchange *x)
{
    x->nccl->phase = AMPI_COLL_NCCL_VOTES;
    x->nccl->ballot = own_ballot(x);
    ampi_exchange_take(x, AMPI_BETWEEN_NCCL);
    ampi_coll_between_begin(x);
}

/* The operation takes its usual path after this exchange. */
static void refuse(struct ampi_exchange *x)
{
    if (x->nccl->phase == AMPI_COLL_NCCL_WAITS) { /* nothing was started */
        x->nccl = NULL;
        ampi_coll_nccl_pass(x);
        ampi_coll_between_plan(x);
        return;
    }
    x->nccl->phase = AMPI_COLL_NCCL_REFUSED;
}

static void give_up(struct ampi_coll_nccl *nccl, const char *why)
{
    if (nccl->state != NEVER)
        base_log_verbose(1, "NCCL is not used on a communicator: %s", why);
    nccl->state = NEVER;
    if (nccl->comm)
        gpu_nccl_destroy(nccl->comm);
    nccl->comm = NULL;
}

/* NCCL has failed in some process: ends pending operations here. */
static void end_pending(struct ampi_coll_nccl *nccl)
{
    nccl->state = NEVER;
    nccl->is_broken = true;
    if (nccl->comm)
        gpu_nccl_abort(nccl->comm);
}

static void open_comm(struct ampi_exchange *x);

/* Called when all votes are known. */
static void count_votes(struct ampi_exchange *x)
{
    struct ampi_coll_nccl *nccl = nccl_of(x);
    struct ampi_coll_nccl_op *op = x->nccl;

    if (nccl->state == NOT_ASKED) {
        nccl->state = ASKED;
        nccl->are_taken = op->ballot & VOTE_TAKES;
    }
    if (!(op->ballot & VOTE_POSSIBLE)) {
        give_up(nccl, "it cannot be used in some process, or was switched off");
        refuse(x);
    } else if (!(op->ballot & VOTE_WHOLE)) {
        end_pending(nccl);
        refuse(x);
    } else if (op->n_bytes < least_bytes(nccl, op->kind)) {
        refuse(x);
    } else if (!(op->ballot & VOTE_YES)) {
        nccl->n_skip = op->ballot & VOTE_NO_CUDA ? SKIPPED_WITHOUT_CUDA : 0;
        refuse(x);
    } else if (nccl->state == READY) {
        op->phase = AMPI_COLL_NCCL_AGREED;
    } else {
        open_comm(x);
    }
}

static void vote(struct ampi_exchange *x)
{
    struct ampi_coll_nccl_op *op = x->nccl;
    int tag = TAG_VOTE(op->vote) + op->round;

    if (op->round > 0)
        op->ballot &= x->got->cookie;
    if (1 << op->round >= x->n) {
        count_votes(x);
        return;
    }
    ampi_exchange_send(x, ampi_exchange_after(x, 1 << op->round++), tag, op->ballot, NULL, 0);
    ampi_exchange_await(x, tag, 1);
}

/* ---- Creating a communicator ---- */

static void send_to_all(struct ampi_exchange *x, int tag, uint64_t cookie, const void *bytes, size_t n_bytes)
{
    for (int i = 1; i < x->n; i++)
        ampi_exchange_send(x, ampi_exchange_after(x, i), tag, cookie, bytes, n_bytes);
}

static void open_comm(struct ampi_exchange *x)
{
    static atomic_flag is_watched = ATOMIC_FLAG_INIT;
    struct ampi_coll_nccl *nccl = nccl_of(x);

    if (!atomic_flag_test_and_set(&is_watched))
        ampi_upper.watch_exit();
    nccl->device = x->device;
    nccl->comm = gpu_nccl_create(x->device, x->own == 0);
    x->nccl->phase = AMPI_COLL_NCCL_OPENS;
    ampi_coll_nccl_poll(x->nccl);
}

static void send_card(struct ampi_exchange *x)
{
    struct gpu_nccl_card *card = ampi_exchange_alloc(x, sizeof *card);

    gpu_nccl_get_card(nccl_of(x)->comm, card);
    send_to_all(x, TAG_CARD, 0, card, sizeof *card);
    x->nccl->phase = AMPI_COLL_NCCL_LEARNS;
    ampi_exchange_await(x, TAG_CARD, x->n - 1);
}

static void take_cards(struct ampi_exchange *x)
{
    struct ampi_coll_nccl *nccl = nccl_of(x);
    struct gpu_nccl_card *cards = ampi_exchange_alloc(x, (size_t)x->n * sizeof *cards);
    const char *why;

    gpu_nccl_get_card(nccl->comm, &cards[x->own]);
    for (const struct ampi_exchange_message *message = x->got; message; message = message->next)
        memcpy(&cards[ampi_exchange_sender(x, message)], message->bytes, sizeof *cards);
    why = gpu_nccl_compare(cards, x->n);
    if (why) {
        if (cards[x->own].error)
            why = gpu_error_text(cards[x->own].error);
        give_up(nccl, why);
        refuse(x);
        return;
    }
    gpu_nccl_connect(nccl->comm, cards[0].id, x->n, x->own);
    x->nccl->phase = AMPI_COLL_NCCL_CONNECTS;
    ampi_coll_nccl_poll(x->nccl);
}

static void log_result(struct ampi_exchange *x)
{
    static atomic_flag is_watched = ATOMIC_FLAG_INIT;
    static atomic_bool is_logged;
    struct ampi_coll_nccl *nccl = nccl_of(x);
    int error = gpu_nccl_state(nccl->comm);

    if (error && error != GPU_NCCL_CANCELLED)
        base_log_once(&is_logged, "NCCL cannot connect GPUs, collectives go without it: %s",
                      gpu_error_text(error));
    if (!error && !atomic_flag_test_and_set(&is_watched)) /* once more: NCCL has registered exit handlers,
                                                           * too */
        ampi_upper.watch_exit();
    nccl->is_broken = error;
    send_to_all(x, AMPI_COLL_NCCL_TAG_CONNECTED, !error, NULL, 0);
    x->nccl->phase = AMPI_COLL_NCCL_HEARS;
    ampi_exchange_await(x, AMPI_COLL_NCCL_TAG_CONNECTED, x->n - 1);
}

static void take_results(struct ampi_exchange *x)
{
    struct ampi_coll_nccl *nccl = nccl_of(x);
    bool is_connected = !nccl->is_broken;
    char text[320];

    for (const struct ampi_exchange_message *message = x->got; message; message = message->next)
        is_connected &= message->cookie != 0;
    if (!is_connected) {
        give_up(nccl, "a process could not connect");
        refuse(x);
        return;
    }
    nccl->state = READY;
    gpu_nccl_describe(text, sizeof text);
    base_log_verbose(1, "large collectives of %d processes on GPUs go through NCCL (%s)", x->n, text);
    x->nccl->vote++;
    x->nccl->round = 0;
    x->nccl->phase = AMPI_COLL_NCCL_VOTES;
    x->nccl->ballot = own_ballot(x);
    vote(x);
}

void ampi_coll_nccl_break(struct ampi_exchange *x)
{
    struct ampi_coll_nccl *nccl = nccl_of(x);

    nccl->is_broken = true;
    if (nccl->comm)
        gpu_nccl_abort(nccl->comm);
    send_to_all(x, AMPI_COLL_NCCL_TAG_BROKEN, 0, NULL, 0);
}

void ampi_coll_nccl_destroy(struct ampi_coll_nccl *nccl)
{
    if (nccl && nccl->comm)
        gpu_nccl_destroy(nccl->comm);
    free(nccl);
}

/* ---- Steps ---- */

void ampi_coll_nccl_step(struct ampi_exchange *x)
{
    switch (x->nccl->phase) {
    case AMPI_COLL_NCCL_VOTES:
        vote(x);
        break;
    case AMPI_COLL_NCCL_OPENS:
        send_card(x);
        break;
    case AMPI_COLL_NCCL_LEARNS:
        take_cards(x);
        break;
    case AMPI_COLL_NCCL_CONNECTS:
        log_result(x);
        break;
    case AMPI_COLL_NCCL_HEARS:
        take_results(x);
        break;
    case AMPI_COLL_NCCL_AGREED:
        ampi_coll_nccl_run(x->nccl);
        break;
    case AMPI_COLL_NCCL_RUNS: /* all is done */
    case AMPI_COLL_NCCL_STARTS:
    case AMPI_COLL_NCCL_WAITS:
    case AMPI_COLL_NCCL_REFUSED:
        break;
    }
}

bool ampi_coll_nccl_over(struct ampi_exchange *x)
{
    switch (x->nccl->phase) {
    case AMPI_COLL_NCCL_AGREED:
        ampi_coll_between_run(x);
        return false;
    case AMPI_COLL_NCCL_REFUSED:
        give_token(x);
        ampi_coll_device_release(x);
        x->device = -1;
        x->nccl = NULL;
        x->has_voted = true;
        x->reduction = NULL;
        ampi_coll_nccl_pass(x);
        ampi_coll_between_plan(x);
        return false;
    default:
        give_token(x);
        ampi_coll_nccl_give(x);
        return true;
    }
}

void ampi_coll_nccl_drop(struct ampi_exchange *x)
{
    bool is_past = x->nccl->phase >= AMPI_COLL_NCCL_STARTS; /* it has ended its turn */

    give_token(x);
    x->nccl = NULL;
    if (!is_past)
        ampi_coll_nccl_pass(x);
}
