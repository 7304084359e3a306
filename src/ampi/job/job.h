/* SPDX-License-Identifier: BSD-3-Clause
 *
 * job.h: setting up the job; for job*.c, init.c and report.c.
 */
#ifndef AMPI_JOB_H
#define AMPI_JOB_H

#include "ampi/object/rank.h"
#include "ampi/object/info.h"

/* Reads HEDDLE_OPTIONS and removes our options from argv (argc NULL: only the environment). If one is
 * wrong, ends the process with a message and code 2; after +help, prints the help and ends it with code 0.
 * Called once per process. */
void ampi_options_read(int *argc, char **argv);

/* If mpirun tags output, sends that of the ranks with their numbers (rank_output.c). Before the first copy of the program, in
 * a process with several ranks. */
void ampi_rank_output_open(void);

/* Sets up the parts that are independent of images: PEs, ranks, predefined objects, MPI_COMM_WORLD. */
void ampi_job_create(int n_local, int n_pes, bool is_virtual, const struct ult_hooks *hooks);

/* Writes the path of libheddle_mqd.so where debuggers look for it. (queue_table.c) */
void ampi_queue_table_place(void);

/* Ends the whole job at once (ampi_upper.end_job). */
void ampi_job_end(int exit_code) BASE_NORETURN;

/* ---- Ranks that run on copies of the program (job_rank.c) ---- */

/* Sets the arguments of all ranks that are there at the start. */
void ampi_rank_set_arguments(int argc, char **argv);

/* Creates the rank's stack and copy of the program, and queues it on its PE: on the PE's thread. Ends the process with a
 * message if that fails. */
void ampi_rank_create(struct ult_pe *pe, struct ampi_rank *rank);

/* A spawned rank has ended: its memory is freed later if no other rank refers to it. On its ULT. */
void ampi_rank_leave(struct ampi_rank *rank);

/* See dynamic/spawn.h. */
extern const struct ampi_spawn_job ampi_rank_spawn_job;

/* Called when the rank's program has ended, on its ULT. Ends the job if others may still wait for the rank. (job.c) */
void ampi_rank_end(struct ampi_rank *rank, int code) BASE_NORETURN;

/* ---- Setting up ---- */

/* The running rank; in a process with one rank that is not virtualized, created at the first call. NULL:
 * the calling thread belongs to no rank. */
struct ampi_rank *ampi_rank_or_adopt(void);

/* The same for functions that start MPI: a rank that another thread created by an earlier call, and that
 * has not started MPI, moves to the caller. */
struct ampi_rank *ampi_rank_or_move(void);

/* For reports: the call that ends MPI, which an initialized rank has not made. (init.c) */
const char *ampi_rank_missing_call(const struct ampi_rank *rank);

/* ---- Threads of the program (thread.c) ---- */

/* See ampi_upper. */
struct ampi_rank *ampi_rank_of_thread(const void *caller);
bool ampi_rank_has_threads(const struct ampi_rank *rank);

/* For calls that start MPI, if ampi_rank_or_move has found no rank: a thread that a rank has started, before the rank has started
 * MPI, enters to do so. from: the address of its call. Returns the argument of ampi_gate_leave. NULL: the caller is not such a
 * thread, or the rank's own ULT blocks its PE for seconds and does not wait by a function that lets other ranks run. */
struct ult *ampi_thread_start_mpi(const char *call, const void *from);

/* With +progress-thread, or if waits in CUDA do not make progress (gpu_needs_progress): starts the progress thread of the
 * calling rank's PE, once. The last step of a call that initializes MPI, or of one from which on streams may wait for the
 * PE. */
void ampi_thread_start_progress(void);

/* Called when the program starts a thread. Never switches. */
void ampi_thread_begins(void);

/* Find the library's own threads in a process with one rank: called before and after the calling thread becomes the rank. */
void ampi_thread_count_before(void);
void ampi_thread_count_after(void);

/* The same: the threads that the process has now, before main, are the main one and the library's own. */
void ampi_thread_count_early(void);

/* See ult_hooks: has_other_threads, may_keep_thread. */
bool ampi_thread_any_other(void);
bool ampi_thread_may_keep(const struct ult *u);

/* See image_rebind_client. */
bool ampi_thread_await_call(pthread_t target, const void *from);
void ampi_thread_end_await(const struct image *image);

/* ---- Threads in pthread_join (thread_join.c) ---- */

struct image_join;

/* See image_rebind_client: join_begins, join_ends. */
bool ampi_join_begin(struct image_join *join, pthread_t target, const void *from);
void ampi_join_end(struct image_join *join);

/* The thread that is blocked in MPI and ends the chain of joins that begins with this thread of the rank; NULL: there is none. If a join of
 * the chain ends, ampi_thread_end_await is called. On the PE. */
struct ampi_thread *ampi_join_follow(const struct ampi_rank *rank, pthread_t target);

/* See ult_count_joining. */
int ampi_join_count_active(const struct ult_pe *pe);

