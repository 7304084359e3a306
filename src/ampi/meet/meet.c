/* SPDX-License-Identifier: BSD-3-Clause
 *
 * meet.c: meetings of ranks that need no communicator in common. See meet.h.
 *
 * Owns the table of meetings that not all have come to. Invariants:
 *   1. A meeting is in the table from its first member's arrival to its last one's; who takes it out builds.
 *      One with members in other processes then stands in `told` until those have come, too, or one of them
 *      is lost.
 *   2. At most one meeting with a given key is in the table: a member cannot come twice before the last one
 *      has come.
 *   3. A member's struct may be gone as soon as its request was completed.
 */
#include "ampi/meet/meet.h"
#include "ampi/comm/contexts.h"

#include <pthread.h>
#include <string.h>

#include "ampi/procs/procs.h"
#include "base/log.h"

struct meeting {
    struct meeting *next;        /* link of the table's chain */
    struct ampi_meet **members;  /* by rank in the group; NULL: has not come, or is of another process */
    const struct ampi_meet *key; /* a member's, for comparison */
    int n_arrived;
    int n_local;     /* members of this process */
    uint64_t number; /* by which the collector knows it, once told */
    bool is_telling; /* in `told`, and its last member is still at work with it */
};

#define TABLE_CHAINS 256u

static struct {
    pthread_mutex_t lock;
    struct meeting *chains[TABLE_CHAINS];
    struct meeting *told; /* linked by next */
    uint64_t n_told;
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

/* Enters the caller; returns the meeting if it was the last to come, and takes it out of the table.
 * *is_lost_out: it was not entered, because not all can come. */
static struct meeting *arrive(struct ampi_meet *me, bool *is_lost_out)
{
    struct meeting **link = chain_of(me);
    struct meeting *meeting;

    pthread_mutex_lock(&table.lock);
    *is_lost_out = ampi_lost_in_group(me->group); /* with the lock: later losses are ampi_meet_lose's */
    if (*is_lost_out) {
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
            meeting->number = ++table.n_told;
            meeting->is_telling = true;
            meeting->next = table.told;
            table.told = meeting;
        }
    } else {
        meeting = NULL;
    }
    pthread_mutex_unlock(&table.lock);
    return meeting;
}

/* Takes a meeting out of `told`; NULL: it has failed before. */
static struct meeting *take_told(uint64_t number)
{
    struct meeting **link = &table.told;
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

static void handle_done(struct ult_note *note)
{
    ampi_request_complete(&BASE_CONTAINER(note, struct ampi_meet, note)->request);
}

/* Lets the member go on; invariant 3. */
static void let_go(struct ampi_meet *member, const struct ampi_rank *self)
{
    member->note.handle = handle_done;
    if (member->owner->ult.pe == self->ult.pe)
        handle_done(&member->note);
    else
        ult_post_note(member->owner->ult.pe, &member->note);
}

/* All members of the group have come, in all processes. On the PE of the last one of this process. */
static void finish(struct meeting *meeting, uint64_t new_context_id, const struct ampi_meet_gift *gifts)
{
    const struct ampi_rank *self = ampi_self();
    int n_members = meeting->key->group->n_ranks;
    struct ampi_meet *first = NULL;

    for (int i = 0; i < n_members; i++)
        if (meeting->members[i]) {
            first = first ? first : meeting->members[i];
            meeting->members[i]->new_context_id = new_context_id;
            meeting->members[i]->gifts = gifts;
        }
    first->build(meeting->members, n_members);
    for (int i = 0; i < n_members; i++)
        if (meeting->members[i])
            let_go(meeting->members[i], self);
    free(meeting->members);
    free(meeting);
}

/* The collector was told of the meeting with this number, of this group. It may have answered already: then
 * the meeting is over. */
static void have_told(uint64_t number, const struct ampi_group *group)
{
    struct meeting *meeting;
    bool is_lost;

    pthread_mutex_lock(&table.lock);
    for (meeting = table.told; meeting && meeting->number != number; meeting = meeting->next)
        ;
    if (meeting)
        meeting->is_telling = false;
    is_lost = meeting && ampi_lost_in_group(group);
    pthread_mutex_unlock(&table.lock);
    if (BASE_UNLIKELY(is_lost))
        ampi_meet_lose();
}

static const struct ampi_request_kind meet_kind = {.name = "meeting"};

int ampi_meet_run(struct ampi_meet *me)
{
    struct ampi_rank *self = ampi_self();
    int n_members = me->group->n_ranks;
    struct meeting *meeting;
    bool is_lost;

    me->owner = self;
    me->error = MPI_SUCCESS;
    ampi_request_init_on_stack(&me->request, self, &meet_kind, NULL);
    meeting = arrive(me, &is_lost);
    if (BASE_UNLIKELY(is_lost))
        return MPI_ERR_PROC_ABORTED;
    if (meeting && meeting->n_local < n_members) {
        uint64_t number = meeting->number;
        ampi_meet_tell(meeting->members, n_members, number);
        have_told(number, me->group);
    } else if (meeting) {
        struct ampi_meet_gift *gifts = base_calloc((size_t)n_members, sizeof *gifts, "a meeting of ranks");
        for (int i = 0; i < n_members; i++)
            gifts[i] = meeting->members[i]->gift;
        finish(meeting, ampi_machine ? ampi_contexts_propose() : 0, gifts);
        free(gifts);
    }
    ampi_request_await(&me->request);
    return me->error;
}

void ampi_meet_finish(uint64_t number, uint64_t new_context_id, const struct ampi_meet_gift *gifts)
{
    struct meeting *meeting = take_told(number);

    if (meeting)
        finish(meeting, new_context_id, gifts);
}

/* ---- Lost members ---- */

/* Takes the meetings of a list that not all can come to, and puts them in front of others. */
static struct meeting *take_lost(struct meeting **list, struct meeting *others)
{
    while (*list) {
        struct meeting *meeting = *list;
        if (meeting->is_telling || !ampi_lost_in_group(meeting->key->group)) {
            list = &meeting->next;
            continue;
        }
        *list = meeting->next;
        meeting->next = others;
        others = meeting;
    }
    return others;
}

void ampi_meet_lose(void)
{
    const struct ampi_rank *self = ampi_self();
    struct meeting *failed;

    pthread_mutex_lock(&table.lock);
    failed = take_lost(&table.told, NULL);
    for (unsigned i = 0; i < TABLE_CHAINS; i++)
        failed = take_lost(&table.chains[i], failed);
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
