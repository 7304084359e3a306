/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that the matching engine finds the match that the standard requires, the oldest one, wildcards
 * included: it agrees with two plain lists that are searched from the front, for long random sequences of
 * messages, receives, probes and cancels; also when its tables grow, and when memory for that is missing; when sources
 * are pairs, of which receives leave one open; and when some of the receives are bound, posted again and again.
 */
#include <string.h>

#include "ampi/object/handle.h"
#include "ampi/match/match.h"
#include "ult_job.h"

#define N_NODES 200000

/* Linked with --wrap=calloc: the allocations of the library, which fail on demand. */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
static bool is_memory_short;
void *__wrap_calloc(size_t count, size_t size)
{
    return is_memory_short ? NULL : __real_calloc(count, size);
}

static uint32_t random_state;

static int next_random(int below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((random_state >> 8) % (uint32_t)below);
}

/* The naive engine: all that was ever added, in order, with what is still there. */
struct naive_list {
    struct {
        struct ampi_match_node *node;
        int source;
        int tag;
    } entries[N_NODES];
    int first; /* entries before are gone */
    int n;
};

static struct naive_list posted, unexpected;
static struct ampi_match_node nodes[N_NODES];
static int n_nodes_used;
static struct ampi_match match;

/* One of the two may be open. */
static bool is_same_source(int source, int with)
{
    int n = match.n_streams, closed = source < 0 ? with : source, open = source < 0 ? source : with;

    return source == with || open == MPI_ANY_SOURCE ||
           (n > 0 && (open == AMPI_MATCH_RANK(closed / n) || open == AMPI_MATCH_STREAM(closed % n)));
}

static bool is_match(int source, int tag, int with_source, int with_tag)
{
    return is_same_source(source, with_source) &&
           (tag == MPI_ANY_TAG || with_tag == MPI_ANY_TAG || tag == with_tag);
}

static void naive_add(struct naive_list *list, struct ampi_match_node *node, int source, int tag)
{
    list->entries[list->n].node = node;
    list->entries[list->n].source = source;
    list->entries[list->n++].tag = tag;
}

static struct ampi_match_node *naive_find(struct naive_list *list, int source, int tag, bool take)
{
    while (list->first < list->n && !list->entries[list->first].node)
        list->first++;
    for (int i = list->first; i < list->n; i++) {
        struct ampi_match_node *node = list->entries[i].node;
        if (!node || !is_match(list->entries[i].source, list->entries[i].tag, source, tag))
            continue;
        if (take)
            list->entries[i].node = NULL;
        return node;
    }
    return NULL;
}

/* A posted receive that is still there, any; NULL if none was hit by chance. */
static struct ampi_match_node *random_posted(void)
{
    int i = posted.n > posted.first ? posted.first + next_random(posted.n - posted.first) : -1;
    struct ampi_match_node *node = i >= 0 ? posted.entries[i].node : NULL;

    if (node)
        posted.entries[i].node = NULL;
    return node;
}

/* ---- Bound receives ---- */

#define N_BOUND_MAX 64
static struct ampi_match_node *bound[N_BOUND_MAX];
static int n_bound;

static bool is_bound(const struct ampi_match_node *node)
{
    for (int i = 0; i < n_bound; i++)
        if (bound[i] == node)
            return true;
    return false;
}

/* A new receive that was posted last. Binding succeeds unless its key is taken. */
static void bind_random(int source, int tag)
{
    struct ampi_match_node *node = naive_find(&unexpected, source, tag, false);
    bool is_taken = false;

    if (node || n_bound == N_BOUND_MAX)
        return;
    for (int i = 0; i < n_bound; i++)
        is_taken |= bound[i]->source == source && bound[i]->tag == tag;
    node = &nodes[n_nodes_used++];
    ampi_match_add_posted(&match, node, source, tag);
    naive_add(&posted, node, source, tag);
    ck_assert_int_eq(ampi_match_bind(&match, node), !is_taken);
    if (!is_taken)
        bound[n_bound++] = node;
}

/* Posts a bound receive again, or cancels it, or drops it. */
static void use_bound(void)
{
    int i = n_bound ? next_random(n_bound) : -1, what = next_random(10);
    struct ampi_match_node *node = i >= 0 ? bound[i] : NULL;

    if (!node) {
        return;
    } else if (node->seq && what < 3) {
        for (int k = posted.first; k < posted.n; k++)
            if (posted.entries[k].node == node)
                posted.entries[k].node = NULL;
        ampi_match_retract_bound(&match, node);
    } else if (!node->seq && what == 9) {
        ampi_match_unbind(&match, node);
        bound[i] = bound[--n_bound];
    } else if (!node->seq) {
        struct ampi_match_node *first = naive_find(&unexpected, node->source, node->tag, true);
        ck_assert_ptr_eq(ampi_match_take_unexpected(&match, node->source, node->tag), first);
        if (first)
            return;
        ampi_match_post_bound(&match, node);
        naive_add(&posted, node, node->source, node->tag);
    }
}

static void start(void)
{
    n_bound = 0;
    memset(&posted, 0, sizeof posted);
    memset(&unexpected, 0, sizeof unexpected);
    n_nodes_used = 0;
    ampi_match_init(&match);
}

