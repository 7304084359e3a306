/* SPDX-License-Identifier: BSD-3-Clause
 *
 * options.h: the options that begin with '+', as one table.
 *
 * They come from the environment variable HEDDLE_OPTIONS (set by mpirun) and from the command line, which
 * takes precedence. Options of the command line are removed from argv. A value is the next word or follows
 * a '=' (+vp 64, +vp=64). The argument "+-" ends the options of Heddle; the program's arguments follow.
 */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include "base/base.h"

enum base_option_kind {
    BASE_OPTION_INT,    /* +vp 64; long */
    BASE_OPTION_SIZE,   /* +stacksize 64K: bytes, with K, M or G; size_t */
    BASE_OPTION_STRING, /* const char * */
    BASE_OPTION_FLAG,   /* no value; bool */
    BASE_OPTION_COUNT,  /* no value, may be repeated; long */
    BASE_OPTION_LIST,   /* words separated by commas; value: address of a base_option_word_fn */
    BASE_OPTION_GONE,   /* an error; help names what to use instead */
    BASE_OPTION_TOPIC,  /* the next word if arg_name lists it ("[a|b]"), else ""; const char * */
};

/* Takes one word of a list, which is freed afterwards. Returns false if it is not valid. */
typedef bool (*base_option_word_fn)(const char *word);

struct base_option {
    const char *name; /* with its leading '+' */
    enum base_option_kind kind;
    void *value;          /* destination; holds the default before parsing. NULL: GONE */
    long min;             /* INT and SIZE: minimum */
    long max;             /* INT and SIZE: maximum */
    const char *arg_name; /* placeholder in the help: "N" */
    const char *help;     /* one sentence */
};

/* Parses one option: "+name" and the next word (NULL: none), or "+name=value". *n_used_out: the number of words
 * consumed, 1 or 2. On failure returns false, and *error_out (static storage) names a similar option or the valid
 * range. */
bool base_options_take(const struct base_option *table, int n_options, const char *word, const char *next,
                       int *n_used_out, const char **error_out) BASE_MUST_CHECK;

/* Parses a string of options separated by blanks, or an argument vector from argv[1] on, from which the
 * options are removed. Errors as above. */
bool base_options_parse_string(const struct base_option *table, int n_options, const char *text,
                               const char **error_out) BASE_MUST_CHECK;
bool base_options_parse_argv(const struct base_option *table, int n_options, int *argc, char **argv,
                             const char **error_out) BASE_MUST_CHECK;

/* Prints the table: the output of +help and the content of docs/options.md. */
void base_options_print(const struct base_option *table, int n_options);

/* Number of letters to change, insert, delete or swap to get from a word to an option's name; INT_MAX: more than two,
 * or more than half of the word's letters, so that the name is not suggested. */
int base_spelling_distance(const char *word, const char *name);

/* Parses a number with an optional suffix K, M or G (powers of 1024). Returns false if it is not a number
 * or too large. */
bool base_parse_size(const char *text, size_t *value_out) BASE_MUST_CHECK;

#endif
