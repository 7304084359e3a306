/* SPDX-License-Identifier: BSD-3-Clause
 *
 * error_class.h: error classes, codes and strings that the program adds (MPI 5.0, section 9.5). A rank has
 * its own.
 */
#ifndef AMPI_ERROR_CLASS_H
#define AMPI_ERROR_CLASS_H

#include "ampi/object/handle.h"

struct ampi_rank;

/* True for the classes of the standard: error_text.c. */
bool ampi_error_is_predefined(int error_code);

/* The running rank's string for a class or code that it added: "" without one; NULL if it did not add it. */
const char *ampi_error_user_string(int error_code);

/* The class of a code that the running rank added; MPI_ERR_UNKNOWN if it did not add it. */
int ampi_error_user_class(int error_code);

/* The highest class or code in use by the rank: MPI_LASTUSEDCODE. */
int ampi_error_last_used(const struct ampi_rank *rank);

/* Frees the rank's classes, codes and strings; at its end. */
void ampi_error_classes_fini(struct ampi_rank *rank);

#endif
