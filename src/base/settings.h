/* SPDX-License-Identifier: BSD-3-Clause
 *
 * settings.h: the library's options that begin with '+', and their values. One table serves the library, which
 * reads HEDDLE_OPTIONS and argv, and mpirun, which passes the options in front of the program on.
 */
#ifndef BASE_SETTINGS_H
#define BASE_SETTINGS_H

#include "base/options.h"

/* Upper limit of ranks on a command line; job_memory.c finds out later how many fit. */
#define BASE_RANKS_MAX 1000000

struct base_settings {
    long n_ranks;             /* +vp; 0: unspecified */
    long n_pes;               /* +p; 0: unspecified */
    size_t stack_bytes;       /* +stacksize; 0: as `ulimit -s` */
    long verbosity;           /* +v */
    const char *private_libs; /* +private; NULL: decided by their folders */
    bool check_usage;         /* +check usage */
    bool check_buffers;       /* +check buffers; then check_usage, too */
    const char *schedule;     /* +schedule; NULL: unspecified */
    bool check_leaks;         /* +check leaks */
    const char *stats;        /* +stats: "table" and files, separated by commas; NULL: none */
    const char *trace;        /* +trace: a file, until ampi_options_read also ",SIZE"; NULL: none */
    size_t trace_bytes;       /* +trace FILE,SIZE; 0: unspecified */
    bool progress_thread;     /* +progress-thread */
    long stuck_s;             /* +check stuck:S; -1: unspecified */
    const char *aslr;         /* +aslr; NULL: the kernel's setting */
    const char *getpid;       /* +getpid; NULL: rank */
    const char *help_topic;   /* +help; "": without a topic, NULL: unspecified */
    const char *gpus;         /* +gpus; NULL: block */
    long gpu_service_us;      /* +gpu service:US; 0: no-service, -1: unspecified */
    bool gpu_no_streams;      /* +gpu no-streams */
    bool gpu_no_waits;        /* +gpu no-waits */
    bool gpu_no_graphs;       /* +gpu no-graphs */
    const char *work;         /* +work: gpu, cpu or both; NULL: unspecified */
    size_t work_bytes;        /* +work memory:SIZE; 0: unspecified */
    bool work_trace;          /* +work trace */
    bool work_is_apart;       /* +work no-combining */
    bool work_is_copied;      /* +work no-reuse */
    const char *nccl;         /* +gpu nccl:PATH, or "off"; NULL: unspecified */
    const char *ucx;          /* +ucx; NULL: the one that the machine was built with */
};
extern struct base_settings base_settings;

/* The table; its options store their values in base_settings. */
extern const struct base_option base_settings_table[];
extern const int base_settings_count;

/* Prints the answer to +help without a topic. */
void base_settings_print_help(void);

#endif
