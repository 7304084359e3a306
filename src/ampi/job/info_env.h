/* SPDX-License-Identifier: BSD-3-Clause
 *
 * info_env.h: what MPI_INFO_ENV and MPI_Info_create_env tell (MPI 5.0, section 11.2.1).
 */
#ifndef AMPI_INFO_ENV_H
#define AMPI_INFO_ENV_H

#include "ampi/object/info.h"

/* A new info object with what is known of the job and of this rank (NULL: of the job alone). */
struct ampi_info *ampi_info_env_create(const struct ampi_rank *rank);

/* The arguments behind the program's name, with blanks between them; the caller frees them. NULL: there are
 * none, or more than an info value takes. */
char *ampi_info_env_join(int argc, char *const *argv);

/* ampi_info_env_create with the program's own idea of its arguments; argc 0: not known. */
struct ampi_info *ampi_info_env_create_with(const struct ampi_rank *rank, int argc, char *const *argv);

#endif
