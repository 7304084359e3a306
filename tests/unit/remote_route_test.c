/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that messages between processes keep their order whatever order the machine delivers them in, that
 * large data is fetched into the receive's buffer at the match and small data before, that small data leaves
 * without waiting for the machine, that a flood turns into synchronous sends until the receiver returns
 * credits, and that errors of the machine end requests: on a machine in memory (machine_staged.h), rank 0
 * here and rank 1 played by the test. Messages to a communicator that another PE makes between any two
 * look-ups keep their order, too.
 */
#include "machine_staged.h"

#include "ampi/comm/contexts.h"
#include "ampi/p2p/route/remote_peer.h"
#include "mpi_job.h"

static void run(void (*body)(struct ampi_rank *self))
{
    ampi_machine = &staged_machine;
    ampi_job.n_procs = ampi_job.max_procs = ampi_job.n_ranks = 2;
    ampi_job.n_local = ampi_job.node_n_procs = 1;
    mpi_job_is_part = true;
    mpi_job_start(1, 1, body);
}

/* The header of message number seq from rank 1. */
static struct ampi_am_header from_rank_1(uint32_t seq, int tag)
{
    return (struct ampi_am_header){.kind = AMPI_AM_SEND,
                                   .src_proc = 1,
                                   .context_id = AMPI_CONTEXT_WORLD,
                                   .seq = seq,
                                   .tag = tag,
                                   .source = 1,
                                   .dest = 0};
}

static void put(uint32_t seq, int tag, const void *data, size_t n_bytes, bool is_away)
{
    struct ampi_am_header wire = from_rank_1(seq, tag);

    staged_put(&wire, sizeof wire, data, n_bytes, is_away);
}

static struct ampi_am_header sent_wire(int i)
{
    struct ampi_am_header wire;

    memcpy(&wire, staged.sent[i].header, sizeof wire);
    return wire;
}

/* ---- Receiving ---- */

static void receive_in_order(struct ampi_rank *self)
{
    static const int values[] = {0, 1, 2, 3, 4, 5};
    static const uint32_t order[] = {2, 0, 3, 1, 5, 4};
    int got = -1;

    (void)self;
    for (int i = 0; i < 6; i++)
        put(order[i], 7, &values[order[i]], sizeof(int), order[i] == 3);
    for (int i = 0; i < 6; i++) {
        ULT_CHECK(MPI_Recv(&got, 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : 1, MPI_ANY_TAG, MPI_COMM_WORLD,
                           MPI_STATUS_IGNORE) == MPI_SUCCESS);
        ULT_CHECK(got == i);
    }
    ULT_CHECK(staged.n_fetched == 1);
    ULT_CHECK(staged.n_kept == 0);
}

START_TEST(messages_that_overtake_each_other_are_received_in_order)
{
    run(receive_in_order);
}
END_TEST

#define LARGE 100000

