/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that NCCL communicators are created without blocking and compute right results; the types and
 * operations that NCCL supports; that a missing, old or failing library is reported with its own message; and
 * that an operation that others never join can be aborted, before and after it is in a stream. On the fake
 * CUDA driver and the fake NCCL; two participants are in one process here.
 */
#define ULT_JOB_STACK_BYTES ((size_t)1 << 20) /* NCCL is called on such stacks */

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fakecuda.h"
#include "gpu/kernels/kernels.h"
#include "gpu/nccl/nccl.h"
#include "gpu_device.h"

#define COUNT 30000
#define WAIT_NS 100000000000u /* the limit of a failure */

static int wait_for(struct gpu_nccl *nccl)
{
    uint64_t until = ult_now_ns() + WAIT_NS;

    while (gpu_nccl_state(nccl) == GPU_NCCL_BUSY && ult_now_ns() < until)
        usleep(100);
    return gpu_nccl_state(nccl);
}

static char *alloc_on(int device, size_t n_bytes)
{
    CUcontext context;

    ULT_CHECK(cuDevicePrimaryCtxRetain(&context, device) == 0);
    ULT_CHECK(cuCtxSetCurrent(context) == 0);
    return device_alloc(n_bytes);
}

struct pair {
    struct gpu_nccl *nccl[2];
    int *send[2], *recv[2];
};

/* Two participants that have learned of each other. */
static void prepare(struct pair *pair, struct gpu_nccl_card *cards)
{
    gpu_nccl_library = FAKE_NCCL;
    device_open();
    for (int i = 0; i < 2; i++) {
        pair->nccl[i] = gpu_nccl_create(i, i == 0);
        ULT_CHECK(wait_for(pair->nccl[i]) == 0);
        gpu_nccl_get_card(pair->nccl[i], &cards[i]);
    }
}

static void connect_pair(struct pair *pair)
{
    struct gpu_nccl_card cards[2];
    int values[COUNT];

    prepare(pair, cards);
    ULT_CHECK(gpu_nccl_compare(cards, 2) == NULL);
    for (int i = 0; i < 2; i++)
        gpu_nccl_connect(pair->nccl[i], cards[0].id, 2, i);
    for (int i = 0; i < 2; i++) {
        ULT_CHECK(wait_for(pair->nccl[i]) == 0);
        pair->send[i] = (int *)(void *)alloc_on(i, COUNT * sizeof(int));
        pair->recv[i] = (int *)(void *)alloc_on(i, COUNT * sizeof(int));
        for (int k = 0; k < COUNT; k++)
            values[k] = k + 5 * i;
        device_write((char *)pair->send[i], values, sizeof values);
        ULT_CHECK(cuMemsetD8((CUdeviceptr)pair->recv[i], 0, COUNT * sizeof(int)) == 0);
        ULT_CHECK(cuCtxSynchronize() == 0);
    }
}

static int start(const struct pair *pair, int i, struct gpu_nccl_call call)
{
    int error = 0;
    struct gpu_queue *queue = gpu_nccl_queue(pair->nccl[i], &error);

    ULT_CHECK(queue && !error);
    call.send = pair->send[i];
    call.recv = pair->recv[i];
    call.op = GPU_OP_SUM;
    call.type = GPU_TYPE_INT32;
    return gpu_nccl_start(pair->nccl[i], queue, &call);
}

static void finish(const struct pair *pair, int i, int *values)
{
    int error = 0;

    ULT_CHECK(gpu_queue_wait(gpu_nccl_queue(pair->nccl[i], &error)) == 0);
    ULT_CHECK(gpu_nccl_ask(pair->nccl[i]) == 0);
    device_read(values, (char *)pair->recv[i], COUNT * sizeof(int));
}

/* Until it is in the stream. */
static int await_start(const struct pair *pair, int i)
{
    uint64_t until = ult_now_ns() + WAIT_NS;
    int error;

    while ((error = gpu_nccl_ask(pair->nccl[i])) == GPU_NCCL_BUSY && ult_now_ns() < until)
        usleep(100);
    return error;
}

