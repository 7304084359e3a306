/* SPDX-License-Identifier: BSD-3-Clause
 *
 * match.h: the matching engine (MPI 5.0, section 3.5): one per rank and communicator.
 *
 * Two tables of nodes keyed by (source, tag): *posted* receives, whose key may hold wildcards, and
 * *unexpected* messages. Both are hash tables whose chains keep the order of insertion. A third one holds
 * *bound* receives, those of channels (p2p/channel.h), which stay in it whether they are posted or not.
 *
 * Invariants:
 *   1. Nodes with the same key are in one chain in the order of insertion.
 *   2. No posted receive, bound or not, matches an unexpected message of the same engine.
 *   3. n_posted_of[c] counts the posted nodes of wildcard class c, the next one the posted ones among the
 *      bound nodes; classes without a node are not looked up. n_posted is their sum, plus the one of the class
 *      AMPI_MATCH_WATCHED if matches are reported: then no message takes the short way.
 *   4. The unexpected nodes are also on one list by arrival, which receives with wildcards search.
 *   5. An engine with n_streams has sources that are pairs: rank * n_streams + stream. Receives may leave one of the two open.
 *   6. At most one bound node has a given key, and no bound key has a wildcard. The seq of a bound node is 0
 *      while it is not posted.
 *   7. An engine that is lazy breaks invariant 2: a receive from any source does not take a message, nor does a message match
 *      it, or overtake one that waits for the same receive. They wait until choices.c decides.
 *
 * Cost: O(1) for a message, and for a receive without wildcards; a receive with wildcards visits the
 * unexpected messages before its match. A rank's engines belong to its PE alone: no locks. Called by p2p/.
 */
#ifndef AMPI_P2P_MATCH_H
#define AMPI_P2P_MATCH_H

#include <limits.h>

#include "ampi/object/handle.h"
#include "base/base.h"

struct ampi_match_node {
    struct ampi_match_node *next;    /* next in the hash chain */
    struct ampi_match_node *prev;    /* previous in the hash chain; of the first node: any value */
    struct ampi_match_node *later;   /* next in the arrival list (unexpected nodes only) */
    struct ampi_match_node *earlier; /* previous in the arrival list */
    uint64_t seq;                    /* order of posting, from 1 (posted nodes only) */
    int source;                      /* comm rank, MPI_ANY_SOURCE, or one of the AMPI_MATCH_ below */
    int tag;                         /* or MPI_ANY_TAG */
};

struct ampi_match_chain {
    struct ampi_match_node *first;
    struct ampi_match_node *last; /* any value if there is no first */
};

struct ampi_match_table {
    struct ampi_match_chain *chains; /* 1 << log2_chains of them; points to `one` while there is one */
    struct ampi_match_chain one;     /* the only chain of a small table */
    uint32_t n_nodes;
    uint32_t log2_chains;
};

/* Sources of receives in an engine with n_streams: any stream of this rank; this stream of any rank. */
#define AMPI_MATCH_RANK(rank) (INT_MIN + (rank))
#define AMPI_MATCH_STREAM(stream) (INT_MIN / 2 + (stream))

/* After the wildcard classes. */
#define AMPI_MATCH_BOUND 4
#define AMPI_MATCH_WATCHED 5

struct ampi_match {
    struct ampi_match_table posted; /* without bound ones */
    struct ampi_match_table unexpected;
    struct ampi_match_table *bound; /* NULL: there has been none */
    uint32_t n_posted;              /* including bound ones, and 1 if watched */
    uint32_t n_posted_of[6];        /* by wildcard class: bit 0 any source, bit 1 any tag; bound; watched */
    int n_streams;                  /* invariant 5; 0: sources are ranks */
    bool is_lazy;                   /* invariant 7 */
    uint64_t next_seq;              /* of the next posted node */
    struct ampi_match_node *first_arrived; /* the unexpected nodes by arrival */
    struct ampi_match_node *last_arrived;
    uint64_t n_unexpected_ever; /* total number of unexpected messages; for the tool interface */
};

/* Called for each match in an engine that is watched (ampi_match_set_watched). was_unexpected: the receive came last, and the
 * node is the message's; else the receive's. */
