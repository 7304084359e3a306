/* SPDX-License-Identifier: BSD-3-Clause
 *
 * schedule.c: see schedule.h.
 */
#include "ampi/p2p/schedule.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "ampi/object/gate.h"
#include "ampi/p2p/choices.h"
#include "ampi/p2p/record.h"
#include "base/log.h"
#include "ult/shuffle.h"

enum ampi_schedule ampi_schedule;
static const char *value; /* of the option, without the word before ':' */

/* random[:SEED[:KEPT]] */
static bool read_random(const char *seed)
{
    unsigned long long number;
    uint32_t chosen = 0;
    char *end;

    if (!seed) {
        if (getrandom(&chosen, sizeof chosen, GRND_NONBLOCK) > 0)
            base_log("+schedule random:%u", chosen);
        ult_shuffle(chosen, NULL);
        return true;
    }
    errno = 0;
    number = strtoull(seed, &end, 10);
    if (*seed < '0' || *seed > '9' || errno || (*end && (*end != ':' || !ult_shuffle_is_list(end + 1))))
        return false;
    ult_shuffle(number, *end ? end + 1 : NULL);
    return true;
}

static bool is_list(const char *text)
{
    return text && text[strspn(text, "0123456789.")] == '\0';
}

void ampi_schedule_read(const char *text)
{
    static const char *const words[] = {
        [AMPI_SCHEDULE_RANDOM] = "random",
        [AMPI_SCHEDULE_CHOICES] = "choices",
        [AMPI_SCHEDULE_RECORD] = "record",
        [AMPI_SCHEDULE_REPLAY] = "replay",
    };
    size_t len = strcspn(text, ":");
    bool is_valid = false;

    value = text[len] ? text + len + 1 : NULL;
    for (int kind = AMPI_SCHEDULE_RANDOM; kind <= AMPI_SCHEDULE_REPLAY; kind++)
        if (strlen(words[kind]) == len && strncmp(text, words[kind], len) == 0)
            ampi_schedule = (enum ampi_schedule)kind;
    if (ampi_schedule == AMPI_SCHEDULE_RANDOM)
        is_valid = read_random(value);
    else if (ampi_schedule == AMPI_SCHEDULE_CHOICES)
        is_valid = is_list(value);
    else if (ampi_schedule != AMPI_SCHEDULE_USUAL)
        is_valid = value && *value;
    if (!is_valid)
        base_fatal(2, "+schedule %s: expected random, random:SEED, record:FILE or replay:FILE", text);
    ampi_gate_is_on = true; /* a rank may give way to another one in each call; calls are watched */
    ampi_comm_watches_all |= ampi_schedule != AMPI_SCHEDULE_RANDOM;
}

/* Calls whose results depend on an order that neither choices nor replay decide. */
static const char *const open_calls[] = {
    "MPI_Win_",        "MPI_File_",          "MPI_Comm_spawn",         "MPI_Comm_accept", "MPI_Comm_connect",
    "MPI_Comm_join",   "MPI_Cancel",         "MPI_Parrived",           "MPI_Psend_",      "MPIX_",
    "MPI_Lookup_name", "MPI_Grequest_start", "MPI_Request_get_status_"};

