/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpirun: reads the command line (args.c, placement.c), examines the program (target_program.c, elf.c) and runs it
 * (run.c). mpirun does not start ranks: they are user-level threads that the library creates inside the
 * program. The environment variable HEDDLE_OPTIONS tells the library their number. Another executable
 * starts several processes on this node (run_procs.c, procs/), another launcher those on several nodes
 * (handover.c, hosts.c).
 *
 * mpirun does not use MPI, and is not linked with the library.
 */
#ifndef LAUNCH_H
#define LAUNCH_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* Exit codes, following the shells' conventions. */
enum launch_exit {
    LAUNCH_EXIT_USAGE = 2,        /* invalid command line */
    LAUNCH_EXIT_TIMEOUT = 124,    /* --timeout expired */
    LAUNCH_EXIT_CANNOT_RUN = 126, /* the program exists but cannot be run */
    LAUNCH_EXIT_NOT_FOUND = 127,  /* no such program */
};

/* The parsed command line. Strings point into argv or live as long as the process. */
struct launch_command {
    int num_ranks;        /* -n; 0: unspecified */
    const char *dir;      /* -wd, the current folder by now; NULL: unspecified */
    char *rank_options;   /* the library's +options, separated by blanks; NULL: none */
    int ranks_per_node;   /* -N; 0: unspecified */
    int num_procs;        /* --procs; 0: unspecified */
    int num_explored;     /* --explore; 0: run the program once */
    bool explores_all;    /* --explore all */
    int explore_limit;    /* --explore-limit; 0: unspecified */
    double timeout_s;     /* --timeout; 0: none */
    char *hosts;          /* --hosts, malloc'ed; NULL: none */
    const char *hostfile; /* --hostfile; NULL: none */
    char *exported;       /* variables of all programs (-genv, -x VAR), separated by blanks; NULL: none */
    struct launch_variable *own; /* those of this program (-x VAR=VALUE, -env) */
    int num_own;                 /* their number */
    bool is_unbound;             /* --bind-to none */
    bool tags_output;            /* --tag-output */
    bool keeps_going;            /* --keep-going */
    bool is_in_universe;         /* --universe, or implied by the program */
    bool is_universe_implied;    /* then the job may also run without */
    bool is_one_process;         /* --one-process */
    bool shows_calls;            /* --nvtx */
    bool shows_progress;         /* --progress */
    bool debugs;                 /* --debug */
    bool allows_root;            /* --allow-run-as-root */
    bool is_quiet;               /* -q: no warnings */
    bool is_verbose;             /* -v: print the command that is run */
    char **program_argv;         /* the program and its arguments, NULL-terminated */
    char **rest;                 /* the words after a ':', for further programs (programs.c); NULL: none */
    int start_dir;               /* the folder that mpirun was started in; a descriptor */
    struct launch_part *parts;   /* the programs, if there are several; NULL: one */
    int num_parts;               /* their number; 0: one program */
};

/* An environment variable of one program. */
struct launch_variable {
    char *name;   /* its name; malloc'ed */
    char *before; /* its value for other programs, malloc'ed; NULL: not set */
};

/* One of several programs of a job (programs.c). */
struct launch_part {
    int num_ranks;    /* its ranks */
    int num_procs;    /* its processes */
    char *dir;        /* its working folder; malloc'ed */
    char *path;       /* the program's path; malloc'ed */
    char **argv;      /* the program and its arguments, NULL-terminated */
    char **variables; /* its own environment variables, "NAME=VALUE", NULL-terminated */
};

/* Parses argv. --help and --version print and exit; an error is explained and exits with 2. Applies the
 * options that affect this process: the working folder and environment variables. */
void launch_args_read(char **argv, struct launch_command *command_out);

/* Parses the words up to the next ':' for another program of the job: options, then program_argv and rest. */
void launch_args_read_part(char **words, struct launch_command *part_out);

/* Puts a library in front of LD_PRELOAD, on all nodes. option: what needs it, for error messages. Exits if that is impossible. */
void launch_preload(struct launch_command *command, const char *option, const char *file);

/* Runs the command with many schedules, prints the first one that ends differently, and exits (explore.c). argv: of mpirun. */
_Noreturn void launch_explore(const struct launch_command *command, char **argv);

