/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that the vote on a deadlock (procs/termination.c) ends with a verdict if all processes are blocked
 * and no message is in transit, and never while one of them works. This process is one of three; the test
 * sets its counters and plays the others, with a clock of its own. The linker redirects the calls of
 * termination.c to this file.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "ampi/job/job.h"
#include "ampi/procs/procs.h"

#define N_PROCS 3
#define SENT_MAX 64
#define ABORTED 42 /* exit code of this process if it has ended the job */

/* The flags of termination.c. */
#define QUESTION 1
#define VERDICT 2
#define PRINTED 4
#define CALL 8
#define ECHO 16
#define POLLS 32

/* A verdict's name has the number of its collector, from 1, in the field of the tag. */
#define COLLECTOR_FIRST 1

static struct {
    uint64_t now_ns;
    uint64_t n_resumed;
    uint64_t n_armed;
    bool cannot_arm;              /* UCX has messages of its own to handle or to send */
    uint64_t sent_count[N_PROCS]; /* messages of this process to each one */
    uint64_t taken_count[N_PROCS];
    uint64_t n_fetching;
    bool must_handle_loss;
    bool is_handled[N_PROCS]; /* the loss of this process */
    bool has_ended[N_PROCS];  /* mpirun says so; it has failed */
    bool is_parting[N_PROCS]; /* it is in MPI_Finalize */
    struct ampi_am_header sent[SENT_MAX];
    int sent_to[SENT_MAX];
    int n_sent;
    int collector;           /* gives the verdicts that are heard, and that the others have printed after */
    bool has_reported;       /* who is blocked */
    bool has_waits[N_PROCS]; /* the report of cycles got those of this process */
    int n_livelocks;         /* reports */
} sim;

/* ---- Functions that termination.c calls ---- */

uint64_t __wrap_ult_now_ns(void);
uint64_t __wrap_ult_now_ns(void)
{
    return sim.now_ns;
}

struct ult_pe *__wrap_ult_pe_get(int pe_id);
struct ult_pe *__wrap_ult_pe_get(int pe_id)
{
    ck_assert_int_eq(pe_id, 0);
    return NULL;
}

uint64_t __wrap_ult_pe_resumed(const struct ult_pe *pe);
uint64_t __wrap_ult_pe_resumed(const struct ult_pe *pe)
{
    (void)pe;
    return sim.n_resumed;
}

void __wrap_ult_wake_all(void);
void __wrap_ult_wake_all(void) {}

void __wrap_ult_post_wakeup(struct ult_pe *dest, struct ult_wakeup *wakeup);
void __wrap_ult_post_wakeup(struct ult_pe *dest, struct ult_wakeup *wakeup)
{
    (void)dest;
    wakeup->handle(wakeup);
}

void __wrap_ampi_report_blocked(void);
void __wrap_ampi_report_blocked(void)
{
    sim.has_reported = true;
}

bool __wrap_ampi_procs_post(int dest_proc, int dest_pe, const struct ampi_am_header *wire, void *data,
                            size_t n_bytes);
bool __wrap_ampi_procs_post(int dest_proc, int dest_pe, const struct ampi_am_header *wire, void *data,
                            size_t n_bytes)
{
    ck_assert(sim.n_sent < SENT_MAX && dest_pe == 0);
    ck_assert_uint_eq(n_bytes, wire->flags == PRINTED ? sizeof(int) : 0);
    free(data);
    sim.sent[sim.n_sent] = *wire;
    sim.sent_to[sim.n_sent++] = dest_proc;
    sim.sent_count[dest_proc]++;
    return true;
}

static void give_traffic(int pe_id, const bool *is_left_out, struct machine_traffic *traffic_out)
{
    (void)pe_id;
    *traffic_out = (struct machine_traffic){.n_fetching = sim.n_fetching, .n_armed = sim.n_armed};
    for (int i = 0; i < N_PROCS; i++)
        if (!is_left_out || !is_left_out[i]) {
            traffic_out->n_sent += sim.sent_count[i];
            traffic_out->n_handled += sim.taken_count[i];
        }
}

bool __wrap_ampi_failed_must_handle(int pe_id);
bool __wrap_ampi_failed_must_handle(int pe_id)
{
    (void)pe_id;
    return sim.must_handle_loss;
}

bool __wrap_ampi_failed_is_handled(int proc_id);
bool __wrap_ampi_failed_is_handled(int proc_id)
{
    return sim.is_handled[proc_id];
}

static bool is_present(int proc_id)
{
    return !sim.has_ended[proc_id];
}

static bool is_failing(int proc_id)
{
    return sim.has_ended[proc_id];
}

static bool is_parting(int proc_id)
{
    return sim.is_parting[proc_id];
}

/* All that have not failed have sent what their ranks wait for. */
static void abort_job(int exit_code, const char *why)
{
    (void)why;
    for (int i = 0; i < N_PROCS; i++)
        if (!sim.has_waits[i] && !sim.has_ended[i] && !sim.is_parting[i])
            exit(2);
    exit(exit_code == 1 ? ABORTED : exit_code);
}

