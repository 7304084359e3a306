/* SPDX-License-Identifier: BSD-3-Clause
 *
 * info_env.h: the contents of MPI_INFO_ENV and MPI_Info_create_env (MPI 5.0, section 11.2.1).
 */
#ifndef AMPI_INFO_ENV_H
#define AMPI_INFO_ENV_H

#include "ampi/object/info.h"

/* A new info object that describes the job and this rank (NULL: the job only). */
struct ampi_info *ampi_info_env_create(const struct ampi_rank *rank);

/* The arguments after the program's name, separated by blanks; the caller frees them. NULL: none, or too
 * long for an info value. */
char *ampi_info_env_join(int argc, char *const *argv);

/* ampi_info_env_create with the arguments that the program passes; argc 0: unknown. */
struct ampi_info *ampi_info_env_create_with(const struct ampi_rank *rank, int argc, char *const *argv);

#endif