/* The number of ranks requested (-n, or +vp); 0: unspecified. */
int launch_num_ranks(const struct launch_command *command);

/* ---- placement.c: the options of other MPIs that place ranks ---- */

enum launch_placement { LAUNCH_MAP, LAUNCH_RANK, LAUNCH_BIND };

/* Reads a value of --map-by, --rank-by or --bind-to. Exits if it is not valid. */
void launch_placement_read(enum launch_placement kind, const char *option, const char *text,
                           struct launch_command *command);

/* Sets the greatest number of ranks per node. Exits if it is set already. */
void launch_set_ranks_per_node(struct launch_command *command, const char *option, int number);

/* The number of nodes, at most num_nodes, that the ranks need with that many per node. Without -n, sets the number of ranks.
 * Exits if they need more nodes. */
int launch_fit_nodes(struct launch_command *command, int num_nodes);

/* The kind of a file, as far as it matters for starting it. */
enum launch_elf_kind {
    LAUNCH_ELF_NONE,    /* not an ELF file (or a damaged one) */
    LAUNCH_ELF_FOREIGN, /* for another kind of CPU */
    LAUNCH_ELF_STATIC,  /* no dynamic loader: statically linked */
    LAUNCH_ELF_LIBRARY, /* a shared library */
    LAUNCH_ELF_FIXED,   /* dynamic, but not position-independent (ET_EXEC) */
    LAUNCH_ELF_PIE,     /* dynamic and position-independent: can be virtualized */
};

struct launch_elf {
    enum launch_elf_kind kind;
    bool connects;         /* it calls functions that connect jobs (MPI_Comm_connect) */
    char interpreter[256]; /* the dynamic loader it asks for, or "" */
};

/* Reads the ELF headers of the file. False, with errno, if it cannot be read. */
bool launch_elf_read(const char *path, struct launch_elf *elf_out);

enum launch_program_kind {
    LAUNCH_PROGRAM_MPI,     /* uses this library: run it once */
    LAUNCH_PROGRAM_STARTER, /* starts a program that may use the library (a script, a shell, a debugger), or has
                             * it by LD_PRELOAD: run it once */
    LAUNCH_PROGRAM_PLAIN,   /* does not use MPI: run it once per rank */
};

struct launch_program {
    char *path; /* the program's path; malloc'ed */
    enum launch_program_kind kind;
    bool needs_library_path; /* the loader would not find libmpi_abi.so.1 of this installation by itself */
    bool may_run_python;     /* an interpreter, or a command that may start one */
    char *connecting; /* path of this program, or of another one of the job, that connects jobs; NULL: none */
    char *loader;     /* its dynamic loader; malloc'ed */
    bool is_launcher; /* it starts the ranks on other nodes: they cannot report to this process */
};

/* Finds the program of the command and checks that it can run with the requested number of ranks. If not,
 * prints the reason and the remedy, and exits with 126 or 127. */
void launch_program_find(const struct launch_command *command, struct launch_program *program_out);

/* ---- programs.c: several programs in one job ---- */

/* Reads and finds the further programs of the command, if it has any: sets its parts, and numbers of ranks and processes,
 * and what *program says for all of them. Exits if one of them cannot be run. */
void launch_programs_read(struct launch_command *command, struct launch_program *program);

/* ---- variables.c: environment variables from the command line ---- */

/* Appends a word to a list. */
void launch_append(char **list_inout, const char *separator, const char *word, size_t word_len);

/* Sets a variable for all programs, or for this one. Exits if the name is not valid, or if an option of an earlier program sets
 * it to another value for all. */
void launch_variables_set(struct launch_command *command, const char *option, const char *name,
                          size_t name_len, const char *value);
void launch_variables_set_own(struct launch_command *command, const char *option, const char *name,
                              size_t name_len, const char *value);

/* Reads the value of -x, and of -genvlist. */
void launch_variables_export(struct launch_command *command, const char *option, const char *text);
void launch_variables_export_list(struct launch_command *command, const char *option, const char *list);

/* True if the program has its own variable of this name. */
bool launch_variables_are_own(const struct launch_command *command, const char *name);