/* The waits of a process: its number. */
static void *make_waits(int proc_id, size_t *n_bytes_out)
{
    int *waits = malloc(sizeof *waits);

    ck_assert_ptr_nonnull(waits);
    *waits = proc_id;
    *n_bytes_out = sizeof *waits;
    return waits;
}

static void *find_waits(size_t *n_bytes_out)
{
    return make_waits(ampi_job.proc_id, n_bytes_out);
}

static void take_waits(void *waits, size_t n_bytes)
{
    const int *proc_ids = waits;

    for (size_t i = 0; i < n_bytes / sizeof *proc_ids; i++)
        sim.has_waits[proc_ids[i]] = true;
}

static void report_livelock(bool is_first)
{
    ck_assert_int_eq(is_first, ampi_job.proc_id == 0);
    sim.n_livelocks++;
}

static const struct machine machine = {.name = "simulated",
                                       .traffic = give_traffic,
                                       .is_present = is_present,
                                       .is_parting = is_parting,
                                       .is_failing = is_failing,
                                       .abort = abort_job};

/* ---- What happens ---- */

static void become(int proc_id)
{
    ampi_machine = &machine;
    ampi_procs_waits = (struct ampi_procs_waits_client){
        .find = find_waits, .report = take_waits, .livelock = report_livelock};
    ampi_job.n_procs = ampi_job.max_procs = N_PROCS;
    ampi_job.proc_id = proc_id;
    ampi_job.n_pes = 1;
    ampi_failed_init();
    ampi_procs_check_termination();
}

/* This process's ranks work: they send and receive these numbers of messages, to and from another process, and are blocked again. */
static void work_with(int other, uint64_t n_sent, uint64_t n_taken)
{
    sim.n_resumed++;
    sim.sent_count[other] += n_sent;
    sim.taken_count[other] += n_taken;
    ampi_procs_check_termination();
}

static void work(uint64_t n_sent, uint64_t n_taken)
{
    work_with(ampi_job.proc_id == 2 ? 1 : 2, n_sent, n_taken);
}

/* The PE is woken, finds nothing, and sleeps again. */
static void sleep_again(void)
{
    sim.n_armed += !sim.cannot_arm;
    ampi_procs_check_termination();
}

static void wait_a_second(void)
{
    sim.now_ns += 1100000000;
    for (int i = 0; i < 3; i++)
        sleep_again();
}

static uint32_t failed_now; /* which losses the others know of */

/* A process has failed, and this one has handled that. */
static void fail_process(int proc_id)
{
    sim.has_ended[proc_id] = true;
    sleep_again();
    ampi_failed_record(proc_id, "it was ended");
    sim.must_handle_loss = true;
    sleep_again();
    sim.must_handle_loss = false;
    sim.is_handled[proc_id] = true;
    sim.n_resumed++; /* somebody got an error */
    sleep_again();
}

/* A message of another process comes. */
static void hear_awake(int from, int flags, uint32_t round, uint64_t n_sent, uint64_t n_taken)
{
    struct ampi_am_header wire = {.kind = AMPI_AM_TERMINATION,
                                  .flags = (uint8_t)flags,
                                  .src_proc = (uint32_t)from,
                                  .seq = round,
                                  .tag = flags & (VERDICT | PRINTED) ? sim.collector + COLLECTOR_FIRST
                                                                     : (int32_t)failed_now,
                                  .cookie = n_sent,
                                  .context_id = n_taken};
    size_t n_bytes = 0;
    void *waits = flags == PRINTED ? make_waits(from, &n_bytes) : NULL;

    sim.taken_count[from]++;
    ampi_procs_handle_termination(&wire, waits, n_bytes);
}

/* The same, and the PE sleeps. */
static void hear(int from, int flags, uint32_t round, uint64_t n_sent, uint64_t n_taken)
{
    hear_awake(from, flags, round, n_sent, n_taken);
    for (int i = 0; i < 3; i++)
        sleep_again();
}

/* Both others confirm the last question. */
static void confirm(uint64_t n_sent_by_1, uint64_t n_taken_by_1, uint64_t n_sent_by_2, uint64_t n_taken_by_2)
{
    uint32_t round = sim.sent[sim.n_sent - 1].seq;

    hear(1, 0, round, n_sent_by_1, n_taken_by_1);
    hear(2, 0, round, n_sent_by_2, n_taken_by_2);
}

/* How many messages with these flags have left for a process. */
static int count_sent(int to, int flags)
{
    int n = 0;

    for (int i = 0; i < sim.n_sent; i++)
        n += sim.sent_to[i] == to && sim.sent[i].flags == flags;
    return n;
}

static const struct ampi_am_header *last_sent(void)
{
    ck_assert_int_gt(sim.n_sent, 0);
    return &sim.sent[sim.n_sent - 1];
}

static const struct ampi_am_header *last_to(int to)
{
    int i = sim.n_sent - 1;

    while (i >= 0 && sim.sent_to[i] != to)
        i--;
    ck_assert_int_ge(i, 0);
    return &sim.sent[i];
}

