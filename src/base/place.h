/* SPDX-License-Identifier: BSD-3-Clause
 *
 * place.h: where the files of this library are.
 */
#ifndef BASE_PLACE_H
#define BASE_PLACE_H

#include "base/base.h"

/* The path of a shared object of ours that is loaded only if needed: in the folder heddle/ beside this
 * library. */
void base_place_of(const char *name, char *path, size_t path_bytes);

#endif
