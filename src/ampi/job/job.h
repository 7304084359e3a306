/* SPDX-License-Identifier: BSD-3-Clause
 *
 * job.h: the set-up of the job; for job*.c, init.c and report.c.
 */
#ifndef AMPI_JOB_H
#define AMPI_JOB_H

#include "ampi/object/rank.h"

/* Sets up what does not depend on images: PEs, ranks, predefined objects, MPI_COMM_WORLD. */
void ampi_job_create(int n_local, int n_pes, bool is_virtual, const struct ult_hooks *hooks);

/* Ends the whole job at once (ampi_upper.end_job). */
void ampi_job_end(int exit_code) BASE_NORETURN;

/* The running rank; for a process with one rank, which is not virtualized, made at the first call. NULL: the
 * calling thread is no rank's. */
struct ampi_rank *ampi_rank_or_adopt(void);

/* The same for what starts MPI: a rank that another thread made by an earlier call, and that has not started
 * MPI, becomes the caller's. */
struct ampi_rank *ampi_rank_or_move(void);

/* ---- Ranks and GPUs (rank_gpu.c) ---- */

/* Has the ranks' code tell when it loads CUDA. Before image_program_open. */
void ampi_rank_gpu_rebind(void);

/* Gives src/gpu the functions that know ranks; before the first rank runs. */
void ampi_rank_gpu_init(void);

/* ---- Where ranks lie in memory (job_memory.c) ---- */

/* Decides the places of all ranks' stacks and copies of the program, after image_program_open. Ends the
 * process with a message when the limits do not allow that many ranks. */
void ampi_memory_plan(int n_ranks);

/* Bytes of the guard below each stack, a power of two: as much as n_ranks guards have room for in room_bytes
 * of address space, where each rank needs rest_bytes besides; at least 1 MiB, whether there is room or
 * not. */
size_t ampi_memory_guard_bytes(size_t n_ranks, size_t room_bytes, size_t rest_bytes);

/* Where the ranks' slots begin (job_arena.c): [the address, + len_bytes) is free address space. */
char *ampi_memory_arena(size_t len_bytes, size_t align_bytes);

/* Maps the stack of a rank: its lowest byte, and one past the highest. The copy of the program goes to
 * image_base. Ends the process with a message when that cannot be had. */
void ampi_memory_map_stack(int world_rank, char **stack_lo_out, char **stack_hi_out);
char *ampi_memory_image_base(int world_rank);

/* The rank, counted from the process's first, in whose stack, copy of the program or guard the address lies;
 * -1: none. */
int ampi_memory_slot_of(const void *addr);

/* The rank into the guard of whose stack the address falls; -1: none. */
int ampi_memory_guard_of(const void *addr);
size_t ampi_memory_stack_bytes(void);

/* ---- Locks of shared libraries (stuck.c) ---- */

/* Begins to watch for ranks that keep their PE in a lock of a shared library, if the ranks share such
 * libraries or the option +stuck says so: a line on stderr for each. After ampi_job_create. */
void ampi_stuck_watch(void);

/* ---- When things go wrong (report.c) ---- */

/* Catches SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT, where the program has no handler, and says which rank
 * it was; on each PE's thread, because of its signal stack. (crash.c) */
void ampi_crash_handler_install(void);

/* Will a signal of this number be reported so? Not if the program has a handler of its own. */
bool ampi_crash_is_reported(int signal_number);

/* From now on the end of the process begins with what concerns NCCL, before what was registered so far. */
void ampi_job_watch_exit(void);

/* Prints what every rank is blocked in, and ends the job. */
void ampi_report_deadlock(void) BASE_NORETURN;
void ampi_report_blocked(void); /* the lines about the ranks alone */

/* The exit code that the shell shall see for a rank's or MPI_Abort's. Never 0 for a failure. */
int ampi_exit_code_of(int code);

#endif