/* Both others have printed their ranks after the verdict of this round. */
static void have_both_printed(uint32_t verdict)
{
    hear(1, PRINTED, verdict, 0, 0);
    hear(2, PRINTED, verdict, 0, 0);
}

/* As process 1: process 0 asks, and gives its verdict. */
static void hear_verdict(uint32_t round)
{
    hear(0, QUESTION, round, 0, 0);
    hear(0, VERDICT, round, 0, 0);
}

/* ---- As process 0, which collects ---- */

START_TEST(a_deadlock_is_found)
{
    become(0);
    work(2, 1);
    wait_a_second();
    hear(1, 0, 0, 5, 5);
    ck_assert_int_eq(sim.n_sent, 0);
    hear(2, 0, 0, 6, 7);
    ck_assert_int_eq(count_sent(1, QUESTION), 1);
    ck_assert_int_eq(count_sent(2, QUESTION), 1);
    confirm(5, 5, 6, 7);
    ck_assert(!sim.has_reported);
    ck_assert_int_eq(count_sent(1, QUESTION), 2);
    ck_assert_int_eq(count_sent(2, QUESTION), 2);
    confirm(5, 5, 6, 7);
    ck_assert(sim.has_reported);
    ck_assert_int_eq(count_sent(1, VERDICT), 1);
    ck_assert_int_eq(count_sent(2, VERDICT), 1);
    have_both_printed(last_to(1)->seq); /* ends */
    ck_abort_msg("the job goes on");
}
END_TEST

START_TEST(a_message_under_way_is_no_deadlock)
{
    become(0);
    work(2, 1);
    wait_a_second();
    hear(1, 0, 0, 5, 5);
    hear(2, 0, 0, 6, 6);
    wait_a_second();
    ck_assert_int_eq(sim.n_sent, 0);
    hear(2, 0, 0, 6, 7); /* it has arrived, and changed nothing */
    ck_assert_int_eq(count_sent(2, QUESTION), 1);
}
END_TEST

/* Process 1 is asked because of an old report of its own, and answers with a new one. Process 2 has answered,
 * and then got the message that process 1 sent in between: it works. */
START_TEST(an_answer_that_rests_on_a_newer_report_does_not_count)
{
    uint32_t round;

    become(0);
    work(0, 0);
    wait_a_second();
    hear(1, 0, 0, 5, 5);
    hear(2, 0, 0, 6, 6); /* without the message */
    ck_assert_int_eq(count_sent(1, QUESTION), 1);
    round = last_sent()->seq;
    hear(2, 0, round, 6, 6);
    hear(1, 0, 0, 7, 6);
    hear(1, 0, round, 7, 6);
    ck_assert(!sim.has_reported);
    ck_assert_int_eq(count_sent(2, VERDICT), 0);
    /* When the message has been taken, and all are blocked again, it is a deadlock. */
    hear(2, 0, 0, 6, 7);
    ck_assert_int_eq(count_sent(1, QUESTION), 2);
    confirm(7, 6, 6, 7);
    confirm(7, 6, 6, 7);
    ck_assert(sim.has_reported);
}
END_TEST

/* A message that is internal to UCX left before process 1 answered first, and is found after that: a rank goes on. */
START_TEST(what_comes_between_two_questions_is_no_deadlock)
{
    become(0);
    work(2, 1);
    wait_a_second();
    hear(1, 0, 0, 5, 5);
    hear(2, 0, 0, 6, 7);
    confirm(5, 5, 6, 7);
    work(0, 0);
    confirm(5, 5, 6, 7);
    ck_assert(!sim.has_reported);
    ck_assert_int_eq(count_sent(1, QUESTION), 2);
}
END_TEST

START_TEST(an_answer_to_an_older_question_does_not_count)
{
    uint32_t round;

    become(0);
    work(0, 0);
    wait_a_second();
    hear(1, 0, 0, 5, 5);
    hear(2, 0, 0, 6, 6);
    round = last_sent()->seq;
    hear(1, 0, round, 5, 5);
    hear(2, 0, 0, 6, 6); /* it was awake in between, and is asked again with the others */
    hear(2, 0, round, 6, 6);
    ck_assert(!sim.has_reported);
    ck_assert_uint_gt(last_sent()->seq, round);
}
END_TEST

/* This process and process 2 only poll. */
START_TEST(a_livelock_is_found)
{
    uint32_t round;

    become(0);
    sim.sent_count[2] = 2;
    sim.taken_count[2] = 1;
    ampi_procs_vote_livelock(1);
    hear_awake(1, 0, 0, 5, 5);
    hear_awake(2, POLLS, 0, 6, 7);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(count_sent(1, QUESTION), i + 1);
        round = last_sent()->seq;
        hear_awake(1, 0, round, 5, 5);
        hear_awake(2, POLLS, round, 6, 7);
        ck_assert_int_eq(sim.n_livelocks, 0);
        ampi_procs_vote_livelock(1);
    }
    ck_assert_int_eq(sim.n_livelocks, 1);
    ck_assert_int_eq(count_sent(1, VERDICT | POLLS), 1);
    ck_assert_int_eq(count_sent(2, VERDICT | POLLS), 1);
    ck_assert_int_eq(count_sent(2, VERDICT), 0);
    ck_assert(!sim.has_reported);
}
END_TEST

