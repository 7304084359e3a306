/* SPDX-License-Identifier: BSD-3-Clause
 *
 * launcher_env.h: what a launcher tells this process through the environment. See launcher_env.c.
 */
#ifndef AMPI_LAUNCHED_H
#define AMPI_LAUNCHED_H

#include "base/base.h"

/* Takes the launcher's variables out of the environment, so that programs that this one starts do not have
 * them. Called once, at the start of the process (there are no other threads then), or by MPI_Init in a
 * program that loaded the library later. */
void ampi_launched_take(void);

/* Reports to mpirun that this process runs a program of this library, and how many ranks it was told
 * (0: not told). Nothing happens if mpirun does not ask. After ampi_launched_take. */
void ampi_launched_report(long n_ranks);

/* How many processes a launcher has started, as far as the environment tells; 0: there is none, -1: it does
 * not say. After ampi_launched_take. */
int ampi_launched_count(void);

/* Puts the launcher's variables back while PMIx_Init reads them, and takes them out again. Other threads may
 * read the environment meanwhile, but must not change it. */
void ampi_launched_lend(void);
void ampi_launched_withdraw(void);

#endif
