/* SPDX-License-Identifier: BSD-3-Clause
 *
 * meet_procs.c: meetings across processes (meet.h). The process of the group's first member, on that
 * member's PE, collects arrivals, and then sends all members' data to every process.
 *
 *      to the collector    key, then for each member of the process its rank in the group and its payload
 *      from it             the new context id, then the same for all members
 *
 * Before a report of a deadlock, each process asks the others of its incomplete meetings which of their members have not arrived:
 *
 *      question            AMPI_AM_SYNC; key
 *      answer              AMPI_AM_SYNC, AMPI_AM_DONE; these members' numbers
 */
#include <string.h>

#include "ampi/meet/meet.h"
#include "ampi/comm/contexts.h"
#include "ampi/procs/procs.h"
#include "base/log.h"

/* ---- A growing buffer ---- */

struct bytes {
    unsigned char *at;
    size_t n;
    size_t room;
};

static void put(struct bytes *out, const void *from, size_t n_bytes)
{
    if (out->n + n_bytes > out->room) {
        out->room = 2 * (out->n + n_bytes);
        out->at = base_realloc(out->at, out->room, "a meeting of ranks");
    }
    if (n_bytes)
        memcpy(out->at + out->n, from, n_bytes);
    out->n += n_bytes;
}

static void put_int(struct bytes *out, int64_t value)
{
    put(out, &value, sizeof value);
}

static int64_t get_int(const unsigned char **at)
{
    int64_t value;

    memcpy(&value, *at, sizeof value);
    *at += sizeof value;
    return value;
}

/* Moves a pointer to a key to the ranks, and returns their number. */
static int64_t skip_to_ranks(const unsigned char **at)
{
    int64_t n_chars;

    *at += 2 * sizeof(int64_t); /* context, tag */
    n_chars = get_int(at);
    *at += n_chars;
    n_chars = get_int(at);
    *at += n_chars > 0 ? n_chars : 0;
    return get_int(at);
}

static void put_member(struct bytes *out, int member, struct ampi_meet_payload payload)
{
    put_int(out, member);
    put_int(out, (int64_t)payload.n_bytes);
    put(out, payload.bytes, payload.n_bytes);
}

/* ---- The members' side ---- */

static void put_key(struct bytes *out, const struct ampi_meet *me)
{
    const char *stringtag = me->stringtag ? me->stringtag : "";

    put_int(out, (int64_t)me->context_id);
    put_int(out, me->tag);
    put_int(out, (int64_t)strlen(me->function));
    put(out, me->function, strlen(me->function));
    put_int(out, me->stringtag ? (int64_t)strlen(stringtag) : -1);
    put(out, stringtag, strlen(stringtag));
    put_int(out, me->group->n_ranks);
    for (int i = 0; i < me->group->n_ranks; i++)
        put_int(out, ampi_group_world_rank(me->group, i));
}

void ampi_meet_announce(struct ampi_meet *const *members, int n_members, uint64_t number)
{
    struct ampi_am_header am = {.kind = AMPI_AM_MEET, .cookie = number};
    const struct ampi_meet *first = NULL;
    struct bytes out = {0};
    int collector, n_local = 0;

    for (int i = 0; i < n_members; i++)
        if (members[i]) {
            first = first ? first : members[i];
            n_local++;
        }
    collector = ampi_group_world_rank(first->group, 0);
    put_int(&out, 0); /* the size of the key */
    put_key(&out, first);
    *(int64_t *)out.at = (int64_t)(out.n - sizeof(int64_t));
    put_int(&out, n_members);
    put_int(&out, n_local);
    for (int i = 0; i < n_members; i++)
        if (members[i])
            put_member(&out, i, members[i]->payload);
    if (ampi_procs_pe_of(collector) < 0)
        free(out.at);
    else
        ampi_procs_post(ampi_procs_of_rank(collector), ampi_procs_pe_of(collector), &am, out.at, out.n);
    /* If the collector has failed, ampi_meet_handle_failure ends the meeting. */
}

/* The collector reports that all members have arrived. */
static void handle_done(const struct ampi_am_header *am, const unsigned char *at)
{
    uint64_t new_context_id = (uint64_t)get_int(&at);
    int n_members = (int)get_int(&at);
    struct ampi_meet_payload *payloads =
        base_calloc((size_t)n_members, sizeof *payloads, "a meeting of ranks");

    for (int i = 0; i < n_members; i++) {
        int member = (int)get_int(&at);
        payloads[member].n_bytes = (size_t)get_int(&at);
        payloads[member].bytes = at;
        at += payloads[member].n_bytes;
    }
    ampi_meet_finish(am->cookie, new_context_id, payloads);
    free(payloads);
}

