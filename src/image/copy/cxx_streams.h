/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cxx_streams.h: std::cout and the other stream objects of libstdc++, one of each per rank. Private to src/image.
 */
#ifndef IMAGE_CXX_STREAMS_H
#define IMAGE_CXX_STREAMS_H

#include "image/copy/instantiate.h"

/* The number of the stream object that this symbol names and the C++ runtime defines; -1: another symbol. Constructs the
 * streams of the prototype. One thread at a time. */
int image_stream_find(const char *name, const void *definition);

/* True if this symbol is one of these objects. */
bool image_stream_is(const char *name);

/* The rank's address for one in a prototype's object; any other address unchanged. Never switches. */
void *image_stream_of(const struct image *image, void *address);

/* Makes the pointers in the bytes of a prototype's object, which are in the copy, lead to the rank's objects. */
void image_stream_translate(const struct image *image, char *object, size_t size_bytes);

/* Writes the addresses of the rank's stream objects into the copy of a program or group, and makes these objects if they do
 * not exist. */
void image_streams_fill(const struct image_program *program, struct image *image);

#endif
