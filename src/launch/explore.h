/* SPDX-License-Identifier: BSD-3-Clause
 *
 * explore.h: many runs of one program, for --explore N (explore.c) and --explore all (explore_all.c).
 */
#ifndef LAUNCH_EXPLORE_H
#define LAUNCH_EXPLORE_H

#include "launch/launch.h"

struct run {
    int number;     /* in the order of starts, from 1; the usual one: 0 */
    char *schedule; /* the value of +schedule; malloc'ed; NULL: the usual order */
    pid_t pid;      /* 0: it has ended, or there is none */
    int exit_code;  /* as a shell gives it */
    int output;     /* a memory file with its stdout ... */
    int errors;     /* ... its stderr ... */
    int log;        /* ... and its choices (base/choices_log.h); -1: none */
};

struct exploration {
    const struct launch_command *command;
    char **argv;       /* of this mpirun */
    struct run usual;  /* the run to compare with */
    bool has_output;   /* its output is the same each time */
    double limit_s;    /* of a run; 0: the command's own */
    struct run failed; /* the failed run with the smallest number; number 0: none */
};

/* Starts a run; takes the schedule over. */
void launch_explore_start(const struct exploration *e, struct run *run, int number, char *schedule);
/* Waits until one of the runs ends. */
struct run *launch_explore_wait(struct run *runs, int num);
void launch_explore_drop(const struct run *run);
/* Runs it twice for comparison. Exits if it fails. */
void launch_explore_usual(struct exploration *e, const char *schedule);
/* Prints the first lines of its stderr. */
void launch_explore_show_errors(const struct run *run);
bool launch_explore_has_failed(const struct exploration *e, const struct run *run);
/* Prints how e->failed ends, and the command that repeats it. what: which run it is. */
void launch_explore_report(const struct exploration *e, const char *what);

/* --explore all; exits. */
_Noreturn void launch_explore_all(struct exploration *e);

#endif
