/* SPDX-License-Identifier: BSD-3-Clause
 *
 * match.c: the matching engine. See match.h for the invariants and the costs.
 */
#include "ampi/match/match.h"

#include "ampi/object/handle.h"
#include "base/log.h"
#include "ult/shuffle.h"

/* A table grows when its chains have this many nodes on average. */
#define NODES_PER_CHAIN 2

void (*ampi_match_watcher)(struct ampi_match *match, struct ampi_match_node *node, int source, int tag,
                           bool was_unexpected);

/* ---- Hash tables of nodes ---- */

static inline uint32_t chain_index(const struct ampi_match_table *table, int source, int tag)
{
    uint64_t key = (uint64_t)(uint32_t)source << 32 | (uint32_t)tag;

    return table->log2_chains ? (uint32_t)(key * 0x9e3779b97f4a7c15u >> (64 - table->log2_chains)) : 0;
}

static void table_init(struct ampi_match_table *table)
{
    *table = (struct ampi_match_table){0};
    table->chains = &table->one;
}

static void table_fini(struct ampi_match_table *table)
{
    if (table->chains != &table->one)
        free(table->chains);
}

static inline void chain_append(struct ampi_match_chain *chain, struct ampi_match_node *node)
{
    node->next = NULL;
    node->prev = chain->last;
    if (chain->first)
        chain->last->next = node;
    else
        chain->first = node;
    chain->last = node;
}

/* Quadruples the chains. Nodes with the same key keep their order: they were in one chain and are moved in
 * order. */
static BASE_COLD void table_grow(struct ampi_match_table *table)
{
    struct ampi_match_table old = *table;
    uint32_t n_old = 1u << old.log2_chains;
    bool was_one = old.chains == &table->one;
    struct ampi_match_chain *new_chains = calloc((size_t)4 << old.log2_chains, sizeof *new_chains);

    if (!new_chains)
        return; /* longer chains, but still correct */
    table->log2_chains += 2;
    table->chains = new_chains;
    for (uint32_t i = 0; i < n_old; i++) {
        struct ampi_match_node *node = was_one ? table->one.first : old.chains[i].first;
        while (node) {
            struct ampi_match_node *next = node->next;
            chain_append(&table->chains[chain_index(table, node->source, node->tag)], node);
            node = next;
        }
    }
    if (!was_one)
        free(old.chains);
}

static inline void table_add(struct ampi_match_table *table, struct ampi_match_node *node)
{
    chain_append(&table->chains[chain_index(table, node->source, node->tag)], node);
    if (BASE_UNLIKELY(++table->n_nodes > (uint32_t)(4 * NODES_PER_CHAIN) << table->log2_chains))
        table_grow(table);
}

/* The first node of a chain, which is removed most often, goes without a look at the second one (match.h). */
static inline void table_remove(struct ampi_match_table *table, struct ampi_match_node *node)
{
    struct ampi_match_chain *chain = &table->chains[chain_index(table, node->source, node->tag)];

    table->n_nodes--;
    if (BASE_LIKELY(chain->first == node)) {
        chain->first = node->next;
        return;
    }
    node->prev->next = node->next;
    if (node->next)
        node->next->prev = node->prev;
    else
        chain->last = node->prev;
}

/* The first node with exactly this key, from `node` on. */
static inline struct ampi_match_node *chain_find(struct ampi_match_node *node, int source, int tag)
{
    while (node && (node->source != source || node->tag != tag))
        node = node->next;
    return node;
}

static inline struct ampi_match_node *table_find(const struct ampi_match_table *table, int source, int tag)
{
    return chain_find(table->chains[chain_index(table, source, tag)].first, source, tag);
}

/* ---- The engine ---- */

void ampi_match_init(struct ampi_match *match)
{
    *match = (struct ampi_match){0};
    table_init(&match->posted);
    table_init(&match->unexpected);
    match->next_seq = 1;
}

void ampi_match_fini(struct ampi_match *match)
{
    table_fini(&match->posted);
    table_fini(&match->unexpected);
    if (match->bound) {
        table_fini(match->bound);
        free(match->bound);
    }
}

static inline int wildcard_class(int source, int tag)
{
    return (source < 0 ? 1 : 0) | (tag == MPI_ANY_TAG ? 2 : 0);
}

/* The sources with which a receive of class 1 or 3 matches a message: MPI_ANY_SOURCE, and two more in an engine with
 * n_streams. */
static int open_source(const struct ampi_match *match, int source, int number)
{
    return number == 0   ? MPI_ANY_SOURCE
           : number == 1 ? AMPI_MATCH_RANK(source / match->n_streams)
                         : AMPI_MATCH_STREAM(source % match->n_streams);
}

static inline bool accepts(const struct ampi_match *match, int wanted, int source)
{
    return wanted == MPI_ANY_SOURCE || wanted == source ||
           (BASE_UNLIKELY(wanted < 0 && match->n_streams) &&
            (wanted == open_source(match, source, 1) || wanted == open_source(match, source, 2)));
}

