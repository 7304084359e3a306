/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rebind_getopt.c: getopt, getopt_long and getopt_long_only with GNU semantics and per-rank state.
 *
 * libc has no public form with the state as an argument, so this is a separate implementation;
 * tests/unit/image_getopt_test.c compares it with libc's on random arguments.
 *
 * Permutation: while scanning, argv[first_nonopt .. last_nonopt) are skipped non-options; argv[last_nonopt
 * .. optind) are options handled since. Before the scan continues, the two ranges are swapped.
 */
#include "image/libc/rebind.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

/* Arguments of one call, passed as one. */
struct scan {
    int argc;
    char **argv;
    const char *optstring;         /* without the leading '+' or '-' */
    const struct option *longopts; /* NULL: none */
    int *longind;                  /* NULL: not wanted */
    bool is_long_only;
    bool is_silent; /* suppress messages */
    struct image_getopt *state;
};

static bool is_nonoption(const char *arg)
{
    return arg[0] != '-' || arg[1] == '\0';
}

/* The return value for a missing argument. */
static int missing_argument(const struct scan *scan)
{
    return scan->optstring[0] == ':' ? ':' : '?';
}

static void reverse(char **lo, char **hi)
{
    while (lo < hi) {
        char *swap = *lo;

        *lo++ = *--hi;
        *hi = swap;
    }
}

/* Swaps the skipped arguments and the options after them. */
static void exchange(char **argv, struct image_getopt *state)
{
    int n_options = state->optind - state->last_nonopt;

    reverse(argv + state->first_nonopt, argv + state->last_nonopt);
    reverse(argv + state->last_nonopt, argv + state->optind);
    reverse(argv + state->first_nonopt, argv + state->optind);
    state->first_nonopt += n_options;
    state->last_nonopt = state->optind;
}

/* ---- Long options ---- */

/* The option with this name or unique prefix; *is_ambiguous_out if there are several. */
static const struct option *find_long(const struct scan *scan, const char *name, size_t len,
                                      bool *is_ambiguous_out)
{
    const struct option *found = NULL;

    *is_ambiguous_out = false;
    for (const struct option *o = scan->longopts; o->name; o++)
        if (strncmp(o->name, name, len) == 0 && o->name[len] == '\0')
            return o;
    for (const struct option *o = scan->longopts; o->name; o++) {
        if (strncmp(o->name, name, len) != 0)
            continue;
        if (!found)
            found = o;
        else if (scan->is_long_only || found->has_arg != o->has_arg || found->flag != o->flag ||
                 found->val != o->val)
            *is_ambiguous_out = true;
    }
    return found;
}

static void say_ambiguous(const struct scan *scan, const char *prefix, const char *text, size_t len)
{
    flockfile(stderr);
    fprintf(stderr, "%s: option '%s%s' is ambiguous; possibilities:", scan->argv[0], prefix, text);
    for (const struct option *o = scan->longopts; o->name; o++)
        if (strncmp(o->name, text, len) == 0)
            fprintf(stderr, " '%s%s'", prefix, o->name);
    fprintf(stderr, "\n");
    funlockfile(stderr);
}

/* Handles state->next_char as a long option. -1: it is not one (only with is_long_only). */
static int take_long(struct scan *scan, const char *prefix, bool is_long_only)
{
    struct image_getopt *state = scan->state;
    char *text = state->next_char;
    size_t len = strcspn(text, "=");
    bool is_ambiguous;
    struct scan as = *scan;
    const struct option *option;

    as.is_long_only = is_long_only;
    option = find_long(&as, text, len, &is_ambiguous);
    if (is_ambiguous) {
        if (!scan->is_silent)
            say_ambiguous(scan, prefix, text, len);
        state->next_char += strlen(text);
        state->optind++;
        state->optopt = 0;
        return '?';
    }
    if (!option) {
        if (is_long_only && scan->argv[state->optind][1] != '-' && strchr(scan->optstring, text[0]))
            return -1;
        if (!scan->is_silent)
            fprintf(stderr, "%s: unrecognized option '%s%s'\n", scan->argv[0], prefix, text);
        state->next_char = NULL;
        state->optind++;
        state->optopt = 0;
        return '?';
    }
    state->optind++;
    state->next_char = NULL;
    if (text[len] == '=') {
        if (option->has_arg == no_argument) {
            if (!scan->is_silent)
                fprintf(stderr, "%s: option '%s%s' doesn't allow an argument\n", scan->argv[0], prefix,
                        option->name);
            state->optopt = option->val;
            return '?';
        }
        state->optarg = text + len + 1;
    } else if (option->has_arg == required_argument) {
        if (state->optind >= scan->argc) {
            if (!scan->is_silent)
                fprintf(stderr, "%s: option '%s%s' requires an argument\n", scan->argv[0], prefix,
                        option->name);
            state->optopt = option->val;
            return missing_argument(scan);
        }
        state->optarg = scan->argv[state->optind++];
    }
    if (scan->longind)
        *scan->longind = (int)(option - scan->longopts);
    if (option->flag) {
        *option->flag = option->val;
        return 0;
    }
    return option->val;
}

