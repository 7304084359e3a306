/* SPDX-License-Identifier: BSD-3-Clause
 *
 * options.h: the options that begin with '+', as one table.
 *
 * They come from the environment variable HEDDLE_OPTIONS (mpirun sets it) and from the command line, which
 * wins. Those of the command line are taken out of argv. A value is the next word, or stands behind a '='
 * (+vp 64, +vp=64). An argument "+-" ends ours: what follows is the program's.
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
    BASE_OPTION_TOPIC,  /* the next word if there is one, else ""; const char *. For options that stop the
                           program */
};

struct base_option {
    const char *name; /* with its '+' */
    enum base_option_kind kind;
    void *value;          /* where it goes; holds the default before parsing */
    long min;             /* INT and SIZE: least value */
    long max;             /* INT and SIZE: greatest value */
    const char *arg_name; /* for the help: "N" */
    const char *help;     /* one sentence */
};

/* Parses one string of options (blanks between them) or an argument vector from argv[1] on, from which they
 * are removed. false: *error_out (static storage) says what is wrong, with the nearest valid option or the
 * valid range. */
bool base_options_parse_string(const struct base_option *table, int n_options, const char *text,
                               const char **error_out) BASE_MUST_CHECK;
bool base_options_parse_argv(const struct base_option *table, int n_options, int *argc, char **argv,
                             const char **error_out) BASE_MUST_CHECK;

/* Prints the table: what +help shows and docs/options.md holds. */
void base_options_print(const struct base_option *table, int n_options);

/* Reads a number with an optional factor K, M or G (powers of 1024). false: not a number, or too large. */
bool base_parse_size(const char *text, size_t *value_out) BASE_MUST_CHECK;

#endif
