/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that blocks of node memory do not overlap and are reused only when they are not referenced, that
 * another process reads and releases them once it has accepted its invitation, and that a process on another
 * node, a wrong invitation and a full segment get nothing. The other process is a child of the test.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ampi/procs/node_memory.h"
#include "ampi/procs/procs.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* ---- What the machine would do ---- */

static struct {
    int n_posted;
    unsigned char bytes[256]; /* of the last message */
    size_t n_bytes;
    ampi_am_handler_fn handler;
} posted;

bool __wrap_ampi_procs_post(int dest_proc, int dest_pe, const struct ampi_am_header *am, void *data,
                            size_t n_bytes);
bool __wrap_ampi_procs_post(int dest_proc, int dest_pe, const struct ampi_am_header *am, void *data,
                            size_t n_bytes)
{
    (void)dest_pe;
    if (dest_proc == 1 && am->kind == AMPI_AM_NODE_MEMORY && n_bytes <= sizeof posted.bytes)
        memcpy(posted.bytes, data, n_bytes);
    posted.n_bytes = n_bytes;
    posted.n_posted++;
    free(data);
    return true;
}

void __wrap_ampi_procs_set_handler(enum ampi_am_kind kind, ampi_am_handler_fn handler);
void __wrap_ampi_procs_set_handler(enum ampi_am_kind kind, ampi_am_handler_fn handler)
{
    if (kind == AMPI_AM_NODE_MEMORY)
        posted.handler = handler;
}

static bool is_near(int proc_id)
{
    return proc_id < 2;
}

/* This process is the first of three; the third is on another node. */
static void set_up(void)
{
    static const struct machine machine = {.name = "none", .is_near = is_near};

    ampi_machine = &machine;
    ampi_job.n_procs = ampi_job.max_procs = 3;
    ampi_job.node_n_procs = 2;
    ampi_job.proc_id = 0;
    ampi_node_memory_connect();
    ck_assert(posted.handler != NULL);
}

/* The message that was posted arrives. */
static void accept_invitation(void)
{
    static const struct ampi_am_header am = {.kind = AMPI_AM_NODE_MEMORY};
    struct machine_data data = {.bytes = posted.bytes, .n_bytes = posted.n_bytes};

    ck_assert(!posted.handler(0, &am, &am, &data));
}

/* ---- Blocks ---- */

static int compare(const void *a, const void *b)
{
    const struct ampi_node_ref *left = a, *right = b;

    return left->offset < right->offset ? -1 : left->offset > right->offset;
}

START_TEST(blocks_do_not_overlap_until_they_are_released)
{
    enum { N = 64 };
    struct ampi_node_ref refs[N];

    srand(7);
    for (int i = 0; i < N; i++)
        ck_assert(ampi_node_memory_alloc((size_t)rand() % (300 * KIB) + 1, &refs[i]) != NULL);
    for (int round = 0; round < 2000; round++) {
        int i = rand() % N;
        ampi_node_memory_release(&refs[i]);
        ck_assert(ampi_node_memory_alloc((size_t)rand() % (300 * KIB) + 1, &refs[i]) != NULL);
        if (round % 100 == 0) {
            struct ampi_node_ref sorted[N];
            memcpy(sorted, refs, sizeof refs);
            qsort(sorted, N, sizeof *sorted, compare);
            for (int k = 1; k < N; k++)
                ck_assert(sorted[k - 1].offset + sorted[k - 1].n_bytes <= sorted[k].offset);
        }
    }
}
END_TEST

START_TEST(data_stays_as_long_as_somebody_refers_to_it)
{
    struct ampi_node_ref ref, part, other;
    unsigned char *bytes = ampi_node_memory_alloc(100 * KIB, &ref);

    memset(bytes, 5, 100 * KIB);
    ck_assert(ampi_node_memory_lend(&ref, 10 * KIB, 20 * KIB, 0, 0, &part));
    ck_assert(ampi_node_memory_at(&part) == bytes + 10 * KIB && part.n_bytes == 20 * KIB);
    ampi_node_memory_release(&ref);
    for (int i = 0; i < 500; i++) {
        memset(ampi_node_memory_alloc(100 * KIB, &other), 6, 100 * KIB);
        ampi_node_memory_release(&other);
    }
    for (size_t i = 0; i < 100 * KIB; i++)
        ck_assert_int_eq(bytes[i], 5);
}
END_TEST

START_TEST(a_full_segment_gives_nothing_and_has_room_again)
{
    static struct ampi_node_ref refs[4096];
    int n = 0;

    ck_assert(ampi_node_memory_alloc(0, &refs[0]) == NULL);
    ck_assert(ampi_node_memory_alloc(SIZE_MAX, &refs[0]) == NULL);
    ck_assert(ampi_node_memory_alloc((size_t)1 << 40, &refs[0]) == NULL);
    while (n < 4096 && ampi_node_memory_alloc(1, &refs[n]))
        n++;
    ck_assert(n > 100 && n < 4096);
    ampi_node_memory_release(&refs[n / 2]);
    ck_assert(ampi_node_memory_alloc(1, &refs[n / 2]) != NULL);
    for (int i = 0; i < n; i++)
        ampi_node_memory_release(&refs[i]);
    for (n = 0; n < 4096 && ampi_node_memory_alloc(64 * MIB, &refs[n]); n++)
        ;
    ck_assert(n > 4 && n < 4096);
}
END_TEST

/* ---- Another process ---- */

