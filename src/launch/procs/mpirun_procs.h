/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpirun-procs: starts a job of several processes on this node and is their PMIx server. mpirun --procs P
 * turns into it by exec (../procs.c), so that a run of one process never loads libpmix.
 *
 *   mpirun_procs.c       the order of things, and the loop that waits for whatever happens
 *   server.c     the PMIx server: the only file with PMIx in it. Its upcalls run on libpmix's thread;
 *                they set flags in struct procs_proc and struct procs_abort, and ring a bell (eventfd)
 *   peer.c       lets processes of this user alone connect to it
 *   spawn.c      starts one process: pipes, process group, signals, cores
 *   end.c        what the end of a process means: exit code of the job, ending the others
 *   forward.c    stdout and stderr of the processes, line by line
 *   input.c      the terminal's input, to process 0
 *   affinity.c   which cores each process gets
 *   jobdir.c     the job's temporary folder: made, removed, and those of dead jobs cleaned
 *   leftover.c   finds and kills what the processes have left running
 *   process_guard.c      a small process that cleans up if this one is killed
 *
 * Everything but the upcalls runs on the main thread. Every process leads a process group of its own, so
 * that signals reach what it has started too; it dies with this process (PR_SET_PDEATHSIG).
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
#include <sys/types.h>

enum {
    PROCS_GRACE_S = 3, /* between SIGTERM and SIGKILL */
    PROCS_NAME_MAX = 64,
};

/* What mpirun wants (the command line of mpirun-procs). */
struct procs_options {
    int num_procs;    /* how many processes */
    int num_ranks;    /* ranks of the whole job; 0: not known */
    bool tags_output; /* --tag-output */
    bool is_quiet;    /* -q */
    bool is_verbose;  /* -v */
    bool binds;       /* each process gets a share of the cores */
    bool keeps_going; /* --keep-going: the others go on when a process dies */
    double timeout_s; /* 0: none */
    int reports_fd; /* programs of the library report here that they have started (report.c); -1: not asked */
    const char *path; /* the program's file */
    char **argv;      /* its arguments, NULL-terminated */
};

/* One process of the job. */
struct procs_proc {
    pid_t pid;         /* also its process group; 0: not started, or has ended and been reaped */
    int close_order;   /* it was the so-manieth to close its stdout and stderr; 0: has not (forward.c) */
    bool has_ended;    /* was started and has been reaped */
    bool is_undecided; /* has_ended, and what follows from status is not decided yet (end.c) */
    bool has_reported; /* a program of the library was started in it */
    int status;        /* how it ended, as waitpid tells */
    atomic_bool is_connected; /* has called PMIx_Init (server.c) */
    atomic_bool is_finalized; /* has called PMIx_Finalize for the last time (server.c) */
    atomic_bool is_tolerant;  /* has said that it would go on when another one is lost (server.c) */
};

struct procs_job {
    struct procs_options options;
    struct procs_proc *procs;  /* num_procs of them */
    int num_running;           /* started and not yet reaped */
    char id[PROCS_NAME_MAX];   /* no other job on this node has it; everybody can see it (jobdir.c) */
    char name[PROCS_NAME_MAX]; /* the namespace in PMIx; secret, or other users could join the job */
    char host[256];            /* this node's name */
    char dir[128];             /* the job's temporary folder, or "" */
    sigset_t signals_before;   /* the signal mask that mpirun was started with: the processes get it */
    bool was_sigpipe_default;  /* so was SIGPIPE */
    int exit_code;             /* of the first process that failed */
    bool has_failed;           /* one has */
    bool is_told_to_end;       /* a signal to end has been forwarded: what dies now is not lost */
    int ending;                /* 0: nobody is ended; else the signal that was sent last to end them */
    double next_step_s;        /* when the next step of ending them is due; 0: none is */
};

/* Monotonic time in seconds. */
double procs_now_s(void);

/* ---- server.c ---- */

/* A process called PMIx_Abort. */
struct procs_abort {
    int proc_id;
    int code;
    char text[256]; /* its message, or "" */
};

/* Starts the server and registers the job. False if it cannot be done, after saying why. Blocked
 * signals stay blocked in the server's thread. */
bool procs_server_start(struct procs_job *job);
/* Readable when something was reported since the last procs_server_hear. */
int procs_server_bell(void);
/* Silences the bell; true, once, if a process has aborted the job. */
bool procs_server_hear(struct procs_abort *abort_out);
/* Adds to env what the process needs to find the server. *env_inout is a malloc'ed, NULL-terminated array of
 * malloc'ed strings, and may move. */
