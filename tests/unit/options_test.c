/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that options are read from a string and removed from an argument vector, and that each wrong one is
 * refused with a message that names it and a similar valid one or the valid range.
 */
#include <string.h>

#include "base/options.h"
#include "ult_job.h"

static long ranks, count;
static size_t stack_bytes;
static const char *libs, *topic;
static bool is_set;
static int words; /* of the list */

static bool take_word(const char *word)
{
    return ++words < 4 && (strcmp(word, "ways") == 0 || strcmp(word, "ends") == 0);
}
static base_option_word_fn take_words = take_word;

static const struct base_option table[] = {
    {"+vp", BASE_OPTION_INT, &ranks, 1, 1000, "N", "ranks"},
    {"+stacksize", BASE_OPTION_SIZE, &stack_bytes, 4096, 1l << 40, "SIZE", "stack"},
    {"+private", BASE_OPTION_STRING, &libs, 0, 0, "LIBS", "libraries"},
    {"+flag", BASE_OPTION_FLAG, &is_set, 0, 0, NULL, "a flag"},
    {"+v", BASE_OPTION_COUNT, &count, 0, 0, NULL, "a count"},
    {"+help", BASE_OPTION_TOPIC, &topic, 0, 0, "[ways|ends]", "help"},
    {"+list", BASE_OPTION_LIST, &take_words, 0, 0, "ways,ends", "a list"},
    {"+old", BASE_OPTION_GONE, NULL, 0, 0, NULL, "it is +new now"},
};
#define N_OPTIONS ((int)BASE_COUNT(table))

static void start(void)
{
    ranks = count = 0;
    stack_bytes = 0;
    libs = topic = NULL;
    is_set = false;
    words = 0;
}

START_TEST(all_kinds_in_a_string)
{
    const char *error;

    ck_assert(base_options_parse_string(table, N_OPTIONS, "", &error));
    ck_assert(base_options_parse_string(table, N_OPTIONS, " \t\n", &error));
    ck_assert_int_eq(ranks, 0);
    ck_assert(base_options_parse_string(
        table, N_OPTIONS, " +vp 64 +v\t+stacksize 8M +private libfoo,-libbar +flag +v ", &error));
    ck_assert_int_eq(ranks, 64);
    ck_assert_int_eq(count, 2);
    ck_assert_uint_eq(stack_bytes, 8u << 20);
    ck_assert_str_eq(libs, "libfoo,-libbar");
    ck_assert(is_set);
    ck_assert(base_options_parse_string(table, N_OPTIONS, "+vp 1 +vp 2", &error));
    ck_assert_int_eq(ranks, 2); /* the last one wins */
    ck_assert(base_options_parse_string(table, N_OPTIONS, "+vp=7 +stacksize=64K +private=a=b", &error));
    ck_assert_int_eq(ranks, 7);
    ck_assert_uint_eq(stack_bytes, 64u << 10);
    ck_assert_str_eq(libs, "a=b");
    ck_assert(base_options_parse_string(table, N_OPTIONS, "+list ways,ends +list ways", &error));
    ck_assert_int_eq(words, 3); /* of both lists */
}
END_TEST

static void check_argv(char **argv, const char *const *wanted)
{
    const char *error = NULL;
    int argc = 0, n_wanted = 0;

    while (argv[argc])
        argc++;
    while (wanted[n_wanted])
        n_wanted++;
    ck_assert_msg(base_options_parse_argv(table, N_OPTIONS, &argc, argv, &error), "%s", error);
    ck_assert_int_eq(argc, n_wanted);
    for (int i = 0; i < argc; i++)
        ck_assert_str_eq(argv[i], wanted[i]);
    ck_assert_ptr_null(argv[argc]);
}

#define CHECK_ARGV(given, ...) check_argv((char *[]){given, NULL}, (const char *const[]){__VA_ARGS__, NULL})
#define WORDS(...) __VA_ARGS__

START_TEST(taken_out_of_argv)
{
    CHECK_ARGV(WORDS("prog"), "prog");
    CHECK_ARGV(WORDS("prog", "+vp", "3", "a", "+v", "b"), "prog", "a", "b");
    ck_assert_int_eq(ranks, 3);
    ck_assert_int_eq(count, 1);
    CHECK_ARGV(WORDS("prog", "a", "-x", "--", "c", "+flag"), "prog", "a", "-x", "--", "c");
    ck_assert(is_set);
    /* A lone plus is the program's; so is everything behind +-, another +- included. */
    CHECK_ARGV(WORDS("prog", "+", "1"), "prog", "+", "1");
    CHECK_ARGV(WORDS("prog", "+vp", "4", "+-", "+vp", "x", "+-", "+unknown"), "prog", "+vp", "x", "+-",
               "+unknown");
    ck_assert_int_eq(ranks, 4);
    CHECK_ARGV(WORDS("+vp", "5"), "+vp", "5"); /* argv[0] is never ours */
    ck_assert_int_eq(ranks, 4);
    CHECK_ARGV(WORDS("prog", "+private", "+v"), "prog"); /* a value may begin with a plus */
    ck_assert_str_eq(libs, "+v");
    CHECK_ARGV(WORDS("prog", "+help", "way", "x"), "prog", "way", "x"); /* no topic */
    ck_assert_str_eq(topic, "");
    CHECK_ARGV(WORDS("prog", "+help", "ends", "x"), "prog", "x");
    ck_assert_str_eq(topic, "ends");
    check_argv((char *[]){NULL}, (const char *const[]){NULL});
}
END_TEST

