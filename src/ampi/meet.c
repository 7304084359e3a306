/* SPDX-License-Identifier: BSD-3-Clause
 *
 * meet.c: meetings of ranks that need no communicator in common. See meet.h.
 *
 * Owns the table of meetings that not all have come to. Invariants:
 *   1. A meeting is in the table from its first member's arrival to its last one's; who takes it out builds.
 *   2. At most one meeting with a given key is in the table: a member cannot come twice before the last one
 * has come.
 *   3. A member's struct may be gone as soon as its request was completed.
 */
#include "ampi/meet.h"

#include <pthread.h>
#include <string.h>

#include "base/log.h"

struct meeting {
    struct meeting *next;        /* link of the table's chain */
    struct ampi_meet **members;  /* by rank in the group; NULL: has not come */
    const struct ampi_meet *key; /* a member's, for comparison */
    int n_arrived;
};

#define TABLE_CHAINS 256u

static struct {
    pthread_mutex_t lock;
    struct meeting *chains[TABLE_CHAINS];
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
    meeting->next = *chain;
    *chain = meeting;
    return meeting;
}

/* Enters the caller; returns the meeting if it was the last to come, and takes it out of the table. */
static struct meeting *arrive(struct ampi_meet *me)
{
    struct meeting **link = chain_of(me);
    struct meeting *meeting;

    pthread_mutex_lock(&table.lock);
    while (*link && !is_same_key((*link)->key, me))
        link = &(*link)->next;
    if (!*link)
        open_meeting(link, me);
    meeting = *link;
    meeting->members[me->member] = me;
    if (++meeting->n_arrived == me->group->n_ranks)
        *link = meeting->next;
    else
        meeting = NULL;
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

static const struct ampi_request_kind meet_kind = {.name = "meeting"};

int ampi_meet_run(struct ampi_meet *me)
{
    struct ampi_rank *self = ampi_self();
    int n_members = me->group->n_ranks;
    struct meeting *meeting;

    me->owner = self;
    me->error = MPI_SUCCESS;
    ampi_request_init_on_stack(&me->request, self, &meet_kind, NULL);
    meeting = arrive(me);
    if (!meeting) {
        ampi_request_await(&me->request);
        return me->error;
    }
    me->build(meeting->members, n_members);
    for (int i = 0; i < n_members; i++) {
        if (meeting->members[i] != me)
            let_go(meeting->members[i], self);
    }
    free(meeting->members);
    free(meeting);
    return me->error;
}

void ampi_meet_handle(const struct ampi_wire *wire, void *bytes, size_t n_bytes)
{
    (void)wire;
    (void)n_bytes;
    free(bytes);
}
