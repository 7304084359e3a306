/* SPDX-License-Identifier: BSD-3-Clause
 *
 * launcher_env.h: the launcher's variables in the environment of this process. See launcher_env.c.
 */
#ifndef AMPI_LAUNCHED_H
#define AMPI_LAUNCHED_H

#include "base/base.h"

/* Removes the launcher's variables from the environment, so that programs started by this one do not
 * inherit them. Called once, at the start of the process (when there are no other threads), or by MPI_Init
 * in a program that loaded the library later. */
void ampi_launched_take(void);

/* Reports to mpirun that this process runs a program of this library, and its number of ranks (0:
 * unspecified). Does nothing if mpirun did not request it. After ampi_launched_take. */
void ampi_launched_report(long n_ranks);

/* The number of processes that a launcher has started, from the environment; 0: no launcher, -1: unknown.
 * After ampi_launched_take. */
int ampi_launched_count(void);

/* Ends this process if a launcher without PMIx has started several: each would be a job of its own. One of them
 * prints the remedy. If ampi_launched_count is 0, before MPI starts. */
void ampi_launched_refuse(void);

/* The programs of a job of Heddle's mpirun, as in BASE_LAUNCHED_PROGRAMS: "4x1,8x2"; NULL: one program, or another
 * launcher. After ampi_launched_take. */
const char *ampi_launched_programs(void);

/* What Heddle's mpirun, or the parent under another launcher, says to a spawned process, as in BASE_LAUNCHED_SPAWN_ENV; NULL:
 * this process was not spawned. After ampi_launched_take. */
const char *ampi_launched_spawn(void);

/* True if another launcher has started this process, and its program calls a function that needs a universe, or
 * HEDDLE_UNIVERSE names one. After ampi_launched_take. */
bool ampi_launched_wants_universe(void);

/* The launcher's folder for this job on this node; NULL: unknown. After ampi_launched_take. */
const char *ampi_launched_folder(void);

/* The launcher's descriptors for the output of ranks (BASE_LAUNCHED_OUTPUT_ENV); NULL: none. After ampi_launched_take. */
const char *ampi_launched_output(void);

/* The path of the memory for mpirun --progress (BASE_LAUNCHED_PROGRESS_ENV); NULL: none. After ampi_launched_take. */
const char *ampi_launched_progress(void);

/* The executable of a program that becomes ranks though it loads MPI late (BASE_LAUNCHED_HOST_ENV); NULL: it does not. After
 * ampi_launched_take. */
const char *ampi_launched_host(void);

/* The rank that has started this program (BASE_LAUNCHED_PARENT_ENV); NULL: none. After ampi_launched_take. */
const char *ampi_launched_parent(void);

/* Restores the launcher's variables while PMIx_Init reads them, and removes them again. Other threads may
 * read the environment meanwhile, but must not change it. */
void ampi_launched_lend(void);
void ampi_launched_withdraw(void);

#endif
