/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows how data of a collective is copied from its sender's memory: with a machine that first looks the sender up, in as
 * many pieces as the kernel makes of it, and with an answer that says whether it was refused.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "ampi/coll/between/exchange.h"

#define N_BYTES 1000
#define PIECE 300 /* the machine copies no more at once */
#define SENDER 3
#define SENDER_PE 2

static unsigned char data[N_BYTES];
static struct {
    bool is_looked_up;
    enum machine_access access;
    size_t refuses_from; /* of the data */
    struct ampi_am_header answer;
    int n_answers;
} fake;

static enum machine_access access_to(int proc_id)
{
    ck_assert_int_eq(proc_id, SENDER);
    fake.is_looked_up = true;
    return fake.access;
}

static int copy(int proc_id, bool is_put, const struct machine_piece *own, int n_own,
                const struct machine_piece *others, int n_others, size_t *n_bytes_out)
{
    size_t n_bytes = own->n_bytes < PIECE ? own->n_bytes : PIECE;

    ck_assert(fake.is_looked_up && !is_put && n_own == 1 && n_others == 1 && proc_id == SENDER);
    ck_assert_uint_eq(own->n_bytes, others->n_bytes);
    if (others->address + n_bytes > (uintptr_t)data + fake.refuses_from)
        return MACHINE_FAILED;
    memcpy((void *)own->address, (const void *)others->address, n_bytes);
    *n_bytes_out = n_bytes;
    return MACHINE_DONE;
}

static const struct machine_rma rma = {.access = access_to, .copy = copy};
static const struct machine machine = {.name = "fake", .rma = &rma};

bool __wrap_ampi_procs_post(int dest_proc, int dest_pe, const struct ampi_am_header *am, void *bytes,
                            size_t n_bytes);
bool __wrap_ampi_procs_post(int dest_proc, int dest_pe, const struct ampi_am_header *am, void *bytes,
                            size_t n_bytes)
{
    ck_assert(dest_proc == SENDER && dest_pe == SENDER_PE && !bytes && n_bytes == 0);
    fake.answer = *am;
    fake.n_answers++;
    return true;
}

static struct ampi_exchange_direct *message(void)
{
    struct ampi_exchange_direct *direct = malloc(sizeof *direct);

    *direct = (struct ampi_exchange_direct){.address = (uintptr_t)data,
                                            .n_bytes = N_BYTES,
                                            .proc_id = SENDER,
                                            .pe_id = SENDER_PE,
                                            .answer = {.kind = AMPI_AM_COLL_COPIED, .cookie = 77}};
    return direct;
}

static void setup(void)
{
    memset(&fake, 0, sizeof fake);
    fake.access = MACHINE_DIRECT_ACCESS;
    fake.refuses_from = N_BYTES;
    for (int i = 0; i < N_BYTES; i++)
        data[i] = (unsigned char)(i * 7);
    ampi_machine = &machine;
}

static void assert_answer(bool is_refused)
{
    ck_assert_int_eq(fake.n_answers, 1);
    ck_assert_int_eq(fake.answer.kind, AMPI_AM_COLL_COPIED);
    ck_assert_int_eq(fake.answer.flags, is_refused ? AMPI_AM_FAILED : 0);
    ck_assert_uint_eq(fake.answer.cookie, 77);
}

START_TEST(data_comes_in_pieces)
{
    unsigned char got[N_BYTES] = {0};

    ck_assert_int_eq(ampi_exchange_direct_fetch(message(), got), MACHINE_DONE);
    ck_assert_mem_eq(got, data, N_BYTES);
    assert_answer(false);
}
END_TEST

START_TEST(the_kernel_refuses)
{
    unsigned char got[N_BYTES];

    fake.refuses_from = _i ? 2 * PIECE : 0;
    ck_assert_int_eq(ampi_exchange_direct_fetch(message(), got), MACHINE_FAILED);
    assert_answer(true);
}
END_TEST

START_TEST(the_sender_cannot_be_accessed)
{
    unsigned char got[N_BYTES];

    fake.access = MACHINE_NO_ACCESS;
    ck_assert_int_eq(ampi_exchange_direct_fetch(message(), got), MACHINE_FAILED);
    assert_answer(true);
}
END_TEST

START_TEST(dropped_data_is_answered)
{
    ampi_exchange_direct_drop(message());
    assert_answer(false);
    ck_assert(!fake.is_looked_up);
}
END_TEST

/* A listed part's place is behind it. */
START_TEST(a_part_is_cut)
{
    unsigned char part[24 + sizeof(struct ampi_exchange_direct)];
    struct ampi_exchange_direct *direct = message(), *cut;
    size_t n_bytes = sizeof part;

    memcpy(part + 24, direct, sizeof *direct);
    cut = ampi_exchange_direct_cut(part, &n_bytes);
    ck_assert_uint_eq(n_bytes, 24);
    ck_assert_mem_eq(cut, direct, sizeof *direct);
    free(direct);
    ampi_exchange_direct_answer(cut, MACHINE_FAILED);
    assert_answer(true);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exchange_direct");
    TCase *tcase = tcase_create("copy");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, data_comes_in_pieces);
    tcase_add_loop_test(tcase, the_kernel_refuses, 0, 2);
    tcase_add_test(tcase, the_sender_cannot_be_accessed);
    tcase_add_test(tcase, dropped_data_is_answered);
    tcase_add_test(tcase, a_part_is_cut);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