static const struct {
    const char *text;
    const char *says; /* a part of the message */
} wrong[] = {
    {"+vp", "+vp needs a value: +vp N"},
    {"+vp 0", "+vp 0: expected a number from 1 to 1000"},
    {"+vp -1", "+vp -1: expected a number from 1 to 1000"},
    {"+vp 1001", "+vp 1001: expected a number from 1 to 1000"},
    {"+vp abc", "+vp abc: expected a number"},
    {"+vp 12x", "+vp 12x: expected a number"},
    {"+vp 1.5", "+vp 1.5: expected a number"},
    {"+vp 0x10", "+vp 0x10: expected a number"},
    {"+vp 99999999999999999999", "+vp 99999999999999999999: expected a number"},
    {"+vp -99999999999999999999", "expected a number"},
    {"+vp +v", "+vp +v: expected a number"},
    {"+vp=", "+vp : expected a number"},
    {"+stacksize", "+stacksize needs a value: +stacksize SIZE"},
    {"+stacksize 4095",
     "+stacksize 4095: expected a size from 4096 to 1099511627776 bytes, such as 512K or 8M"},
    {"+stacksize -8M", "+stacksize -8M: expected a size"},
    {"+stacksize 8MB", "+stacksize 8MB: expected a size"},
    {"+stacksize M", "+stacksize M: expected a size"},
    {"+stacksize 2000G", "expected a size"},
    {"+stacksize 99999999999999999999", "expected a size"},
    {"+stacksize 18446744073709551615G", "expected a size"},
    {"+private", "+private needs a value"},
    {"+flag=1", "+flag takes no value"},
    {"+vq 1", "unknown option +vq; the nearest is +v"},
    {"+stack 1M", "unknown option +stack; the nearest is +stacksize"},
    {"+privat x", "unknown option +privat; the nearest is +private"},
    {"+Flag", "unknown option +Flag; the nearest is +flag"},
    {"+hlep", "unknown option +hlep; the nearest is +help"},
    {"+list ways,way", "+list way: expected words of ways,ends, separated by commas"},
    {"+list ways,", "+list : expected words of ways,ends"},
    {"+list", "+list needs a value: +list ways,ends"},
    {"+old 1", "unknown option +old: it is +new now"},
    {"+old=1", "unknown option +old: it is +new now"},
    {"+olde", "unknown option +olde (+help lists all options"},
    {"+unlike", "unknown option +unlike (+help lists all options"},
    {"+x", "unknown option +x (+help lists all options"},
    {"+help=way", "+help=way: expected one of [ways|ends]"},
    {"word", "unknown option word (+help"},
    {"+v word", "unknown option word"},
};

START_TEST(wrong_ones_are_explained)
{
    const char *error = "";
    char text[128], *argv[4] = {"prog"}, *save = NULL;
    int argc = 1;

    ck_assert_msg(!base_options_parse_string(table, N_OPTIONS, wrong[_i].text, &error), "%s", wrong[_i].text);
    ck_assert_msg(strstr(error, wrong[_i].says) != NULL, "%s: %s", wrong[_i].text, error);
    if (wrong[_i].text[0] != '+' || strstr(wrong[_i].text, " word"))
        return; /* in argv this is the program's */
    snprintf(text, sizeof text, "%s", wrong[_i].text);
    for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    error = "";
    ck_assert(!base_options_parse_argv(table, N_OPTIONS, &argc, argv, &error));
    ck_assert_msg(strstr(error, wrong[_i].says) != NULL, "%s: %s", wrong[_i].text, error);
}
END_TEST

START_TEST(very_long_words)
{
    static char text[5000];
    const char *error = "";

    memset(text, 'x', sizeof text - 1);
    text[0] = '+';
    ck_assert(!base_options_parse_string(table, N_OPTIONS, text, &error));
    ck_assert_ptr_nonnull(strstr(error, "unknown option +xxx"));
    memcpy(text, "+vp ", 4);
    ck_assert(!base_options_parse_string(table, N_OPTIONS, text, &error));
    ck_assert_ptr_nonnull(strstr(error, "+vp xxx"));
}
END_TEST

START_TEST(sizes)
{
    size_t size = 0;

    ck_assert(base_parse_size("0", &size) && size == 0);
    ck_assert(base_parse_size("512", &size) && size == 512);
    ck_assert(base_parse_size("3k", &size) && size == 3072);
    ck_assert(base_parse_size("3K", &size) && size == 3072);
    ck_assert(base_parse_size("2m", &size) && size == 2u << 20);
    ck_assert(base_parse_size("5G", &size) && size == (size_t)5 << 30);
    ck_assert(base_parse_size("18446744073709551615", &size) && size == SIZE_MAX);
    size = 17;
    ck_assert(!base_parse_size("", &size));
    ck_assert(!base_parse_size(" 1", &size));
    ck_assert(!base_parse_size("-1", &size));
    ck_assert(!base_parse_size("1KK", &size));
    ck_assert(!base_parse_size("1T", &size));
    ck_assert(!base_parse_size("17179869184G", &size));
    ck_assert(!base_parse_size("18446744073709551616", &size));
    ck_assert_uint_eq(size, 17); /* untouched by what is wrong */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options");
    TCase *tcase = tcase_create("options");

    tcase_add_checked_fixture(tcase, start, NULL);
    tcase_add_test(tcase, all_kinds_in_a_string);
    tcase_add_test(tcase, taken_out_of_argv);
    tcase_add_loop_test(tcase, wrong_ones_are_explained, 0, (int)BASE_COUNT(wrong));
    tcase_add_test(tcase, very_long_words);
    tcase_add_test(tcase, sizes);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
