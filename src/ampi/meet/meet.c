/* SPDX-License-Identifier: BSD-3-Clause
 *
 * meet.c: meetings of ranks that need no communicator in common. See meet.h.
 *
 * Owns the table of incomplete meetings. Invariants:
 *   1. A meeting is in the table from its first member's arrival to its last one's; the PE that removes it
 *      builds. A meeting with members in other processes is then in `announced` until those have arrived, too,
 *      or one of them has failed.
 *   2. At most one meeting with a given key is in the table: a member cannot arrive twice before the last
 *      one has arrived.
 *   3. A member's struct may be gone as soon as its request is complete.
 */
#include "ampi/meet/meet.h"
#include "ampi/comm/contexts.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "ampi/procs/procs.h"
#include "base/log.h"

struct meeting {
    struct meeting *next;        /* next in the table's chain */
    struct ampi_meet **members;  /* by rank in the group; NULL: not arrived, or in another process */
    const struct ampi_meet *key; /* a member's, for comparison */
    int n_arrived;
    int n_local;        /* members of this process */
    uint64_t number;    /* assigned when the collector is notified */
    bool is_announcing; /* in `announced`, and its last member is still using it */
};

#define TABLE_CHAINS 256u

static struct {
    pthread_mutex_t lock;
    struct meeting *chains[TABLE_CHAINS];
    struct meeting *announced; /* linked by next */
    uint64_t n_announced;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_same_string(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_same_key(const struct ampi_meet *a, const struct ampi_meet *b)
{
    return a->context_id == b->context_id && a->tag == b->tag && is_same_string(a->function, b->function) &&
           is_same_string(a->stringtag, b->stringtag) && ampi_group_compare(a->group, b->group) == MPI_IDENT;
}

static struct meeting **chain_of(const struct ampi_meet *me)
{
    uint32_t hash = (uint32_t)me->context_id * 31u + (uint32_t)me->tag;

    hash = hash * 31u + (uint32_t)me->group->n_ranks;
    hash = hash * 31u + (uint32_t)ampi_group_world_rank(me->group, 0);
    return &table.chains[hash % TABLE_CHAINS];
}

static struct meeting *open_meeting(struct meeting **chain, const struct ampi_meet *key)
{
    struct meeting *meeting = base_calloc(1, sizeof *meeting, "a meeting of ranks");

    meeting->members =
        base_calloc((size_t)key->group->n_ranks, sizeof *meeting->members, "a meeting of ranks");
    meeting->key = key;
    for (int i = 0; i < key->group->n_ranks; i++)
        meeting->n_local += ampi_job_is_local(ampi_group_world_rank(key->group, i));
    meeting->next = *chain;
    *chain = meeting;
    return meeting;
}

/* Enters the caller. If it was the last to arrive, removes the meeting from the table and returns it. *is_failed_out:
 * the caller was not entered, because not all members can arrive. */
static struct meeting *arrive(struct ampi_meet *me, bool *is_failed_out)
{
    struct meeting **link = chain_of(me);
    struct meeting *meeting;

    pthread_mutex_lock(&table.lock);
    *is_failed_out = ampi_failed_in_group(me->group); /* with the lock: later failures are handled by
                                          * ampi_meet_handle_failure */
    if (*is_failed_out) {
        pthread_mutex_unlock(&table.lock);
        return NULL;
    }
    while (*link && !is_same_key((*link)->key, me))
        link = &(*link)->next;
    if (!*link)
        open_meeting(link, me);
    meeting = *link;
    meeting->members[me->member] = me;
    if (++meeting->n_arrived == meeting->n_local) {
        *link = meeting->next;
        if (meeting->n_local < me->group->n_ranks) {
            meeting->number = ++table.n_announced;
            meeting->is_announcing = true;
            meeting->next = table.announced;
            table.announced = meeting;
        }
    } else {
        meeting = NULL;
    }
    pthread_mutex_unlock(&table.lock);
    return meeting;
}

/* Removes a meeting from `announced`; NULL: it has failed before. */
static struct meeting *take_told(uint64_t number)
{
    struct meeting **link = &table.announced;
    struct meeting *meeting;

    pthread_mutex_lock(&table.lock);
    while (*link && (*link)->number != number)
        link = &(*link)->next;
    meeting = *link;
    if (meeting)
        *link = meeting->next;
    pthread_mutex_unlock(&table.lock);
    return meeting;
}

static void handle_done(struct ult_wakeup *wakeup)
{
    ampi_request_complete(&BASE_CONTAINER(wakeup, struct ampi_meet, wakeup)->request);
}

/* Completes the member's wait; invariant 3. */
static void let_go(struct ampi_meet *member, const struct ampi_rank *self)
{
    member->wakeup.handle = handle_done;
    if (member->owner->ult.pe == self->ult.pe)
        handle_done(&member->wakeup);
    else
        ult_post_wakeup(member->owner->ult.pe, &member->wakeup);
}

/* All members of the group have arrived, in all processes. On the PE of the last one of this process. */
static void finish(struct meeting *meeting, uint64_t new_context_id, const struct ampi_meet_payload *payloads)
{
    const struct ampi_rank *self = ampi_self();
    int n_members = meeting->key->group->n_ranks;
    struct ampi_meet *first = NULL;

    for (int i = 0; i < n_members; i++)
        if (meeting->members[i]) {
            first = first ? first : meeting->members[i];
            meeting->members[i]->new_context_id = new_context_id;
            meeting->members[i]->payloads = payloads;
        }
    first->build(meeting->members, n_members);
    for (int i = 0; i < n_members; i++)
        if (meeting->members[i])
            let_go(meeting->members[i], self);
    free(meeting->members);
    free(meeting);
}

/* Called after the collector was notified of this meeting, given by number and group. The meeting is over if
 * the collector has already replied. */
static void have_told(uint64_t number, const struct ampi_group *group)
{
    struct meeting *meeting;
    bool is_failed;

    pthread_mutex_lock(&table.lock);
    for (meeting = table.announced; meeting && meeting->number != number; meeting = meeting->next)
        ;
    if (meeting)
        meeting->is_announcing = false;
    is_failed = meeting && ampi_failed_in_group(group);
    pthread_mutex_unlock(&table.lock);
    if (BASE_UNLIKELY(is_failed))
        ampi_meet_handle_failure();
}

/* ---- Reports ---- */

void ampi_meet_each(void (*visit)(const struct ampi_meet *key, struct ampi_meet *const *members, void *arg),
                    void *arg)
{
    pthread_mutex_lock(&table.lock);
    for (unsigned i = 0; i <= TABLE_CHAINS; i++)
        for (const struct meeting *meeting = i < TABLE_CHAINS ? table.chains[i] : table.announced; meeting;
             meeting = meeting->next)
            visit(meeting->key, meeting->members, arg);
    pthread_mutex_unlock(&table.lock);
}

/* The members that are missing in a description. */
struct absent {
    char *text;
    size_t n, size_bytes;
    int n_missing;
};

static void add_absent(struct absent *out, int number)
{
    if (out->n_missing++ < 8 && out->n < out->size_bytes)
        out->n += (size_t)snprintf(out->text + out->n, out->size_bytes - out->n, "%s%d",
                                   out->n_missing == 1 ? ", not entered by rank " : ", ", number);
    else if (out->n_missing == 9 && out->n < out->size_bytes)
        snprintf(out->text + out->n, out->size_bytes - out->n, ", ...");
}

static void add_absents(const struct meeting *meeting, struct absent *out)
{
    const struct ampi_group *group = meeting->key->group;
    const int *others;
    int n_others = ampi_meet_absent(meeting->key, &others);

    for (int i = 0; i < group->n_ranks; i++) {
        int world_rank = ampi_group_world_rank(group, i);
        if (!meeting->members[i] && ampi_job_is_local(world_rank))
            add_absent(out, ampi_rank_number(&ampi_job.ranks[ampi_job_index_of(world_rank)]));
    }
    for (int i = 0; i < n_others; i++)
        add_absent(out, others[i]);
}

/* "a call of 2 ranks, tag 5, not entered by rank 1 (of MPI_COMM_WORLD)". */
static void describe(const struct ampi_request *request, char *text, size_t size_bytes)
{
    struct ampi_meet *me = BASE_CONTAINER(request, struct ampi_meet, request);
    const struct meeting *meeting;
    struct absent absent = {text, 0, size_bytes, 0};

    absent.n = (size_t)snprintf(text, size_bytes, "a call of %d ranks, tag ", me->group->n_ranks);
    absent.n += me->stringtag
                    ? (size_t)snprintf(text + absent.n, size_bytes - absent.n, "\"%.60s\"", me->stringtag)
                    : (size_t)snprintf(text + absent.n, size_bytes - absent.n, "%d", me->tag);
    if (pthread_mutex_trylock(&table.lock) != 0)
        return;
    for (meeting = *chain_of(me); meeting && meeting->members[me->member] != me;)
        meeting = meeting->next;
    if (!meeting)
        for (meeting = table.announced; meeting && meeting->members[me->member] != me;)
            meeting = meeting->next;
    if (meeting)
        add_absents(meeting, &absent);
    pthread_mutex_unlock(&table.lock);
}

static const struct ampi_request_kind meet_kind = {.name = "meeting", .describe = describe};

int ampi_meet_run(struct ampi_meet *me)
{
    struct ampi_rank *self = ampi_self();
    int n_members = me->group->n_ranks;
    struct meeting *meeting;
    bool is_failed;

    me->owner = self;
    me->error = MPI_SUCCESS;
    ampi_request_init_on_stack(&me->request, self, &meet_kind, NULL);
    meeting = arrive(me, &is_failed);
    if (BASE_UNLIKELY(is_failed))
        return MPI_ERR_PROC_ABORTED;
    if (meeting && meeting->n_local < n_members) {
        uint64_t number = meeting->number;
        ampi_meet_announce(meeting->members, n_members, number);
        have_told(number, me->group);
    } else if (meeting) {
        struct ampi_meet_payload *payloads =
            base_calloc((size_t)n_members, sizeof *payloads, "a meeting of ranks");
        for (int i = 0; i < n_members; i++)
            payloads[i] = meeting->members[i]->payload;
        finish(meeting, ampi_machine ? ampi_contexts_propose() : 0, payloads);
        free(payloads);
    }
    ampi_request_await(&me->request);
    return me->error;
}

void ampi_meet_finish(uint64_t number, uint64_t new_context_id, const struct ampi_meet_payload *payloads)
{
    struct meeting *meeting = take_told(number);

    if (meeting)
        finish(meeting, new_context_id, payloads);
}

/* ---- Links ---- */

/* Marks the processes whose ranks the meetings of a list wait for. */
static void mark_members(const struct meeting *list, bool *is_linked)
{
    for (const struct meeting *meeting = list; meeting; meeting = meeting->next)
        for (int i = 0; i < meeting->key->group->n_ranks; i++)
            is_linked[ampi_procs_of_rank(ampi_group_world_rank(meeting->key->group, i))] = true;
}

bool ampi_meet_is_linked(bool *is_linked)
{
    pthread_mutex_lock(&table.lock);
    mark_members(table.announced, is_linked);
    for (unsigned i = 0; i < TABLE_CHAINS; i++)
        mark_members(table.chains[i], is_linked);
    pthread_mutex_unlock(&table.lock);
    return false;
}

/* ---- Failed members ---- */

/* Moves meetings at which not all members can arrive from a list to the front of `others`. */
static struct meeting *take_failed(struct meeting **list, struct meeting *others)
{
    while (*list) {
        struct meeting *meeting = *list;
        if (meeting->is_announcing || !ampi_failed_in_group(meeting->key->group)) {
            list = &meeting->next;
            continue;
        }
        *list = meeting->next;
        meeting->next = others;
        others = meeting;
    }
    return others;
}

void ampi_meet_handle_failure(void)
{
    const struct ampi_rank *self = ampi_self();
    struct meeting *failed;

    pthread_mutex_lock(&table.lock);
    failed = take_failed(&table.announced, NULL);
    for (unsigned i = 0; i < TABLE_CHAINS; i++)
        failed = take_failed(&table.chains[i], failed);
    pthread_mutex_unlock(&table.lock);
    while (failed) {
        struct meeting *meeting = failed;
        int n_members = meeting->key->group->n_ranks;
        failed = meeting->next;
        for (int i = 0; i < n_members; i++)
            if (meeting->members[i]) {
                meeting->members[i]->error = MPI_ERR_PROC_ABORTED;
                let_go(meeting->members[i], self);
            }
        free(meeting->members);
        free(meeting);
    }
}