/* The oldest posted receive among those with and without wildcards and bound ones. */
static BASE_COLD struct ampi_match_node *find_posted_of_any_class(const struct ampi_match *match, int source,
                                                                  int tag)
{
    struct ampi_match_node *oldest = NULL;

    for (int class = 0; class < 4; class ++) {
        int n_sources = class & 1 && match->n_streams ? 3 : 1;
        for (int i = 0; i < n_sources && match->n_posted_of[class]; i++) {
            struct ampi_match_node *node =
                table_find(&match->posted, class & 1 ? open_source(match, source, i) : source,
                           class & 2 ? MPI_ANY_TAG : tag);
            if (node && (!oldest || node->seq < oldest->seq))
                oldest = node;
        }
    }
    if (match->n_posted_of[AMPI_MATCH_BOUND]) {
        struct ampi_match_node *node = table_find(match->bound, source, tag);
        if (node && node->seq && (!oldest || node->seq < oldest->seq))
            oldest = node;
    }
    return oldest;
}

struct ampi_match_node *ampi_match_find_posted(const struct ampi_match *match, int source, int tag)
{
    return match->n_posted ? find_posted_of_any_class(match, source, tag) : NULL;
}

static inline bool is_bound(const struct ampi_match *match, const struct ampi_match_node *node)
{
    return match->bound && table_find(match->bound, node->source, node->tag) == node;
}

static BASE_COLD struct ampi_match_node *take_posted_of_any_class(struct ampi_match *match, int source,
                                                                  int tag)
{
    struct ampi_match_node *node = find_posted_of_any_class(match, source, tag);

    if (node && match->is_lazy &&
        (node->source == MPI_ANY_SOURCE || ampi_match_find_unexpected(match, node->source, node->tag)))
        return NULL;
    if (node && is_bound(match, node))
        ampi_match_retract_bound(match, node);
    else if (node)
        ampi_match_remove_posted(match, node);
    if (node && match->n_posted_of[AMPI_MATCH_WATCHED])
        ampi_match_watcher(match, node, source, tag, false);
    return node;
}

struct ampi_match_node *ampi_match_take_posted(struct ampi_match *match, int source, int tag)
{
    struct ampi_match_node *node;

    if (!match->n_posted)
        return NULL;
    if (BASE_UNLIKELY(match->n_posted_of[0] != match->n_posted))
        return take_posted_of_any_class(match, source, tag);
    node = table_find(&match->posted, source, tag);
    if (node)
        ampi_match_remove_posted(match, node);
    return node;
}

void ampi_match_add_posted(struct ampi_match *match, struct ampi_match_node *node, int source, int tag)
{
    node->source = source;
    node->tag = tag;
    node->seq = match->next_seq++;
    match->n_posted_of[wildcard_class(source, tag)]++;
    match->n_posted++;
    table_add(&match->posted, node);
}

void ampi_match_remove_posted(struct ampi_match *match, struct ampi_match_node *node)
{
    match->n_posted_of[wildcard_class(node->source, node->tag)]--;
    match->n_posted--;
    table_remove(&match->posted, node);
}

struct ampi_match_node *ampi_match_take_all_posted(struct ampi_match *match,
                                                   bool (*is_meant)(int source, void *arg), void *arg)
{
    struct ampi_match_node *taken = NULL;
    struct ampi_match_node **end = &taken;

    for (uint32_t i = 0; i < 1u << match->posted.log2_chains; i++) {
        struct ampi_match_node *node = match->posted.chains[i].first;
        while (node) {
            struct ampi_match_node *next = node->next;
            if (is_meant(node->source, arg)) {
                ampi_match_remove_posted(match, node);
                node->next = NULL;
                *end = node;
                end = &node->next;
            }
            node = next;
        }
    }
    return taken;
}

bool ampi_match_bind(struct ampi_match *match, struct ampi_match_node *node)
{
    if (!match->bound) {
        match->bound = malloc(sizeof *match->bound);
        if (!match->bound)
            return false;
        table_init(match->bound);
    }
    if (table_find(match->bound, node->source, node->tag))
        return false;
    ampi_match_remove_posted(match, node);
    match->n_posted_of[AMPI_MATCH_BOUND]++;
    match->n_posted++;
    table_add(match->bound, node);
    return true;
}

void ampi_match_unbind(struct ampi_match *match, struct ampi_match_node *node)
{
    table_remove(match->bound, node);
}

void ampi_match_add_unexpected(struct ampi_match *match, struct ampi_match_node *node, int source, int tag)
{
    node->source = source;
    node->tag = tag;
    node->later = NULL;
    node->earlier = match->last_arrived;
    if (match->last_arrived)
        match->last_arrived->later = node;
    else
        match->first_arrived = node;
    match->last_arrived = node;
    match->n_unexpected_ever++;
    table_add(&match->unexpected, node);
}