static void end(void)
{
    is_memory_short = false;
    ampi_match_fini(&match);
}

static void message_comes(int source, int tag)
{
    struct ampi_match_node *found = ampi_match_find_posted(&match, source, tag);
    struct ampi_match_node *node = ampi_match_take_posted(&match, source, tag);

    ck_assert_ptr_eq(node, naive_find(&posted, source, tag, true));
    ck_assert_ptr_eq(node, found);
    if (ampi_match_has_only_bound(&match))
        ck_assert_uint_eq(match.posted.n_nodes, 0);
    if (node)
        return;
    node = &nodes[n_nodes_used++];
    ampi_match_add_unexpected(&match, node, source, tag);
    naive_add(&unexpected, node, source, tag);
}

static void receive_is_made(int source, int tag)
{
    struct ampi_match_node *node = ampi_match_take_unexpected(&match, source, tag);

    ck_assert_ptr_eq(node, naive_find(&unexpected, source, tag, true));
    if (node)
        return;
    node = &nodes[n_nodes_used++];
    ampi_match_add_posted(&match, node, source, tag);
    naive_add(&posted, node, source, tag);
}

static const struct {
    int n_sources, n_tags;
    int wildcards; /* in percent */
    int messages;  /* in percent, the rest are receives: what piles up */
    int n_steps;
    int bound;     /* receives that are bound, in percent */
    int n_streams; /* sources are pairs */
} mixes[] = {
    {1, 1, 0, 50, 20000, 0, 0},     {2, 2, 30, 50, 20000, 0, 0},    {5, 3, 100, 50, 5000, 0, 0},
    {50, 50, 10, 50, 20000, 0, 0},  {300, 10, 0, 50, 20000, 0, 0},  {1000, 1000, 5, 40, 10000, 0, 0},
    {1000, 3, 20, 60, 10000, 0, 0}, {3, 40000, 1, 50, 20000, 0, 0}, {1, 1, 0, 50, 20000, 50, 0},
    {2, 3, 5, 50, 20000, 50, 0},    {2, 2, 30, 50, 20000, 80, 0},   {20, 5, 1, 60, 40000, 90, 0},
    {12, 3, 30, 50, 20000, 0, 3},   {300, 4, 60, 40, 20000, 0, 10}, {12, 4, 40, 60, 20000, 50, 4},
};

/* A source of a receive that matches messages of this one and of others. */
static int open_source(int source)
{
    int n = match.n_streams, what = n > 0 ? next_random(3) : 0;

    return what == 0   ? MPI_ANY_SOURCE
           : what == 1 ? AMPI_MATCH_RANK(source / n)
                       : AMPI_MATCH_STREAM(source % n);
}

static void run_mix(int i)
{
    random_state = 12345u + (uint32_t)i;
    match.n_streams = mixes[i].n_streams;
    for (int step = 0; step < mixes[i].n_steps; step++) {
        int source = next_random(mixes[i].n_sources), tag = next_random(mixes[i].n_tags),
            what = next_random(100);
        bool is_any_source = next_random(100) < mixes[i].wildcards,
             is_any_tag = next_random(100) < mixes[i].wildcards;

        if (what < 5) {
            struct ampi_match_node *node = random_posted();
            if (node && is_bound(node))
                ampi_match_retract_bound(&match, node);
            else if (node)
                ampi_match_remove_posted(&match, node);
        } else if (next_random(100) < mixes[i].bound / 2) {
            if (next_random(10))
                use_bound();
            else
                bind_random(source, tag);
        } else if (what < 5 + mixes[i].messages * 90 / 100) {
            message_comes(source, tag);
        } else {
            source = is_any_source ? open_source(source) : source;
            tag = is_any_tag ? MPI_ANY_TAG : tag;
            ck_assert_ptr_eq(ampi_match_find_unexpected(&match, source, tag),
                             naive_find(&unexpected, source, tag, false));
            if (what < 95)
                receive_is_made(source, tag);
        }
        if (step % 97 == 0)
            ck_assert(ampi_match_validate(&match));
    }
    ck_assert(ampi_match_validate(&match));
}

START_TEST(agrees_with_plain_lists)
{
    run_mix(_i);
}
END_TEST

START_TEST(without_memory_to_grow)
{
    is_memory_short = true;
    run_mix(_i);
    ck_assert_uint_eq(match.posted.log2_chains, 0);
    ck_assert_uint_eq(match.unexpected.log2_chains, 0);
    is_memory_short = false;
    run_mix(_i);
}
END_TEST

START_TEST(a_hundred_thousand_of_each_kind)
{
    for (int i = 0; i < N_NODES / 2; i++) {
        ampi_match_add_unexpected(&match, &nodes[i], i % 1000, i / 1000);
        ampi_match_add_posted(&match, &nodes[N_NODES / 2 + i], 1000 + i % 1000, i / 1000);
    }
    ck_assert(ampi_match_validate(&match));
    ck_assert_uint_gt(match.unexpected.log2_chains, 10);
    for (int i = 0; i < N_NODES / 2; i++) {
        ck_assert_ptr_eq(ampi_match_take_unexpected(&match, i % 1000, i / 1000), &nodes[i]);
        ck_assert_ptr_eq(ampi_match_take_posted(&match, 1000 + i % 1000, i / 1000), &nodes[N_NODES / 2 + i]);
    }
    ck_assert(ampi_match_validate(&match));
    ck_assert_uint_eq(match.unexpected.n_nodes + match.posted.n_nodes, 0);
}
END_TEST

