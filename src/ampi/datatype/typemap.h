/* SPDX-License-Identifier: BSD-3-Clause
 *
 * typemap.h: flattening a datatype into the program of base/layout.h (typemap_build.c).
 */
#ifndef AMPI_DATATYPE_TYPEMAP_H
#define AMPI_DATATYPE_TYPEMAP_H

#include "ampi/datatype/type.h"
#include "base/layout.h"

/* Flattens the type: sets is_dense, map and nothing else. */
void ampi_typemap_build(struct ampi_type *type);

#endif
