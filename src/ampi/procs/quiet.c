/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quiet.c: finding out that all ranks of a job of several processes are blocked for ever.
 *
 * A process is quiet while all its PEs sleep and nothing of its own could wake one. It says so to the
 * collector, the lowest process that is not lost, with how many messages it has sent and taken. When all are
 * quiet and as many messages were taken as sent, the collector asks everybody; a process that has done
 * nothing since it said so says it once more. If all do, then at the moment of asking all were quiet and no
 * message was under way: nothing can ever happen. (Each was quiet from before that moment to after it, so the
 * two sums belong to one moment.) Answers count only as long as all reports are the ones that the question
 * rests on: a process that reports again has worked in between.
 *
 * After a loss the processes that are left are all. They leave out what was exchanged with lost processes,
 * and count together only if they know of the same ones.
 *
 * Some of what may yet come is no message of ours (the word to a sender that its data has been fetched, which
 * is UCX's own), and lies somewhere until a PE polls. So before a process says that it is quiet it has all
 * its PEs poll.
 *
 *      report     to the collector     sent, taken; round 0, or that of the question
 *      question   from the collector
 *      verdict    from the collector: print who is blocked
 *      printed    to the collector, which then ends the job
 *
 * All of it runs on the last PE that falls asleep, under the scheduler's lock, or in a message's handler,
 * when that PE is awake: never both at once.
 */
#include <string.h>
#include <unistd.h>

#include "ampi/procs/procs.h"
#include "base/log.h"

/* So long a process is quiet before it says so: messages mostly come sooner. */
#define WAIT_NS 1000000000

#define FLAG_QUESTION 1
#define FLAG_VERDICT 2
#define FLAG_PRINTED 4

/* Messages of a process, without those that it exchanged with processes that it knows to be lost. */
struct deeds {
    uint64_t n_sent; /* messages, those of this file excepted */
    uint64_t n_taken;
    uint64_t n_switches; /* between ranks */
    uint64_t lost;       /* fingerprint of the lost processes; 64 bits: compared with memcmp, so no padding */
};

/* Messages of this file that were exchanged with a process. */
struct words {
    uint64_t n_sent;
    uint64_t n_taken;
};

static struct {
    struct deeds deeds;  /* when it last looked; n_switches: when it fell quiet */
    uint64_t since_ns;   /* when it fell quiet */
    bool has_told;       /* the report has left */
    bool is_waking;      /* the PEs have been woken to poll */
    uint64_t *n_sleeps;  /* by PE: its sleeps when it was */
    uint32_t question;   /* round to answer; 0: none */
    struct words *words; /* by process */
    bool *is_lost;       /* by process: at the last look */
    int collector;       /* the lowest process that was not lost then */
} own;

/* The collector's. */
static struct {
    struct deeds *told; /* by process */
    bool *has_told;     /* by process */
    bool *has_answered; /* by process: the last question */
    bool *has_printed;  /* by process */
    uint32_t round;     /* of the last question; another one if a report came since */
    bool is_judged;
} all;

static void init(void)
{
    size_t n = (size_t)ampi_job.n_procs;
    const char *what = "the search for deadlocks";

    if (own.words)
        return;
    own.words = base_calloc(n, sizeof *own.words, what);
    own.is_lost = base_calloc(n, sizeof *own.is_lost, what);
    own.n_sleeps = base_calloc((size_t)ampi_job.n_pes, sizeof *own.n_sleeps, what);
    all.told = base_calloc(n, sizeof *all.told, what);
    all.has_told = base_calloc(n, sizeof *all.has_told, what);
    all.has_answered = base_calloc(n, sizeof *all.has_answered, what);
    all.has_printed = base_calloc(n, sizeof *all.has_printed, what);
}

static void look_for_losses(void)
{
    for (int i = 0; ampi_lost_any() && i < ampi_job.n_procs; i++)
        own.is_lost[i] = ampi_lost_is(i);
    own.collector = 0;
    while (own.is_lost[own.collector])
        own.collector++;
}

static uint64_t count_switches(void)
{
    uint64_t n = 0;

    for (int i = 0; i < ampi_job.n_pes; i++)
        n += ult_pe_switches(ult_pe_get(i));
    return n;
}

/* False: the process is not quiet. */
static bool look(struct deeds *deeds_out)
{
    struct machine_traffic traffic;

    look_for_losses();
    *deeds_out = (struct deeds){.n_switches = count_switches(), .lost = ampi_lost_fingerprint(own.is_lost)};
    for (int i = 0; i < ampi_job.n_pes; i++) {
        ampi_machine->traffic(i, own.is_lost, &traffic);
        if (traffic.n_fetching || ampi_lost_must_handle(i))
            return false;
        deeds_out->n_sent += traffic.n_sent;
        deeds_out->n_taken += traffic.n_handled;
    }
    for (int i = 0; i < ampi_job.n_procs; i++)
        if (!own.is_lost[i]) {
            deeds_out->n_sent -= own.words[i].n_sent;
            deeds_out->n_taken -= own.words[i].n_taken;
        }
    return true;
}

static void post(int proc_id, int flags, uint32_t round, const struct deeds *deeds)
{
    struct ampi_wire wire = {.kind = AMPI_WIRE_QUIET, .flags = (uint8_t)flags, .seq = round};

    if (deeds) {
        wire.cookie = deeds->n_sent;
        wire.context_id = deeds->n_taken;
        wire.tag = (int32_t)deeds->lost;
    }
    if (ampi_procs_post(proc_id, 0, &wire, NULL, 0))
        own.words[proc_id].n_sent++;
}

static void post_to_others(int flags, uint32_t round)
{
    for (int i = 0; i < ampi_job.n_procs; i++)
        if (i != ampi_job.proc_id && !own.is_lost[i])
            post(i, flags, round, NULL);
}

/* ---- The collector ---- */

/* Whether this is true of all processes that are not lost. */
static bool is_true_of_all(const bool *of)
{
    for (int i = 0; i < ampi_job.n_procs; i++)
        if (!of[i] && !own.is_lost[i])
            return false;
    return true;
}

/* Ends the job when all have printed. */
static void end_job(void)
{
    look_for_losses();
    if (!all.is_judged || !is_true_of_all(all.has_printed))
        return;
    ampi_machine->abort(1, "deadlock");
    _exit(1);
}

static void judge(void)
{
    all.is_judged = true;
    base_log("deadlock: every rank is blocked and no message is under way");
    post_to_others(FLAG_VERDICT, 0);
    ampi_upper.report_blocked();
    all.has_printed[ampi_job.proc_id] = true;
    end_job();
}

static void ask(void)
{
    all.round++;
    memset(all.has_answered, 0, (size_t)ampi_job.n_procs);
    own.question = all.round;
    own.is_waking = false;
    post_to_others(FLAG_QUESTION, all.round);
}

/* All have told, know of the same losses, and took what the others sent. */
static bool is_balanced(void)
{
    uint64_t n_sent = 0, n_taken = 0;

    for (int i = 0; i < ampi_job.n_procs; i++) {
        if (own.is_lost[i])
            continue;
        if (!all.has_told[i] || all.told[i].lost != all.told[ampi_job.proc_id].lost)
            return false;
        n_sent += all.told[i].n_sent;
        n_taken += all.told[i].n_taken;
    }
    return n_sent == n_taken;
}

static void collect(int proc_id, uint32_t round, struct deeds deeds)
{
    struct deeds *told = &all.told[proc_id];

    look_for_losses();
    if (round > 0) {
        if (round != all.round || told->n_sent != deeds.n_sent || told->n_taken != deeds.n_taken ||
            told->lost != deeds.lost)
            return;
        all.has_answered[proc_id] = true;
        if (!all.is_judged && is_true_of_all(all.has_answered))
            judge();
        return;
    }
    all.round++; /* the last question rests on another report */
    *told = deeds;
    all.has_told[proc_id] = true;
    if (is_balanced())
        ask();
}

static void tell(uint32_t round)
{
    if (ampi_job.proc_id == own.collector)
        collect(ampi_job.proc_id, round, own.deeds);
    else
        post(own.collector, 0, round, &own.deeds);
}

/* ---- Every process ---- */

/* Whether every PE has polled since the first call; that one wakes them. */
static bool have_all_polled(void)
{
    for (int i = 0; own.is_waking && i < ampi_job.n_pes; i++)
        if (ult_pe_sleeps(ult_pe_get(i)) == own.n_sleeps[i])
            return false;
    if (own.is_waking) {
        own.is_waking = false;
        return true;
    }
    own.is_waking = true;
    for (int i = 0; i < ampi_job.n_pes; i++)
        own.n_sleeps[i] = ult_pe_sleeps(ult_pe_get(i));
    ult_wake_all();
    return false;
}

/* The process is not quiet, or was not a moment ago. */
static int64_t begin_again(uint64_t now_ns)
{
    own.since_ns = now_ns;
    own.has_told = false;
    own.is_waking = false;
    own.question = 0;
    return WAIT_NS;
}

int64_t ampi_procs_quiet(void)
{
    uint64_t now_ns = ult_now_ns();
    uint64_t n_switches = count_switches();
    struct deeds deeds;

    if (!ampi_machine || !ampi_machine->traffic)
        return 0;
    init();
    if (n_switches != own.deeds.n_switches) {
        own.deeds.n_switches = n_switches;
        return begin_again(now_ns);
    }
    if (!own.has_told && now_ns - own.since_ns < WAIT_NS)
        return (int64_t)(WAIT_NS - (now_ns - own.since_ns));
    if (!look(&deeds))
        return 0;
    end_job();
    if (own.has_told && memcmp(&deeds, &own.deeds, sizeof deeds) != 0)
        return begin_again(now_ns);
    own.deeds = deeds;
    if (!own.has_told && have_all_polled()) {
        own.has_told = true;
        tell(0);
    }
    if (own.has_told && own.question && have_all_polled()) {
        uint32_t round = own.question;
        own.question = 0;
        tell(round);
    }
    return 0;
}

void ampi_procs_handle_quiet(const struct ampi_wire *wire)
{
    int from = (int)wire->src_proc;

    init();
    own.words[from].n_taken++;
    if ((wire->flags & FLAG_QUESTION) && own.has_told) { /* else it rests on an older report */
        own.question = wire->seq; /* answered when all PEs sleep again, and have polled */
        own.is_waking = false;
    }
    if (wire->flags & FLAG_PRINTED) {
        all.has_printed[from] = true;
        end_job();
    }
    if (!(wire->flags & (FLAG_QUESTION | FLAG_PRINTED | FLAG_VERDICT)))
        collect(
            from, wire->seq,
            (struct deeds){.n_sent = wire->cookie, .n_taken = wire->context_id, .lost = (uint32_t)wire->tag});
    if (wire->flags & FLAG_VERDICT) {
        ampi_upper.report_blocked();
        post(from, FLAG_PRINTED, 0, NULL);
    }
}