/* The number of the rank's threads that wait so, without its main thread. With the lock of its PE. */
int ampi_join_count(const struct ampi_rank *rank);

/* For reports: the thread that the rank's main thread waits for so; NULL: none. */
const struct ult *ampi_join_of_main(const struct ampi_rank *rank, const void **from_out);

/* The same: calls visit for each of the rank's other threads that joins one. */
void ampi_join_visit(const struct ampi_rank *rank, void (*visit)(const void *from, void *arg), void *arg);

/* In a process with one rank, on its main thread: returns when MPI is finalized, or when only threads of this library and of
 * the libraries that it uses are left. At once if their number is unknown. */
void ampi_thread_await_others(const struct ampi_rank *rank);

/* ---- Ranks and GPUs (rank_gpu.c) ---- */

/* Binds the ranks' calls of dlsym and of CUDA's guarded functions to replacements. Before
 * image_program_open. */
void ampi_rank_gpu_rebind(void);

/* Registers the functions that know ranks with src/gpu; before the first rank runs. */
void ampi_rank_gpu_init(void);

/* ---- The memory layout of ranks (job_memory.c) ---- */

/* Plans the addresses of all ranks' stacks and copies of the program, after image_program_open, and of n_more that may be
 * spawned. Returns n_more, or less if the address space is too small. Ends the process with a message if the limits do not
 * allow n_ranks. */
int ampi_memory_plan(int n_ranks, int n_more);

/* Size of the guard below each stack, a power of two: as large as n_ranks guards can be in room_bytes of
 * address space, of which each rank needs another rest_bytes; at least 1 MiB, even if that does not fit. */
size_t ampi_memory_guard_bytes(size_t n_ranks, size_t room_bytes, size_t rest_bytes);

/* The distance of a rank's stack from the end of its last page, of n_ranks in the process. */
size_t ampi_memory_colour_bytes(int n_ranks, int region);

/* The address of the ranks' regions (job_arena.c): [the address, + len_bytes) is free address space. */
char *ampi_memory_arena(size_t len_bytes, size_t align_bytes);

/* Maps the stack of a rank: outputs its lowest byte, and one past the highest. The copy of the program goes
 * to image_base. False, with errno: not possible. region: ampi_job_index_of. */
bool ampi_memory_map_stack(int region, char **stack_lo_out, char **stack_hi_out) BASE_MUST_CHECK;
void ampi_memory_unmap_stack(int region);
char *ampi_memory_image_base(int region);

/* Makes all stacks that were mapped executable, and those that will be. */
void ampi_memory_make_stacks_executable(void);

/* The rank, counted from the process's first, whose stack, copy of the program or guard contains the
 * address; -1: none. */
int ampi_memory_region_of(const void *addr);

/* The rank whose stack's guard contains the address; -1: none. */
int ampi_memory_guard_of(const void *addr);

/* The size of stacks that was asked for: each rank has at least this. */
size_t ampi_memory_stack_bytes(void);

/* ---- Locks of shared libraries (stuck.c) ---- */

/* Starts detecting ranks that block their PE in a lock of a shared library, if the ranks share such
 * libraries or +check stuck:S requests it: prints a line on stderr for each. After ampi_job_create. */
void ampi_stuck_watch(void);
/* The name of a system call that waits; for all other ones "another one". Signal handlers may call it. */
const char *ampi_stuck_call_name(long call);
/* The system call that blocks another thread of the process; -1: none. Signal handlers may call it. */
long ampi_stuck_call_of(pid_t tid);

/* True if the thread waits in a futex: its address, and the value that it has until then. */
bool ampi_stuck_futex_of(pid_t tid, unsigned long *address_out, unsigned long *value_out);

/* ---- Reports (report.c) ---- */

/* Installs handlers of SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT, unless the program has its own; they
 * report the rank. On each PE's thread, because of its signal stack. (crash.c) */
void ampi_crash_handler_install(void);

/* True if this signal will be reported this way. False if the program has its own handler. */
bool ampi_crash_is_reported(int signal_number);

/* ---- The exit of the process (job_exit.c) ---- */

/* Registers an exit handler that ends NCCL before all handlers that were registered earlier run. */
void ampi_job_watch_exit(void);

/* For on_exit in a process with one rank: reports a rank that has not called MPI_Finalize, and leaves the job. */
void ampi_job_check_finalized(int code, void *arg);

/* A process ends without exit handlers: if its one rank has called MPI_Finalize, it leaves the job as at exit. Any thread, also in
 * handlers of signals and in children, where it does nothing. */
void ampi_job_leave_at_once(int code);

/* In a process with one rank, on its main thread: the process also leaves the job if this thread ends by pthread_exit. */
void ampi_job_watch_main(struct ampi_rank *rank);

/* All ranks are blocked: prints their calls, and ends the job. Returns if a rank is ready now (p2p/choices.h). */
void ampi_report_deadlock(void);
void ampi_report_blocked(void); /* the lines about the ranks alone */
void *
ampi_report_waits(size_t *n_bytes_out); /* what they wait for: an array of struct ampi_wait, malloc'ed */

