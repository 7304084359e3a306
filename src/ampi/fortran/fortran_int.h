/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fortran_int.h: integers for handles (MPI 5.0, section 19.3 and chapter 20): MPI_*_toint and MPI_*_fromint.
 */
#ifndef AMPI_FORTRAN_INT_H
#define AMPI_FORTRAN_INT_H

struct ampi_rank;

/* Frees the rank's table; at its end. */
void ampi_fortran_int_fini(struct ampi_rank *rank);

#endif
