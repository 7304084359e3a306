/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows what the algorithms between processes cost on a network, by running their steps for 64, 1,024 and 16,384
 * processes without data: that small operations take no more rounds than a tree has levels, that no link carries
 * much more of large ones than it must, and that the table never chooses an algorithm that takes many times as long
 * as another one that it could have chosen. And that few processes on several nodes keep their links busy.
 *
 * The network: each process has one link in and one out; a message occupies both for OVERHEAD_US and its bytes, and
 * is under way for LATENCY_US besides. Combining and copying take time per byte, too. Where all processes do the
 * same (rings, Bruck, pairwise), one is simulated, and gets what it sends, as if from the mirrored process.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ampi/coll/between/reduction.h"

#define LATENCY_US 1.5
#define OVERHEAD_US 0.3
#define US_PER_BYTE 1e-4 /* 10 GB/s */
#define US_PER_COMBINED 1e-4

/* ---- Messages and participants ---- */

/* What was sent, and has not been awaited. */
struct letter {
    struct letter *next;
    struct ampi_exchange_message message;
    double arrives_us;
    int depth;                           /* messages that had to come one after the other, with this one */
    struct ampi_exchange_entry *entries; /* in place of bytes; NULL: none */
    int n_entries;
};

struct participant {
    struct ampi_exchange x;
    struct ampi_reduction reduction;
    struct letter *arrived;
    double now_us;      /* when its last step ended */
    double out_free_us; /* when its links are free */
    double in_free_us;
    int depth;
    size_t out_bytes, in_bytes;
    bool is_queued;
    bool has_ended;
};

static struct {
    int p;
    bool is_symmetric; /* participant 0 stands for all */
    struct participant *all;
    struct ampi_exchange_block *parts; /* shared: every part has the same size */
    int *queue;
    int n_queue;
    struct ampi_exchange_entry *entries; /* of the message that is being sent */
    int n_entries;
} net;

static struct participant *participant_of(const struct ampi_exchange *x)
{
    return &net.all[net.is_symmetric ? 0 : x->own];
}

/* A place of the mirrored process's message, as the one that is simulated sees it. */
static int shift(int place, int by)
{
    return ((place + by) % net.p + net.p) % net.p;
}

static void enqueue(struct participant *to)
{
    if (!to->is_queued && !to->has_ended) {
        to->is_queued = true;
        net.queue[net.n_queue++] = (int)(to - net.all);
    }
}

static struct letter *new_letter(const struct participant *from, int to, int tag, uint64_t cookie,
                                 size_t n_bytes)
{
    struct letter *letter = calloc(1, sizeof *letter);
    int by = net.is_symmetric ? shift(0, -to) : 0;

    letter->depth = from->depth + 1;
    letter->message = (struct ampi_exchange_message){.tag = tag,
                                                     .proc = net.is_symmetric ? shift(0, -to) : from->x.own,
                                                     .algorithm = from->x.algorithm,
                                                     .cookie = cookie,
                                                     .n_bytes = n_bytes,
                                                     .bytes = (unsigned char *)net.parts};
    if (net.n_entries) {
        letter->entries = malloc((size_t)net.n_entries * sizeof *letter->entries);
        letter->n_entries = net.n_entries;
        for (int i = 0; i < net.n_entries; i++) {
            letter->entries[i] = net.entries[i];
            letter->entries[i].source = shift(net.entries[i].source, by);
            letter->entries[i].target = shift(net.entries[i].target, by);
        }
        letter->message.token = letter;
    }
    return letter;
}

/* ---- What the algorithms call ---- */

void __wrap_ampi_exchange_send(struct ampi_exchange *x, int to, int tag, uint64_t cookie, const void *bytes,
                               size_t n_bytes);
void __wrap_ampi_exchange_send_part(struct ampi_exchange *x, int to, int tag,
                                    const struct ampi_exchange_block *part);
void __wrap_ampi_exchange_send_part(struct ampi_exchange *x, int to, int tag,
                                    const struct ampi_exchange_block *part)
{
    __wrap_ampi_exchange_send(x, to, tag, 0, part->bytes, part->n_bytes);
}

