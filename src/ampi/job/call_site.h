/* SPDX-License-Identifier: BSD-3-Clause
 *
 * call_site.h: the places in the program where it calls MPI, for reports.
 */
#ifndef AMPI_JOB_CALL_SITE_H
#define AMPI_JOB_CALL_SITE_H

#include "ampi/object/rank.h"

/* The return address in the program: `from` or, if that is in this library or its Fortran interface, one that is found on the
 * rank's stack from lo to hi (NULL: its end). Any thread. */
const void *ampi_call_site_of(const struct ampi_rank *rank, const void *from, const char *lo, const char *hi);

/* Writes the place of the call before a return address: function and source line, or without debug information the address in the
 * file. The places are remembered: a thousand copies of a program are searched once. False: not known. Any thread. */
bool ampi_call_site_describe(const void *from, char text[AMPI_CALL_SITE_BYTES]);

#endif
