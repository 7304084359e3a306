/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpirun-procs: starts a job of several processes on this node and is their PMIx server. mpirun --procs P
 * turns into it by exec (../procs.c), so that a run of one process never loads libpmix.
 *
 *   mpirun_procs.c   the main sequence and the event loop
 *   server.c         the PMIx server: the only file with PMIx in it. Its upcalls run on libpmix's thread;
 *                    they set flags in struct procs_proc and struct procs_abort, and ring a bell (eventfd)
 *   peer.c           lets only processes of this user connect to the server
 *   programs_of_job.c  the programs of the job, and the program of each process
 *   job_universe.c   the user's jobs that can connect to each other
 *   grow.c           starts processes that MPI_Comm_spawn requests
 *   spawn.c          starts one process: pipes, process group, signals, cores
 *   end.c            handles the end of a process: exit code of the job, ending the others
 *   forward.c        stdout and stderr of the processes, line by line
 *   input.c          the terminal's input, to process 0
 *   affinity.c       the cores of each process
 *   jobdir.c         the job's temporary folder: created and removed; removes those of dead jobs
 *   leftover.c       finds and kills processes that the job has left running
 *   requirements.c   checks that system calls and stacks are as needed
 *   process_guard.c  a small process that cleans up if this one is killed
 *
 * Everything but the upcalls runs on the main thread. Every process leads its own process group, so that
 * signals also reach its descendants; it dies with this process (PR_SET_PDEATHSIG).
 *
 * Starting processes on other nodes takes credentials, allocations, accounting and trees, which srun,
 * prterun and Open MPI's mpirun have: for several nodes mpirun runs one of them. There is no ssh launcher.
 */
#ifndef LAUNCH_PROCS_H
#define LAUNCH_PROCS_H

#include "launch/launch.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

enum {
    PROCS_GRACE_S = 3, /* between SIGTERM and SIGKILL */
    PROCS_NAME_MAX = 64,
    PROCS_DIR_MAX = 128,
};

/* One of the programs of the job. */
struct procs_program {
    const char *path; /* its file */
    const char *dir;  /* its working folder; NULL: that of this program */
    char **argv;      /* its arguments, NULL-terminated */
    char **variables; /* its own environment variables, "NAME=VALUE", NULL-terminated; NULL: none */
    int num_ranks;    /* its ranks; 0: unknown */
    int num_procs;    /* its processes */
    int first_rank;   /* its first rank */
    int first_proc;   /* its first process */
    int spawn;        /* number of the spawn that it belongs to; 0: none */
};

/* Options from mpirun (the command line of mpirun-procs). */
struct procs_options {
    int num_procs;                  /* number of processes at the start */
    int num_ranks;                  /* ranks of the whole job; 0: unknown */
    bool tags_output;               /* --tag-output */
    bool is_quiet;                  /* -q */
    bool is_verbose;                /* -v */
    bool binds;                     /* each process gets a share of the cores */
    bool keeps_going;               /* --keep-going: the others continue when a process fails */
    bool is_in_universe;            /* --universe, or implied */
    bool is_universe_implied;       /* the job may also run without */
    bool grows;                     /* --procs 1: the process can spawn others */
    double timeout_s;               /* 0: none */
    int progress_fd;                /* --progress: the memory (show_progress.c); -1: none */
    int reports_fd;                 /* receives start reports (launch_report.c); -1: not requested */
    const char *path;               /* the first program's file */
    char **argv;                    /* the words of all programs' arguments; NULL-terminated */
    struct procs_program *programs; /* in the order of their ranks */
    int num_programs;               /* at least one */
};

/* One process of the job. */
struct procs_proc {
    pid_t pid;       /* also its process group; 0: not started, or already reaped */
    int close_order; /* its position in the order in which processes closed stdout and stderr; 0: still open
                        * (forward.c) */
    int output[2];  /* --tag-output, until it is started: its ends of the sockets for stdout and stderr of its
                        * ranks */
    bool has_ended; /* started and reaped */
    bool is_dropped;          /* its spawn has failed: its end is of no interest */
    bool is_undecided;        /* has_ended, but end.c has not handled its status yet */
    bool has_reported;        /* a program that is linked with the library was started in it */
    int status;               /* as reported by waitpid */
    atomic_bool is_connected; /* has called PMIx_Init (server.c) */
    atomic_bool is_finalized; /* has called PMIx_Finalize for the last time (server.c) */
    atomic_bool is_tolerant;  /* has announced that it tolerates failures of others (server.c) */
};