extern void (*ampi_match_watcher)(struct ampi_match *match, struct ampi_match_node *node, int source, int tag,
                                  bool was_unexpected);

/* The rank in a source of an engine with n_streams, or MPI_ANY_SOURCE or MPI_PROC_NULL. */
static inline int ampi_match_rank_of(const struct ampi_match *match, int source)
{
    if (source >= 0)
        return source / match->n_streams;
    return source < AMPI_MATCH_STREAM(0) ? source - AMPI_MATCH_RANK(0)
           : source < INT_MIN / 4        ? MPI_ANY_SOURCE
                                         : source;
}

void ampi_match_init(struct ampi_match *match);

static inline void ampi_match_set_watched(struct ampi_match *match, bool is_watched)
{
    match->n_posted += (uint32_t)is_watched - match->n_posted_of[AMPI_MATCH_WATCHED];
    match->n_posted_of[AMPI_MATCH_WATCHED] = is_watched;
}

/* Frees the tables; the nodes are the caller's. */
void ampi_match_fini(struct ampi_match *match);

/* For a message (source, tag) that has arrived: the earliest posted receive that matches it; NULL: none.
 * take removes it (a bound one stays bound), find leaves it posted. */
struct ampi_match_node *ampi_match_take_posted(struct ampi_match *match, int source, int tag);
struct ampi_match_node *ampi_match_find_posted(const struct ampi_match *match, int source, int tag);

/* Adds a message that matched no receive. */
void ampi_match_add_unexpected(struct ampi_match *match, struct ampi_match_node *node, int source, int tag);

/* For a receive or probe (source, tag; wildcards allowed): the earliest unexpected message that matches;
 * NULL: none. find leaves it in place, take removes it. */
struct ampi_match_node *ampi_match_find_unexpected(const struct ampi_match *match, int source, int tag);
struct ampi_match_node *ampi_match_take_unexpected(struct ampi_match *match, int source, int tag);

/* For cancelling messages: iterate over the unexpected messages with exactly this key, in order (NULL: the
 * end); remove one. */
struct ampi_match_node *ampi_match_first_unexpected(const struct ampi_match *match, int source, int tag);
struct ampi_match_node *ampi_match_next_unexpected(const struct ampi_match_node *node);
void ampi_match_remove_unexpected(struct ampi_match *match, struct ampi_match_node *node);

/* Adds a receive that matched no message. */
void ampi_match_add_posted(struct ampi_match *match, struct ampi_match_node *node, int source, int tag);

/* Removes a receive that is being cancelled; not a bound one. */
void ampi_match_remove_posted(struct ampi_match *match, struct ampi_match_node *node);

/* ---- Bound receives ---- */

/* Binds a posted receive without wildcards; it remains posted. False: another one with its key is bound, or
 * memory is exhausted. */
bool ampi_match_bind(struct ampi_match *match, struct ampi_match_node *node);

/* Drops a bound receive, which is not posted. */
void ampi_match_unbind(struct ampi_match *match, struct ampi_match_node *node);

/* Posts a bound receive that matched no message. */
static inline void ampi_match_post_bound(struct ampi_match *match, struct ampi_match_node *node)
{
    node->seq = match->next_seq++;
    match->n_posted_of[AMPI_MATCH_BOUND]++;
    match->n_posted++;
}

/* Unposts a bound receive that has been matched, or is being cancelled. */
static inline void ampi_match_retract_bound(struct ampi_match *match, struct ampi_match_node *node)
{
    node->seq = 0;
    match->n_posted_of[AMPI_MATCH_BOUND]--;
    match->n_posted--;
}

/* True if all posted receives are bound: one of these matches the messages with its key. */
static inline bool ampi_match_has_only_bound(const struct ampi_match *match)
{
    return match->n_posted == match->n_posted_of[AMPI_MATCH_BOUND];
}

/* ---- All ---- */

/* Removes all posted receives, except bound ones, whose source satisfies is_meant. Returns them, linked by
 * next, in the order of posting within each key. */
struct ampi_match_node *ampi_match_take_all_posted(struct ampi_match *match,
                                                   bool (*is_meant)(int source, void *arg), void *arg);

/* Checks the invariants; for tests and full assertions. */
bool ampi_match_validate(const struct ampi_match *match);

#endif