void __wrap_ampi_exchange_send(struct ampi_exchange *x, int to, int tag, uint64_t cookie, const void *bytes,
                               size_t n_bytes)
{
    struct participant *from = participant_of(x), *dest = &net.all[net.is_symmetric ? 0 : to];
    struct letter *letter = new_letter(from, to, tag, cookie, n_bytes);
    double cost = OVERHEAD_US + (double)n_bytes * US_PER_BYTE, begins;

    (void)bytes;
    from->out_free_us = (from->out_free_us > from->now_us ? from->out_free_us : from->now_us) + cost;
    from->out_bytes += n_bytes;
    begins = from->out_free_us - cost + LATENCY_US;
    dest->in_free_us = (dest->in_free_us > begins ? dest->in_free_us : begins) + cost;
    dest->in_bytes += n_bytes;
    letter->arrives_us = dest->in_free_us;
    letter->next = dest->arrived;
    dest->arrived = letter;
    enqueue(dest);
}

void __wrap_ampi_exchange_send_entries(struct ampi_exchange *x, int to, int tag,
                                       const struct ampi_exchange_entry *entries, int n);
void __wrap_ampi_exchange_send_entries(struct ampi_exchange *x, int to, int tag,
                                       const struct ampi_exchange_entry *entries, int n)
{
    size_t n_bytes = 0;

    for (int i = 0; i < n; i++)
        n_bytes += 16 + entries[i].part.n_bytes;
    participant_of(x)->now_us += (double)n_bytes * US_PER_COMBINED; /* they are copied together */
    net.entries = (struct ampi_exchange_entry *)(uintptr_t)entries;
    net.n_entries = n;
    __wrap_ampi_exchange_send(x, to, tag, 0, NULL, n_bytes);
    net.n_entries = 0;
}

bool __wrap_ampi_exchange_next_entry(const struct ampi_exchange_message *message, size_t *at,
                                     struct ampi_exchange_entry *entry_out);
bool __wrap_ampi_exchange_next_entry(const struct ampi_exchange_message *message, size_t *at,
                                     struct ampi_exchange_entry *entry_out)
{
    const struct letter *letter = message->token;

    if (!letter || *at >= (size_t)letter->n_entries)
        return false;
    *entry_out = letter->entries[(*at)++];
    return true;
}

void __wrap_ampi_exchange_await(struct ampi_exchange *x, int tag, int n);
void __wrap_ampi_exchange_await(struct ampi_exchange *x, int tag, int n)
{
    x->tag = tag;
    x->n_awaited = n;
    x->is_over = false;
    enqueue(participant_of(x));
}

void __wrap_ampi_exchange_again(struct ampi_exchange *x);
void __wrap_ampi_exchange_again(struct ampi_exchange *x)
{
    x->is_over = false;
    enqueue(participant_of(x));
}

void __wrap_ampi_exchange_run_ahead(struct ampi_exchange *x);
void __wrap_ampi_exchange_run_ahead(struct ampi_exchange *x)
{
    x->is_ahead = true;
}

/* Combining of what is shared: all of the step's messages. */
void __wrap_ampi_exchange_share(struct ampi_exchange *x, ampi_coll_work_fn work, size_t n_bytes);
void __wrap_ampi_exchange_share(struct ampi_exchange *x, ampi_coll_work_fn work, size_t n_bytes)
{
    (void)work;
    participant_of(x)->now_us += (double)n_bytes * US_PER_COMBINED;
    __wrap_ampi_exchange_again(x);
}

int __wrap_ampi_exchange_sender(const struct ampi_exchange *x, const struct ampi_exchange_message *message);
int __wrap_ampi_exchange_sender(const struct ampi_exchange *x, const struct ampi_exchange_message *message)
{
    (void)x;
    return message->proc;
}

void *__wrap_ampi_exchange_alloc(struct ampi_exchange *x, size_t n_bytes);
void *__wrap_ampi_exchange_alloc(struct ampi_exchange *x, size_t n_bytes)
{
    void **memory = malloc(16 + n_bytes);

    *memory = x->memory;
    x->memory = memory;
    return (char *)memory + 16;
}

/* Data is not there. */
void *__wrap_ampi_exchange_alloc_data(struct ampi_exchange *x, size_t n_bytes);
void *__wrap_ampi_exchange_alloc_data(struct ampi_exchange *x, size_t n_bytes)
{
    (void)x;
    (void)n_bytes;
    return net.parts;
}

