/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that message pools hand out memory of the right size once, take it back, and recover memory that
 * another PE consumed, from several threads at once.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "ampi/p2p/message.h"
#include "ult_job.h"

static const size_t sizes[] = {0, 1, 63, 64, 65, 127, 128, 129, 500, 1024, 4095, 4096, 4097, 16383, 16384};

START_TEST(every_size_is_usable)
{
    struct ampi_message_pool *pools = ampi_message_pools_create(1);
    struct ampi_message *messages[BASE_COUNT(sizes)][40];

    for (size_t i = 0; i < BASE_COUNT(sizes); i++)
        for (size_t j = 0; j < 40; j++) {
            struct ampi_message *message = ampi_message_alloc(&pools[0], sizes[i]);
            ck_assert_uint_eq(message->magic, AMPI_MAGIC_MESSAGE);
            ck_assert_uint_eq(message->size_bytes, sizes[i]);
            ck_assert_ptr_null(message->sender);
            ck_assert_uint_eq((uintptr_t)message->data % 16, 0);
            memset(message->data, (int)(i * 40 + j), sizes[i]);
            messages[i][j] = message;
        }
    for (size_t i = 0; i < BASE_COUNT(sizes); i++)
        for (size_t j = 0; j < 40; j++) {
            for (size_t k = 0; k < sizes[i]; k++)
                ck_assert_uint_eq(messages[i][j]->data[k], (unsigned char)(i * 40 + j));
            ampi_message_free(&pools[0], messages[i][j]);
            ck_assert_uint_eq(messages[i][j]->magic, AMPI_MAGIC_DEAD);
        }
}
END_TEST

START_TEST(freed_memory_is_used_again)
{
    struct ampi_message_pool *pools = ampi_message_pools_create(1);
    struct ampi_message *first = ampi_message_alloc(&pools[0], 100);

    ampi_message_free(&pools[0], first);
    ck_assert_ptr_eq(ampi_message_alloc(&pools[0], 128), first); /* the same class */
    ck_assert_ptr_ne(ampi_message_alloc(&pools[0], 128), first);
}
END_TEST

/* One-way traffic: what PE 1 consumes goes home, so PE 0 needs no more memory than for what is under way. */
START_TEST(messages_go_home)
{
    struct ampi_message_pool *pools = ampi_message_pools_create(3);
    enum { N_SEEN = 4000 };
    struct ampi_message *seen[N_SEEN];
    int n_seen = 0;

    for (int i = 0; i < 20000; i++) {
        struct ampi_message *message = ampi_message_alloc(&pools[0], 64);
        int j = 0;
        while (j < n_seen && seen[j] != message)
            j++;
        if (j == n_seen) {
            ck_assert_int_lt(n_seen, N_SEEN);
            seen[n_seen++] = message;
        }
        ck_assert_int_eq(message->home_pe, 0);
        ampi_message_free(&pools[1 + i % 2], message);
    }
    ck_assert_ptr_null(pools[1].free[0]);
    ck_assert_ptr_null(pools[2].free[0]);
}
END_TEST

/* ---- Two threads ---- */

#define N_PASSED 200000
#define N_UNDER_WAY 64

static struct ampi_message_pool *shared_pools;
static _Atomic(struct ampi_message *) window[N_UNDER_WAY];

static void *consume(void *arg)
{
    uint64_t n_wrong = 0;

    (void)arg;
    for (uint64_t i = 0; i < N_PASSED; i++) {
        struct ampi_message *message;
        while (!(message = atomic_exchange(&window[i % N_UNDER_WAY], NULL)))
            sched_yield();
        n_wrong += memcmp(message->data, &i, sizeof i) != 0;
        ampi_message_free(&shared_pools[1], message);
    }
    return (void *)(uintptr_t)n_wrong;
}

START_TEST(between_threads)
{
    pthread_t thread;
    void *n_wrong;

    shared_pools = ampi_message_pools_create(2);
    ck_assert_int_eq(pthread_create(&thread, NULL, consume, NULL), 0);
    for (uint64_t i = 0; i < N_PASSED; i++) {
        struct ampi_message *message = ampi_message_alloc(&shared_pools[0], 8 + i % 200);
        memcpy(message->data, &i, sizeof i);
        while (atomic_load(&window[i % N_UNDER_WAY]))
            sched_yield();
        atomic_store(&window[i % N_UNDER_WAY], message);
    }
    pthread_join(thread, &n_wrong);
    ck_assert_ptr_null(n_wrong);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("message_pool");
    TCase *tcase = tcase_create("message_pool");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, every_size_is_usable);
    tcase_add_test(tcase, freed_memory_is_used_again);
    tcase_add_test(tcase, messages_go_home);
    tcase_add_test(tcase, between_threads);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
