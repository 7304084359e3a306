/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rank_env.h: what launchers' environment variables tell a rank.
 */
#ifndef AMPI_RANK_ENV_H
#define AMPI_RANK_ENV_H

#include "ampi/object/rank.h"

/* Gives the variables their values in the environment of a rank with a copy of the program, before that runs.
 * Ends the job if there is no memory. */
void ampi_rank_env_init(struct ampi_rank *rank);

#endif
