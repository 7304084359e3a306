/* SPDX-License-Identifier: BSD-3-Clause
 *
 * place.h: the location of this library's files.
 */
#ifndef BASE_PLACE_H
#define BASE_PLACE_H

#include "base/base.h"

/* Stores the path of one of Heddle's shared objects that are loaded on demand: in the folder heddle/ next
 * to this library. */
void base_place_of(const char *name, char *path, size_t path_bytes);

#endif