static inline bool is_wanted(const struct ampi_match *match, const struct ampi_match_node *node, int source,
                             int tag)
{
    return accepts(match, source, node->source) && (tag == MPI_ANY_TAG || node->tag == tag);
}

/* Messages among which a receive chooses. */
#define CHOICE_MAX 256

/* One of the messages that a receive from any source may get, at random: the first one of a source. first: the first of all;
 * NULL: there are none. */
static BASE_COLD struct ampi_match_node *choose_source(const struct ampi_match *match,
                                                       struct ampi_match_node *first, int tag)
{
    struct ampi_match_node *chosen = first;
    uint32_t salt = ult_random(UINT32_MAX), least = UINT32_MAX;
    int n_left = CHOICE_MAX;

    for (struct ampi_match_node *node = first; node && n_left-- > 0; node = node->later) {
        uint32_t key = (uint32_t)(((uint64_t)(uint32_t)node->source + salt) * 0x9e3779b97f4a7c15u >> 33);
        if (key < least && is_wanted(match, node, MPI_ANY_SOURCE, tag)) {
            least = key;
            chosen = node;
        }
    }
    return ult_random_counts() ? chosen : first;
}

struct ampi_match_node *ampi_match_find_unexpected(const struct ampi_match *match, int source, int tag)
{
    struct ampi_match_node *node;

    if (!match->unexpected.n_nodes)
        return NULL;
    if (BASE_LIKELY(wildcard_class(source, tag) == 0))
        return table_find(&match->unexpected, source, tag);
    for (node = match->first_arrived; node && !is_wanted(match, node, source, tag); node = node->later)
        ;
    return BASE_UNLIKELY(ult_shuffles) && source == MPI_ANY_SOURCE ? choose_source(match, node, tag) : node;
}

struct ampi_match_node *ampi_match_first_unexpected(const struct ampi_match *match, int source, int tag)
{
    return table_find(&match->unexpected, source, tag);
}

struct ampi_match_node *ampi_match_next_unexpected(const struct ampi_match_node *node)
{
    return chain_find(node->next, node->source, node->tag);
}

/* Inline, because receives call it. */
static inline void remove_unexpected(struct ampi_match *match, struct ampi_match_node *node)
{
    if (node->earlier)
        node->earlier->later = node->later;
    else
        match->first_arrived = node->later;
    if (node->later)
        node->later->earlier = node->earlier;
    else
        match->last_arrived = node->earlier;
    table_remove(&match->unexpected, node);
}

void ampi_match_remove_unexpected(struct ampi_match *match, struct ampi_match_node *node)
{
    remove_unexpected(match, node);
}

struct ampi_match_node *ampi_match_take_unexpected(struct ampi_match *match, int source, int tag)
{
    struct ampi_match_node *node = ampi_match_find_unexpected(match, source, tag);

    if (node)
        remove_unexpected(match, node);
    if (node && BASE_UNLIKELY(match->n_posted_of[AMPI_MATCH_WATCHED]))
        ampi_match_watcher(match, node, node->source, node->tag, true);
    return node;
}

/* ---- Checks ---- */

static bool table_validate(const struct ampi_match_table *table)
{
    uint32_t n_nodes = 0;

    for (uint32_t i = 0; i < 1u << table->log2_chains; i++) {
        const struct ampi_match_node *prev = NULL;
        for (const struct ampi_match_node *node = table->chains[i].first; node; node = node->next) {
            if ((prev && node->prev != prev) || chain_index(table, node->source, node->tag) != i)
                return false;
            prev = node;
            n_nodes++;
        }
        if (prev && table->chains[i].last != prev)
            return false;
    }
    return n_nodes == table->n_nodes;
}

bool ampi_match_validate(const struct ampi_match *match)
{
    uint32_t n_arrived = 0, n_posted = 0, n_bound = 0;

    for (const struct ampi_match_node *node = match->first_arrived; node; node = node->later)
        n_arrived++;
    for (int class = 0; class <= AMPI_MATCH_WATCHED; class ++)
        n_posted += match->n_posted_of[class];
    for (uint32_t i = 0; match->bound && i < 1u << match->bound->log2_chains; i++)
        for (const struct ampi_match_node *node = match->bound->chains[i].first; node; node = node->next)
            n_bound += node->seq != 0;
    return table_validate(&match->posted) && table_validate(&match->unexpected) &&
           (!match->bound || table_validate(match->bound)) && n_arrived == match->unexpected.n_nodes &&
           n_posted == match->n_posted && n_bound == match->n_posted_of[AMPI_MATCH_BOUND] &&
           match->posted.n_nodes + n_bound + match->n_posted_of[AMPI_MATCH_WATCHED] == match->n_posted;
}