static void fetch_large(struct ampi_rank *self)
{
    static unsigned char from[LARGE], to[2 * LARGE];
    MPI_Request request;
    MPI_Status status;
    int flag = 0, count = 0;

    (void)self;
    memset(from, 9, sizeof from);
    /* Posted first: fetched at arrival. */
    ULT_CHECK(MPI_Irecv(to, 2 * LARGE, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request) == MPI_SUCCESS);
    put(0, 1, from, LARGE, true);
    ULT_CHECK(MPI_Wait(&request, &status) == MPI_SUCCESS);
    MPI_Get_count(&status, MPI_BYTE, &count);
    ULT_CHECK(count == LARGE && to[LARGE - 1] == 9 && to[LARGE] == 0);
    /* Unexpected: stays away until the receive, and a probe does not fetch it. */
    put(1, 2, from, LARGE, true);
    while (!flag)
        MPI_Iprobe(1, 2, MPI_COMM_WORLD, &flag, &status);
    ULT_CHECK(staged.n_fetched == 1 && staged.n_kept == 1);
    memset(to, 0, sizeof to);
    ULT_CHECK(MPI_Recv(to, LARGE, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
    ULT_CHECK(staged.n_fetched == 2 && staged.n_kept == 0 && to[LARGE - 1] == 9);
    /* More than there is room for: nothing behind the buffer is written. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    memset(to, 0, sizeof to);
    put(2, 3, from, LARGE, true);
    ULT_CHECK(MPI_Recv(to, 10, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_ERR_TRUNCATE);
    ULT_CHECK(to[9] == 9 && to[10] == 0);
}

START_TEST(large_data_is_fetched_at_the_match)
{
    run(fetch_large);
}
END_TEST

/* The largest small ones, beside which there is no room in a message, and smaller; before their receive, and
 * one whose fetch fails. */
static void fetch_small(struct ampi_rank *self)
{
    static const int sizes[] = {16384, 16000, 8, 5000};
    static unsigned char from[16384], to[16384 + 1];
    MPI_Status status;
    int flag = 0, count = 0;

    (void)self;
    memset(from, 9, sizeof from);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (uint32_t i = 0; i < 4; i++)
        put(i, (int)i, from, (size_t)sizes[i], true);
    while (staged.n_fetched < 4)
        MPI_Iprobe(1, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    for (int i = 3; i >= 0; i--) {
        memset(to, 0, sizeof to);
        ULT_CHECK(MPI_Recv(to, sizeof to, MPI_BYTE, 1, i, MPI_COMM_WORLD, &status) == MPI_SUCCESS);
        MPI_Get_count(&status, MPI_BYTE, &count);
        ULT_CHECK(count == sizes[i] && to[count - 1] == 9 && to[count] == 0);
    }
    ULT_CHECK(staged.n_fetched == 4 && staged.n_kept == 0);
    staged.fetch_result = MACHINE_PEER_FAILED;
    put(4, 4, from, 100, true);
    while (staged.n_fetched < 5)
        MPI_Iprobe(1, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    ULT_CHECK(MPI_Recv(to, 100, MPI_BYTE, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS);
}

START_TEST(small_data_that_is_away_is_fetched_before_its_receive)
{
    run(fetch_small);
}
END_TEST

static void fail_to_fetch(struct ampi_rank *self)
{
    static unsigned char to[LARGE];

    (void)self;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    staged.fetch_result = MACHINE_PEER_FAILED;
    put(0, 1, to, LARGE, true);
    ULT_CHECK(MPI_Recv(to, LARGE, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS);
    staged.send_result = MACHINE_PEER_FAILED;
    ULT_CHECK(MPI_Send(to, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD) != MPI_SUCCESS);
    ULT_CHECK(MPI_Send(to, LARGE, MPI_BYTE, 1, 1, MPI_COMM_WORLD) != MPI_SUCCESS);
}

START_TEST(errors_of_the_machine_end_requests)
{
    run(fail_to_fetch);
}
END_TEST

/* ---- Receiving on a communicator that is made meanwhile ---- */

#define LATE_CONTEXT (AMPI_CONTEXT_CROSS | (uint64_t)5 << 20)
#define OTHER_CONTEXT (AMPI_CONTEXT_CROSS | (uint64_t)6 << 20)
#define N_LATE 5 /* messages; two of them come after the other communicator was made */

static struct {
    struct ampi_comm_shared *shared; /* NULL: not made yet */
    int n_look_ups;
    int made_before; /* which of them */
} late;

static struct ampi_comm_shared *make_communicator(uint64_t context_id)
{
    return ampi_comm_build_as(ampi_job.ranks[0].world->shared->side[0].layout, NULL, context_id);
}

struct ampi_comm_shared *__real_ampi_contexts_find(int pe_id, uint64_t context_id);
struct ampi_comm_shared *__wrap_ampi_contexts_find(int pe_id, uint64_t context_id);

/* The linker has ampi_contexts_find lead here. */
struct ampi_comm_shared *__wrap_ampi_contexts_find(int pe_id, uint64_t context_id)
{
    if (context_id == LATE_CONTEXT && !late.shared && late.n_look_ups++ == late.made_before)
        late.shared = make_communicator(LATE_CONTEXT);
    return __real_ampi_contexts_find(pe_id, context_id);
}

static void put_late(uint32_t seq, const int *value)
{
    struct ampi_am_header wire = from_rank_1(seq, 7);

    wire.context_id = LATE_CONTEXT;
    staged_put(&wire, sizeof wire, value, sizeof *value, false);
    while (staged.first)
        ult_progress();
}

static void receive_late(struct ampi_rank *self)
{
    static const int values[N_LATE] = {0, 1, 2, 3, 4};
    int got = -1;

    (void)self;
    for (uint32_t i = 0; i < N_LATE; i++) {
        if (i == N_LATE - 2)
            make_communicator(OTHER_CONTEXT); /* those that wait are tried again */
        put_late(i, &values[i]);
    }
    if (!late.shared)
        late.shared = make_communicator(LATE_CONTEXT);
    for (int i = 0; i < N_LATE; i++) {
        ULT_CHECK(MPI_Recv(&got, 1, MPI_INT, 1, 7, ampi_comm_handle(&late.shared->side[0].handles[0]),
                           MPI_STATUS_IGNORE) == MPI_SUCCESS);
        ULT_CHECK(got == i);
    }
}

/* More than the look-ups before the last message has arrived. */
#define LOOK_UPS_MAX 12

START_TEST(messages_to_a_new_communicator_are_received_in_order)
{
    late.made_before = _i;
    run(receive_late);
}
END_TEST

/* ---- Sending ---- */

static void send_before_the_machine_is_done(struct ampi_rank *self)
{
    static unsigned char large[LARGE];
    int value = 1, flag = 1;
    MPI_Request request;

    (void)self;
    staged.send_result = MACHINE_PENDING;
    for (value = 1; value <= 3; value++)
        ULT_CHECK(MPI_Send(&value, 1, MPI_INT, 1, 5, MPI_COMM_WORLD) == MPI_SUCCESS);
    ULT_CHECK(staged.n_sent == 3);
    for (int i = 0; i < 3; i++) { /* what the machine holds is not the variable */
        ULT_CHECK(sent_wire(i).seq == (uint32_t)i && sent_wire(i).tag == 5);
        ULT_CHECK(*(const int *)staged.sent[i].data == i + 1);
        staged.sent[i].done(staged.sent[i].arg, MACHINE_DONE);
    }
    /* Large data stays where it is, and the request waits. */
    MPI_Isend(large, LARGE, MPI_BYTE, 1, 6, MPI_COMM_WORLD, &request);
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    ULT_CHECK(!flag && staged.n_sent == 4 && staged.sent[3].data == large);
    staged.sent[3].done(staged.sent[3].arg, MACHINE_DONE);
    MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    ULT_CHECK(flag);
    staged.send_result = MACHINE_DONE;
}

START_TEST(little_data_is_sent_without_waiting)
{
    run(send_before_the_machine_is_done);
}
END_TEST

/* A message of rank 1's library about its receives. */
static void put_word(int kind, uint64_t cookie)
{
    struct ampi_am_header wire = {.kind = (uint8_t)kind, .src_proc = 1, .cookie = cookie};

    staged_put(&wire, sizeof wire, NULL, 0, false);
}

static void flood(struct ampi_rank *self)
{
    enum { BYTES = 1 << 20 };
    static unsigned char data[BYTES];
    size_t used = 0;
    MPI_Request request;
    int flag = 1;

    (void)self;
    for (; used <= ampi_remote_window_bytes(); used += BYTES + AMPI_WINDOW_MESSAGE_BYTES) {
        ULT_CHECK(MPI_Send(data, BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD) == MPI_SUCCESS);
        ULT_CHECK(!(sent_wire(staged.n_sent - 1).flags & AMPI_AM_SYNC));
    }
    /* The window is used up: large and little data wait for their receives. */
    for (int bytes = BYTES; bytes >= 8; bytes -= BYTES - 8) {
        MPI_Isend(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request);
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        ULT_CHECK(!flag && (sent_wire(staged.n_sent - 1).flags & AMPI_AM_SYNC));
        put_word(AMPI_AM_ACK, sent_wire(staged.n_sent - 1).cookie);
        ULT_CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    }
    /* The receiver gives room back. */
    put_word(AMPI_AM_CREDIT, used);
    ult_progress();
    ULT_CHECK(MPI_Send(data, BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD) == MPI_SUCCESS);
    ULT_CHECK(!(sent_wire(staged.n_sent - 1).flags & AMPI_AM_SYNC));
}

START_TEST(a_flood_waits_for_receives_until_room_is_given_back)
{
    run(flood);
}
END_TEST

static void receive_a_flood(struct ampi_rank *self)
{
    enum { BYTES = 1 << 20 };
    static unsigned char data[BYTES];
    size_t returned = 0, received = 0;

    (void)self;
    for (uint32_t i = 0; i < 200; i++) {
        put(i, 1, data, BYTES, false);
        ULT_CHECK(MPI_Recv(data, BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        received += BYTES + AMPI_WINDOW_MESSAGE_BYTES;
    }
    for (int i = 0; i < staged.n_sent; i++) {
        ULT_CHECK(sent_wire(i).kind == AMPI_AM_CREDIT);
        returned += sent_wire(i).cookie;
    }
    ULT_CHECK(staged.n_sent > 2 && staged.n_sent < 50);
    ULT_CHECK(returned <= received && received - returned < ampi_remote_window_bytes() / 4);
}

START_TEST(receives_give_room_back_in_large_pieces)
{
    run(receive_a_flood);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("remote");
    TCase *tests = tcase_create("route");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    tcase_add_test(tests, messages_that_overtake_each_other_are_received_in_order);
    tcase_add_loop_test(tests, messages_to_a_new_communicator_are_received_in_order, 0, LOOK_UPS_MAX);
    tcase_add_test(tests, large_data_is_fetched_at_the_match);
    tcase_add_test(tests, small_data_that_is_away_is_fetched_before_its_receive);
    tcase_add_test(tests, errors_of_the_machine_end_requests);
    tcase_add_test(tests, little_data_is_sent_without_waiting);
    tcase_add_test(tests, a_flood_waits_for_receives_until_room_is_given_back);
    tcase_add_test(tests, receives_give_room_back_in_large_pieces);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed != 0;
}
