/* SPDX-License-Identifier: BSD-3-Clause
 *
 * env.h: frees the per-rank state of the environment functions.
 */
#ifndef AMPI_ENV_H
#define AMPI_ENV_H

struct ampi_rank;

/* Frees a rank's own attributes, info, error classes, error handlers and handle numbers. At its end, when
 * no MPI function can be called any more; does not call the program's callbacks. */
void ampi_env_fini(struct ampi_rank *rank);

#endif