/* Runs as process 1; its exit code is 0 if all was as it should be. */
static pid_t run_other(bool (*body)(const struct ampi_node_ref *ref), const struct ampi_node_ref *ref)
{
    pid_t pid = fork();

    if (pid == 0) {
        ampi_job.proc_id = 1;
        _exit(body(ref) ? 0 : 1);
    }
    return pid;
}

static void wait_for(pid_t pid)
{
    int status;

    ck_assert(waitpid(pid, &status, 0) == pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A fork has the parent's view of its segment; an invitation is for processes that have none. So the child acts
 * before the parent makes one, and waits for the message in a pipe. */
struct letter {
    struct ampi_node_ref ref;
    unsigned char bytes[256];
    size_t n_bytes;
};
static int pipe_to[2], pipe_from[2];

static bool read_letter(struct letter *letter)
{
    return read(pipe_to[0], letter, sizeof *letter) == (ssize_t)sizeof *letter;
}

static bool answer(void)
{
    return write(pipe_from[1], "", 1) == 1;
}

static bool accept_read_release(const struct ampi_node_ref *ref)
{
    struct letter letter;
    const unsigned char *bytes;

    (void)ref;
    if (!read_letter(&letter))
        return false;
    memcpy(posted.bytes, letter.bytes, letter.n_bytes);
    posted.n_bytes = letter.n_bytes;
    accept_invitation();
    if (!answer() || !read_letter(&letter))
        return false;
    bytes = ampi_node_memory_at(&letter.ref);
    for (size_t i = 0; i < letter.ref.n_bytes; i++)
        if (bytes[i] != 7)
            return false;
    ampi_node_memory_release(&letter.ref);
    return answer();
}

static void post_letter(const struct ampi_node_ref *ref)
{
    struct letter letter = {.n_bytes = posted.n_bytes};
    char c;

    if (ref)
        letter.ref = *ref;
    memcpy(letter.bytes, posted.bytes, sizeof letter.bytes);
    ck_assert(write(pipe_to[1], &letter, sizeof letter) == (ssize_t)sizeof letter);
    ck_assert(read(pipe_from[0], &c, 1) == 1);
}

START_TEST(another_process_reads_what_it_was_lent)
{
    struct ampi_node_ref ref, lent;
    unsigned char *bytes;
    pid_t other;

    ck_assert(pipe(pipe_to) == 0 && pipe(pipe_from) == 0);
    other = run_other(accept_read_release, NULL);
    bytes = ampi_node_memory_alloc(MIB, &ref);
    memset(bytes, 7, MIB);
    ck_assert(!ampi_node_memory_lend(&ref, 0, MIB, 1, 0, &lent));
    ck_assert(!ampi_node_memory_reaches(1, 0));
    ck_assert_int_eq(posted.n_posted, 1); /* one invitation */
    post_letter(NULL);
    ck_assert(ampi_node_memory_reaches(1, 0));
    ck_assert(ampi_node_memory_lend(&ref, KIB, MIB - KIB, 1, 0, &lent));
    post_letter(&lent);
    wait_for(other);
    ck_assert_int_eq(posted.n_posted, 1);
}
END_TEST

static bool refuse_wrong(const struct ampi_node_ref *ref)
{
    struct letter letter;

    (void)ref;
    if (!read_letter(&letter))
        return false;
    for (size_t i = 0; i < letter.n_bytes; i++) { /* whatever is wrong in it */
        memcpy(posted.bytes, letter.bytes, letter.n_bytes);
        posted.bytes[i] ^= 0xff;
        posted.n_bytes = letter.n_bytes;
        accept_invitation();
    }
    posted.n_bytes--;
    accept_invitation();
    return answer();
}

START_TEST(a_wrong_invitation_is_not_accepted)
{
    struct ampi_node_ref ref, lent;
    pid_t other;

    ck_assert(pipe(pipe_to) == 0 && pipe(pipe_from) == 0);
    other = run_other(refuse_wrong, NULL);
    ck_assert(ampi_node_memory_alloc(MIB, &ref) != NULL);
    ck_assert(!ampi_node_memory_lend(&ref, 0, MIB, 1, 0, &lent));
    post_letter(NULL);
    wait_for(other);
    ck_assert(!ampi_node_memory_lend(&ref, 0, MIB, 1, 0, &lent));
}
END_TEST

START_TEST(a_process_on_another_node_is_not_invited)
{
    struct ampi_node_ref ref, lent;

    ck_assert(!ampi_node_memory_reaches(2, 0));
    ck_assert(ampi_node_memory_alloc(MIB, &ref) != NULL);
    ck_assert(!ampi_node_memory_lend(&ref, 0, MIB, 2, 0, &lent));
    ck_assert_int_eq(posted.n_posted, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("node_memory");
    TCase *blocks = tcase_create("blocks");
    TCase *others = tcase_create("others");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    tcase_add_checked_fixture(blocks, set_up, NULL);
    tcase_add_test(blocks, blocks_do_not_overlap_until_they_are_released);
    tcase_add_test(blocks, data_stays_as_long_as_somebody_refers_to_it);
    tcase_add_test(blocks, a_full_segment_gives_nothing_and_has_room_again);
    suite_add_tcase(suite, blocks);
    tcase_add_checked_fixture(others, set_up, NULL);
    tcase_add_test(others, another_process_reads_what_it_was_lent);
    tcase_add_test(others, a_wrong_invitation_is_not_accepted);
    tcase_add_test(others, a_process_on_another_node_is_not_invited);
    suite_add_tcase(suite, others);
    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
