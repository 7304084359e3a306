/* SPDX-License-Identifier: BSD-3-Clause
 *
 * termination.c: detects that all ranks of a job of several processes are blocked for ever.
 *
 * A process is quiet while all its PEs sleep and nothing of its own could wake one. It reports that, with
 * the numbers of messages it has sent and received, to the collector, the lowest process that has not
 * failed. When all are quiet and all sent messages were received, the collector asks all processes, twice; a
 * process that has done nothing since its report confirms it. If all confirm, then at the time of asking
 * all were quiet and no message was under way: nothing can ever happen. (Each was quiet from before that
 * time to after it, so the two sums belong to one time.) Answers count only while all reports are those
 * that the questions are based on: a process that reports again has worked in between.
 *
 * After a failure the survivors are all processes. They ignore messages exchanged with failed processes,
 * and count together only if they know the same failures. A process that has failed does not answer; until a
 * process has learned of that, it waits for it.
 *
 * In a universe the processes of all jobs that are connected to each other vote together (connected.c): they have the same
 * numbering, and the fingerprint of those that do not take part shows that they mean the same set. A process is not quiet
 * while ranks of any job may come to it: it accepts, or connects. Each job prints its own ranks, and ends.
 *
 * A process whose ranks have called MPI_Finalize takes no part: it waits for all connected processes, and only answers them: it
 * fetches data, grants locks of windows. So a process reports only when those that it may have sent something to have echoed:
 * they have handled it, and their answers are on the way, or here. It starts again when more comes from them. They echo before
 * each answer, too: UCX may have to connect the processes before it sends what waits.
 *
 * Some messages are internal to UCX (the notification of a sender that its data was fetched): they are not
 * counted, and both ends handle them only when a PE polls. UCX can be armed only when it has handled and sent
 * all of them. So a process reports, or answers, after all its PEs were woken and have armed UCX again: before
 * the first answers UCX's messages have left everywhere, and before the second ones they were received.
 *
 *      report     to the collector     sent, received; round 0, or that of the question
 *      question   from the collector
 *      verdict    from the collector, to another job by way of its lowest process: print the blocked ranks
 *      call       to those in MPI_Finalize; they echo it when they have nothing to do
 *      (questions between the others, for what they print, and their answers: ask_for_report)
 *      printed    to the lowest process of the own job, which then names a cycle, and ends the job; with
 *                 what the ranks wait for
 *
 * The end of another job may make ranks go on after the verdict: for their process it is void then, and their job does not end.
 * It votes again.
 *
 * A process whose ranks are blocked, or only test and probe and have found nothing for a time (+check stuck:S, job/livelock.c), votes,
 * too: PE 0 does, after each PE has counted its messages. If all confirm, and one such process is among them, each process prints
 * its ranks (a verdict for a livelock), and the job goes on: a rank may give up by itself.
 *
 * The vote of the blocked runs on the last PE that falls asleep, under the scheduler's lock, or in a message's handler,
 * when that PE is awake: never both at once.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ampi/procs/procs.h"
#include "ampi/procs/traffic.h"
#include "base/log.h"

/* Grace period before a process reports quiescence: messages usually arrive sooner. */
#define WAIT_NS 1000000000

/* Time until a process checks again whether all its PEs have armed UCX. */
#define SETTLE_NS 2000000

/* Times that all processes must confirm. */
#define N_QUESTIONS 2

#define FLAG_QUESTION 1
#define FLAG_VERDICT 2
#define FLAG_PRINTED 4
#define FLAG_CALL 8
#define FLAG_ECHO 16
#define FLAG_POLLS 32

static struct {
    struct ampi_counters counters; /* at the last poll; n_resumed: when it became quiet */
    uint64_t since_ns;             /* time when it became quiet */
    bool has_reported;             /* the report was sent */
    bool is_waking;                /* the PEs have been woken to poll */
    uint64_t *n_armed_before;      /* by PE: times that it had armed UCX */
    uint32_t question;             /* round to answer; 0: none */
    int asker;                     /* the process that has asked it */
    bool must_call;                /* those in MPI_Finalize, before the next report or answer */
    struct ampi_counters called;   /* at the last call */
    uint32_t n_calls;
    uint32_t *echoed; /* by process: its last echo */
    uint32_t *owed;   /* by process: its last call, while this one is in MPI_Finalize; 0: none, or echoed */
    bool owes;        /* there is one */
    struct ampi_counters confirmed; /* at the last answer */
    bool has_printed;               /* the blocked ranks, ... */
    uint64_t n_printed;             /* ... at this value of n_resumed */
    uint64_t verdict; /* its collector's number, from 1, and its round; 0: none, or it is void */
    int judge;        /* the lowest process of this job: ends it when all have printed */
    int n_unanswered; /* questions for the report that have no answer yet */
} own;

