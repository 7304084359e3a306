/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a PE without work sleeps and is woken by others' posts, timers and sources; that the deadlock
 * hook is called if and only if every ULT is blocked and no item is in transit; and that no item is lost or
 * reordered when a PE does not read its inbox for a long time.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ult/pe.h"
#include "ult_job.h"

#define MS 1000000u

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static atomic_int n_deadlocks;
static struct wake_note rescue_notes[64];

/* Counts, and makes every blocked ULT ready so that the job continues. */
static void deadlock_and_rescue(void)
{
    atomic_fetch_add(&n_deadlocks, 1);
    for (int i = 0; i < job.n_ults; i++)
        if (job.ults[i].state == ULT_BLOCKED)
            wake(&rescue_notes[i], &job.ults[i]);
}

static void start(void)
{
    atomic_store(&n_deadlocks, 0);
    job.deadlock = deadlock_and_rescue;
}

/* From now on membarrier(2) fails for the calling thread and those that it creates. */
static bool forbid_membarrier(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
           syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) == -1;
}

/* The same on a kernel without membarrier(2), or below a filter that forbids it. */
static void start_without_membarrier(void)
{
    ck_assert(forbid_membarrier());
    start();
}

/* ---- membarrier(2) that fails after the start ---- */

/* The limit of the sleep that the PE would begin now. */
static int64_t sleep_limit_ns(void)
{
    struct ult_pe *pe = ult_self()->pe;
    struct ult_sleep sleep = {.limit_ns = 0};

    ULT_CHECK(ult_idle_announce(pe));
    ULT_CHECK(ult_idle_prepare(pe, 0, &sleep));
    atomic_store(&pe->is_asleep, false);
    return sleep.limit_ns;
}

static void forbid_and_prepare(void *arg)
{
    (void)arg;
    ULT_CHECK(sleep_limit_ns() < 0); /* until it is woken */
    ULT_CHECK(forbid_membarrier());
    ULT_CHECK(sleep_limit_ns() > 0);
}

START_TEST(refused_membarrier_limits_the_sleep)
{
    job.deadlock = NULL;
    ult_job_start(2, 1, forbid_and_prepare);
}
END_TEST

/* ---- Waking ---- */

static struct wake_note ping_notes[2];
static atomic_bool is_waiting[64];

/* Blocks; who sees is_waiting may post the wakeup that makes it ready: it is handled behind the suspend. */
static void block(void)
{
    atomic_store(&is_waiting[self_index()], true);
    ult_suspend();
}

static void wait_until_blocked(int i)
{
    while (!atomic_load(&is_waiting[i]))
        ult_yield();
    atomic_store(&is_waiting[i], false);
}

/* Two ULTs wake each other in turn; before some turns one sleeps, so that the other's PE does, too. */
static void ping(void *arg)
{
    int i = (int)(intptr_t)arg;

    for (int round = 0; round < 2000; round++) {
        if (round % 2 == i) {
            if (round % 200 == i)
                ult_sleep_ns(2 * MS);
            wait_until_blocked(!i);
            wake(&ping_notes[i], &job.ults[!i]);
        } else {
            block();
        }
    }
}

START_TEST(wake_one_another)
{
    ult_job_start(_i, 2, ping);
    ck_assert_int_eq(atomic_load(&n_deadlocks), 0);
}
END_TEST

/* ---- Timers ---- */

static uint64_t woken_ns[20]; /* when they were to be woken, in the order in which they were */
static int n_woken;
static uint64_t
    sleep_base_ns; /* what they all count from: they do not wake in the order in which they start */

static void sleep_differently(void *arg)
{
    int i = (int)(intptr_t)arg;
    uint64_t wake_ns = sleep_base_ns + (uint64_t)((i * 7) % 20 + 1) * 3 * MS;
    uint64_t before = now_ns();

    ult_sleep_ns(wake_ns > before ? wake_ns - before : 0);
    ULT_CHECK(now_ns() >= wake_ns);
    woken_ns[n_woken++] = ult_self()->wake_at_ns; /* after a slow start, later than wake_ns */
}