/* ---- Short options ---- */

static int say_missing(const struct scan *scan, int c)
{
    if (!scan->is_silent)
        fprintf(stderr, "%s: option requires an argument -- '%c'\n", scan->argv[0], c);
    scan->state->optopt = c;
    return missing_argument(scan);
}

/* "W;" in optstring: "-W name" is the long option name. */
static int take_w(struct scan *scan, int c)
{
    struct image_getopt *state = scan->state;

    if (*state->next_char == '\0') {
        if (state->optind == scan->argc)
            return say_missing(scan, c);
        state->next_char = scan->argv[state->optind];
    }
    state->optarg = NULL;
    return take_long(scan, "-W ", false);
}

static int take_short(struct scan *scan)
{
    struct image_getopt *state = scan->state;
    int c = (unsigned char)*state->next_char++;
    const char *spec = strchr(scan->optstring, c);

    if (*state->next_char == '\0')
        state->optind++;
    if (!spec || c == ':' || c == ';') {
        if (!scan->is_silent)
            fprintf(stderr, "%s: invalid option -- '%c'\n", scan->argv[0], c);
        state->optopt = c;
        return '?';
    }
    if (spec[0] == 'W' && spec[1] == ';' && scan->longopts)
        return take_w(scan, c);
    if (spec[1] != ':')
        return c;
    if (*state->next_char != '\0') { /* the rest of this argument */
        state->optarg = state->next_char;
        state->optind++;
    } else if (spec[2] == ':') { /* optional and absent */
        state->optarg = NULL;
    } else if (state->optind == scan->argc) {
        c = say_missing(scan, c);
    } else {
        state->optarg = scan->argv[state->optind++];
    }
    state->next_char = NULL;
    return c;
}

/* ---- The scan ---- */

static void start(struct image_getopt *state, const char *optstring, bool is_posix)
{
    if (state->optind == 0)
        state->optind = 1;
    state->first_nonopt = state->last_nonopt = state->optind;
    state->next_char = NULL;
    if (optstring[0] == '-')
        state->ordering = IMAGE_GETOPT_RETURN_IN_ORDER;
    else if (optstring[0] == '+' || is_posix || getenv("POSIXLY_CORRECT"))
        state->ordering = IMAGE_GETOPT_REQUIRE_ORDER;
    else
        state->ordering = IMAGE_GETOPT_PERMUTE;
    state->is_initialized = true;
}

/* Advances to the next argument that is an option. Returns false if there is none; *result_out is then
 * getopt's value. */
static bool next_argument(struct scan *scan, int *result_out)
{
    struct image_getopt *state = scan->state;
    char **argv = scan->argv;

    /* The program may have decreased optind. */
    if (state->last_nonopt > state->optind)
        state->last_nonopt = state->optind;
    if (state->first_nonopt > state->optind)
        state->first_nonopt = state->optind;
    if (state->ordering == IMAGE_GETOPT_PERMUTE) {
        if (state->first_nonopt != state->last_nonopt && state->last_nonopt != state->optind)
            exchange(argv, state);
        else if (state->last_nonopt != state->optind)
            state->first_nonopt = state->optind;
        while (state->optind < scan->argc && is_nonoption(argv[state->optind]))
            state->optind++;
        state->last_nonopt = state->optind;
    }
    if (state->optind != scan->argc && strcmp(argv[state->optind], "--") == 0) {
        state->optind++;
        if (state->first_nonopt != state->last_nonopt && state->last_nonopt != state->optind)
            exchange(argv, state);
        else if (state->first_nonopt == state->last_nonopt)
            state->first_nonopt = state->optind;
        state->last_nonopt = scan->argc;
        state->optind = scan->argc;
    }
    *result_out = -1;
    if (state->optind == scan->argc) {
        if (state->first_nonopt != state->last_nonopt)
            state->optind = state->first_nonopt;
        return false;
    }
    if (!is_nonoption(argv[state->optind]))
        return true;
    if (state->ordering != IMAGE_GETOPT_REQUIRE_ORDER) {
        state->optarg = argv[state->optind++];
        *result_out = 1;
    }
    return false;
}