/* The collector's state. */
static struct {
    struct ampi_counters *reported; /* by process */
    bool *has_reported;             /* by process */
    bool *has_answered;             /* by process: to the last question */
    uint64_t *printed;              /* by process: the last verdict after which it has printed; 0: none */
    char *waits; /* of the processes that have printed (struct ampi_procs_waits_client) ... */
    size_t n_waits_bytes;
    uint64_t waits_verdict; /* ... after this verdict */
    uint32_t round;         /* of the last question; changed by a report after it */
    int n_confirmed;        /* questions that all have confirmed, based on these reports */
} all;

struct ampi_procs_waits_client ampi_procs_waits;

static void init(void)
{
    size_t n = (size_t)ampi_job.max_procs;
    const char *what = "deadlock detection";

    if (ampi_traffic.words)
        return;
    ampi_traffic_init();
    own.echoed = base_calloc(n, sizeof *own.echoed, what);
    own.owed = base_calloc(n, sizeof *own.owed, what);
    own.n_armed_before = base_calloc((size_t)ampi_job.n_pes, sizeof *own.n_armed_before, what);
    all.reported = base_calloc(n, sizeof *all.reported, what);
    all.has_reported = base_calloc(n, sizeof *all.has_reported, what);
    all.has_answered = base_calloc(n, sizeof *all.has_answered, what);
    all.printed = base_calloc(n, sizeof *all.printed, what);
    own.since_ns = ult_now_ns();
}

/* number: of the round, the call, or the verdict. */
static struct ampi_am_header make_header(int flags, uint64_t number)
{
    return (struct ampi_am_header){.kind = AMPI_AM_TERMINATION,
                                   .flags = (uint8_t)flags,
                                   .seq = (uint32_t)number,
                                   .tag = (int32_t)(number >> 32)};
}

static void post(int proc_id, int flags, uint64_t number, const struct ampi_counters *counters)
{
    struct ampi_am_header am = make_header(flags, number);

    if (counters) {
        am.cookie = counters->n_sent;
        am.context_id = counters->n_taken;
        am.tag = (int32_t)counters->out;
        am.flags |= counters->polls ? FLAG_POLLS : 0;
    }
    if (ampi_procs_post(proc_id, 0, &am, NULL, 0))
        ampi_traffic.words[proc_id].n_sent++;
}

static void post_to_others(int flags, uint64_t number, bool to_own_job)
{
    for (int i = 0; i < ampi_job.max_procs; i++)
        if (i != ampi_job.proc_id && !ampi_traffic.is_out[i] && (!to_own_job || ampi_procs_is_own(i)))
            post(i, flags, number, NULL);
}

/* ---- The collector ---- */

/* True if this holds for all processes that take part. */
static bool is_true_of_all(const bool *of)
{
    for (int i = 0; i < ampi_job.max_procs; i++)
        if (!of[i] && !ampi_traffic.is_out[i])
            return false;
    return true;
}

/* True if no rank of this process has gone on since then, and the same processes take part. */
static bool is_as_before(const struct ampi_counters *then)
{
    ampi_traffic_look_for_losses();
    return then->n_resumed == ampi_traffic_count_resumed() &&
           then->out == ampi_failed_fingerprint(ampi_traffic.is_out);
}

/* True if there is a verdict, and it holds for this process: otherwise it is dropped. */
static bool is_judged(void)
{
    if (own.verdict && !is_as_before(&own.confirmed))
        own.verdict = 0;
    return own.verdict != 0;
}

/* Ends the job when all its processes have printed. */
static void end_job(void)
{
    if (!is_judged() || own.judge != ampi_job.proc_id)
        return;
    for (int i = 0; i < ampi_job.max_procs; i++)
        if (all.printed[i] != own.verdict && !ampi_traffic.is_out[i] && ampi_procs_is_own(i))
            return;
    ampi_procs_waits.report(all.waits, all.n_waits_bytes);
    ampi_machine->abort(1, "deadlock");
    _exit(1);
}