/* Prints where the ranks of the calling PE are. In its progress. */
void ampi_report_pe(int pe_id);

/* From now on SIGQUIT prints that for all PEs, unless the process ignores or handles it. (quit.c) */
void ampi_quit_install(void);

/* From now on, writes the ranks' activities for mpirun --progress. (progress.c) */
void ampi_progress_publish(void);

/* See image_rebind_client's main_tid, call_soon and is_waiting. (rank_signals.c) */
pid_t ampi_rank_main_tid(const struct image *image, atomic_int *place);
void ampi_rank_call_soon(const struct image *image, atomic_int *place);
bool ampi_rank_is_waiting(void);

/* Prints that a user's operation waits for other ranks in the midst of its rank's own wait, and ends the job. */
void ampi_report_errand(const struct ult *u) BASE_NORETURN;

/* Prints which two threads of a rank are in MPI at the same time, at the level MPI_THREAD_SERIALIZED: the second to come, and the first. */
void ampi_report_overlap(const struct ult *second, const struct ult *first);

/* Before the process ends at once: writes the ranks' buffered output. Takes half a second if a Fortran runtime does
 * not answer. (output.c) */
void ampi_job_flush_output(void);

/* The exit code for the shell, from a rank's or MPI_Abort's. Never 0 for a failure. */
int ampi_exit_code_of(int code);

/* Sets environment variables for libraries of which each rank has a copy. Before the ranks start. (library_env.c) */
void ampi_library_env_set(int n_ranks, int n_cores);

/* The same for CUDA, before it is initialized. are_copies: ranks are copies of the program; after image_program_open. */
void ampi_library_env_set_for_streams(bool are_copies);

/* ---- other_programs.c: further programs of a job in one process ---- */

/* Reads mpirun's list of programs. Called once, before the number of ranks is used. */
void ampi_programs_take(void);

/* True if there are any. */
bool ampi_programs_are_several(void);

/* True if one of them may call a function that spawns ranks. */
bool ampi_programs_may_spawn(void);

/* Loads the programs. After image_program_open and ampi_memory_plan. Ends the process if one cannot be loaded. */
void ampi_programs_load(void);

/* Sets the program, the arguments and MPI_APPNUM of a rank, unless it runs the process's program. */
void ampi_programs_assign(struct ampi_rank *rank);

/* Sets the environment variables of the rank's program that differ from the process's. Before the program runs. */
void ampi_programs_set_variables(const struct ampi_rank *rank);

/* ---- The end of a rank (env.c) ---- */

struct ampi_rank;

/* Frees a rank's own attributes, info, error classes, error handlers and handle numbers. At its end, when
 * no MPI function can be called any more; does not call the program's callbacks. */
void ampi_env_fini(struct ampi_rank *rank);

/* ---- The launchers' environment variables of a rank (rank_env.c) ---- */

/* Prepares the initial environment of ranks. Before the first copy of the program is created. Ends the job
 * if memory is exhausted. */
void ampi_rank_env_open(void);

/* Sets the variables in the environment of a rank with a copy of the program, before that runs. Ends the
 * job if memory is exhausted. */
void ampi_rank_env_init(struct ampi_rank *rank);

/* ---- The contents of MPI_INFO_ENV and MPI_Info_create_env (info_env.c; MPI 5.0, section 11.2.1) ---- */

/* A new info object that describes the job and this rank (NULL: the job only). */
struct ampi_info *ampi_info_env_create(const struct ampi_rank *rank);

/* The arguments after the program's name, separated by blanks; the caller frees them. NULL: none, or too
 * long for an info value. */
char *ampi_info_env_join(int argc, char *const *argv);

/* ---- Programs that become ranks though they load MPI late (late_host.c; BASE_LAUNCHED_HOST_ENV) ---- */

/* The exit code of the process: 1 and a line instead of 0, if several ranks were requested, none has called MPI_Init and the
 * program has loaded another MPI. */
int ampi_late_host_check(int exit_code);

/* A line, once per process, if the program has loaded another MPI. In MPI_Init. */
void ampi_late_host_warn(void);

/* An interpreter that is one rank of several, alone in its process, starts: the environment is as without MPI, until
 * MPI_Init calls ampi_late_host_join. Makes the check at the exit. options: the value of HEDDLE_OPTIONS; NULL:
 * unset. */
void ampi_late_host_wait(const char *options);
void ampi_late_host_join(void);

/* If an interpreter that is one of several ranks in its process has not called MPI_Init: writes the entry of the environment
 * for a program that it starts, and returns true. caller: an address in the rank's code. Safe in a child of vfork. */
bool ampi_late_host_child_entry(const void *caller, char *entry, size_t size);

/* Ends this process if it was started with such an entry: as a rank of the job it would have no place. In MPI_Init. */
void ampi_late_host_refuse_child(void);

#endif