struct procs_job {
    struct procs_options options;
    struct procs_proc *procs;      /* max_procs of them, the first num_procs are in use */
    int num_procs;                 /* processes that were started, at the beginning or by MPI_Comm_spawn */
    int max_procs;                 /* maximum number of processes in the job's life */
    int first_number;              /* of process 0 in the universe; 0: there is none */
    int num_spawns;                /* requests to spawn */
    char *spawn_text;              /* for the processes of the last one: BASE_LAUNCHED_SPAWN_ENV */
    int num_running;               /* started and not yet reaped */
    char id[PROCS_NAME_MAX];       /* unique among jobs on this node; public (jobdir.c) */
    char name[PROCS_NAME_MAX];     /* the namespace in PMIx; secret, or other users could join the job */
    char host[256];                /* this node's name */
    char dir[PROCS_DIR_MAX];       /* the job's temporary folder, or "" */
    sigset_t signals_before;       /* the signal mask that mpirun was started with; the processes get it */
    struct rlimit stack_before;    /* of the stack, for the processes */
    bool was_sigpipe_default;      /* so was SIGPIPE */
    struct procs_forward *forward; /* of their output */
    int exit_code;                 /* of the first process that failed */
    bool has_failed;               /* a process has failed */
    bool is_told_to_end;           /* a signal to end was forwarded: processes that die now have not failed */
    bool is_aborted;               /* a process has called PMIx_Abort: none may go on */
    int ending;         /* 0: processes are not being ended; else the last signal sent to end them */
    double next_step_s; /* time of the next step of ending them; 0: none */
};

/* Monotonic time in seconds. */
double procs_now_s(void);

/* The program of a process. (programs_of_job.c) */
const struct procs_program *procs_program_of(const struct procs_options *options, int proc_id);

/* Reads the programs of the job from the command line: the words that describe them begin at parts (NULL: there is one
 * program), those of their arguments at words. (programs_of_job.c) */
void procs_programs_read(struct procs_options *options, char **parts, char **words);

/* Writes the numbers of ranks and processes of each program for the processes (BASE_LAUNCHED_PROGRAMS); an empty text if
 * there is one program. malloc'ed. (programs_of_job.c) */
char *procs_programs_text(const struct procs_options *options);

/* ---- server.c ---- */

/* A process called PMIx_Abort. */
struct procs_abort {
    int proc_id;
    int code;
    char text[256]; /* its message, or "" */
};

/* Starts the server and registers the job. On failure prints the reason and returns false. Blocked signals
 * stay blocked in the server's thread. */
bool procs_server_start(struct procs_job *job);
/* Readable when something was reported since the last procs_server_hear. */
int procs_server_bell(void);
/* Resets the bell; returns true, once, if a process has aborted the job. */
bool procs_server_hear(struct procs_abort *abort_out);
/* Adds the variables that the process needs to find the server to env. *env_inout is a malloc'ed,
 * NULL-terminated array of malloc'ed strings, and may move. */
bool procs_server_add_env(const struct procs_job *job, int proc_id, char ***env_inout);
/* Announces to the job's processes that this one has failed, and why (PMIx event PMIX_ERR_PROC_ABORTED). */
void procs_server_announce_loss(const struct procs_job *job, int proc_id, const char *why);

/* Admits a process that is spawned. False: libpmix refuses. */
bool procs_server_add(const struct procs_job *job, int proc_id);

/* ---- grow.c ---- */

/* Starts a process; returns 0 or an errno. */
typedef int (*procs_start_fn)(struct procs_job *job, int proc_id);

/* Creates the table of processes, and the socket for requests, in the job's folder. On failure prints the reason and
 * returns false. */
bool procs_grow_prepare(struct procs_job *job);
/* The process has ended, or was never started. */
void procs_grow_ended(int proc_id, bool has_failed);
/* A process of a spawn could not be started, or has ended before MPI_Init: kills the others of the spawn. The job goes on. */
void procs_grow_drop(struct procs_job *job, int spawn);
/* Writes the descriptors to poll to watched, at most PROCS_GROW_WATCHED; returns their number. */
int procs_grow_watch(struct pollfd *watched);
enum { PROCS_GROW_WATCHED = 17 };
/* Serves the requests that have arrived. */
void procs_grow_work(struct procs_job *job, procs_start_fn start_one);

/* ---- job_universe.c ---- */

/* Enters the universe: sets first_number, and adds the links to the job's folder. On failure prints the reason and returns
 * NULL. */
struct base_launched_table *procs_universe_enter(struct procs_job *job);
/* When the job's processes have ended. */
void procs_universe_leave(const struct procs_job *job);
/* Tells the job's processes of lost processes of other jobs. Called every PROCS_UNIVERSE_WATCH_S. */
void procs_universe_watch(const struct procs_job *job);
#define PROCS_UNIVERSE_WATCH_S 0.1
/* Removes the universe if no job belongs to it. */
void procs_universe_tidy(void);

/* ---- requirements.c ---- */

/* Ends this program with a message if the kernel refuses a system call that it needs. */
void procs_requirements_check(void);
/* Gives the threads of this program enough stack; outputs the limit that the job's processes get. */
void procs_requirements_raise_stack(struct rlimit *before_out);

/* ---- peer.c ---- */

/* True if libpmix has accepted a connection through the check of peer.c. */
bool procs_peer_is_checked(void);

/* ---- affinity.c ---- */

/* The cores of process proc_id out of num_procs: an equal share of adjacent cores. False: do not bind (more
 * processes than cores, or one process). */
bool procs_affinity_share(int proc_id, int num_procs, cpu_set_t *cores_out);