/* A process of this job has printed its blocked ranks; this one may not know the verdict yet. Frees what they wait for. */
static void take_printed(int proc_id, uint64_t verdict, void *waits, size_t n_bytes)
{
    if (is_judged() && verdict != own.verdict) { /* it comes late */
        free(waits);
        return;
    }
    if (all.waits_verdict != verdict) {
        all.waits_verdict = verdict;
        all.n_waits_bytes = 0;
    }
    if (n_bytes > 0) {
        all.waits = base_realloc(all.waits, all.n_waits_bytes + n_bytes, "a report");
        memcpy(all.waits + all.n_waits_bytes, waits, n_bytes);
        all.n_waits_bytes += n_bytes;
    }
    free(waits);
    all.printed[proc_id] = verdict;
    end_job();
}

/* True if processes of other jobs take part. */
static bool has_others(void)
{
    for (int i = 0; i < ampi_job.max_procs; i++)
        if (!ampi_traffic.is_out[i] && !ampi_procs_is_own(i))
            return true;
    return false;
}

/* The number of connected processes whose ranks have called MPI_Finalize. */
static int count_parting(void)
{
    int n = 0;

    for (int i = 0; i < ampi_job.max_procs; i++)
        n += ampi_traffic.is_connected[i] && ampi_procs_is_parting(i);
    return n;
}

static void print_verdict(void)
{
    int n_parting = count_parting();

    base_log("deadlock: every rank is blocked and no message is under way%s",
             has_others() ? ", in this job and in those that it is connected to" : "");
    if (n_parting)
        base_log("%d connected %s called MPI_Finalize in all ranks, and %s for the blocked ones", n_parting,
                 n_parting == 1 ? "process has" : "processes have", n_parting == 1 ? "waits" : "wait");
}

/* True if the ranks of this process have been printed as they are, after a verdict that was void for another process. */
static bool have_printed(void)
{
    return own.has_printed && own.n_printed == own.confirmed.n_resumed;
}

/* Prints the blocked ranks of this process. */
static void report(void)
{
    struct ampi_am_header am = make_header(FLAG_PRINTED, own.verdict);
    size_t n_bytes = 0;
    void *waits;

    if (!have_printed())
        ampi_upper.report_blocked();
    own.has_printed = true;
    own.n_printed = own.confirmed.n_resumed;
    waits = ampi_procs_waits.find(&n_bytes);
    if (own.judge == ampi_job.proc_id)
        take_printed(own.judge, own.verdict, waits, n_bytes);
    else if (ampi_procs_post(own.judge, 0, &am, waits, n_bytes))
        ampi_traffic.words[own.judge].n_sent++;
}

/* from: this process, if it has collected, or the one that has told it. Each job's judge tells the others of its job. */
static void begin_report(uint64_t verdict, int from)
{
    if (!is_as_before(&own.confirmed))
        return;
    own.judge = 0;
    while (ampi_traffic.is_out[own.judge] || !ampi_procs_is_own(own.judge))
        own.judge++;
    if (own.judge != ampi_job.proc_id && !ampi_procs_is_own(from))
        return;
    own.verdict = verdict;
    if (own.judge == ampi_job.proc_id) {
        if (!have_printed())
            print_verdict(); /* before the lines of others */
        post_to_others(FLAG_VERDICT, verdict, from != ampi_job.proc_id);
    }
    own.n_unanswered = ampi_procs_call_ask();
    if (own.n_unanswered == 0)
        report();
}

void ampi_procs_answered(void)
{
    if (own.n_unanswered > 0 && is_judged() && --own.n_unanswered == 0)
        report();
}

static void ask(void)
{
    all.round++;
    memset(all.has_answered, 0, (size_t)ampi_job.max_procs);
    own.question = all.round;
    own.asker = ampi_job.proc_id;
    own.is_waking = false;
    post_to_others(FLAG_QUESTION, all.round, false);
}

/* All have reported, agree on who takes part, and have received all messages. */
static bool is_balanced(void)
{
    uint64_t n_sent = 0, n_taken = 0, out = ampi_failed_fingerprint(ampi_traffic.is_out);

    for (int i = 0; i < ampi_job.max_procs; i++) {
        if (ampi_traffic.is_out[i])
            continue;
        if (!all.has_reported[i] || all.reported[i].out != out)
            return false;
        n_sent += all.reported[i].n_sent;
        n_taken += all.reported[i].n_taken;
    }
    return n_sent == n_taken;
}

static bool is_any_polling(void)
{
    for (int i = 0; i < ampi_job.max_procs; i++)
        if (!ampi_traffic.is_out[i] && all.reported[i].polls)
            return true;
    return false;
}

static void report_livelock(void)
{
    ampi_procs_waits.livelock(true); /* before the lines of others */
    post_to_others(FLAG_VERDICT | FLAG_POLLS, 0, true);
}

