/* SPDX-License-Identifier: BSD-3-Clause
 *
 * construct.h: what the constructors share. A constructor checks its arguments, makes an object with room for
 * them (ampi_type_new), stores them, and lets ampi_construct_done find the bounds and set the handle.
 */
#ifndef AMPI_DATATYPE_CONSTRUCT_H
#define AMPI_DATATYPE_CONSTRUCT_H

#include "ampi/datatype/recipe.h"

/* Raises an error and returns its class if an argument that all constructors have is wrong. */
int ampi_construct_check(MPI_Count count, MPI_Count blocklength, MPI_Datatype oldtype, MPI_Datatype *newtype);

/* Stores a valid handle as the argument with this number. */
void ampi_construct_set_type(struct ampi_type *type, MPI_Count index, MPI_Datatype oldtype);

/* Sets *newtype, or raises MPI_ERR_VALUE_TOO_LARGE and destroys the type. Returns the error class. */
int ampi_construct_done(struct ampi_type *type, MPI_Datatype *newtype);

#endif