static int scan_one(struct scan *scan)
{
    struct image_getopt *state = scan->state;
    char *arg;
    int result;

    if (state->next_char && *state->next_char)
        return take_short(scan);
    if (!next_argument(scan, &result))
        return result;
    arg = scan->argv[state->optind];
    if (scan->longopts && arg[1] == '-') {
        state->next_char = arg + 2;
        return take_long(scan, "--", scan->is_long_only);
    }
    state->next_char = arg + 1;
    if (scan->longopts && scan->is_long_only && (arg[2] || !strchr(scan->optstring, arg[1]))) {
        result = take_long(scan, "-", true);
        if (result != -1)
            return result;
    }
    return take_short(scan);
}

int image_getopt_r(int argc, char *const *argv, const char *optstring, const struct option *longopts,
                   int *longind, unsigned flags, struct image_getopt *state)
{
    struct scan scan = {
        .argc = argc,
        .argv = (char **)argv,
        .optstring = optstring + (optstring[0] == '-' || optstring[0] == '+'),
        .longopts = longopts,
        .longind = longind,
        .is_long_only = flags & IMAGE_GETOPT_LONG_ONLY,
        .state = state,
    };

    if (argc < 1)
        return -1;
    state->optarg = NULL;
    if (state->optind == 0 || !state->is_initialized)
        start(state, optstring, flags & IMAGE_GETOPT_POSIX);
    scan.is_silent = !state->opterr || scan.optstring[0] == ':';
    return scan_one(&scan);
}

/* ---- Per-rank entry points ---- */

/* State for threads that run no rank: libc's state is inaccessible, and these threads do not share it with
 * libc. */
static struct image_getopt process_state = {.optind = 1, .opterr = 1, .optopt = '?'};

/* Runs the scan on the program's own variables. */
static int scan_current(int argc, char *const *argv, const char *optstring, const struct option *longopts,
                        int *longind, unsigned flags)
{
    struct image_libc *libc = image_libc_current();
    struct image_getopt *state = libc ? &libc->getopt : &process_state;
    int result;

    if (!libc)
        return image_getopt_r(argc, argv, optstring, longopts, longind, flags, state);
    state->optind = *(int *)libc->variables[IMAGE_OPTIND];
    state->opterr = *(int *)libc->variables[IMAGE_OPTERR];
    result = image_getopt_r(argc, argv, optstring, longopts, longind, flags, state);
    *(int *)libc->variables[IMAGE_OPTIND] = state->optind;
    *(int *)libc->variables[IMAGE_OPTOPT] = state->optopt;
    *(char **)libc->variables[IMAGE_OPTARG] = state->optarg;
    return result;
}

static int image_libc_getopt(int argc, char *const *argv, const char *optstring)
{
    return scan_current(argc, argv, optstring, NULL, NULL, 0);
}
IMAGE_REBINDS(image_libc_getopt, "getopt");

static int image_libc_posix_getopt(int argc, char *const *argv, const char *optstring)
{
    return scan_current(argc, argv, optstring, NULL, NULL, IMAGE_GETOPT_POSIX);
}
IMAGE_REBINDS(image_libc_posix_getopt, "__posix_getopt");

static int image_libc_getopt_long(int argc, char *const *argv, const char *optstring,
                                  const struct option *longopts, int *longind)
{
    return scan_current(argc, argv, optstring, longopts, longind, 0);
}
IMAGE_REBINDS(image_libc_getopt_long, "getopt_long");

static int image_libc_getopt_long_only(int argc, char *const *argv, const char *optstring,
                                       const struct option *longopts, int *longind)
{
    return scan_current(argc, argv, optstring, longopts, longind, IMAGE_GETOPT_LONG_ONLY);
}
IMAGE_REBINDS(image_libc_getopt_long_only, "getopt_long_only");

IMAGE_REBINDS_VARIABLE(IMAGE_OPTARG, "optarg");
IMAGE_REBINDS_VARIABLE(IMAGE_OPTIND, "optind");
IMAGE_REBINDS_VARIABLE(IMAGE_OPTERR, "opterr");
IMAGE_REBINDS_VARIABLE(IMAGE_OPTOPT, "optopt");