/* The program's own variables, as "NAME=VALUE", NULL-terminated; all malloc'ed. In the environment of mpirun they have their
 * former values then. */
char **launch_variables_take_own(struct launch_command *command);

/* ---- python.c ---- */

/* Prepares a command that may run a Python interpreter: the interpreter will become the ranks. May set the kind of the
 * program, and the number of processes. */
void launch_python_plan(struct launch_command *command, struct launch_program *program);

/* The number of words of a NULL-terminated list. */
size_t launch_count_words(char **words);

/* Makes a program that was linked elsewhere, with another library of the same ABI, load this one. */
void launch_set_library_path(void);

/* The folder of this installation's libmpi_abi.so.1, or NULL if it is missing. Never freed. */
const char *launch_library_dir(void);

/* Removes the variables that an outer launcher has set for this process from the environment: this is
 * another job. */
void launch_forget_outer(void);

/* Runs the program; returns its exit code if the program does not replace this process. */
int launch_run(struct launch_command *command, const struct launch_program *program);

/* ---- show_progress.c: --progress ---- */

/* Creates the memory, and exports its path in the environment. Returns its descriptor. */
int launch_progress_create(void);
/* Before the job starts. */
void launch_progress_begin(int fd);
/* Shows what the ranks do if it is time; returns the seconds until the next call. */
double launch_progress_show(void);
/* The job has ended, or is left: gives the terminal back. */
void launch_progress_end(void);

/* Replaces this process by gdb, which runs the same command without --debug (debug.c). argv: of mpirun. */
_Noreturn void launch_debug(const struct launch_command *command, char **argv);

/* ---- mpir.c: for debuggers that run mpirun. Without one these do nothing ---- */

bool launch_mpir_is_on(void);
void launch_mpir_set_on(void);
/* In a child, before it becomes the program: stops it there. */
void launch_mpir_trace_me(void);
/* Waits for that stop, and adds the process to the table. */
void launch_mpir_add(pid_t pid, const char *path);
/* All processes are in the table: shows it to the debugger, and lets them go on. */
void launch_mpir_show(void);

/* ---- launch_report.c: detecting whether the program has started ranks ---- */

/* A start report of a program that is linked with the library. */
struct launch_report {
    int proc_id;    /* its number in the job; -1: the job has one process */
    long num_ranks; /* number of ranks it was told; 0: unspecified */
};

/* Opens the socket for start reports, and exports its name in the environment. -1: no reports. */
int launch_report_open(void);
/* The next report, if any. Reports of other users are ignored. */
bool launch_report_next(int fd, struct launch_report *report_out);

/* If the job uses several nodes (--hosts, --hostfile, an allocation), replaces the program by a launcher
 * that starts it there. Exits if there is none. */
void launch_handover_plan(struct launch_command *command, struct launch_program *program);

/* Several processes on this node, or one that can spawn others: replaces this process by mpirun-procs, or ends it with a
 * message. Returns if that is not installed and not needed (--procs 1). reports: from launch_report_open; progress: from
 * launch_progress_create, or -1. */
void launch_procs(const struct launch_command *command, const struct launch_program *program, int reports,
                  int progress);

/* The path of an executable in PATH, malloc'ed; or NULL with errno: ENOENT, or EACCES if such a file exists
 * but is not executable. */
char *launch_search_path(const char *name);

/* Another program that runs for its output. */
struct launch_output {
    FILE *lines; /* its stdout and stderr */
    pid_t pid;   /* its process */
};

/* Starts the program at path without a shell. In its environment, variable is set to 1, and without is
 * missing, unless they are NULL. False: it cannot be started. launch_output_close waits for its end. */
bool launch_output_open(const char *path, char *const argv[], const char *variable, const char *without,
                        struct launch_output *output_out);
void launch_output_close(struct launch_output *output);

/* The path of this program, of at most PATH_MAX bytes. False: /proc is not mounted. */
bool launch_own_path(char *path_out);

/* The path of a file of this installation: the first of places (relative to the folder of mpirun) that
 * exists; malloc'ed, or NULL. */
char *launch_own_file(const char *const places[2]);

/* Prints "mpirun: <text>" on stderr. */
void launch_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, then the process exits. */
_Noreturn void launch_fail(int exit_code, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