static void collect(int proc_id, uint32_t round, struct ampi_counters counters)
{
    struct ampi_counters *reported = &all.reported[proc_id];

    ampi_traffic_look_for_losses();
    if (round > 0) {
        if (round != all.round || reported->n_sent != counters.n_sent ||
            reported->n_taken != counters.n_taken || reported->out != counters.out ||
            reported->polls != counters.polls || counters.out != ampi_failed_fingerprint(ampi_traffic.is_out))
            return;
        all.has_answered[proc_id] = true;
        if (is_judged() || !is_true_of_all(all.has_answered))
            return;
        if (++all.n_confirmed < N_QUESTIONS)
            ask();
        else if (is_any_polling())
            report_livelock();
        else
            begin_report((uint64_t)(ampi_job.proc_id + 1) << 32 | all.round, ampi_job.proc_id);
        return;
    }
    all.round++; /* the last question is based on another report */
    all.n_confirmed = 0;
    own.verdict = 0; /* the process has worked since */
    *reported = counters;
    all.has_reported[proc_id] = true;
    if (is_balanced())
        ask();
}

static void send_report(uint32_t round)
{
    int to = round > 0 ? own.asker : ampi_traffic.collector;

    if (round > 0) {
        is_judged(); /* as of the answer before */
        own.confirmed = own.counters;
    }
    if (ampi_job.proc_id == to)
        collect(ampi_job.proc_id, round, own.counters);
    else
        post(to, 0, round, &own.counters);
}

/* ---- Every process ---- */

/* True if every PE has armed UCX since the first call, which wakes them. */
static bool have_all_armed(void)
{
    for (int i = 0; own.is_waking && i < ampi_job.n_pes; i++)
        if (ampi_traffic.pes[i].n_armed == own.n_armed_before[i])
            return false;
    for (int i = 0; !own.is_waking && i < ampi_job.n_pes; i++)
        own.n_armed_before[i] = ampi_traffic.pes[i].n_armed;
    if (!own.is_waking)
        ult_wake_all();
    own.is_waking = !own.is_waking;
    return !own.is_waking;
}

/* True if those in MPI_Finalize have handled all that this process sent to them; asks them. */
static bool have_all_echoed(const struct ampi_counters *counters)
{
    bool is_new = own.must_call || memcmp(counters, &own.called, sizeof *counters) != 0;
    bool have_all = true;

    if (is_new) {
        own.must_call = false;
        own.called = *counters;
        own.n_calls++;
        own.is_waking = false;
    }
    for (int i = 0; i < ampi_job.max_procs; i++) {
        if (!ampi_traffic.is_beside[i])
            continue;
        if (is_new)
            post(i, FLAG_CALL, own.n_calls, NULL);
        have_all = have_all && own.echoed[i] == own.n_calls;
    }
    return have_all;
}

/* True if the process may report or answer: once. Otherwise when to look again. */
static bool has_settled(const struct ampi_counters *counters, int64_t *look_ns_out)
{
    bool has_echoes = have_all_echoed(counters);

    *look_ns_out = has_echoes ? SETTLE_NS : WAIT_NS; /* an echo wakes the PE; a process may end */
    own.must_call = has_echoes && have_all_armed();
    return own.must_call;
}

/* The process is not quiet, or was not a moment ago. */
static int64_t begin_again(uint64_t now_ns)
{
    own.since_ns = now_ns;
    own.has_reported = false;
    own.is_waking = false;
    own.question = 0;
    all.round++; /* as in collect */
    return WAIT_NS;
}

/* True if processes come and go without a message to this one: those of other jobs, and spawned ones. */
static bool has_comers(void)
{
    return ampi_job.own_end ||
           (ampi_job.max_procs > ampi_job.n_procs && ampi_procs_is_started(ampi_job.n_procs));
}

