/* SPDX-License-Identifier: BSD-3-Clause
 *
 * env.h: the end of what the environment chapters keep per rank.
 */
#ifndef AMPI_ENV_H
#define AMPI_ENV_H

struct ampi_rank;

/* Frees what a rank holds of its own in attributes, info, error classes, error handlers and handle numbers.
 * At its end, when no MPI function can be called any more; calls nothing of the program. */
void ampi_env_fini(struct ampi_rank *rank);

#endif