/* ---- spawn.c ---- */

/* Starts process proc_id with the given stdin (-1: empty); outputs the read ends of its stdout and stderr.
 * Returns 0, or an errno after which nothing is left behind. Sets procs[proc_id].pid. */
int procs_spawn(struct procs_job *job, int proc_id, char **env, int stdin_fd, int *stdout_out,
                int *stderr_out);

/* ---- end.c ---- */

/* The ranks of a process; last < first: their number is unknown. */
void procs_ranks_of(const struct procs_options *options, int proc_id, long *first_out, long *last_out);

/* Reaps the processes that have ended, and handles the consequences. */
void procs_end_reap(struct procs_job *job);
/* A process has called PMIx_Abort. */
void procs_end_by_abort(struct procs_job *job, const struct procs_abort *abort);
/* Ends the job with this exit code, unless a process failed before: ends all processes (SIGTERM, later
 * SIGKILL). */
void procs_end_all(struct procs_job *job, int exit_code);
/* The next step of ending the processes, at job->next_step_s. */
void procs_end_step(struct procs_job *job);
/* Sends a signal to all process groups. */
void procs_end_signal_all(const struct procs_job *job, int signal_number);

/* ---- forward_quit.c ---- */

/* Sends SIGQUIT to the processes that print a report then. */
void procs_quit_forward(const struct procs_job *job);

/* ---- forward.c ---- */

struct procs_forward;

/* Creates the forwarder. It records in procs the order in which processes close their output. */
struct procs_forward *procs_forward_create(struct procs_proc *procs, int max_procs,
                                           const struct procs_options *options);
/* Takes over the read end of a process's stdout or stderr. */
void procs_forward_add(struct procs_forward *forward, int proc_id, bool is_stderr, int fd);
/* Takes over the read end of a socket for the output of the process's ranks (base/launched.h). */
void procs_forward_add_ranks(struct procs_forward *forward, int proc_id, bool is_stderr, int fd);
/* The maximum number of entries that procs_forward_watch needs. */
int procs_forward_max_watched(const struct procs_forward *forward);
/* Writes the descriptors to poll to watched; returns their number. */
int procs_forward_watch(struct procs_forward *forward, struct pollfd *watched);
/* Reads and writes as much as possible without blocking. */
void procs_forward_work(struct procs_forward *forward);
/* Writes out process 0's unfinished lines (a prompt that waits for an answer). */
void procs_forward_show_unfinished(struct procs_forward *forward);
/* True if there is nothing more to read or write. */
bool procs_forward_is_done(const struct procs_forward *forward);
/* True if output could not be written (a full disk). */
bool procs_forward_has_failed(const struct procs_forward *forward);

/* ---- input.c ---- */

/* stdin of process 0: that of mpirun unless it is a terminal; otherwise a pipe, whose read end this returns
 * and that procs_input_work fills (the processes are not in the terminal's foreground group). */
int procs_input_open(void);
/* The descriptor to poll: the terminal's, or the pipe's while it is full; -1: no input is expected. */
struct pollfd procs_input_watched(void);
void procs_input_work(void);

/* ---- jobdir.c ---- */

/* Creates the job's folder and names the job (id and name); removes folders of dead jobs first. If no
 * folder can be created, prints the reason and returns false. The lock in *lock_out (a descriptor) shows
 * that the job is alive. */
bool procs_jobdir_create(struct procs_job *job, int *lock_out);
void procs_jobdir_remove(const char *dir);
/* Removes folders that killed processes had elsewhere. Called when the job's processes have ended. */
void procs_jobdir_remove_rooms(void);

/* ---- leftover.c ---- */

/* Environment variable of every process of a job and its descendants: the job's id, after the ids of the
 * jobs that started it, separated by colons. */
#define PROCS_JOB_ENV "HEDDLE_JOB"

/* Reads /proc/PID/stat into `text`; returns what begins with the ')' behind the program's name, NULL: the process has ended. */
const char *procs_read_stat(pid_t pid, char *text, size_t size_bytes);
/* Kills every process with the job's id in its environment, except this one. */
void procs_leftover_kill(const char *job_id);
/* Makes this process the parent of orphaned descendants. */
void procs_leftover_adopt(void);
/* Kills all children and orphaned descendants, except for one (0: none). */
void procs_leftover_kill_children(pid_t except);

/* ---- process_guard.c ---- */

/* Starts the process that cleans up when this one dies. Called before the job has a folder, and before any
 * thread is started. */
void procs_guard_start(int num_procs);
/* Tells the guard of the job's folder, before it is created. It replaces the folder told before. */
void procs_guard_add_folder(const struct procs_job *job);
/* Tells the guard of a process that it must kill, with its group. */
void procs_guard_add(pid_t pid);
/* This process has ended, and was reaped. What it has left running is found by the job's id. */
void procs_guard_remove(pid_t pid);
/* The guard's process id; 0: none. */
pid_t procs_guard_pid(void);
/* Lets the guard exit; everything has been cleaned up. */
void procs_guard_dismiss(void);

#endif