void __wrap_ampi_exchange_copy(struct ampi_exchange *x, void *to, const void *from, size_t n_bytes);
void __wrap_ampi_exchange_copy(struct ampi_exchange *x, void *to, const void *from, size_t n_bytes)
{
    (void)to;
    (void)from;
    participant_of(x)->now_us += (double)n_bytes * US_PER_COMBINED;
}

void __wrap_ampi_reduction_send(struct ampi_exchange *x, int to, int tag, MPI_Count from, MPI_Count count);
void __wrap_ampi_reduction_send(struct ampi_exchange *x, int to, int tag, MPI_Count from, MPI_Count count)
{
    (void)from;
    __wrap_ampi_exchange_send(x, to, tag, 0, NULL, (size_t)count);
}

void __wrap_ampi_reduction_send_elems(struct ampi_exchange *x, int to, int tag, const void *elems,
                                      MPI_Count count);
void __wrap_ampi_reduction_send_elems(struct ampi_exchange *x, int to, int tag, const void *elems,
                                      MPI_Count count)
{
    (void)elems;
    __wrap_ampi_exchange_send(x, to, tag, 0, NULL, (size_t)count);
}

const void *__wrap_ampi_reduction_elems(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                                        MPI_Count count);
const void *__wrap_ampi_reduction_elems(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                                        MPI_Count count)
{
    (void)x;
    (void)message;
    (void)count;
    return net.parts;
}

void *__wrap_ampi_reduction_alloc(struct ampi_exchange *x, MPI_Count count);
void *__wrap_ampi_reduction_alloc(struct ampi_exchange *x, MPI_Count count)
{
    (void)x;
    (void)count;
    return net.parts;
}

void __wrap_ampi_reduction_combine(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                                   MPI_Count from, MPI_Count count);
void __wrap_ampi_reduction_combine(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                                   MPI_Count from, MPI_Count count)
{
    (void)message;
    (void)from;
    participant_of(x)->now_us += (double)count * US_PER_COMBINED;
}

void __wrap_ampi_reduction_replace(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                                   MPI_Count from, MPI_Count count);
void __wrap_ampi_reduction_replace(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                                   MPI_Count from, MPI_Count count)
{
    __wrap_ampi_reduction_combine(x, message, from, count);
}

const void *__wrap_ampi_reduction_add(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                                      MPI_Count from, MPI_Count count);
const void *__wrap_ampi_reduction_add(struct ampi_exchange *x, const struct ampi_exchange_message *message,
                                      MPI_Count from, MPI_Count count)
{
    __wrap_ampi_reduction_combine(x, message, from, count);
    return net.parts;
}

/* ---- Running ---- */

static bool is_awaited(const struct ampi_exchange *x, const struct letter *letter)
{
    return letter->message.tag == x->tag || x->tag == AMPI_EXCHANGE_ANY_TAG;
}

/* The link to the awaited message that comes first; to NULL: there is none. */
static struct letter **first_awaited(struct participant *self)
{
    struct letter **first = NULL, **link;

    for (link = &self->arrived; *link; link = &(*link)->next)
        if (is_awaited(&self->x, *link) && (!first || (*link)->arrives_us < (*first)->arrives_us))
            first = link;
    return first ? first : link;
}

/* Takes the awaited messages out of those that have arrived; false: some are missing. */
static bool take_awaited(struct participant *self)
{
    struct ampi_exchange *x = &self->x;
    int n = 0;

    for (struct letter *letter = self->arrived; letter; letter = letter->next)
        n += is_awaited(x, letter);
    if (n < x->n_awaited)
        return false;
    while (x->n_awaited > 0) {
        struct letter **link = x->tag == AMPI_EXCHANGE_ANY_TAG ? first_awaited(self) : &self->arrived;
        struct letter *letter;
        while (!is_awaited(x, *link))
            link = &(*link)->next;
        letter = *link;
        *link = letter->next;
        if (letter->arrives_us > self->now_us)
            self->now_us = letter->arrives_us;
        if (letter->depth > self->depth)
            self->depth = letter->depth;
        letter->message.next = x->got;
        x->got = &letter->message;
        x->n_awaited--;
    }
    return true;
}

