/* SPDX-License-Identifier: BSD-3-Clause
 *
 * settings.h: what the command line and HEDDLE_OPTIONS say.
 */
#ifndef AMPI_OPTIONS_H
#define AMPI_OPTIONS_H

#include "base/base.h"

struct ampi_options {
    long n_ranks;             /* +vp; 0: not given */
    long n_pes;               /* +p; 0: not given */
    size_t stack_bytes;       /* +stacksize; 0: as `ulimit -s` */
    long verbosity;           /* +v */
    const char *private_libs; /* +private; NULL: by their folders */
    const char *check;        /* +check; NULL: nothing */
    bool check_usage;         /* +check usage */
    bool no_relro;            /* +norelro */
    long stuck_s;             /* +stuck; -1: not given */
    const char *aslr;         /* +aslr; NULL: as the kernel does */
    const char *help_topic;   /* +help; NULL: not given */
    const char *coll;         /* +coll; NULL: as selected */
    const char *gpus;         /* +gpus; NULL: block */
    const char *gpu_service;  /* +gpu-service; NULL: not given */
    const char *gpu_streams;  /* +gpu-streams; NULL: not given */
    const char *gpu_waits;    /* +gpu-waits; NULL: not given */
    const char *gpu_graphs;   /* +gpu-graphs; NULL: not given */
    const char *ucx;          /* +ucx; NULL: the one that the machine was built with */
};
extern struct ampi_options ampi_options;

/* Reads HEDDLE_OPTIONS and takes ours out of argv (argc NULL: the environment alone). Ends the process with a
 * message, code 2, when one is wrong; prints the help and ends it with code 0 if that was asked for. Called
 * once per process. */
void ampi_options_read(int *argc, char **argv);

#endif