/* Both take part; what each gets is checked by the caller. */
static void run_both(const struct pair *pair, struct gpu_nccl_call call, int values[2][COUNT])
{
    for (int i = 0; i < 2; i++) {
        int error = start(pair, i, call);
        ULT_CHECK(error == 0 || error == GPU_NCCL_BUSY);
    }
    for (int i = 0; i < 2; i++)
        ULT_CHECK(await_start(pair, i) == 0);
    for (int i = 0; i < 2; i++)
        finish(pair, i, values[i]);
}

static void operations(void *arg)
{
    static int values[2][COUNT];
    size_t even[2] = {COUNT / 2, COUNT / 2}, uneven[2] = {1000, COUNT - 1000};
    size_t even_bytes[2] = {COUNT * 2, COUNT * 2}, uneven_bytes[2] = {400, COUNT * 4 - 400};
    struct pair pair;

    connect_pair(&pair);
    run_both(&pair, (struct gpu_nccl_call){.kind = GPU_NCCL_ALLREDUCE, .count = COUNT}, values);
    for (int k = 0; k < COUNT; k++)
        ULT_CHECK(values[0][k] == 2 * k + 5 && values[1][k] == 2 * k + 5);
    run_both(&pair, (struct gpu_nccl_call){.kind = GPU_NCCL_BCAST, .count = COUNT * 4, .root = 1}, values);
    for (int k = 0; k < COUNT; k++)
        ULT_CHECK(values[0][k] == k + 5 && values[1][k] == k + 5);
    run_both(&pair, (struct gpu_nccl_call){.kind = GPU_NCCL_REDUCE, .count = COUNT, .root = 0}, values);
    for (int k = 0; k < COUNT; k++)
        ULT_CHECK(values[0][k] == 2 * k + 5 && values[1][k] == k + 5);
    run_both(&pair, (struct gpu_nccl_call){.kind = GPU_NCCL_REDUCE_SCATTER, .count = COUNT, .counts = even},
             values);
    for (int k = 0; k < COUNT / 2; k++)
        ULT_CHECK(values[0][k] == 2 * k + 5 && values[1][k] == 2 * (k + COUNT / 2) + 5);
    run_both(&pair, (struct gpu_nccl_call){.kind = GPU_NCCL_REDUCE_SCATTER, .count = COUNT, .counts = uneven},
             values);
    for (int k = 0; k < COUNT - 1000; k++)
        ULT_CHECK((k >= 1000 || values[0][k] == 2 * k + 5) && values[1][k] == 2 * (k + 1000) + 5);
    run_both(&pair,
             (struct gpu_nccl_call){.kind = GPU_NCCL_ALLGATHER, .count = COUNT * 4, .counts = even_bytes},
             values);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < COUNT / 2; k++)
            ULT_CHECK(values[i][k] == k && values[i][k + COUNT / 2] == k + 5);
    run_both(&pair,
             (struct gpu_nccl_call){.kind = GPU_NCCL_ALLGATHER, .count = COUNT * 4, .counts = uneven_bytes},
             values);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < COUNT - 100; k++)
            ULT_CHECK((k >= 100 || values[i][k] == k) && values[i][k + 100] == k + 5);
    for (int i = 0; i < 2; i++)
        gpu_nccl_destroy(pair.nccl[i]);
    gpu_nccl_settle(5);
}

START_TEST(operations_give_what_was_asked_for)
{
    ult_job_start(1, 1, operations);
}
END_TEST

static void first_and_second(void *arg)
{
    struct gpu_nccl_call call = {.kind = GPU_NCCL_ALLREDUCE, .count = COUNT};
    struct pair pair;
    int values[COUNT];

    connect_pair(&pair);
    /* A start that waited for the connection would not return: the other one comes after it. */
    ULT_CHECK(start(&pair, 0, call) == GPU_NCCL_BUSY);
    ULT_CHECK(start(&pair, 1, call) == GPU_NCCL_BUSY);
    ULT_CHECK(await_start(&pair, 0) == 0 && await_start(&pair, 1) == 0);
    finish(&pair, 1, values);
    ULT_CHECK(values[COUNT - 1] == 2 * (COUNT - 1) + 5);
    ULT_CHECK(start(&pair, 0, call) == 0 && start(&pair, 1, call) == 0);
    finish(&pair, 0, values);
    gpu_nccl_settle(5);
    ULT_CHECK(gpu_nccl_state(pair.nccl[0]) == GPU_NCCL_CANCELLED);
}