START_TEST(sleepers_wake_in_order_of_time)
{
    n_woken = 0;
    sleep_base_ns = now_ns() + 200 * MS;
    ult_job_start(1, 20, sleep_differently);
    ck_assert_int_eq(n_woken, 20);
    for (int i = 1; i < 20; i++)
        ck_assert_uint_le(woken_ns[i - 1], woken_ns[i]);
    ck_assert_int_eq(atomic_load(&n_deadlocks), 0);
}
END_TEST

static void sleep_a_little(void *arg)
{
    for (int i = 0; i < 20; i++)
        ult_sleep_ns((uint64_t)(intptr_t)arg % 5 * 100000);
}

START_TEST(many_sleepers_on_several_pes)
{
    ult_job_start(3, 200, sleep_a_little);
    ck_assert_int_eq(atomic_load(&n_deadlocks), 0);
}
END_TEST

/* ---- Deadlocks ---- */

static void block_once(void *arg)
{
    (void)arg;
    ult_suspend();
}

START_TEST(deadlock_is_found_once)
{
    ult_job_start(_i, 5, block_once);
    ck_assert_int_eq(atomic_load(&n_deadlocks), 1);
}
END_TEST

/* With fewer ULTs than PEs: idle PEs do not count as somebody who could still act. */
START_TEST(deadlock_beside_empty_pes)
{
    ult_job_start(4, 1, block_once);
    ck_assert_int_eq(atomic_load(&n_deadlocks), 1);
}
END_TEST

static struct wake_note late_notes[64];

/* All but one block; that one sleeps for long enough that everybody idles, then wakes them. */
static void block_or_sleep(void *arg)
{
    int i = (int)(intptr_t)arg;

    if (i > 0) {
        block();
        return;
    }
    ult_sleep_ns(100 * MS);
    for (int other = 1; other < job.n_ults; other++) {
        wait_until_blocked(other);
        wake(&late_notes[other], &job.ults[other]);
    }
}

START_TEST(no_deadlock_while_one_sleeps)
{
    ult_job_start(_i, 6, block_or_sleep);
    ck_assert_int_eq(atomic_load(&n_deadlocks), 0);
}
END_TEST

/* ---- Sources ---- */

static struct test_source {
    struct ult_source source;
    uint64_t ready_ns; /* when its event comes */
    atomic_int n_arms; /* calls of arm_source */
} test_source;

static int poll_source(struct ult_source *source)
{
    if (!source->pending || now_ns() < test_source.ready_ns)
        return 0;
    source->pending = 0;
    ult_ready(&job.ults[0]);
    return 1;
}

static void wait_for_source(void *arg)
{
    (void)arg;
    test_source.source = (struct ult_source){.poll = poll_source, .fd = -1, .pending = 1};
    test_source.ready_ns = now_ns() + 50 * MS;
    ult_pe_add_source(ult_self()->pe, &test_source.source);
    ult_suspend();
}

START_TEST(source_that_must_be_polled)
{
    ult_job_start(1, 1, wait_for_source);
    ck_assert_int_eq(atomic_load(&n_deadlocks), 0);
}
END_TEST

static bool arm_source(struct ult_source *source)
{
    (void)source;
    return atomic_fetch_add(&test_source.n_arms, 1) >= 3; /* at first: there is an event, do not sleep */
}

static int poll_fd_source(struct ult_source *source)
{
    uint64_t count;

    if (read(source->fd, &count, sizeof count) != sizeof count)
        return 0;
    source->pending = 0;
    ult_ready(&job.ults[0]);
    return 1;
}

/* ULT 0 waits for an event of a file descriptor, which ULT 1 on another PE makes readable. */
static void wait_for_fd(void *arg)
{
    uint64_t one = 1;

    if ((intptr_t)arg == 0) {
        ult_pe_add_source(ult_self()->pe, &test_source.source);
        ult_suspend();
        return;
    }
    while (atomic_load(&test_source.n_arms) <=
           3) /* until the other PE sleeps on the descriptor, or is about to */
        ult_sleep_ns(MS);
    ULT_CHECK(write(test_source.source.fd, &one, sizeof one) == sizeof one);
}