START_TEST(no_livelock_while_a_message_is_under_way)
{
    become(0);
    ampi_procs_vote_livelock(1);
    hear_awake(1, POLLS, 0, 5, 5);
    hear_awake(2, POLLS, 0, 6, 5);
    ampi_procs_vote_livelock(1);
    ck_assert_int_eq(sim.n_sent, 0);
}
END_TEST

/* Between the questions it has made another call, or got a message. */
START_TEST(no_livelock_if_a_rank_that_polls_goes_on)
{
    uint32_t round;

    become(0);
    ampi_procs_vote_livelock(1);
    hear_awake(1, POLLS, 0, 5, 5);
    hear_awake(2, POLLS, 0, 6, 6);
    round = last_sent()->seq;
    hear_awake(1, POLLS, round, 5, 5);
    hear_awake(2, POLLS, round, 6, 6);
    if (_i == 0)
        ampi_procs_vote_livelock(2);
    else
        sim.taken_count[1]++, ampi_procs_vote_livelock(1);
    ck_assert_int_eq(count_sent(1, QUESTION), 1);
    ck_assert_int_eq(sim.n_livelocks, 0);
}
END_TEST

/* Its ranks are blocked now: it reports again, as one that sleeps. */
START_TEST(an_answer_of_a_process_that_polls_no_more_does_not_count)
{
    uint32_t round;

    become(0);
    ampi_procs_vote_livelock(1);
    hear_awake(1, POLLS, 0, 5, 5);
    hear_awake(2, 0, 0, 6, 6);
    round = last_sent()->seq;
    hear_awake(1, 0, round, 5, 5);
    hear_awake(2, 0, round, 6, 6);
    ampi_procs_vote_livelock(1);
    ck_assert_int_eq(count_sent(1, QUESTION), 1);
}
END_TEST

/* ---- As another process ---- */

START_TEST(a_process_that_polls_reports_and_answers)
{
    become(1);
    sim.sent_count[2] = 5;
    ampi_procs_vote_livelock(1);
    ampi_procs_vote_livelock(1);
    ck_assert_int_eq(count_sent(0, POLLS), 1);
    ck_assert(last_sent()->seq == 0 && last_sent()->cookie == 5 && last_sent()->context_id == 0);
    hear_awake(0, QUESTION, 3, 0, 0);
    ck_assert_int_eq(count_sent(0, POLLS), 1); /* it has been asked since it looked */
    ampi_procs_vote_livelock(1);
    ck_assert_int_eq(count_sent(0, POLLS), 2);
    ck_assert_int_eq(last_sent()->seq, 3);
    hear_awake(0, VERDICT | POLLS, 3, 0, 0);
    ck_assert_int_eq(sim.n_livelocks, 1);
    ck_assert(!sim.has_reported);
}
END_TEST

START_TEST(a_quiet_process_reports_and_answers)
{
    become(1);
    work(5, 4);
    ck_assert_int_eq(sim.n_sent, 0);
    wait_a_second();
    ck_assert_int_eq(count_sent(0, 0), 1);
    ck_assert(last_sent()->seq == 0 && last_sent()->cookie == 5 && last_sent()->context_id == 4);
    hear(0, QUESTION, 3, 0, 0);
    ck_assert_int_eq(count_sent(0, 0), 2);
    ck_assert(last_sent()->seq == 3 && last_sent()->cookie == 5 && last_sent()->context_id == 4);
    hear(0, VERDICT, 3, 0, 0);
    ck_assert(sim.has_reported);
    ck_assert_int_eq(count_sent(0, PRINTED), 1);
}
END_TEST

/* It has worked since it reported, and not reported again: the question rests on the old report. */
START_TEST(a_question_that_rests_on_an_older_report_is_not_answered)
{
    become(1);
    work(5, 4);
    wait_a_second();
    work(2, 1);
    hear(0, QUESTION, 3, 0, 0);
    ck_assert_int_eq(count_sent(0, 0), 1);
    wait_a_second();
    ck_assert_int_eq(count_sent(0, 0), 2);
    ck_assert(last_sent()->seq == 0 && last_sent()->cookie == 7 && last_sent()->context_id == 5);
}
END_TEST

/* UCX has messages to send, or has not handled all that came. */
START_TEST(a_process_that_cannot_arm_ucx_neither_reports_nor_answers)
{
    become(1);
    work(5, 4);
    sim.cannot_arm = true;
    wait_a_second();
    ck_assert_int_eq(sim.n_sent, 0);
    sim.cannot_arm = false;
    sleep_again();
    ck_assert_int_eq(count_sent(0, 0), 1);
    sim.cannot_arm = true;
    hear(0, QUESTION, 3, 0, 0);
    ck_assert_int_eq(count_sent(0, 0), 1);
    sim.cannot_arm = false;
    sleep_again();
    ck_assert_int_eq(count_sent(0, 0), 2);
    ck_assert_uint_eq(last_sent()->seq, 3);
}
END_TEST

