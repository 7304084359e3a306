/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rank_env.h: the launchers' environment variables of a rank.
 */
#ifndef AMPI_RANK_ENV_H
#define AMPI_RANK_ENV_H

#include "ampi/object/rank.h"

/* Prepares the initial environment of ranks. Before the first copy of the program is created. Ends the job
 * if memory is exhausted. */
void ampi_rank_env_open(void);

/* Sets the variables in the environment of a rank with a copy of the program, before that runs. Ends the
 * job if memory is exhausted. */
void ampi_rank_env_init(struct ampi_rank *rank);

#endif
