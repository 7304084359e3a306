/* SPDX-License-Identifier: BSD-3-Clause
 *
 * options.c: parsing and printing the option table.
 */
#include "base/options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

/* Longer names are truncated; no option's name is half as long. */
#define OPTION_NAME_MAX 64

/* Words that differ more are not similar. */
#define SPELLING_DISTANCE_MAX 2

static char options_error[512];

bool base_parse_size(const char *text, size_t *value_out)
{
    static const struct {
        char letter;
        int shift;
    } factors[] = {{'K', 10}, {'k', 10}, {'M', 20}, {'m', 20}, {'G', 30}, {'g', 30}};
    char *end;
    unsigned long long number;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    number = strtoull(text, &end, 10);
    if (errno)
        return false;
    for (size_t i = 0; i < BASE_COUNT(factors); i++)
        if (*end == factors[i].letter) {
            if (number > ULLONG_MAX >> factors[i].shift)
                return false;
            number <<= factors[i].shift;
            end++;
            break;
        }
    if (*end || number > SIZE_MAX)
        return false;
    *value_out = (size_t)number;
    return true;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Damerau-Levenshtein distance of words shorter than OPTION_NAME_MAX: letters to change, insert, delete or swap with
 * their neighbour, each letter moved once. The table of distances of all beginnings has three rows at a time. */
static int word_distance(const char *a, const char *b)
{
    int len_a = (int)strlen(a), len_b = (int)strlen(b);
    int rows[3][OPTION_NAME_MAX + 1];

    for (int j = 0; j <= len_b; j++)
        rows[0][j] = j;
    for (int i = 1; i <= len_a; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= len_b; j++) {
            row[j] = smaller(above[j - 1] + (a[i - 1] != b[j - 1]), smaller(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = smaller(row[j], above2[j - 2] + 1);
        }
    }
    return rows[len_a % 3][len_b];
}

int base_spelling_distance(const char *word, const char *name)
{
    int letters = (int)strlen(word + strspn(word, "+-")), distance;

    if (strlen(word) >= OPTION_NAME_MAX || strlen(name) >= OPTION_NAME_MAX)
        return INT_MAX;
    distance = word_distance(word, name);
    return distance <= SPELLING_DISTANCE_MAX && 2 * distance <= letters ? distance : INT_MAX;
}

static const struct base_option *find_option(const struct base_option *table, int n_options, const char *name)
{
    for (int i = 0; i < n_options; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* The beginning of a name is nearest to it. */
static int option_distance(const char *word, const char *name)
{
    return word[0] == '+' && word[1] && strncmp(word, name, strlen(word)) == 0
               ? 0
               : base_spelling_distance(word, name);
}

static bool unknown_option(const struct base_option *table, int n_options, const char *name)
{
    const struct base_option *nearest = NULL;
    int distance = INT_MAX;

    for (int i = 0; i < n_options; i++)
        if (table[i].kind != BASE_OPTION_GONE && option_distance(name, table[i].name) < distance) {
            nearest = &table[i];
            distance = option_distance(name, nearest->name);
        }
    snprintf(
        options_error, sizeof options_error,
        "unknown option %s%s%s (+help lists all options; put program arguments that begin with + after +-)",
        name, nearest ? "; the nearest is " : "", nearest ? nearest->name : "");
    return false;
}

/* Gives each word of a list to the option's function. */
static bool store_list(const struct base_option *option, const char *text)
{
    const base_option_word_fn *take = option->value;

    for (size_t len;; text += len + 1) {
        char *word;
        bool is_taken;
        len = strcspn(text, ",");
        word = base_malloc(len + 1, "options");
        memcpy(word, text, len);
        word[len] = '\0';
        is_taken = (*take)(word);
        if (!is_taken)
            snprintf(options_error, sizeof options_error, "%s %s: expected words of %s, separated by commas",
                     option->name, word, option->arg_name);
        free(word);
        if (!is_taken)
            return false;
        if (!text[len])
            return true;
    }
}

/* Stores the value of an option. Returns false if the value is malformed or out of range. */
static bool store_value(const struct base_option *option, const char *text)
{
    char *end;
    long number;
    size_t size;

    switch (option->kind) {
    case BASE_OPTION_INT:
        errno = 0;
        number = strtol(text, &end, 10);
        if (end == text || *end || errno || number < option->min || number > option->max)
            break;
        *(long *)option->value = number;
        return true;
    case BASE_OPTION_SIZE:
        if (!base_parse_size(text, &size) || size < (size_t)option->min || size > (size_t)option->max)
            break;
        *(size_t *)option->value = size;
        return true;
    case BASE_OPTION_STRING:
        *(const char **)option->value = text;
        return true;
    case BASE_OPTION_LIST:
        return store_list(option, text);
    case BASE_OPTION_FLAG:
    case BASE_OPTION_COUNT:
    case BASE_OPTION_GONE:
    case BASE_OPTION_TOPIC:
        break;
    }
    snprintf(options_error, sizeof options_error, "%s %s: expected %s from %ld to %ld%s", option->name, text,
             option->kind == BASE_OPTION_INT ? "a number" : "a size", option->min, option->max,
             option->kind == BASE_OPTION_INT ? "" : " bytes, such as 512K or 8M");
    return false;
}

/* Stores a topic; *is_used_out: the word is one. */
static bool store_topic(const struct base_option *option, const char *word, bool is_inline, bool *is_used_out)
{
    size_t len = word ? strlen(word) : 0;

    *is_used_out = false;
    for (const char *topic = option->arg_name + 1; len && *topic; topic += strcspn(topic, "|]") + 1)
        *is_used_out = *is_used_out || (strcspn(topic, "|]") == len && strncmp(topic, word, len) == 0);
    if (is_inline && !*is_used_out) {
        snprintf(options_error, sizeof options_error, "%s=%s: expected one of %s", option->name, word,
                 option->arg_name);
        return false;
    }
    *(const char **)option->value = *is_used_out ? word : "";
    return true;
}

bool base_options_take(const struct base_option *table, int n_options, const char *word, const char *next,
                       int *n_used_out, const char **error_out)
{
    const char *equals = strchr(word, '=');
    const char *value = equals ? equals + 1 : next;
    const struct base_option *option;
    char name[OPTION_NAME_MAX];
    bool is_used;

    *error_out = options_error;
    snprintf(name, sizeof name, "%.*s",
             equals ? (int)base_min_u64((uint64_t)(equals - word), sizeof name) : INT_MAX, word);
    option = find_option(table, n_options, name);
    if (!option)
        return unknown_option(table, n_options, name);
    if (option->kind == BASE_OPTION_GONE) {
        snprintf(options_error, sizeof options_error, "unknown option %s: %s", name, option->help);
        return false;
    }
    *n_used_out = 1;
    if (equals && (option->kind == BASE_OPTION_FLAG || option->kind == BASE_OPTION_COUNT)) {
        snprintf(options_error, sizeof options_error, "%s takes no value", name);
        return false;
    }
    if (option->kind == BASE_OPTION_FLAG) {
        *(bool *)option->value = true;
        return true;
    }
    if (option->kind == BASE_OPTION_COUNT) {
        ++*(long *)option->value;
        return true;
    }
    if (option->kind == BASE_OPTION_TOPIC) {
        if (!store_topic(option, value, equals, &is_used))
            return false;
        *n_used_out = is_used && !equals ? 2 : 1;
        return true;
    }
    if (!value) {
        snprintf(options_error, sizeof options_error, "%s needs a value: %s %s", name, name,
                 option->arg_name);
        return false;
    }
    *n_used_out = equals ? 1 : 2;
    return store_value(option, value);
}

/* String options point into the words they were read from, so the words are kept; listed, so that leak
 * checkers find them. */
struct kept_words {
    struct kept_words *next;
    char text[];
};
static struct kept_words *kept_words;

bool base_options_parse_string(const struct base_option *table, int n_options, const char *text,
                               const char **error_out)
{
    size_t size_bytes = strlen(text) + 1;
    struct kept_words *words = base_malloc(sizeof *words + size_bytes, "options");
    char *save = NULL;
    char *word;

    words->next = kept_words;
    kept_words = words;
    memcpy(words->text, text, size_bytes);
    word = strtok_r(words->text, " \t\n", &save);
    while (word) {
        char *next = strtok_r(NULL, " \t\n", &save);
        int n_used;
        if (!base_options_take(table, n_options, word, next, &n_used, error_out))
            return false;
        word = n_used == 2 ? strtok_r(NULL, " \t\n", &save) : next;
    }
    return true;
}

bool base_options_parse_argv(const struct base_option *table, int n_options, int *argc, char **argv,
                             const char **error_out)
{
    int n_kept = *argc > 0 ? 1 : 0;
    int i = n_kept;

    while (i < *argc) {
        int n_used;
        if (strcmp(argv[i], "+-") == 0) {
            i++;
            break;
        }
        if (argv[i][0] != '+' || argv[i][1] == '\0') {
            argv[n_kept++] = argv[i++];
            continue;
        }
        if (!base_options_take(table, n_options, argv[i], i + 1 < *argc ? argv[i + 1] : NULL, &n_used,
                               error_out))
            return false;
        i += n_used;
    }
    while (i < *argc)
        argv[n_kept++] = argv[i++];
    argv[n_kept] = NULL;
    *argc = n_kept;
    return true;
}

void base_options_print(const struct base_option *table, int n_options)
{
    for (int i = 0; i < n_options; i++) {
        char left[64];
        if (table[i].kind == BASE_OPTION_GONE)
            continue;
        snprintf(left, sizeof left, "%s%s%s", table[i].name, table[i].arg_name ? " " : "",
                 table[i].arg_name ? table[i].arg_name : "");
        printf("  %-20s %s\n", left, table[i].help);
    }
}