START_TEST(source_with_a_file_descriptor)
{
    test_source.n_arms = 0;
    test_source.source = (struct ult_source){
        .poll = poll_fd_source, .arm = arm_source, .fd = eventfd(0, EFD_NONBLOCK), .pending = 1};
    ck_assert_int_ge(test_source.source.fd, 0);
    ult_job_start(2, 2, wait_for_fd);
    close(test_source.source.fd);
    ck_assert_int_eq(atomic_load(&n_deadlocks), 0);
}
END_TEST

/* ---- A PE that does not read its inbox ---- */

#define N_FLOOD 100000

static atomic_int n_senders_done;
static atomic_bool is_flood_sent;
static uint32_t n_received[4];

static void handle_flood(const struct ult_item *item)
{
    uint32_t from_and_number[2];

    memcpy(from_and_number, item->body, sizeof from_and_number);
    ULT_CHECK(n_received[from_and_number[0]]++ == from_and_number[1]);
}

/* ULT 0 keeps its PE busy until the others have sent everything, then waits for all of it. */
static void flood(void *arg)
{
    uint32_t i = (uint32_t)(uintptr_t)arg;
    struct ult_item item = {.handle = handle_flood};

    if (i == 0) {
        while (!atomic_load(&is_flood_sent))
            sched_yield();
        while (n_received[1] + n_received[2] < 2 * N_FLOOD)
            ult_yield();
        return;
    }
    for (uint32_t number = 0; number < N_FLOOD; number++) {
        memcpy(item.body, (uint32_t[2]){i, number}, 8);
        ult_post_item(ult_pe_get(0), &item);
    }
    if (atomic_fetch_add(&n_senders_done, 1) == 1)
        atomic_store(&is_flood_sent, true);
}

START_TEST(backlog_keeps_everything_in_order)
{
    ult_job_start(3, 3, flood);
    ck_assert_uint_eq(n_received[1], N_FLOOD);
    ck_assert_uint_eq(n_received[2], N_FLOOD);
    ck_assert_int_eq(atomic_load(&n_deadlocks), 0);
}
END_TEST

static atomic_int n_counted;

static void handle_counted(const struct ult_item *item)
{
    atomic_fetch_add(&n_counted, 1);
}

/* ULT 1 sends until much more than the inbox holds has arrived, and does not poll meanwhile. */
static void send_without_polling(void *arg)
{
    struct ult_item item = {.handle = handle_counted};

    if ((uintptr_t)arg == 0) {
        while (atomic_load(&n_counted) < 4 * (int)ULT_RING_CELLS)
            ult_yield();
        return;
    }
    while (atomic_load(&n_counted) < 4 * (int)ULT_RING_CELLS) {
        ult_post_item(ult_pe_get(0), &item);
        sched_yield();
    }
}

START_TEST(backlog_moves_while_its_sender_sends)
{
    ult_job_start(2, 2, send_without_polling);
    ck_assert_int_ge(atomic_load(&n_counted), 4 * (int)ULT_RING_CELLS);
}
END_TEST

static void add_tests(Suite *suite, const char *name, void (*setup)(void))
{
    TCase *tcase = tcase_create(name);

    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_loop_test(tcase, wake_one_another, 1, 3);
    tcase_add_test(tcase, sleepers_wake_in_order_of_time);
    tcase_add_test(tcase, many_sleepers_on_several_pes);
    tcase_add_loop_test(tcase, deadlock_is_found_once, 1, 5);
    tcase_add_test(tcase, deadlock_beside_empty_pes);
    tcase_add_loop_test(tcase, no_deadlock_while_one_sleeps, 1, 4);
    tcase_add_test(tcase, source_that_must_be_polled);
    tcase_add_test(tcase, source_with_a_file_descriptor);
    tcase_add_test(tcase, backlog_keeps_everything_in_order);
    tcase_add_test(tcase, backlog_moves_while_its_sender_sends);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    Suite *suite = suite_create("ult_idle");

    TCase *refused = tcase_create("membarrier is refused later");

    tcase_add_test(refused, refused_membarrier_limits_the_sleep);
    suite_add_tcase(suite, refused);
    add_tests(suite, "idle", start);
    add_tests(suite, "idle without membarrier", start_without_membarrier);
    return ult_run_suite(suite);
}
