/* SPDX-License-Identifier: BSD-3-Clause
 *
 * settings.h: the settings of the command line and HEDDLE_OPTIONS.
 */
#ifndef AMPI_OPTIONS_H
#define AMPI_OPTIONS_H

#include "base/base.h"

struct ampi_options {
    long n_ranks;             /* +vp; 0: unspecified */
    long n_pes;               /* +p; 0: unspecified */
    size_t stack_bytes;       /* +stacksize; 0: as `ulimit -s` */
    long verbosity;           /* +v */
    const char *private_libs; /* +private; NULL: decided by their folders */
    const char *check;        /* +check; NULL: nothing */
    bool check_usage;         /* +check usage */
    bool no_relro;            /* +norelro */
    bool progress_thread;     /* +progress-thread */
    long stuck_s;             /* +stuck; -1: unspecified */
    const char *aslr;         /* +aslr; NULL: the kernel's setting */
    const char *help_topic;   /* +help; NULL: unspecified */
    const char *coll;         /* +coll; NULL: the built-in selection */
    const char *gpus;         /* +gpus; NULL: block */
    const char *gpu_resident; /* +gpu-service; NULL: unspecified */
    const char *gpu_streams;  /* +gpu-streams; NULL: unspecified */
    const char *gpu_waits;    /* +gpu-waits; NULL: unspecified */
    const char *gpu_graphs;   /* +gpu-graphs; NULL: unspecified */
    const char *ucx;          /* +ucx; NULL: the one that the machine was built with */
};
extern struct ampi_options ampi_options;

/* Reads HEDDLE_OPTIONS and removes our options from argv (argc NULL: only the environment). If one is
 * wrong, ends the process with a message and code 2; after +help, prints the help and ends it with code 0.
 * Called once per process. */
void ampi_options_read(int *argc, char **argv);

#endif
