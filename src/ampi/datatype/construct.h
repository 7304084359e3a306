/* SPDX-License-Identifier: BSD-3-Clause
 *
 * construct.h: shared functions of the constructors. A constructor checks its arguments, creates an object
 * with room for them (ampi_type_new), stores them, and calls ampi_construct_done to compute the bounds and
 * set the handle.
 */
#ifndef AMPI_DATATYPE_CONSTRUCT_H
#define AMPI_DATATYPE_CONSTRUCT_H

#include "ampi/datatype/recipe.h"

/* Checks the arguments that all constructors have; raises and returns an error class if one is wrong. */
int ampi_construct_check(MPI_Count count, MPI_Count blocklength, MPI_Datatype oldtype, MPI_Datatype *newtype);

/* Stores a valid handle as argument `index`. */
void ampi_construct_set_type(struct ampi_type *type, MPI_Count index, MPI_Datatype oldtype);

/* Sets *newtype, or raises MPI_ERR_VALUE_TOO_LARGE and destroys the type. Returns the error class. */
int ampi_construct_done(struct ampi_type *type, MPI_Datatype *newtype);

#endif
