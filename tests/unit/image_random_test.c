/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The ranks' random numbers against libc's: the same sequences from the start, after seeding and with own
 * states.
 */
#include "image/libc/rebind.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define DRAWS 2000

/* The replacement of a function of the C library. */
#define OURS(name) ((__typeof__(name) *)image_libc_room.find(#name)->replacement)

static void compare_random(void)
{
    for (int i = 0; i < DRAWS; i++) {
        ck_assert_int_eq(OURS(random)(), random());
        ck_assert_int_eq(OURS(rand)(), rand());
    }
}

START_TEST(random_from_the_start)
{
    compare_random();
}
END_TEST

START_TEST(random_seeded)
{
    static const unsigned seeds[] = {0, 1, 2, 42, 0x7fffffff, 0xffffffff};

    for (size_t i = 0; i < BASE_COUNT(seeds); i++) {
        srandom(seeds[i]);
        OURS(srandom)(seeds[i]);
        compare_random();
    }
}
END_TEST

START_TEST(random_states)
{
    static char theirs[2][256], ours[2][256];
    static const size_t sizes[] = {8, 32, 64, 128, 256};
    char *their_old, *our_old, *their_first, *our_first;

    for (size_t i = 0; i < BASE_COUNT(sizes); i++) {
        their_first = initstate(7, theirs[0], sizes[i]);
        our_first = OURS(initstate)(7, ours[0], sizes[i]);
        compare_random();
        ck_assert_ptr_eq(initstate(8, theirs[1], sizes[i]), theirs[0]);
        ck_assert_ptr_eq(OURS(initstate)(8, ours[1], sizes[i]), ours[0]);
        compare_random();
        their_old = setstate(theirs[0]);
        our_old = OURS(setstate)(ours[0]);
        ck_assert_ptr_eq(their_old, theirs[1]);
        ck_assert_ptr_eq(our_old, ours[1]);
        compare_random();
        setstate(their_first);
        OURS(setstate)(our_first);
        compare_random();
    }
    ck_assert_ptr_null(OURS(initstate)(1, ours[0], 4));
}
END_TEST

static void compare_drand48(void)
{
    unsigned short their_x[3] = {1, 2, 3}, our_x[3] = {1, 2, 3};

    for (int i = 0; i < DRAWS; i++) {
        ck_assert(OURS(drand48)() == drand48());
        ck_assert(OURS(erand48)(our_x) == erand48(their_x));
        ck_assert_int_eq(OURS(lrand48)(), lrand48());
        ck_assert_int_eq(OURS(nrand48)(our_x), nrand48(their_x));
        ck_assert_int_eq(OURS(mrand48)(), mrand48());
        ck_assert_int_eq(OURS(jrand48)(our_x), jrand48(their_x));
    }
}

START_TEST(drand48_family)
{
    unsigned short seed[3] = {11, 22, 33};
    unsigned short param[7] = {1, 2, 3, 0xe66d, 0xdeec, 5, 12};
    unsigned short *their_old, *our_old;

    compare_drand48();
    srand48(4711);
    OURS(srand48)(4711);
    compare_drand48();
    their_old = seed48(seed);
    our_old = OURS(seed48)(seed);
    ck_assert_int_eq(memcmp(their_old, our_old, 3 * sizeof *our_old), 0);
    compare_drand48();
    lcong48(param);
    OURS(lcong48)(param);
    compare_drand48();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("image_random");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    tcase_add_test(tcase, random_from_the_start);
    tcase_add_test(tcase, random_seeded);
    tcase_add_test(tcase, random_states);
    tcase_add_test(tcase, drand48_family);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