static void free_got(struct ampi_exchange *x)
{
    while (x->got) {
        struct letter *letter = BASE_CONTAINER(x->got, struct letter, message);
        x->got = x->got->next;
        free(letter->entries);
        free(letter);
    }
}

static void run_participant(struct participant *self)
{
    struct ampi_exchange *x = &self->x;

    while (!self->has_ended && take_awaited(self)) {
        x->is_over = true;
        x->run_step(x);
        x->step++;
        free_got(x);
        self->has_ended = x->is_over;
        if (self->out_free_us > self->now_us &&
            !(x->is_ahead && !x->is_over)) /* all that was sent has left */
            self->now_us = self->out_free_us;
    }
}

struct cost {
    double us;
    int rounds;
    size_t link_bytes; /* of the busiest link, in one direction */
};

static bool is_symmetric(enum ampi_between algorithm)
{
    return algorithm == AMPI_BETWEEN_ALLGATHER_RING || algorithm == AMPI_BETWEEN_ALLGATHER_BRUCK ||
           algorithm == AMPI_BETWEEN_ALLTOALL_PAIRWISE || algorithm == AMPI_BETWEEN_ALLTOALL_BRUCK;
}

/* Too many messages to simulate, or only for few processes. */
static bool is_possible(enum ampi_between algorithm, int p)
{
    return algorithm != AMPI_BETWEEN_REDUCE_PAIRWISE || p <= 1024;
}

/* An operation of p processes with root 0: parts, or vectors, of n_bytes. */
static struct cost simulate(enum ampi_between algorithm, enum ampi_coll_flow flow, int p, size_t n_bytes)
{
    static struct ampi_op op = {.is_commutative = true, .is_predefined = true};
    static struct ampi_type type = {.extent_bytes = 1, .size_bytes = 1};
    static struct ampi_coll_plan plan;
    static struct ampi_coll_slot slot;
    int n = is_symmetric(algorithm) ? 1 : p;
    struct cost cost = {0};

    plan.flow = flow;
    slot.plan = &plan;
    net.p = p;
    net.is_symmetric = is_symmetric(algorithm);
    net.all = calloc((size_t)n, sizeof *net.all);
    net.parts = calloc((size_t)p, sizeof *net.parts);
    net.queue = calloc(2 * (size_t)n + 1, sizeof *net.queue);
    for (int i = 0; i < p; i++)
        net.parts[i] = (struct ampi_exchange_block){.bytes = (unsigned char *)net.parts, .n_bytes = n_bytes};
    for (int i = 0; i < n; i++) {
        struct participant *self = &net.all[i];
        self->reduction = (struct ampi_reduction){
            .op = &op, .type = &type, .count = (MPI_Count)n_bytes, .n_bytes = n_bytes, .is_block = true};
        self->x = (struct ampi_exchange){
            .slot = &slot, .n = p, .own = i, .device = -1, .in = net.parts, .out = net.parts};
        if (flow >= AMPI_COLL_FLOW_ALLREDUCE)
            self->x.reduction = &self->reduction;
        ampi_exchange_take(&self->x, algorithm);
        enqueue(self);
    }
    for (int i = 0; i < net.n_queue; i++) { /* n at most are queued at a time: the queue turns around */
        struct participant *self = &net.all[net.queue[i]];
        self->is_queued = false;
        run_participant(self);
        if (i + 1 == net.n_queue || i + 1 == n) {
            net.n_queue -= i + 1;
            memmove(net.queue, net.queue + i + 1, (size_t)net.n_queue * sizeof *net.queue);
            i = -1;
        }
    }
    for (int i = 0; i < n; i++) {
        struct participant *self = &net.all[i];
        if (!self->has_ended || self->arrived) {
            printf("%s: process %d of %d: step %d, awaits %d of tag %d\n", ampi_coll_between_name(algorithm),
                   i, p, self->x.step, self->x.n_awaited, self->x.tag);
            abort();
        }
        cost.us = self->now_us > cost.us ? self->now_us : cost.us;
        cost.rounds = self->depth > cost.rounds ? self->depth : cost.rounds;
        cost.link_bytes = base_max_u64(cost.link_bytes, base_max_u64(self->out_bytes, self->in_bytes));
        while (self->x.memory) {
            void *memory = self->x.memory;
            self->x.memory = *(void **)memory;
            free(memory);
        }
    }
    free(net.all);
    free(net.parts);
    free(net.queue);
    return cost;
}

