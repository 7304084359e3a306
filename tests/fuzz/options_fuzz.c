/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fuzzes the option parser: the input is the content of HEDDLE_OPTIONS and, split at blanks, an argument
 * vector. Accepted values must be in their range.
 */
#include <stdio.h>
#include <string.h>

#include "base/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static long number, count;
static size_t bytes;
static const char *text;
static bool flag;

static bool take_word(const char *word)
{
    return strcmp(word, "word") == 0;
}
static base_option_word_fn take_words = take_word;

static const struct base_option table[] = {
    {"+vp", BASE_OPTION_INT, &number, 1, 1000000, "N", "a number"},
    {"+stacksize", BASE_OPTION_SIZE, &bytes, 16384, 1l << 40, "SIZE", "a size"},
    {"+private", BASE_OPTION_STRING, &text, 0, 0, "LIBS", "a text"},
    {"+flag", BASE_OPTION_FLAG, &flag, 0, 0, NULL, "a flag"},
    {"+list", BASE_OPTION_LIST, &take_words, 0, 0, "word", "a list"},
    {"+old", BASE_OPTION_GONE, NULL, 0, 0, NULL, "it is +list now"},
    {"+v", BASE_OPTION_COUNT, &count, 0, 0, NULL, "a count"},
};

static void check_values(bool is_right, const char *error)
{
    if ((number != 0 && (number < 1 || number > 1000000)) ||
        (bytes != 0 && (bytes < 16384 || bytes > 1ul << 40)) || (!is_right && strlen(error) == 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1), *words = malloc(size + 1), *save = NULL, *argv[66] = {"program"};
    const char *error = "";
    bool is_right;
    int argc = 1, old_argc;

    memcpy(copy, data, size);
    copy[size] = '\0';
    memcpy(words, copy, size + 1);
    number = count = 0;
    bytes = 0;
    is_right = base_options_parse_string(table, (int)BASE_COUNT(table), copy, &error);
    check_values(is_right, error);
    for (char *word = strtok_r(words, " ", &save); word && argc < 65; word = strtok_r(NULL, " ", &save))
        argv[argc++] = word;
    old_argc = argc;
    error = "";
    is_right = base_options_parse_argv(table, (int)BASE_COUNT(table), &argc, argv, &error);
    check_values(is_right, error);
    if (is_right && (argc < 1 || argc > old_argc || argv[argc]))
        abort();
    free(copy);
    free(words);
    return 0;
}