START_TEST(data_that_is_being_fetched_is_no_quiet)
{
    become(1);
    sim.n_fetching = 1;
    work(5, 4);
    wait_a_second();
    wait_a_second();
    ck_assert_int_eq(sim.n_sent, 0);
}
END_TEST

/* ---- What a report needs to know ---- */

static int ask_two(void)
{
    return 2;
}

static const struct ampi_procs_client asking = {.ask_for_report = ask_two};

START_TEST(a_report_awaits_answers)
{
    become(1);
    ampi_procs_add_client(&asking);
    work(5, 4);
    wait_a_second();
    hear_verdict(3);
    ampi_procs_answered();
    wait_a_second();
    ck_assert(!sim.has_reported);
    ck_assert_int_eq(count_sent(0, PRINTED), 0);
    ampi_procs_answered();
    ck_assert(sim.has_reported);
    ck_assert_int_eq(count_sent(0, PRINTED), 1);
}
END_TEST

/* It goes on while it awaits them: because another job has ended, for example. It prints after the next verdict. */
START_TEST(a_process_that_goes_on_does_not_print)
{
    become(1);
    ampi_procs_add_client(&asking);
    work(5, 4);
    wait_a_second();
    hear_verdict(3);
    ampi_procs_answered();
    work(0, 0);
    ampi_procs_answered();
    wait_a_second();
    ck_assert(!sim.has_reported);
    ck_assert_int_eq(count_sent(0, PRINTED), 0);
    hear_verdict(9);
    ampi_procs_answered();
    ck_assert(!sim.has_reported);
    ampi_procs_answered();
    ck_assert(sim.has_reported);
    ck_assert_int_eq(count_sent(0, PRINTED), 1);
    ck_assert_uint_eq(last_sent()->seq, 9);
}
END_TEST

START_TEST(a_verdict_that_comes_late_is_void)
{
    become(1);
    work(5, 4);
    wait_a_second();
    hear(0, QUESTION, 3, 0, 0);
    work(0, 0);
    hear(0, VERDICT, 3, 0, 0);
    wait_a_second();
    ck_assert(!sim.has_reported);
    ck_assert_int_eq(count_sent(0, PRINTED), 0);
}
END_TEST

/* The others vote again without the failed process, which this one has asked. */
START_TEST(a_report_awaits_no_answer_of_a_failed_process)
{
    become(1);
    ampi_procs_add_client(&asking);
    work(5, 4);
    wait_a_second();
    hear_verdict(3);
    ampi_procs_answered();
    fail_process(2);
    ampi_procs_answered(); /* late */
    wait_a_second();
    ck_assert(!sim.has_reported);
    hear_verdict(4);
    ampi_procs_answered();
    ampi_procs_answered();
    ck_assert(sim.has_reported);
    ck_assert_int_eq(count_sent(0, PRINTED), 1);
}
END_TEST

/* ---- After a failure ---- */

/* Process 1 has failed; messages exchanged with it are no longer counted, on either side. */
START_TEST(a_deadlock_of_the_survivors_is_found)
{
    become(0);
    work_with(1, 7, 3);
    work_with(2, 2, 1);
    wait_a_second();
    hear(1, 0, 0, 3, 6); /* one message to it is under way */
    hear(2, 0, 0, 3, 2);
    ck_assert_int_eq(sim.n_sent, 0);
    fail_process(1);
    wait_a_second();
    hear(2, 0, 0, 1, 2); /* it does not know of the failure yet */
    ck_assert_int_eq(sim.n_sent, 0);
    failed_now = ampi_failed_fingerprint((bool[N_PROCS]){[1] = true});
    hear(2, 0, 0, 1, 2);
    ck_assert_int_eq(count_sent(2, QUESTION), 1);
    ck_assert_int_eq(count_sent(1, QUESTION), 0);
    hear(2, 0, last_sent()->seq, 1, 2);
    hear(2, 0, last_sent()->seq, 1, 2);
    ck_assert(sim.has_reported);
    ck_assert_int_eq(count_sent(1, VERDICT), 0);
    hear(2, PRINTED, last_to(2)->seq, 0, 0); /* ends */
    ck_abort_msg("the job goes on");
}
END_TEST

/* The others learn first that process 1 has failed, and count without it. This process's ranks may wait for process 1's. */
START_TEST(a_loss_that_is_not_announced_is_no_deadlock)
{
    become(0);
    work_with(2, 2, 1);
    sim.has_ended[1] = true;
    wait_a_second();
    failed_now = ampi_failed_fingerprint((bool[N_PROCS]){[1] = true});
    hear(2, 0, 0, 1, 2);
    ck_assert_int_eq(sim.n_sent, 0);
    fail_process(1);
    wait_a_second();
    ck_assert_int_eq(count_sent(2, QUESTION), 1);
}
END_TEST

