/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cxx_new.h: operator new and delete of a program that replaces them. Private to src/image.
 */
#ifndef IMAGE_CXX_NEW_H
#define IMAGE_CXX_NEW_H

#include "image/copy/program.h"

/* If a private module defines these operators, makes shared libraries that use its definition call the running rank's. After
 * the program's modules are known, before the first copy. */
void image_cxx_new_open(const struct image_program *program);

/* cxx_waits.c: a rank that waits in a shared C++ library lets others run. The same. */
void image_cxx_waits_open(const struct image_program *program);

#endif