bool ampi_schedule_is_among(const char *call, const char *const *words, size_t n_words)
{
    for (size_t i = 0; i < n_words; i++)
        if (strncmp(call, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

const char *ampi_schedule_open_call(const char *call, bool is_thread)
{
    static const char *const some[] = {"MPI_Waitsome", "MPI_Testsome"};
    bool is_open = ampi_schedule_is_among(call, open_calls, BASE_COUNT(open_calls));

    if (is_thread)
        return "MPI from threads";
    if (ampi_schedule == AMPI_SCHEDULE_CHOICES)
        is_open |= ampi_schedule_is_among(call, some, BASE_COUNT(some));
    return is_open ? call : NULL;
}

/* In a replay: warns once that a result may differ from the record. */
static void warn_of_call(const char *call, bool is_thread)
{
    static atomic_bool has_warned;
    const char *open = ampi_schedule_open_call(call, is_thread);

    if (open && !atomic_exchange(&has_warned, true))
        base_log("+schedule replay: the program calls %s, whose results are not in a record: they may differ",
                 open);
}

void ampi_schedule_begin(void)
{
    if (ampi_schedule == AMPI_SCHEDULE_REPLAY)
        ampi_gate_watcher = warn_of_call;
    if (ampi_schedule == AMPI_SCHEDULE_CHOICES)
        ampi_choices_begin(value);
    else if (ampi_schedule == AMPI_SCHEDULE_RECORD)
        ampi_record_begin(value);
    else if (ampi_schedule == AMPI_SCHEDULE_REPLAY)
        ampi_replay_begin(value);
}

void ampi_schedule_end(void)
{
    if (ampi_schedule == AMPI_SCHEDULE_RECORD)
        ampi_record_end();
}

/* ---- Receives and probes ---- */

bool ampi_schedule_defers(struct ampi_comm *comm, int source, int tag)
{
    return ampi_schedule == AMPI_SCHEDULE_CHOICES && ampi_choices_defers(comm, source, tag);
}

static inline bool is_open(const struct ampi_comm *comm, int source, int tag)
{
    return (source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG) && !comm->streams && !comm->shared->window &&
           !comm->shared->file;
}

int ampi_schedule_receive(const struct ampi_comm *comm, int *source, int *tag)
{
    if (ampi_schedule < AMPI_SCHEDULE_RECORD || !is_open(comm, *source, *tag))
        return -1;
    return ampi_schedule == AMPI_SCHEDULE_RECORD ? ampi_record_receive(comm->owner)
                                                 : ampi_replay_receive(comm, source, tag);
}

/* Posting writes the key into the node, which had the wildcards. */
void ampi_schedule_start(struct ampi_request *request, struct ampi_recv_args *args)
{
    struct ampi_p2p *p2p = &request->u.p2p;

    if (ampi_schedule == AMPI_SCHEDULE_REPLAY && is_open(request->comm, args->source, args->tag))
        base_fatal(
            1, "+schedule replay: MPI_Start of a receive with wildcards cannot be repeated; use MPI_Irecv");
    p2p->peer_rank = ampi_schedule_receive(request->comm, &args->source, &args->tag);
}

void ampi_schedule_received(const struct ampi_rank *rank, int number, const MPI_Status *status)
{
    if (ampi_schedule == AMPI_SCHEDULE_RECORD && number >= 0 && status->MPI_SOURCE >= 0)
        ampi_record_received(rank, number, status->MPI_SOURCE, status->MPI_TAG);
}

void ampi_schedule_probe(const struct ampi_comm *comm, int *source, int *tag)
{
    if (ampi_schedule == AMPI_SCHEDULE_REPLAY)
        ampi_replay_probe(comm, source, tag);
}

void ampi_schedule_probed(const struct ampi_comm *comm, int source, int tag)
{
    if (ampi_schedule == AMPI_SCHEDULE_RECORD)
        ampi_record_probed(comm->owner, source, tag);
    else if (ampi_schedule == AMPI_SCHEDULE_REPLAY)
        ampi_replay_probed(comm->owner);
    else if (ampi_schedule == AMPI_SCHEDULE_CHOICES)
        ampi_choices_polled(true);
}

void ampi_schedule_arrived(const struct ampi_comm *comm, int source, int tag)
{
    if (ampi_schedule == AMPI_SCHEDULE_CHOICES)
        ampi_choices_arrived(comm, source, tag);
}

/* ---- Polls ---- */

enum ampi_poll ampi_schedule_poll(void)
{
    if (ampi_schedule == AMPI_SCHEDULE_CHOICES)
        return ampi_choices_poll();
    return ampi_schedule == AMPI_SCHEDULE_REPLAY ? ampi_replay_poll(ampi_self()) : AMPI_POLL_ANY;
}

bool ampi_schedule_polls_again(enum ampi_poll poll)
{
    if (ampi_schedule == AMPI_SCHEDULE_CHOICES)
        return ampi_choices_polls_again();
    if (poll == AMPI_POLL_SUCCESS)
        ult_yield();
    return poll == AMPI_POLL_SUCCESS;
}

void ampi_schedule_polled(bool has_found)
{
    if (ampi_schedule == AMPI_SCHEDULE_RECORD)
        ampi_record_polled(ampi_self(), has_found);
    else if (ampi_schedule == AMPI_SCHEDULE_REPLAY)
        ampi_replay_polled(ampi_self(), has_found);
    else if (ampi_schedule == AMPI_SCHEDULE_CHOICES)
        ampi_choices_polled(has_found);
}

/* ---- Several requests ---- */

int ampi_schedule_first(struct ampi_request *const *requests, int n_requests)
{
    switch (ampi_schedule) {
    case AMPI_SCHEDULE_RANDOM:
        return (int)ult_random((uint32_t)n_requests);
    case AMPI_SCHEDULE_CHOICES:
        return ampi_choices_first(requests, n_requests);
    case AMPI_SCHEDULE_REPLAY:
        return ampi_replay_first(ampi_self(), requests, n_requests);
    case AMPI_SCHEDULE_USUAL:
    case AMPI_SCHEDULE_RECORD:
        break;
    }
    return 0;
}

void ampi_schedule_found(int index)
{
    if (ampi_schedule == AMPI_SCHEDULE_RECORD)
        ampi_record_found(ampi_self(), index);
}

bool ampi_schedule_some(struct ampi_request *const *requests, int n_requests, bool *is_meant)
{
    if (ampi_schedule != AMPI_SCHEDULE_REPLAY)
        return false;
    ampi_replay_some(ampi_self(), requests, n_requests, is_meant);
    return true;
}

void ampi_schedule_found_some(const int *indices, int n)
{
    if (ampi_schedule == AMPI_SCHEDULE_RECORD)
        ampi_record_found_some(ampi_self(), indices, n);
}

/* ---- Reports ---- */

bool ampi_schedule_describe(char *text, size_t size_bytes)
{
    const char *kept = ult_shuffle_list();

    if (ampi_schedule == AMPI_SCHEDULE_RANDOM)
        snprintf(text, size_bytes, "+schedule random:%llu%s%s", (unsigned long long)ult_shuffle_seed(),
                 kept ? ":" : "", kept ? kept : "");
    else if (ampi_schedule == AMPI_SCHEDULE_CHOICES)
        snprintf(text, size_bytes, "+schedule choices:%s", value);
    else if (ampi_schedule == AMPI_SCHEDULE_REPLAY)
        snprintf(text, size_bytes, "+schedule replay:%s (a rank may wait for what the record says)", value);
    return ampi_schedule != AMPI_SCHEDULE_USUAL && ampi_schedule != AMPI_SCHEDULE_RECORD;
}