/* PEs handle the failure one after another. */
START_TEST(a_loss_that_is_handled_in_part_is_no_deadlock)
{
    become(0);
    work_with(2, 2, 1);
    sim.has_ended[1] = true;
    ampi_failed_record(1, "it was ended");
    wait_a_second();
    failed_now = ampi_failed_fingerprint((bool[N_PROCS]){[1] = true});
    hear(2, 0, 0, 1, 2);
    ck_assert_int_eq(sim.n_sent, 0);
}
END_TEST

/* Its first wait is as long as every other one. */
START_TEST(a_new_process_is_not_quiet_for_a_second)
{
    sim.now_ns = 5000000000;
    become(1);
    for (int i = 0; i < 3; i++)
        sleep_again();
    ck_assert_int_eq(sim.n_sent, 0);
    wait_a_second();
    ck_assert_int_eq(count_sent(0, 0), 1);
}
END_TEST

/* Processes 1 and 2 have reported these numbers of messages: a verdict follows. */
static uint32_t reach_verdict(void)
{
    hear(1, 0, 0, 5, 5);
    hear(2, 0, 0, 6, 7);
    confirm(5, 5, 6, 7);
    confirm(5, 5, 6, 7);
    ck_assert_int_eq(last_to(1)->flags, VERDICT);
    return last_to(1)->seq;
}

START_TEST(a_process_that_is_failed_after_the_verdict_need_not_print)
{
    uint32_t verdict;

    become(0);
    work_with(1, 2, 1);
    wait_a_second();
    verdict = reach_verdict();
    hear(1, PRINTED, verdict, 0, 0);
    fail_process(2);
    wait_a_second();
    failed_now = ampi_failed_fingerprint((bool[N_PROCS]){[2] = true});
    hear(1, 0, 0, 1, 2);
    hear(1, 0, last_to(1)->seq, 1, 2);
    hear(1, 0, last_to(1)->seq, 1, 2);
    ck_assert_int_eq(last_to(1)->flags, VERDICT);
    ck_assert_uint_ne(last_to(1)->seq, verdict);
    hear(1, PRINTED, last_to(1)->seq, 0, 0); /* ends */
    ck_abort_msg("the job goes on");
}
END_TEST

/* This process goes on after the first verdict, and process 1, which prints late, may do so. */
START_TEST(a_job_that_goes_on_after_a_verdict_is_not_ended)
{
    uint32_t verdict;

    become(0);
    work(2, 1);
    wait_a_second();
    verdict = reach_verdict();
    hear(2, PRINTED, verdict, 0, 0);
    work(0, 0);
    hear(1, PRINTED, verdict, 0, 0);
    hear(2, PRINTED, verdict, 0, 0);
    wait_a_second();
    exit(0);
}
END_TEST

/* All print again, and the end comes after the last one. */
START_TEST(a_second_verdict_ends_the_job)
{
    uint32_t first, second;

    become(0);
    work(2, 1);
    wait_a_second();
    first = reach_verdict();
    have_both_printed(0);
    hear(1, PRINTED, first, 0, 0);
    work(0, 0);
    wait_a_second();
    sim.has_reported = false;
    second = reach_verdict();
    ck_assert_uint_ne(second, first);
    ck_assert(sim.has_reported);
    hear(2, PRINTED, second, 0, 0);
    hear(1, PRINTED, first, 0, 0);  /* late */
    hear(1, PRINTED, second, 0, 0); /* ends */
    ck_abort_msg("the job goes on");
}
END_TEST

/* Process 1 goes on, unknown to this one: a process that another job has freed, for example. It blocks again. */
START_TEST(a_report_after_the_verdict_voids_it)
{
    uint32_t first, second;

    become(0);
    work(2, 1);
    wait_a_second();
    first = reach_verdict();
    hear(2, PRINTED, first, 0, 0);
    hear(1, 0, 0, 5, 5);
    for (int i = 0; i < 2; i++)
        confirm(5, 5, 6, 7);
    ck_assert_int_eq(count_sent(1, VERDICT), 2);
    second = last_to(1)->seq;
    hear(2, PRINTED, second, 0, 0);
    hear(1, PRINTED, second, 0, 0); /* ends */
    ck_abort_msg("the job goes on");
}
END_TEST

/* ---- As one of several jobs: process 0 is another one ---- */

static bool is_linked_to_first(bool *is_linked)
{
    if (is_linked)
        is_linked[0] = true;
    return false;
}

static const struct ampi_procs_client linking = {.is_linked = is_linked_to_first};

static void become_one_of_two_jobs(int proc_id)
{
    static char folder[] = "/nonexistent";

    ampi_job.universe = folder;
    ampi_job.own_first = 1;
    ampi_job.own_end = N_PROCS;
    ampi_procs_add_client(&linking);
    become(proc_id);
}

