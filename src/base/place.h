/* SPDX-License-Identifier: BSD-3-Clause
 *
 * place.h: the location of this library's files.
 */
#ifndef BASE_PLACE_H
#define BASE_PLACE_H

#include "base/base.h"

/* The path of one of Heddle's shared objects that are loaded on demand: in the folder heddle/ next to this library. The
 * caller frees it; NULL: out of memory. */
char *base_place_of(const char *name) BASE_MUST_CHECK;

#endif
