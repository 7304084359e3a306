/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_info.h: hints on communicators, sessions, windows and files (MPI 5.0, section 7.4.4).
 */
#ifndef AMPI_COMM_INFO_H
#define AMPI_COMM_INFO_H

#include "ampi/object/info.h"

/* Filters the known hints for a communicator, with valid values. NULL if there are none (or info is NULL).
 * `old`: hints in use, which stay unless info sets them; it is not changed. */
struct ampi_info *ampi_comm_info_filter(const struct ampi_info *old, const struct ampi_info *info);

#endif