/* The verdicts of two collectors: process 2 has printed after the one of process 0, and not after this one's. */
START_TEST(verdicts_of_the_same_round_differ)
{
    const uint32_t round = 7;

    become_one_of_two_jobs(1);
    work(2, 2);
    wait_a_second();
    hear_verdict(round);
    ck_assert(sim.has_reported);
    fail_process(0); /* its job has ended: a rank of this one goes on */
    hear(2, PRINTED, round, 0, 0);
    work(1, 1);
    wait_a_second();
    wait_a_second();
    failed_now = ampi_failed_fingerprint((bool[N_PROCS]){[0] = true});
    hear(2, 0, 0, 3, 3);
    for (int i = 0; i < 2; i++)
        hear(2, 0, last_to(2)->seq, 3, 3);
    ck_assert_int_eq(last_to(2)->flags, VERDICT);
    ck_assert_uint_eq(last_to(2)->seq, round);
    exit(0);
}
END_TEST

/* Its lines follow the judge's: the lowest process of its job. */
START_TEST(a_process_prints_when_its_own_job_has_the_verdict)
{
    become_one_of_two_jobs(2);
    work(5, 4);
    wait_a_second();
    hear_verdict(3);
    ck_assert(!sim.has_reported);
    hear(1, VERDICT, 3, 0, 0);
    ck_assert(sim.has_reported);
    ck_assert_int_eq(count_sent(1, VERDICT), 0);
    ck_assert_int_eq(count_sent(1, PRINTED), 1);
    ck_assert_int_eq(last_to(1)->tag, sim.collector + COLLECTOR_FIRST);
}
END_TEST

START_TEST(the_judge_tells_its_own_job)
{
    become_one_of_two_jobs(1);
    work(5, 4);
    wait_a_second();
    hear_verdict(3);
    ck_assert(sim.has_reported);
    ck_assert_int_eq(count_sent(0, VERDICT), 0);
    ck_assert_int_eq(count_sent(2, VERDICT), 1);
    ck_assert_uint_eq(last_to(2)->seq, 3);
    ck_assert_int_eq(last_to(2)->tag, sim.collector + COLLECTOR_FIRST);
}
END_TEST

/* Process 0, which has collected, has failed: this one, the next, does so. */
START_TEST(another_process_collects)
{
    become(1);
    work_with(0, 4, 4);
    work_with(2, 5, 4);
    wait_a_second();
    ck_assert_int_eq(count_sent(0, 0), 1);
    fail_process(0);
    wait_a_second();
    ck_assert_int_eq(sim.n_sent, 1);
    failed_now = ampi_failed_fingerprint((bool[N_PROCS]){[0] = true});
    hear(2, 0, 0, 4, 5);
    ck_assert_int_eq(count_sent(2, QUESTION), 1);
    hear(2, 0, last_sent()->seq, 4, 5);
    hear(2, 0, last_sent()->seq, 4, 5);
    ck_assert(sim.has_reported);
    ck_assert_int_eq(count_sent(2, VERDICT), 1);
    ck_assert_int_eq(count_sent(0, VERDICT), 0);
}
END_TEST

START_TEST(reports_go_to_the_lowest_process_that_is_left)
{
    become(2);
    work_with(0, 4, 4);
    work_with(1, 5, 4);
    wait_a_second();
    ck_assert_int_eq(count_sent(0, 0), 1);
    fail_process(0);
    wait_a_second();
    ck_assert_int_eq(count_sent(1, 0), 1);
    ck_assert(last_sent()->cookie == 5 && last_sent()->context_id == 4);
}
END_TEST

/* ---- After MPI_Finalize ---- */

/* Process 0 has called MPI_Finalize and waits for the others, one of which waits for its message. */
START_TEST(a_process_in_finalize_takes_no_part)
{
    uint32_t round;

    become(1);
    work_with(0, 4, 3);
    work_with(2, 5, 4);
    wait_a_second();
    sim.is_parting[0] = true;
    wait_a_second();
    wait_a_second();
    ck_assert_int_eq(count_sent(0, CALL), 1);
    hear(0, ECHO, last_sent()->seq, 0, 0);
    failed_now = ampi_failed_fingerprint((bool[N_PROCS]){[0] = true});
    hear(2, 0, 0, 4, 5);
    for (int i = 1; i <= 2; i++) { /* questions */
        ck_assert_int_eq(count_sent(2, QUESTION), i);
        round = last_to(2)->seq;
        ck_assert_int_eq(count_sent(0, CALL), 1 + i);
        hear(2, 0, round, 4, 5);
        hear(0, ECHO, last_to(0)->seq, 0, 0);
    }
    ck_assert(sim.has_reported);
    ck_assert_int_eq(count_sent(0, VERDICT), 0);
    sim.collector = 1;
    hear(2, PRINTED, last_to(2)->seq, 0, 0); /* ends */
    ck_abort_msg("the job goes on");
}
END_TEST