bool procs_server_add_env(const struct procs_job *job, int proc_id, char ***env_inout);
/* Tells the other processes that this one is lost, and why (PMIx event PMIX_ERR_PROC_ABORTED). */
void procs_server_announce_loss(const struct procs_job *job, int proc_id, const char *why);

/* ---- peer.c ---- */

/* Has libpmix accepted a connection through the check of peer.c? */
bool procs_peer_is_checked(void);

/* ---- affinity.c ---- */

/* The cores of process proc_id out of num_procs: an equal share, neighbours together. False: not to be
 * bound (more processes than cores, or one process). */
bool procs_affinity_share(int proc_id, int num_procs, cpu_set_t *cores_out);

/* ---- spawn.c ---- */

/* Starts process proc_id with the given stdin (-1: nothing to read); the read ends of its stdout and stderr
 * come back. 0, or an errno after which nothing is left. Sets procs[proc_id].pid. */
int procs_spawn(struct procs_job *job, int proc_id, char **env, int stdin_fd, int *stdout_out,
                int *stderr_out);

/* ---- end.c ---- */

/* Collects the processes that have ended, and decides what follows. */
void procs_end_reap(struct procs_job *job);
/* A process has called PMIx_Abort. */
void procs_end_by_abort(struct procs_job *job, const struct procs_abort *abort);
/* The job is over, with this exit code unless one failed before: ends all (SIGTERM, later SIGKILL). */
void procs_end_all(struct procs_job *job, int exit_code);
/* The next step of ending them, when job->next_step_s has come. */
void procs_end_step(struct procs_job *job);
/* Sends a signal to all process groups. */
void procs_end_signal_all(const struct procs_job *job, int signal_number);

/* ---- forward.c ---- */

struct procs_forward;

/* Notes in procs which process closes its output, and when. */
struct procs_forward *procs_forward_create(struct procs_proc *procs, int num_procs, bool tags_output);
/* Takes over the read end of a process's stdout or stderr. */
void procs_forward_add(struct procs_forward *forward, int proc_id, bool is_stderr, int fd);
/* How many entries procs_forward_watch needs at most. */
int procs_forward_max_watched(const struct procs_forward *forward);
/* Writes what to poll for to watched; returns how many. */
int procs_forward_watch(struct procs_forward *forward, struct pollfd *watched);
/* Does what can be done now without blocking. */
void procs_forward_work(struct procs_forward *forward);
/* Writes out process 0's unfinished lines (a question that is waiting for its answer). */
void procs_forward_show_unfinished(struct procs_forward *forward);
/* Nothing more to read, nothing more to write. */
bool procs_forward_is_done(const struct procs_forward *forward);
/* Something could not be written (a full disk). */
bool procs_forward_has_lost(const struct procs_forward *forward);

/* ---- input.c ---- */

/* stdin of process 0: our own if it is no terminal; otherwise a pipe, whose read end this returns, and that
 * procs_input_work fills (the processes are not in the terminal's foreground group). */
int procs_input_open(void);
/* The terminal, if there is something to wait for; -1 otherwise. */
int procs_input_watched(void);
void procs_input_work(void);

/* ---- jobdir.c ---- */

/* Makes the job's folder and names the job (id and name); removes those of dead jobs first. False, after
 * saying why, if no folder can be made. The returned lock (a descriptor, in *lock_out) shows that the job is
 * alive. */
bool procs_jobdir_create(struct procs_job *job, int *lock_out);
void procs_jobdir_remove(const char *dir);
/* Removes the folders that killed processes had elsewhere. When the job's processes have ended. */
void procs_jobdir_remove_rooms(void);

/* ---- leftover.c ---- */

/* The variable that every process of a job and its descendants carry: the job's id, behind the ids of the
 * jobs that it was started by, with colons between them. */
#define PROCS_JOB_ENV "HEDDLE_JOB"

/* Kills every process that carries the job's id in its environment, this one excepted. */
void procs_leftover_kill(const char *job_id);
/* Makes this process the parent of all that its children leave behind. */
void procs_leftover_adopt(void);
/* Kills all children and what they leave behind, except for one (0: none). */
void procs_leftover_kill_children(pid_t except);

/* ---- process_guard.c ---- */

/* Starts the process that cleans up when this one dies. Before any thread is started. */
void procs_guard_start(const struct procs_job *job);
/* A process that it has to kill, with its group. */
void procs_guard_tell(pid_t pid);
/* The guard's process id; 0: there is none. */
pid_t procs_guard_pid(void);
/* Everything has been cleaned up: lets it go. */
void procs_guard_dismiss(void);

#endif