/* ---- The tests ---- */

struct operation {
    const char *name;
    enum ampi_coll_kind kind;
    enum ampi_coll_flow flow;
    enum ampi_between algorithms[3]; /* that it could take */
    bool is_per_process;             /* n bytes for, or of, each process: the table counts p times as many */
    bool counts_one;                 /* ... but not here */
};
static const struct operation operations[] = {
    {"bcast",
     AMPI_COLL_BCAST,
     AMPI_COLL_FLOW_BCAST,
     {AMPI_BETWEEN_BCAST_BINOMIAL, AMPI_BETWEEN_BCAST_SCATTER},
     0,
     0},
    {"gather",
     AMPI_COLL_GATHER,
     AMPI_COLL_FLOW_GATHER,
     {AMPI_BETWEEN_GATHER_BINOMIAL, AMPI_BETWEEN_GATHER_LINEAR},
     1,
     0},
    {"scatter",
     AMPI_COLL_SCATTER,
     AMPI_COLL_FLOW_SCATTER,
     {AMPI_BETWEEN_SCATTER_BINOMIAL, AMPI_BETWEEN_SCATTER_LINEAR},
     1,
     0},
    {"allgather",
     AMPI_COLL_ALLGATHER,
     AMPI_COLL_FLOW_ALL,
     {AMPI_BETWEEN_ALLGATHER_BRUCK, AMPI_BETWEEN_ALLGATHER_RING},
     1,
     0},
    {"alltoall",
     AMPI_COLL_ALLTOALL,
     AMPI_COLL_FLOW_ALLTOALL,
     {AMPI_BETWEEN_ALLTOALL_BRUCK, AMPI_BETWEEN_ALLTOALL_PAIRWISE},
     1,
     1},
    {"reduce",
     AMPI_COLL_REDUCE,
     AMPI_COLL_FLOW_REDUCE,
     {AMPI_BETWEEN_REDUCE_BINOMIAL, AMPI_BETWEEN_REDUCE_HALVING},
     0,
     0},
    {"allreduce",
     AMPI_COLL_ALLREDUCE,
     AMPI_COLL_FLOW_ALLREDUCE,
     {AMPI_BETWEEN_ALLREDUCE_DOUBLING, AMPI_BETWEEN_ALLREDUCE_HALVING},
     0,
     0},
};

static const int sizes[] = {64, 1024, 16384};

/* What the table chooses. */
static enum ampi_between chosen(const struct operation *op, int p, size_t n_bytes)
{
    struct ampi_exchange x = {.n = p};

    ampi_exchange_choose(&x, op->kind, op->is_per_process && !op->counts_one ? n_bytes * (size_t)p : n_bytes);
    return (enum ampi_between)x.algorithm;
}

static int levels(int p)
{
    return 32 - __builtin_clz((unsigned)p - 1);
}

static size_t largest(const struct operation *op, int p)
{
    return op->is_per_process ? ((size_t)256 << 20) / (size_t)p : (size_t)64 << 20;
}

START_TEST(small_operations_take_as_many_rounds_as_a_tree_has_levels)
{
    int p = sizes[_i];

    for (size_t i = 0; i < BASE_COUNT(operations); i++) {
        const struct operation *op = &operations[i];
        struct cost cost = simulate(chosen(op, p, 8), op->flow, p, 8);
        ck_assert_msg(cost.rounds <= levels(p), "%s of 8 bytes, %d processes: %d rounds", op->name, p,
                      cost.rounds);
    }
}
END_TEST

START_TEST(the_table_chooses_what_is_not_much_slower_than_the_best)
{
    int p = sizes[_i];

    for (size_t i = 0; i < BASE_COUNT(operations); i++) {
        const struct operation *op = &operations[i];
        for (size_t n_bytes = 8; n_bytes <= largest(op, p); n_bytes *= 8) {
            enum ampi_between taken = chosen(op, p, n_bytes);
            struct cost cost = simulate(taken, op->flow, p, n_bytes);
            for (int k = 0; k < 2; k++) {
                enum ampi_between other = op->algorithms[k];
                double us = other == taken || !is_possible(other, p)
                                ? 1e30
                                : simulate(other, op->flow, p, n_bytes).us;
                ck_assert_msg(cost.us <= 2.5 * us, "%s of %zu bytes, %d processes: %.0f us by %s, %.0f by %s",
                              op->name, n_bytes, p, cost.us, ampi_coll_between_name(taken), us,
                              ampi_coll_between_name(other));
            }
        }
    }
}
END_TEST