START_TEST(the_first_operation_connects_participants_and_the_caller_does_not_wait)
{
    setenv("FAKENCCL_CONNECT_MS", "400", 1);
    ult_job_start(1, 1, first_and_second);
}
END_TEST

/* ---- What does not fit ---- */

START_TEST(types_and_operations_that_it_has)
{
    ck_assert(gpu_nccl_can(GPU_OP_SUM, GPU_TYPE_FLOAT16) && gpu_nccl_can(GPU_OP_MIN, GPU_TYPE_UINT64));
    ck_assert(gpu_nccl_can(GPU_OP_SUM, GPU_TYPE_COMPLEX_DOUBLE) &&
              !gpu_nccl_can(GPU_OP_PROD, GPU_TYPE_COMPLEX_DOUBLE));
    ck_assert(!gpu_nccl_can(GPU_OP_SUM, GPU_TYPE_INT16) && !gpu_nccl_can(GPU_OP_BXOR, GPU_TYPE_INT32));
    ck_assert(!gpu_nccl_can(GPU_OP_COUNT, GPU_TYPE_INT32) && !gpu_nccl_can(GPU_OP_SUM, -1) &&
              !gpu_nccl_can(GPU_OP_MAXLOC, GPU_TYPE_2INT));
}
END_TEST

static void cards_that_differ(void *arg)
{
    struct gpu_nccl_card cards[2], changed[2];
    struct pair pair;

    prepare(&pair, cards);
    ULT_CHECK(gpu_nccl_compare(cards, 2) == NULL);
    changed[0] = changed[1] = cards[0];
    ULT_CHECK(strstr(gpu_nccl_compare(changed, 2), "share a GPU"));
    changed[1].host++;
    ULT_CHECK(gpu_nccl_compare(changed, 2) == NULL);
    changed[1].version++;
    ULT_CHECK(strstr(gpu_nccl_compare(changed, 2), "versions"));
    changed[0].error = 1;
    ULT_CHECK(strstr(gpu_nccl_compare(changed, 2), "not every process"));
}

START_TEST(participants_that_do_not_fit_together_are_found_before_they_connect)
{
    ult_job_start(1, 1, cards_that_differ);
}
END_TEST

/* Reports the result of the first step with this library. */
static const char *library;
static int expected;
static const char *words;

static void open_it(void *arg)
{
    struct gpu_nccl_card card;
    struct gpu_nccl *nccl;

    gpu_nccl_library = library;
    device_open();
    nccl = gpu_nccl_create(0, true);
    ULT_CHECK(wait_for(nccl) == expected);
    gpu_nccl_get_card(nccl, &card);
    ULT_CHECK(card.error == expected && strstr(gpu_error_text(expected), words));
    gpu_nccl_destroy(nccl);
}

START_TEST(a_library_that_is_not_there_is_an_error)
{
    library = "/nowhere/libnccl.so.2";
    expected = GPU_NCCL_NOT_THERE;
    words = library;
    ult_job_start(1, 1, open_it);
}
END_TEST

START_TEST(a_library_that_is_none_or_too_old_is_an_error)
{
    library = _i ? FAKE_NCCL : "libm.so.6";
    setenv("FAKENCCL_VERSION", "21205", 1);
    expected = GPU_NCCL_UNUSABLE;
    words = "cannot be used";
    ult_job_start(1, 1, open_it);
}
END_TEST

START_TEST(an_error_has_the_library_s_words)
{
    library = FAKE_NCCL;
    setenv("FAKENCCL_FAIL", "ncclGetUniqueId:1:2", 1);
    expected = GPU_NCCL_ERRORS + 2;
    words = "ncclGetUniqueId: unhandled system error (fake NCCL";
    ult_job_start(1, 1, open_it);
}
END_TEST