int64_t ampi_procs_check_termination(void)
{
    uint64_t now_ns = ult_now_ns();
    uint64_t n_resumed = ampi_traffic_count_resumed();
    struct ampi_counters counters;
    int64_t look_ns = SETTLE_NS;

    if (!ampi_machine || !ampi_machine->traffic)
        return 0;
    init();
    if (n_resumed != own.counters.n_resumed) {
        own.counters.n_resumed = n_resumed;
        return begin_again(now_ns);
    }
    if (!own.has_reported && now_ns - own.since_ns < WAIT_NS)
        return (int64_t)(WAIT_NS - (now_ns - own.since_ns));
    if (((!own.has_reported || own.question) && ult_has_others()) ||
        !ampi_procs_find_connected(ampi_traffic.is_connected))
        return begin_again(now_ns);
    ampi_traffic_begin();
    for (int i = 0; i < ampi_job.n_pes; i++)
        ampi_traffic_count(i);
    if (!ampi_traffic_sum(&counters))
        return 0;
    counters.n_resumed = n_resumed;
    if (own.has_reported && memcmp(&counters, &own.counters, sizeof counters) != 0)
        return begin_again(now_ns);
    own.counters = counters;
    if (!own.has_reported && has_settled(&counters, &look_ns)) {
        own.has_reported = true;
        send_report(0);
    }
    if (own.has_reported && own.question && has_settled(&counters, &look_ns)) {
        uint32_t round = own.question;
        own.question = 0;
        send_report(round);
    }
    if (!own.has_reported || own.question)
        return look_ns;
    return has_comers() ? WAIT_NS : 0;
}

/* ---- A process that polls ---- */

/* The count of a process whose PEs do not sleep: a wake-up that goes from PE 0 to all others, and back. */
static struct {
    struct ult_wakeup wakeup;
    atomic_bool is_under_way;
    uint64_t n_progress; /* at its begin */
    int pe_id;           /* its place; n_pes: PE 0, at its end */
} tour;

static void vote_as_poller(void)
{
    struct ampi_counters counters;
    uint32_t round = own.question;

    ampi_traffic_count(0);
    if (!ampi_traffic_sum(&counters) || ult_has_others()) {
        begin_again(ult_now_ns());
        return;
    }
    counters.n_resumed = tour.n_progress;
    counters.polls = 1;
    if (own.has_reported && memcmp(&counters, &own.counters, sizeof counters) != 0) {
        begin_again(ult_now_ns());
        return;
    }
    own.counters = counters;
    if ((own.has_reported && round == 0) || !have_all_echoed(&counters))
        return;
    own.must_call = true;
    own.has_reported = true;
    own.question = 0;
    send_report(round);
}

static void take_poll(struct ult_wakeup *wakeup)
{
    if (tour.pe_id == 0) {
        init();
        ampi_traffic_begin();
    } else if (tour.pe_id < ampi_job.n_pes) {
        ampi_traffic_count(tour.pe_id);
    } else {
        vote_as_poller();
        atomic_store(&tour.is_under_way, false);
        return;
    }
    tour.pe_id++;
    ult_post_wakeup(ult_pe_get(tour.pe_id % ampi_job.n_pes), wakeup);
}

void ampi_procs_vote_livelock(uint64_t n_progress)
{
    if (!ampi_machine->traffic || has_comers() || atomic_exchange(&tour.is_under_way, true))
        return;
    tour.wakeup.handle = take_poll;
    tour.n_progress = n_progress;
    tour.pe_id = 0;
    ult_post_wakeup(ult_pe_get(0), &tour.wakeup);
}

void ampi_procs_echo(void)
{
    if (!own.owes)
        return;
    own.owes = false;
    for (int i = 0; i < ampi_job.max_procs; i++)
        if (own.owed[i]) {
            post(i, FLAG_ECHO, own.owed[i], NULL);
            own.owed[i] = 0;
        }
}

void ampi_procs_handle_termination(const struct ampi_am_header *am, void *bytes, size_t n_bytes)
{
    int from = (int)am->src_proc;
    uint64_t verdict = (uint64_t)(uint32_t)am->tag << 32 | am->seq;

    init();
    ampi_traffic.words[from].n_taken++;
    if ((am->flags & FLAG_QUESTION) && own.has_reported) { /* otherwise it is based on an older report */
        own.question = am->seq;                            /* answered when all PEs have armed UCX */
        own.asker = from;
        own.is_waking = false;
        own.must_call = true;
    }
    if (am->flags & FLAG_CALL) {
        own.owed[from] = am->seq;
        own.owes = true;
    }
    if (am->flags & FLAG_ECHO)
        own.echoed[from] = am->seq;
    if (am->flags & FLAG_PRINTED)
        take_printed(from, verdict, bytes, n_bytes);
    if (!(am->flags & ~FLAG_POLLS))
        collect(from, am->seq,
                (struct ampi_counters){.n_sent = am->cookie,
                                       .n_taken = am->context_id,
                                       .polls = (am->flags & FLAG_POLLS) != 0,
                                       .out = (uint32_t)am->tag});
    if (am->flags == FLAG_VERDICT)
        begin_report(verdict, from);
    if (am->flags == (FLAG_VERDICT | FLAG_POLLS))
        ampi_procs_waits.livelock(false);
}