/* ---- The collector ---- */

/* A process that has arrived. */
struct participant {
    struct participant *next;
    struct ampi_am_header am;
    unsigned char *bytes;         /* its message; malloc'ed */
    const unsigned char *members; /* the part after the key and the numbers */
    const unsigned char *end;
};

struct collection {
    struct collection *next;
    struct participant *participants;
    const unsigned char *key; /* of any participant */
    size_t key_bytes;
    int n_members;
    int n_arrived;
};

/* By PE; each PE uses only its own list. */
static struct collection *collections[AMPI_PES_MAX];

/* Replies to all when all have arrived. */
static void answer(struct collection *collection)
{
    struct bytes out = {0};

    put_int(&out, (int64_t)ampi_contexts_propose());
    put_int(&out, collection->n_members);
    for (const struct participant *participant = collection->participants; participant;
         participant = participant->next)
        put(&out, participant->members, (size_t)(participant->end - participant->members));
    while (collection->participants) {
        struct participant *participant = collection->participants;
        struct ampi_am_header am = {
            .kind = AMPI_AM_MEET, .flags = AMPI_AM_DONE, .cookie = participant->am.cookie};
        unsigned char *copy = base_malloc(out.n, "a meeting of ranks");
        memcpy(copy, out.at, out.n);
        ampi_procs_post((int)participant->am.src_proc, participant->am.src_pe, &am, copy, out.n);
        collection->participants = participant->next;
        free(participant->bytes);
        free(participant);
    }
    free(out.at);
    free(collection);
}

static void handle_participant(const struct ampi_am_header *am, unsigned char *bytes, size_t n_bytes)
{
    struct collection **link = &collections[ult_pe_id(ult_self()->pe)];
    const unsigned char *at = bytes;
    size_t key_bytes = (size_t)get_int(&at);
    struct participant *participant = base_calloc(1, sizeof *participant, "a meeting of ranks");
    struct collection *collection;
    const unsigned char *key = at;

    while (*link && ((*link)->key_bytes != key_bytes || memcmp((*link)->key, key, key_bytes) != 0))
        link = &(*link)->next;
    if (!*link) {
        *link = base_calloc(1, sizeof **link, "a meeting of ranks");
        (*link)->key = key;
        (*link)->key_bytes = key_bytes;
    }
    collection = *link;
    at += key_bytes;
    collection->n_members = (int)get_int(&at);
    collection->n_arrived += (int)get_int(&at);
    *participant = (struct participant){collection->participants, *am, bytes, at, bytes + n_bytes};
    collection->participants = participant;
    if (collection->n_arrived == collection->n_members) {
        *link = collection->next;
        answer(collection);
    }
}

/* True if some member can never arrive. The other processes detect the failure themselves. */
static bool has_failed_member(const struct collection *collection)
{
    const unsigned char *at = collection->key;
    int64_t n_ranks = skip_to_ranks(&at);

    for (int64_t i = 0; i < n_ranks; i++)
        if (ampi_failed_is_rank((int)get_int(&at)))
            return true;
    return false;
}

static void fail_participants(int pe_id)
{
    struct collection **link = &collections[pe_id];

    while (*link) {
        struct collection *collection = *link;
        if (!has_failed_member(collection)) {
            link = &collection->next;
            continue;
        }
        *link = collection->next;
        while (collection->participants) {
            struct participant *participant = collection->participants;
            collection->participants = participant->next;
            free(participant->bytes);
            free(participant);
        }
        free(collection);
    }
}

/* ---- Reports ---- */

/* Meetings that are asked about; others have no members in other processes that are named. */
#define QUESTIONS_MAX 64

struct question {
    const struct ampi_meet *key;
    int *numbers; /* answers: members that have not arrived */
    int n;
};

static struct {
    struct question questions[QUESTIONS_MAX];
    int n;
    uint64_t first; /* number of the first one: all earlier reports have asked so many */
} asked;

int ampi_meet_absent(const struct ampi_meet *key, const int **numbers_out)
{
    for (int i = 0; i < asked.n; i++)
        if (asked.questions[i].key == key) {
            *numbers_out = asked.questions[i].numbers;
            return asked.questions[i].n;
        }
    return 0;
}

static void add_question(const struct ampi_meet *key, struct ampi_meet *const *members, void *unused)
{
    if (asked.n < QUESTIONS_MAX)
        asked.questions[asked.n++] = (struct question){.key = key};
}

