/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpirun: reads its command (args.c), looks at the program it is to run (target_program.c, elf.c) and runs
 * it (run.c). The ranks are not started here: they are user-level threads that the library makes
 * inside the program. mpirun tells it how many through the environment variable HEDDLE_OPTIONS.
 * Several processes on this node are the business of another executable (run_procs.c, procs/); several nodes
 * that of another launcher (handover.c, hosts.c).
 *
 * There is no MPI in here, and nothing of the library is linked.
 */
#ifndef LAUNCH_H
#define LAUNCH_H

#include <stdbool.h>

/* Exit codes, as shells use them. */
enum launch_exit {
    LAUNCH_EXIT_USAGE = 2,        /* the command is wrong */
    LAUNCH_EXIT_TIMEOUT = 124,    /* --timeout ran out */
    LAUNCH_EXIT_CANNOT_RUN = 126, /* the program exists but cannot be run as told */
    LAUNCH_EXIT_NOT_FOUND = 127,  /* there is no such program */
};

/* What the command line says. Strings are argv's or live as long as the process. */
struct launch_command {
    int num_ranks;        /* -n; 0: not said */
    char *rank_options;   /* the library's +options, separated by blanks; NULL: none */
    int num_procs;        /* --procs; 0: not said */
    double timeout_s;     /* --timeout; 0: none */
    const char *hosts;    /* --hosts; NULL: none */
    const char *hostfile; /* --hostfile; NULL: none */
    char *exported;       /* the variables of -x and -genv, separated by blanks; NULL: none */
    bool is_unbound;      /* --bind-to none */
    bool tags_output;     /* --tag-output */
    bool keeps_going;     /* --keep-going */
    bool allows_root;     /* --allow-run-as-root */
    bool is_quiet;        /* -q: no warnings */
    bool is_verbose;      /* -v: say what is run */
    char **program_argv;  /* the program and its arguments, NULL-terminated */
};

/* Reads argv; --help and --version print and exit, a mistake is explained and exits with 2. Applies
 * the options that change this process: the working folder and environment variables. */
void launch_args_read(int argc, char **argv, struct launch_command *command_out);

/* How many ranks it asks for (-n, or +vp); 0: it does not say. */
int launch_num_ranks(const struct launch_command *command);

/* What a file is, as far as starting it is concerned. */
enum launch_elf_kind {
    LAUNCH_ELF_NONE,    /* not an ELF file (or a damaged one) */
    LAUNCH_ELF_FOREIGN, /* for another kind of CPU */
    LAUNCH_ELF_STATIC,  /* no dynamic loader: statically linked */
    LAUNCH_ELF_LIBRARY, /* a shared library */
    LAUNCH_ELF_FIXED,   /* dynamic, but not position-independent (ET_EXEC) */
    LAUNCH_ELF_PIE,     /* dynamic and position-independent: what we want */
};

struct launch_elf {
    enum launch_elf_kind kind;
    char interpreter[256]; /* the dynamic loader it asks for, or "" */
};

/* Reads the ELF headers of the file. False, with errno, if it cannot be read. */
bool launch_elf_read(const char *path, struct launch_elf *elf_out);

enum launch_program_kind {
    LAUNCH_PROGRAM_MPI,     /* uses our library: run it once */
    LAUNCH_PROGRAM_STARTER, /* starts a program that may use it (a script, a shell, a debugger): the same */
    LAUNCH_PROGRAM_PLAIN,   /* has nothing to do with MPI: run it once per rank */
};

struct launch_program {
    char *path; /* where the program is; malloc'ed */
    enum launch_program_kind kind;
    bool needs_library_path; /* the loader would not find our libmpi_abi.so.1 by itself */
    bool is_launcher;        /* it starts the ranks on other nodes: they cannot report to us */
};

/* Finds the program of the command and checks that it can be run with so many ranks. If not, says why
 * and what to do, and exits with 126 or 127. */
void launch_program_find(const struct launch_command *command, struct launch_program *program_out);

/* The folder of our libmpi_abi.so.1, or NULL if it is not where it should be. Never freed. */
const char *launch_library_dir(void);

/* Drops from the environment what an outer launcher has put there for this process: the job is another
 * one. */
void launch_forget_outer(void);

/* Runs the program; returns its exit code if it does not replace this process. */
int launch_run(const struct launch_command *command, const struct launch_program *program);

/* ---- launch_report.c: has the program become ranks? ---- */

/* A program of the library has started. */
struct launch_report {
    int proc_id;    /* its number in the job; -1: the job has one process */
    long num_ranks; /* how many ranks it was told; 0: not told */
};

/* Opens the socket for such reports, and names it in the environment. -1: there are none. */
int launch_report_open(void);
/* The next report, if one is there. Reports of other users are passed over. */
bool launch_report_next(int fd, struct launch_report *report_out);

/* If the job is to run on several nodes (--hosts, --hostfile, an allocation), makes the program a launcher
 * that starts the program there. Exits if there is none. */
void launch_handover_plan(struct launch_command *command, struct launch_program *program);

/* Several processes on this node: replaces this process by mpirun-procs. reports: of launch_report_open. */
_Noreturn void launch_procs(const struct launch_command *command, const struct launch_program *program,
                            int reports);

/* The path of an executable in PATH, malloc'ed; or NULL with errno: ENOENT, or EACCES if there is one of
 * that name that cannot be run. */
char *launch_search_path(const char *name);

/* The path of a file of ours: first of places (relative to the folder of mpirun) that has it; malloc'ed, or
 * NULL. */
char *launch_own_file(const char *const places[2]);

/* "mpirun: <text>" on stderr. */
void launch_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, then the process exits. */
_Noreturn void launch_fail(int exit_code, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