START_TEST(it_can_be_switched_off)
{
    gpu_nccl_library = "off";
    ck_assert(!gpu_nccl_is_possible());
    gpu_nccl_library = FAKE_NCCL;
    ck_assert(gpu_nccl_is_possible());
}
END_TEST

/* ---- Giving up ---- */

static void connect_alone(void *arg)
{
    struct gpu_nccl_card cards[2];
    struct pair pair;

    prepare(&pair, cards);
    gpu_nccl_connect(pair.nccl[1], cards[0].id, 2, 1);
    for (int i = 0; i < 200; i++, usleep(100))
        ULT_CHECK(gpu_nccl_state(pair.nccl[1]) == GPU_NCCL_BUSY);
    gpu_nccl_cancel(pair.nccl[1]);
    ULT_CHECK(wait_for(pair.nccl[1]) == GPU_NCCL_CANCELLED);
    gpu_nccl_connect(pair.nccl[0], cards[0].id, 2, 0);
    gpu_nccl_destroy(pair.nccl[0]); /* while it connects */
    gpu_nccl_destroy(pair.nccl[1]);
    gpu_nccl_settle(5);
}

START_TEST(connecting_can_be_given_up)
{
    ult_job_start(1, 1, connect_alone);
}
END_TEST

static void start_alone(void *arg)
{
    struct gpu_nccl_call call = {.kind = GPU_NCCL_ALLREDUCE, .count = COUNT};
    static int values[2][COUNT];
    struct pair pair;
    int error = 0;

    connect_pair(&pair);
    run_both(&pair, call, values);
    ULT_CHECK(start(&pair, 0, call) == 0);
    for (int i = 0; i < 200; i++, usleep(100))
        ULT_CHECK(gpu_queue_ask(gpu_nccl_queue(pair.nccl[0], &error)) == GPU_QUEUE_BUSY);
    gpu_nccl_abort(pair.nccl[0]);
    ULT_CHECK(wait_for(pair.nccl[0]) == GPU_NCCL_CANCELLED);
    ULT_CHECK(gpu_queue_wait(gpu_nccl_queue(pair.nccl[0], &error)) == 0);
    ULT_CHECK(start(&pair, 0, call) == GPU_NCCL_CANCELLED);
}

static void start_first_alone(void *arg)
{
    struct gpu_nccl_call call = {.kind = GPU_NCCL_ALLREDUCE, .count = COUNT};
    struct pair pair;

    connect_pair(&pair);
    ULT_CHECK(start(&pair, 0, call) == GPU_NCCL_BUSY);
    for (int i = 0; i < 200; i++, usleep(100))
        ULT_CHECK(gpu_nccl_ask(pair.nccl[0]) == GPU_NCCL_BUSY);
    gpu_nccl_abort(pair.nccl[0]);
    ULT_CHECK(gpu_nccl_state(pair.nccl[0]) == GPU_NCCL_CANCELLED);
    gpu_nccl_destroy(pair.nccl[0]);
    gpu_nccl_destroy(pair.nccl[1]);
    gpu_nccl_settle(5);
}

START_TEST(an_operation_that_others_never_join_can_be_given_up)
{
    ult_job_start(1, 1, _i ? start_alone : start_first_alone);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_nccl");
    TCase *tests = tcase_create("nccl");

    tcase_set_timeout(tests, 200);
    tcase_add_test(tests, operations_give_what_was_asked_for);
    tcase_add_test(tests, the_first_operation_connects_participants_and_the_caller_does_not_wait);
    tcase_add_test(tests, types_and_operations_that_it_has);
    tcase_add_test(tests, participants_that_do_not_fit_together_are_found_before_they_connect);
    tcase_add_test(tests, a_library_that_is_not_there_is_an_error);
    tcase_add_loop_test(tests, a_library_that_is_none_or_too_old_is_an_error, 0, 2);
    tcase_add_test(tests, an_error_has_the_library_s_words);
    tcase_add_test(tests, it_can_be_switched_off);
    tcase_add_test(tests, connecting_can_be_given_up);
    tcase_add_loop_test(tests, an_operation_that_others_never_join_can_be_given_up, 0, 2);
    suite_add_tcase(suite, tests);
    return ult_run_suite(suite);
}