/* How often the least that a link must carry it may carry. */
static double surplus(const struct operation *op)
{
    return op->kind == AMPI_COLL_ALLREDUCE || op->kind == AMPI_COLL_BCAST || op->kind == AMPI_COLL_REDUCE
               ? 2.01
               : 1.01;
}

START_TEST(no_link_carries_much_more_of_large_data_than_it_must)
{
    int p = sizes[_i];

    for (size_t i = 0; i < BASE_COUNT(operations); i++) {
        const struct operation *op = &operations[i];
        size_t n_bytes = largest(op, p);
        struct cost cost = simulate(chosen(op, p, n_bytes), op->flow, p, n_bytes);
        size_t least = op->is_per_process ? n_bytes * (size_t)(p - 1) : n_bytes;
        ck_assert_msg((double)cost.link_bytes <= surplus(op) * (double)least,
                      "%s of %zu bytes, %d processes: a link carries %zu", op->name, n_bytes, p,
                      cost.link_bytes);
    }
}
END_TEST

START_TEST(few_processes_on_several_nodes_keep_their_links_busy)
{
    static const struct {
        enum ampi_between algorithm;
        enum ampi_coll_flow flow;
    } chains[] = {{AMPI_BETWEEN_BCAST_CHAIN, AMPI_COLL_FLOW_BCAST},
                  {AMPI_BETWEEN_REDUCE_CHAIN, AMPI_COLL_FLOW_REDUCE}};
    size_t n_bytes = (size_t)16 << 20;

    for (int p = 2; p < AMPI_COLL_FEW; p++)
        for (size_t i = 0; i < BASE_COUNT(chains); i++) {
            struct cost cost = simulate(chains[i].algorithm, chains[i].flow, p, n_bytes);
            ck_assert_msg(cost.us <= 1.2 * (double)n_bytes * US_PER_BYTE, "%s, %d processes: %.0f us",
                          ampi_coll_between_name(chains[i].algorithm), p, cost.us);
            ck_assert_uint_eq(cost.link_bytes, n_bytes);
        }
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("exchange_cost");
    TCase *tcase = tcase_create("cost");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    if (argc > 1 &&
        strcmp(argv[1], "table") == 0) { /* for docs/decisions/0032-one-copy-between-processes.md */
        for (size_t i = 0; i < BASE_COUNT(operations); i++)
            for (size_t k = 0; k < BASE_COUNT(sizes); k++)
                for (size_t n_bytes = 8; n_bytes <= largest(&operations[i], sizes[k]); n_bytes *= 8)
                    for (int a = 0; a < 2; a++) {
                        enum ampi_between algorithm = operations[i].algorithms[a];
                        struct cost cost = {0};
                        if (!is_possible(algorithm, sizes[k]))
                            continue;
                        cost = simulate(algorithm, operations[i].flow, sizes[k], n_bytes);
                        printf("%-10s %6d %10zu %-16s %12.1f us %6d rounds %12zu bytes%s\n",
                               operations[i].name, sizes[k], n_bytes, ampi_coll_between_name(algorithm),
                               cost.us, cost.rounds, cost.link_bytes,
                               chosen(&operations[i], sizes[k], n_bytes) == algorithm ? " *" : "");
                    }
        return 0;
    }
    tcase_set_timeout(tcase, 200);
    tcase_add_loop_test(tcase, small_operations_take_as_many_rounds_as_a_tree_has_levels, 0,
                        BASE_COUNT(sizes));
    tcase_add_loop_test(tcase, the_table_chooses_what_is_not_much_slower_than_the_best, 0, BASE_COUNT(sizes));
    tcase_add_loop_test(tcase, no_link_carries_much_more_of_large_data_than_it_must, 0, BASE_COUNT(sizes));
    tcase_add_test(tcase, few_processes_on_several_nodes_keep_their_links_busy);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
