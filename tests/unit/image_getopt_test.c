/* SPDX-License-Identifier: BSD-3-Clause
 *
 * getopt of the ranks against libc's: the same values, variables, order of argv and messages, for random
 * arguments.
 */
#include "image/libc/rebind.h"

#include <check.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGS_MAX 8
#define ROUNDS 20000

static int flag_libc, flag_ours;

/* Two tables that differ in the address of the flag only. */
#define LONGOPTS(flag)                                                                         \
    {                                                                                          \
        {"alpha", no_argument, NULL, 'a'}, {"alphabet", required_argument, NULL, 1000},        \
            {"beta", optional_argument, NULL, 'B'}, {"betamax", optional_argument, NULL, 'B'}, \
            {"flag", no_argument, &(flag), 7}, {"x", required_argument, NULL, 1001},           \
            {"with-dash", no_argument, NULL, 1002},                                            \
        {                                                                                      \
            NULL, 0, NULL, 0                                                                   \
        }                                                                                      \
    }
static const struct option longopts_libc[] = LONGOPTS(flag_libc);
static const struct option longopts_ours[] = LONGOPTS(flag_ours);

static const char *const words[] = {
    "file",      "-",       "--",     "-a",        "-b",          "-ab",         "-ba",        "-bvalue",
    "-c",        "-cvalue", "-acb",   "-z",        "-:",          "-;",          "-W",         "-Walpha",
    "-W",        "beta=3",  "alpha",  "--alpha",   "--alph",      "--alphab",    "--alphabet", "--alphabet=5",
    "--alpha=5", "--be",    "--beta", "--beta=",   "--betam=1",   "--flag",      "--fl",       "--flag=1",
    "--x",       "-x",      "-x=4",   "--nothing", "--nothing=1", "--with-dash", "-with",      "-alpha",
    "-beta",     "-flag",   "-al",    "",          "--=",         "-aW",         "other",
};

static const char *const optstrings[] = {
    "ab:c::",   "+ab:c::", "-ab:c::", ":ab:c::", "+:ab:c::", "-:ab:c::",
    "ab:c::W;", ":W;b:",   "",        "x:W;a",   "abx",
};

enum form { SHORT, LONG, LONG_ONLY, N_FORMS };

static uint64_t random_state = 12345;

static unsigned draw(unsigned below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(random_state >> 33) % below;
}

/* Redirects stderr into a string. */
struct capture {
    char *text;
    size_t len;
    FILE *stream, *saved;
};

static void capture_begin(struct capture *capture)
{
    capture->saved = stderr;
    capture->stream = open_memstream(&capture->text, &capture->len);
    stderr = capture->stream;
}

static char *capture_end(struct capture *capture)
{
    stderr = capture->saved;
    fclose(capture->stream);
    return capture->text;
}

static int call_libc(enum form form, int argc, char **argv, const char *optstring, int *index)
{
    switch (form) {
    case SHORT:
        return getopt(argc, argv, optstring);
    case LONG:
        return getopt_long(argc, argv, optstring, longopts_libc, index);
    default:
        return getopt_long_only(argc, argv, optstring, longopts_libc, index);
    }
}

static int call_ours(enum form form, int argc, char **argv, const char *optstring, int *index,
                     struct image_getopt *state)
{
    return image_getopt_r(argc, argv, optstring, form == SHORT ? NULL : longopts_ours,
                          form == SHORT ? NULL : index, form == LONG_ONLY ? IMAGE_GETOPT_LONG_ONLY : 0,
                          state);
}

/* One command line, scanned to its end by both. */
static void compare_scans(enum form form, int argc, char **argv, const char *optstring, int has_messages)
{
    char *argv_libc[ARGS_MAX + 2], *argv_ours[ARGS_MAX + 2];
    static struct image_getopt state; /* as in libc, optopt keeps its last value when a scan starts over */
    int value_libc, value_ours, n_calls = 0;

    memcpy(argv_libc, argv, sizeof argv_libc);
    memcpy(argv_ours, argv, sizeof argv_ours);
    optind = state.optind = 0;
    opterr = state.opterr = has_messages;
    flag_libc = flag_ours = 0;
    do {
        int index_libc = -5, index_ours = -5;
        struct capture libc_says, we_say;
        char *libc_text, *our_text;

        capture_begin(&libc_says);
        value_libc = call_libc(form, argc, argv_libc, optstring, &index_libc);
        libc_text = capture_end(&libc_says);
        capture_begin(&we_say);
        value_ours = call_ours(form, argc, argv_ours, optstring, &index_ours, &state);
        our_text = capture_end(&we_say);

        ck_assert_int_eq(value_ours, value_libc);
        ck_assert_int_eq(state.optind, optind);
        ck_assert_int_eq(state.optopt, optopt);
        ck_assert_ptr_eq(state.optarg, optarg);
        ck_assert_int_eq(index_ours, index_libc);
        ck_assert_int_eq(flag_ours, flag_libc);
        ck_assert_int_eq(memcmp(argv_ours, argv_libc, sizeof argv_ours), 0);
        ck_assert_str_eq(our_text, libc_text);
        free(libc_text);
        free(our_text);
    } while (value_libc != -1 && ++n_calls < 64);
}

START_TEST(random_arguments)
{
    if (_i)
        setenv("POSIXLY_CORRECT", "1", 1);
    else
        unsetenv("POSIXLY_CORRECT");
    for (int round = 0; round < ROUNDS; round++) {
        char *argv[ARGS_MAX + 2] = {"program"};
        int argc = 1 + (int)draw(ARGS_MAX + 1);

        for (int i = 1; i < argc; i++)
            argv[i] = (char *)words[draw(BASE_COUNT(words))];
        compare_scans((enum form)draw(N_FORMS), argc, argv, optstrings[draw(BASE_COUNT(optstrings))],
                      round % 8 == 0);
    }
}
END_TEST

START_TEST(starts_over_when_optind_goes_back)
{
    char *argv[] = {"program", "-a", "x", "-a", NULL};
    struct image_getopt state = {.optind = 1, .opterr = 1, .optopt = '?'};

    for (int round = 0; round < 2; round++) {
        state.optind = 1;
        ck_assert_int_eq(image_getopt_r(4, argv, "a", NULL, NULL, 0, &state), 'a');
        ck_assert_int_eq(image_getopt_r(4, argv, "a", NULL, NULL, 0, &state), 'a');
        ck_assert_int_eq(image_getopt_r(4, argv, "a", NULL, NULL, 0, &state), -1);
        ck_assert_int_eq(state.optind, 3);
        ck_assert_str_eq(argv[3], "x");
    }
    ck_assert_int_eq(image_getopt_r(0, argv, "a", NULL, NULL, 0, &state), -1);
}
END_TEST

START_TEST(posix_form_never_permutes)
{
    char *argv[] = {"program", "file", "-a", NULL};
    struct image_getopt state = {.optind = 1, .opterr = 1, .optopt = '?'};

    ck_assert_int_eq(image_getopt_r(3, argv, "a", NULL, NULL, IMAGE_GETOPT_POSIX, &state), -1);
    ck_assert_int_eq(state.optind, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("image_getopt");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, random_arguments, 0, 2);
    tcase_add_test(tcase, starts_over_when_optind_goes_back);
    tcase_add_test(tcase, posix_form_never_permutes);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