START_TEST(the_oldest_wins)
{
    struct ampi_match_node *n = nodes;

    ampi_match_add_posted(&match, &n[0], MPI_ANY_SOURCE, 5);
    ampi_match_add_posted(&match, &n[1], 3, 5);
    ampi_match_add_posted(&match, &n[2], MPI_ANY_SOURCE, MPI_ANY_TAG);
    ampi_match_add_posted(&match, &n[3], 3, MPI_ANY_TAG);
    ampi_match_add_posted(&match, &n[4], 3, 5);
    for (int i = 0; i < 5; i++)
        ck_assert_ptr_eq(ampi_match_take_posted(&match, 3, 5), &n[i]);
    ck_assert_ptr_null(ampi_match_take_posted(&match, 3, 5));
    for (int i = 0; i < 6; i++)
        ampi_match_add_unexpected(&match, &n[i], i % 3, i % 2);
    ck_assert_ptr_eq(ampi_match_take_unexpected(&match, MPI_ANY_SOURCE, 1), &n[1]);
    ck_assert_ptr_eq(ampi_match_take_unexpected(&match, 1, MPI_ANY_TAG), &n[4]);
    ck_assert_ptr_eq(ampi_match_take_unexpected(&match, MPI_ANY_SOURCE, MPI_ANY_TAG), &n[0]);
    ck_assert_ptr_eq(ampi_match_find_unexpected(&match, MPI_ANY_SOURCE, MPI_ANY_TAG), &n[2]);
    ck_assert_ptr_eq(ampi_match_take_unexpected(&match, 2, 1), &n[5]);
    ck_assert_ptr_null(ampi_match_take_unexpected(&match, 2, 1));
    ck_assert(ampi_match_validate(&match));
}
END_TEST

START_TEST(bound_ones_stay)
{
    struct ampi_match_node *n = nodes;

    ampi_match_add_posted(&match, &n[0], 3, 5);
    ampi_match_add_posted(&match, &n[1], 3, 5);
    ck_assert(ampi_match_bind(&match, &n[0]));
    ck_assert(!ampi_match_bind(&match, &n[1]));
    ck_assert(!ampi_match_has_only_bound(&match));
    ck_assert_ptr_eq(ampi_match_take_posted(&match, 3, 5), &n[0]);
    ck_assert_ptr_eq(ampi_match_take_posted(&match, 3, 5), &n[1]);
    ck_assert_ptr_null(ampi_match_take_posted(&match, 3, 5));
    ck_assert(ampi_match_has_only_bound(&match));
    ampi_match_add_posted(&match, &n[2], MPI_ANY_SOURCE, 5);
    ampi_match_post_bound(&match, &n[0]);
    ck_assert(ampi_match_validate(&match));
    ck_assert_ptr_eq(ampi_match_take_posted(&match, 3, 5), &n[2]);
    ck_assert_ptr_eq(ampi_match_find_posted(&match, 3, 5), &n[0]);
    ampi_match_retract_bound(&match, &n[0]);
    ampi_match_unbind(&match, &n[0]);
    ck_assert_ptr_null(ampi_match_find_posted(&match, 3, 5));
    ck_assert(ampi_match_validate(&match));
}
END_TEST

START_TEST(validate_notices_damage)
{
    for (int i = 0; i < 100; i++)
        ampi_match_add_posted(&match, &nodes[i], i, i);
    ck_assert(ampi_match_validate(&match));
    nodes[50].tag = 51;
    ck_assert(!ampi_match_validate(&match));
    nodes[50].tag = 50;
    match.n_posted_of[1]++;
    ck_assert(!ampi_match_validate(&match));
    match.n_posted_of[1]--;
    match.posted.n_nodes--;
    ck_assert(!ampi_match_validate(&match));
    match.posted.n_nodes++;
    ck_assert(ampi_match_validate(&match));
    ck_assert(ampi_match_bind(&match, &nodes[50]));
    ck_assert(ampi_match_validate(&match));
    nodes[50].seq = 0;
    ck_assert(!ampi_match_validate(&match));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("match");
    TCase *tcase = tcase_create("match");

    tcase_set_timeout(tcase, 250);
    tcase_add_checked_fixture(tcase, start, end);
    tcase_add_loop_test(tcase, agrees_with_plain_lists, 0, (int)BASE_COUNT(mixes));
    tcase_add_loop_test(tcase, without_memory_to_grow, 3, 5);
    tcase_add_test(tcase, a_hundred_thousand_of_each_kind);
    tcase_add_test(tcase, the_oldest_wins);
    tcase_add_test(tcase, bound_ones_stay);
    tcase_add_test(tcase, validate_notices_damage);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