static bool has_member(const struct ampi_group *group, int proc_id)
{
    for (int i = 0; i < group->n_ranks; i++)
        if (ampi_procs_of_rank(ampi_group_world_rank(group, i)) == proc_id)
            return true;
    return false;
}

/* Returns the number of answers that will come. */
static int ask_for_report(void)
{
    int n_asked = 0;

    for (int i = 0; i < asked.n; i++)
        free(asked.questions[i].numbers);
    asked.first += (uint64_t)asked.n;
    asked.n = 0;
    ampi_meet_each(add_question, NULL);
    for (int i = 0; i < asked.n; i++)
        for (int proc = 0; proc < ampi_job.max_procs; proc++) {
            struct ampi_am_header am = {
                .kind = AMPI_AM_MEET, .flags = AMPI_AM_SYNC, .cookie = asked.first + (uint64_t)i};
            struct bytes out = {0};
            if (proc == ampi_job.proc_id || !ampi_procs_is_own(proc) ||
                !has_member(asked.questions[i].key->group, proc))
                continue;
            put_key(&out, asked.questions[i].key);
            n_asked += ampi_procs_post(proc, 0, &am, out.at, out.n);
        }
    return n_asked;
}

/* The meeting with a key. */
struct search {
    const unsigned char *key;
    size_t key_bytes;
    int64_t n_ranks;
    bool *has_entered; /* by member */
};

static void compare(const struct ampi_meet *key, struct ampi_meet *const *members, void *arg)
{
    struct search *search = arg;
    struct bytes bytes = {0};

    put_key(&bytes, key);
    if (bytes.n == search->key_bytes && memcmp(bytes.at, search->key, bytes.n) == 0)
        for (int64_t i = 0; i < search->n_ranks; i++)
            search->has_entered[i] = members[i] != NULL;
    free(bytes.at);
}

static void handle_question(const struct ampi_am_header *am, const unsigned char *key, size_t key_bytes)
{
    struct ampi_am_header reply = {
        .kind = AMPI_AM_MEET, .flags = AMPI_AM_SYNC | AMPI_AM_DONE, .cookie = am->cookie};
    struct search search = {.key = key, .key_bytes = key_bytes};
    struct bytes out = {0};

    search.n_ranks = skip_to_ranks(&key);
    search.has_entered = base_calloc((size_t)search.n_ranks, sizeof(bool), "members of a meeting");
    ampi_meet_each(compare, &search);
    for (int64_t i = 0; i < search.n_ranks; i++) {
        int world_rank = (int)get_int(&key);
        if (ampi_job_is_local(world_rank) && !search.has_entered[i])
            put_int(&out, ampi_rank_number(&ampi_job.ranks[ampi_job_index_of(world_rank)]));
    }
    free(search.has_entered);
    ampi_procs_post((int)am->src_proc, 0, &reply, out.at, out.n);
}

static void handle_answer(const struct ampi_am_header *am, const unsigned char *at, size_t n_bytes)
{
    struct question *question;
    size_t n = n_bytes / sizeof(int64_t);

    if (am->cookie < asked.first) /* late */
        return;
    question = &asked.questions[am->cookie - asked.first];
    question->numbers =
        base_realloc(question->numbers, ((size_t)question->n + n + 1) * sizeof(int), "a report");
    for (size_t i = 0; i < n; i++)
        question->numbers[question->n++] = (int)get_int(&at);
    ampi_procs_answered();
}

/* ---- Messages ---- */

static void handle_meeting(const struct ampi_am_header *am, void *bytes, size_t n_bytes)
{
    if (am->flags & AMPI_AM_SYNC) {
        if (am->flags & AMPI_AM_DONE)
            handle_answer(am, bytes, n_bytes);
        else
            handle_question(am, bytes, n_bytes);
        free(bytes);
    } else if (am->flags & AMPI_AM_DONE) {
        handle_done(am, bytes);
        free(bytes);
    } else {
        handle_participant(am, bytes, n_bytes);
    }
}

static bool handle(int pe_id, const struct ampi_am_header *am, const void *header,
                   const struct machine_data *data)
{
    return ampi_procs_take(pe_id, am, data, handle_meeting);
}

static void forget(int pe_id, int proc_id)
{
    fail_participants(pe_id);
}

static void look_again(int pe_id)
{
    ampi_meet_handle_failure();
}

void ampi_meet_connect(void)
{
    static const struct ampi_procs_client client = {.forget = forget,
                                                    .look_again = look_again,
                                                    .is_linked = ampi_meet_is_linked,
                                                    .ask_for_report = ask_for_report};

    ampi_procs_add_client(&client);
    ampi_procs_set_handler(AMPI_AM_MEET, handle);
}
