/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quiet.c: finding out that all ranks of a job of several processes are blocked for ever.
 *
 * A process is quiet while all its PEs sleep and nothing of its own could wake one. It says so to process 0,
 * with how many messages it has sent and taken. When all are quiet and as many messages were taken as sent,
 * process 0 asks everybody; a process that has done nothing since it said so says it once more. If all do,
 * then at the moment of asking all were quiet and no message was under way: nothing can ever happen. (Each
 * was quiet from before that moment to after it, so the two sums belong to one moment.) Answers count only as
 * long as all reports are the ones that the question rests on: a process that reports again has worked in
 * between.
 *
 * Some of what may yet come is no message of ours (the word to a sender that its data has been fetched, which
 * is UCX's own), and lies somewhere until a PE polls. So before a process says that it is quiet it has all
 * its PEs poll.
 *
 *      report     to process 0    sent, taken; round 0, or that of the question
 *      question   from process 0
 *      verdict    from process 0: print who is blocked
 *      printed    to process 0, which then ends the job
 *
 * All of it runs on the last PE that falls asleep, under the scheduler's lock, or in a message's handler,
 * when that PE is awake: never both at once.
 */
#include <string.h>
#include <unistd.h>

#include "ampi/job.h"
#include "ampi/procs/procs.h"
#include "base/log.h"

/* So long a process is quiet before it says so: messages mostly come sooner. */
#define WAIT_NS 1000000000

#define FLAG_QUESTION 1
#define FLAG_VERDICT 2
#define FLAG_PRINTED 4

/* What a process has done. */
struct deeds {
    uint64_t n_sent; /* messages, those of this file excepted */
    uint64_t n_taken;
    uint64_t n_switches; /* between ranks */
};

static struct {
    struct deeds deeds;  /* when it fell quiet */
    uint64_t since_ns;   /* when that was */
    bool has_told;       /* the report has left */
    bool is_waking;      /* the PEs have been woken to poll */
    uint64_t *n_sleeps;  /* by PE: its sleeps when it was */
    uint32_t question;   /* round to answer; 0: none */
    uint64_t n_own_sent; /* messages of this file */
    uint64_t n_own_taken;
} own;

/* Process 0's. */
static struct {
    struct deeds *told; /* by process */
    bool *has_told;     /* by process */
    int n_told;
    uint32_t round; /* of the last question; another one if a report came since */
    int n_answers;
    int n_printed;
} all;

static bool look(struct deeds *deeds_out)
{
    struct machine_traffic traffic;

    *deeds_out = (struct deeds){0};
    for (int i = 0; i < ampi_job.n_pes; i++) {
        ampi_machine->traffic(i, &traffic);
        if (traffic.n_fetching)
            return false;
        deeds_out->n_sent += traffic.n_sent;
        deeds_out->n_taken += traffic.n_handled;
        deeds_out->n_switches += ult_pe_switches(ult_pe_get(i));
    }
    deeds_out->n_sent -= own.n_own_sent;
    deeds_out->n_taken -= own.n_own_taken;
    return true;
}

static void post(int proc_id, int flags, uint32_t round, const struct deeds *deeds)
{
    struct ampi_wire wire = {.kind = AMPI_WIRE_QUIET, .flags = (uint8_t)flags, .seq = round};

    if (deeds) {
        wire.cookie = deeds->n_sent;
        wire.context_id = deeds->n_taken;
    }
    own.n_own_sent++;
    ampi_procs_post(proc_id, 0, &wire, NULL, 0);
}

/* ---- Process 0 ---- */

/* A process has printed. */
static void count_printed(void)
{
    if (++all.n_printed < ampi_job.n_procs)
        return;
    ampi_machine->abort(1, "deadlock");
    _exit(1);
}

static void judge(void)
{
    base_log("deadlock: every rank is blocked and no message is under way");
    for (int i = 1; i < ampi_job.n_procs; i++)
        post(i, FLAG_VERDICT, 0, NULL);
    ampi_report_blocked();
    count_printed();
}

static void ask(void)
{
    all.round++;
    all.n_answers = 0;
    own.question = all.round;
    own.is_waking = false;
    for (int i = 1; i < ampi_job.n_procs; i++)
        post(i, FLAG_QUESTION, all.round, NULL);
}

static void collect(int proc_id, uint32_t round, struct deeds deeds)
{
    struct deeds *told;
    uint64_t n_sent = 0, n_taken = 0;

    if (!all.told) {
        all.told = base_calloc((size_t)ampi_job.n_procs, sizeof *all.told, "the search for deadlocks");
        all.has_told = base_calloc((size_t)ampi_job.n_procs, 1, "the search for deadlocks");
    }
    told = &all.told[proc_id];
    if (round > 0) {
        if (round == all.round && told->n_sent == deeds.n_sent && told->n_taken == deeds.n_taken &&
            ++all.n_answers == ampi_job.n_procs)
            judge();
        return;
    }
    all.round++; /* the last question rests on another report */
    *told = deeds;
    all.n_told += !all.has_told[proc_id];
    all.has_told[proc_id] = true;
    for (int i = 0; i < ampi_job.n_procs; i++) {
        n_sent += all.told[i].n_sent;
        n_taken += all.told[i].n_taken;
    }
    if (all.n_told == ampi_job.n_procs && n_sent == n_taken)
        ask();
}

static void tell(uint32_t round)
{
    if (ampi_job.proc_id == 0)
        collect(0, round, own.deeds);
    else
        post(0, 0, round, &own.deeds);
}

/* ---- Every process ---- */

/* Whether every PE has polled since the first call; that one wakes them. */
static bool have_all_polled(void)
{
    if (!own.n_sleeps)
        own.n_sleeps = base_calloc((size_t)ampi_job.n_pes, sizeof *own.n_sleeps, "the search for deadlocks");
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

int64_t ampi_procs_quiet(void)
{
    uint64_t now_ns = ult_now_ns();
    struct deeds deeds;

    if (!ampi_machine || !ampi_machine->traffic || !look(&deeds))
        return 0;
    if (memcmp(&deeds, &own.deeds, sizeof deeds) != 0) {
        own.deeds = deeds;
        own.since_ns = now_ns;
        own.has_told = false;
        own.is_waking = false;
        own.question = 0;
    }
    if (!own.has_told && now_ns - own.since_ns < WAIT_NS)
        return (int64_t)(WAIT_NS - (now_ns - own.since_ns));
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
    own.n_own_taken++;
    if ((wire->flags & FLAG_QUESTION) && own.has_told) { /* else it rests on an older report */
        own.question = wire->seq; /* answered when all PEs sleep again, and have polled */
        own.is_waking = false;
    }
    if (wire->flags & FLAG_PRINTED)
        count_printed();
    if (!(wire->flags & (FLAG_QUESTION | FLAG_PRINTED | FLAG_VERDICT)))
        collect((int)wire->src_proc, wire->seq, (struct deeds){wire->cookie, wire->context_id, 0});
    if (wire->flags & FLAG_VERDICT) {
        ampi_report_blocked();
        post(0, FLAG_PRINTED, 0, NULL);
    }
}