/* Process 1 is in MPI_Finalize, and slow: this one reports after the echo to its last call. */
START_TEST(a_process_in_finalize_echoes_before_the_report)
{
    uint32_t call;

    become(2);
    work_with(1, 4, 3);
    sim.is_parting[1] = true;
    wait_a_second();
    wait_a_second();
    ck_assert_int_eq(count_sent(1, CALL), 1);
    call = last_sent()->seq;
    sim.taken_count[1]++; /* an answer, which no rank waits for */
    wait_a_second();
    ck_assert_int_eq(count_sent(1, CALL), 2);
    hear(1, ECHO, call, 0, 0);
    wait_a_second();
    ck_assert_int_eq(count_sent(0, 0), 0);
    hear(1, ECHO, call + 1, 0, 0);
    ck_assert_int_eq(count_sent(0, 0), 1);
    sim.sent_count[1]++;
    sleep_again();
    wait_a_second();
    ck_assert_int_eq(count_sent(1, CALL), 3);
    ck_assert_int_eq(count_sent(0, 0), 1);
    sim.is_parting[1] = false; /* it ends */
    sim.has_ended[1] = true;
    sim.is_handled[1] = true;
    wait_a_second();
    wait_a_second();
    ck_assert_int_eq(count_sent(0, 0), 2);
}
END_TEST

/* This process is in MPI_Finalize, and is called. */
START_TEST(an_echo_comes_when_there_is_nothing_to_do)
{
    become(0);
    hear(2, CALL, 7, 0, 0);
    ck_assert_int_eq(count_sent(2, ECHO), 0);
    ampi_procs_echo();
    ampi_procs_echo();
    ck_assert_int_eq(count_sent(2, ECHO), 1);
    ck_assert_uint_eq(last_sent()->seq, 7);
}
END_TEST

/* The process that collected reports of the others is in MPI_Finalize: it gives no verdict. */
START_TEST(a_process_in_finalize_gives_no_verdict)
{
    become(0);
    work(2, 1);
    wait_a_second();
    hear(1, 0, 0, 5, 5);
    sim.is_parting[0] = sim.is_parting[1] = true;
    hear(2, 0, 0, 6, 6);
    failed_now = ampi_failed_fingerprint((bool[N_PROCS]){[0] = true, [1] = true});
    hear(2, 0, 0, 6, 6);
    ck_assert(!sim.has_reported);
    ck_assert_int_eq(sim.n_sent, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quiet");
    TCase *tests = tcase_create("vote");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    tcase_add_exit_test(tests, a_deadlock_is_found, ABORTED);
    tcase_add_test(tests, a_message_under_way_is_no_deadlock);
    tcase_add_test(tests, an_answer_that_rests_on_a_newer_report_does_not_count);
    tcase_add_test(tests, what_comes_between_two_questions_is_no_deadlock);
    tcase_add_test(tests, an_answer_to_an_older_question_does_not_count);
    tcase_add_test(tests, a_quiet_process_reports_and_answers);
    tcase_add_test(tests, a_question_that_rests_on_an_older_report_is_not_answered);
    tcase_add_test(tests, a_process_that_cannot_arm_ucx_neither_reports_nor_answers);
    tcase_add_test(tests, data_that_is_being_fetched_is_no_quiet);
    tcase_add_test(tests, a_report_awaits_answers);
    tcase_add_test(tests, a_process_that_goes_on_does_not_print);
    tcase_add_test(tests, a_verdict_that_comes_late_is_void);
    tcase_add_exit_test(tests, a_job_that_goes_on_after_a_verdict_is_not_ended, 0);
    tcase_add_exit_test(tests, a_second_verdict_ends_the_job, ABORTED);
    tcase_add_test(tests, a_report_awaits_no_answer_of_a_failed_process);
    tcase_add_exit_test(tests, a_deadlock_of_the_survivors_is_found, ABORTED);
    tcase_add_test(tests, a_loss_that_is_not_announced_is_no_deadlock);
    tcase_add_test(tests, a_loss_that_is_handled_in_part_is_no_deadlock);
    tcase_add_test(tests, a_new_process_is_not_quiet_for_a_second);
    tcase_add_exit_test(tests, a_process_that_is_failed_after_the_verdict_need_not_print, ABORTED);
    tcase_add_exit_test(tests, a_report_after_the_verdict_voids_it, ABORTED);
    tcase_add_exit_test(tests, verdicts_of_the_same_round_differ, 0);
    tcase_add_test(tests, a_process_prints_when_its_own_job_has_the_verdict);
    tcase_add_test(tests, the_judge_tells_its_own_job);
    tcase_add_test(tests, another_process_collects);
    tcase_add_test(tests, a_livelock_is_found);
    tcase_add_test(tests, no_livelock_while_a_message_is_under_way);
    tcase_add_loop_test(tests, no_livelock_if_a_rank_that_polls_goes_on, 0, 2);
    tcase_add_test(tests, an_answer_of_a_process_that_polls_no_more_does_not_count);
    tcase_add_test(tests, a_process_that_polls_reports_and_answers);
    tcase_add_test(tests, reports_go_to_the_lowest_process_that_is_left);
    tcase_add_exit_test(tests, a_process_in_finalize_takes_no_part, ABORTED);
    tcase_add_test(tests, a_process_in_finalize_gives_no_verdict);
    tcase_add_test(tests, a_process_in_finalize_echoes_before_the_report);
    tcase_add_test(tests, an_echo_comes_when_there_is_nothing_to_do);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
