/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a ring of the inbox takes as many items as it has cells and not one more, that items of one
 * sender are delivered once and in order (round the ring's end, from several threads at once), that a receiver gets
 * ready for an answer at most once after each of its own items, and that wakeups are delivered in the order of posting.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "ult_job.h"

#define N_PRODUCERS 4
#define N_EACH 100000

static struct ult_inbox inbox;
static struct ult_ring *rings[N_PRODUCERS]; /* by producer */
static struct ult_ring *answers;            /* in the opposite direction; NULL: none */

/* What an item carries here. */
struct load {
    uint32_t producer;
    uint32_t number;
    unsigned char pattern[ULT_ITEM_BYTES - 8];
};

static uint32_t next_of[N_PRODUCERS];
static uint64_t n_handled;
static int n_wrong;

static void handle_item(const struct ult_item *item)
{
    struct load load;

    memcpy(&load, item->body, sizeof load);
    if (load.producer >= N_PRODUCERS || load.number != next_of[load.producer]++)
        n_wrong++;
    for (size_t i = 0; i < sizeof load.pattern; i++)
        n_wrong += load.pattern[i] != (unsigned char)(load.number + load.producer + i);
    n_handled++;
}

static struct ult_item make_item(uint32_t producer, uint32_t number)
{
    struct ult_item item = {.handle = handle_item};
    struct load load = {.producer = producer, .number = number};

    for (size_t i = 0; i < sizeof load.pattern; i++)
        load.pattern[i] = (unsigned char)(number + producer + i);
    memcpy(item.body, &load, sizeof load);
    return item;
}

static void start(void)
{
    ult_inbox_init(&inbox);
    for (int i = 0; i < N_PRODUCERS; i++) {
        rings[i] = ult_ring_create();
        ult_inbox_add_ring(&inbox, rings[i], &answers);
    }
    memset(next_of, 0, sizeof next_of);
    n_handled = 0;
    n_wrong = 0;
}

static void end(void)
{
    for (int i = 0; i < N_PRODUCERS; i++)
        free(rings[i]);
}

START_TEST(full_and_round_the_end)
{
    uint32_t number = 0;

    ck_assert(!ult_inbox_has_mail(&inbox));
    for (int round = 0; round < 10; round++) {
        struct ult_item item = make_item(0, number);
        uint32_t n_put = 0;
        while (ult_ring_try_put(rings[0], &item)) {
            n_put++;
            item = make_item(0, ++number);
        }
        ck_assert_uint_eq(n_put, ULT_RING_CELLS);
        ck_assert(ult_inbox_has_mail(&inbox));
        ck_assert_int_eq(ult_inbox_drain(&inbox), (int)ULT_RING_CELLS);
        ck_assert(!ult_inbox_has_mail(&inbox));
        ck_assert_int_eq(ult_inbox_drain(&inbox), 0);
    }
    ck_assert_int_eq(n_wrong, 0);
}
END_TEST

/* The receiver tells senders of free cells from time to time only: after a complete drain most must be free
 * again. */
START_TEST(room_after_drain_at_any_position)
{
    uint32_t number = 0;

    for (int n = 1; n < 190; n += 7) {
        for (int i = 0; i < n; i++) {
            struct ult_item item = make_item(1, number++);
            ck_assert(ult_ring_try_put(rings[1], &item));
        }
        ck_assert_int_eq(ult_inbox_drain(&inbox), n);
    }
    ck_assert_int_eq(n_wrong, 0);
}
END_TEST

static void deliver(uint32_t number)
{
    struct ult_item item = make_item(0, number);

    ck_assert(ult_ring_try_put(rings[0], &item));
    ck_assert_int_eq(ult_inbox_drain(&inbox), 1);
}

START_TEST(ready_for_an_answer_after_own_items)
{
    struct ult_ring *ring = ult_ring_create();
    struct ult_item item = make_item(0, 0);

    deliver(0); /* there is no ring for answers yet */
    answers = ring;
    for (int i = 0; i < 5; i++)
        ck_assert(ult_ring_try_put(ring, &item));
    deliver(1);
    ck_assert_uint_eq(ring->tail_owned, 5);
    ring->tail_owned = 1000; /* any change would be seen */
    ring->tail = 1000;
    deliver(2);
    deliver(3);
    ck_assert_uint_eq(ring->tail_owned, 1000);
    ring->tail++;
    deliver(4);
    ck_assert_uint_eq(ring->tail_owned, 1001);
    ck_assert_int_eq(n_wrong, 0);
    answers = NULL;
    free(ring);
}
END_TEST

static void *produce(void *arg)
{
    uint32_t producer = (uint32_t)(uintptr_t)arg;

    for (uint32_t i = 0; i < N_EACH; i++) {
        struct ult_item item = make_item(producer, i);
        while (!ult_ring_try_put(rings[producer], &item))
            sched_yield();
    }
    return NULL;
}

START_TEST(several_producers)
{
    pthread_t threads[N_PRODUCERS];

    for (uintptr_t i = 0; i < N_PRODUCERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, produce, (void *)i), 0);
    while (n_handled < (uint64_t)N_PRODUCERS * N_EACH)
        if (ult_inbox_drain(&inbox) == 0)
            sched_yield();
    for (int i = 0; i < N_PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(n_wrong, 0);
    ck_assert_int_eq(ult_inbox_drain(&inbox), 0);
}
END_TEST

/* ---- Notes ---- */

struct counted_note {
    struct ult_wakeup wakeup;
    uint32_t producer;
    uint32_t number;
};

static void handle_note(struct ult_wakeup *wakeup)
{
    struct counted_note *counted = BASE_CONTAINER(wakeup, struct counted_note, wakeup);

    if (counted->number != next_of[counted->producer]++)
        n_wrong++;
    n_handled++;
    free(counted); /* the wakeup is the handler's */
}

static void *produce_notes(void *arg)
{
    for (uint32_t i = 0; i < N_EACH / 10; i++) {
        struct counted_note *counted = malloc(sizeof *counted);
        *counted = (struct counted_note){{NULL, handle_note}, (uint32_t)(uintptr_t)arg, i};
        ult_inbox_put_wakeup(&inbox, &counted->wakeup);
    }
    return NULL;
}

START_TEST(notes_in_order)
{
    pthread_t threads[N_PRODUCERS];

    produce_notes((void *)(uintptr_t)0);
    ck_assert(ult_inbox_has_mail(&inbox));
    ck_assert_int_eq(ult_inbox_drain(&inbox), N_EACH / 10);
    next_of[0] = 0;
    n_handled = 0;
    for (uintptr_t i = 0; i < N_PRODUCERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, produce_notes, (void *)i), 0);
    while (n_handled < (uint64_t)N_PRODUCERS * (N_EACH / 10))
        if (ult_inbox_drain(&inbox) == 0)
            sched_yield();
    for (int i = 0; i < N_PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(n_wrong, 0);
}
END_TEST

/* A handler may post to its own inbox: the wakeup comes in a later drain or the same one, once. */
static struct ult_wakeup again_note;
static int n_again;

static void handle_again(struct ult_wakeup *wakeup)
{
    struct ult_item item = make_item(2, (uint32_t)n_again);

    if (++n_again < 100) {
        ult_inbox_put_wakeup(&inbox, wakeup);
        if (!ult_ring_try_put(rings[2], &item))
            n_wrong++;
    }
}

START_TEST(handlers_may_post)
{
    n_again = 0;
    again_note.handle = handle_again;
    ult_inbox_put_wakeup(&inbox, &again_note);
    while (ult_inbox_has_mail(&inbox))
        ult_inbox_drain(&inbox);
    ck_assert_int_eq(n_again, 100);
    ck_assert_uint_eq(n_handled, 99);
    ck_assert_int_eq(n_wrong, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ult_inbox");
    TCase *tcase = tcase_create("inbox");

    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, start, end);
    tcase_add_test(tcase, full_and_round_the_end);
    tcase_add_test(tcase, room_after_drain_at_any_position);
    tcase_add_test(tcase, ready_for_an_answer_after_own_items);
    tcase_add_test(tcase, several_producers);
    tcase_add_test(tcase, notes_in_order);
    tcase_add_test(tcase, handlers_may_post);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
