/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cursor.h: the walk through a typemap program, as copy.c uses it.
 */
#ifndef AMPI_DATATYPE_CURSOR_H
#define AMPI_DATATYPE_CURSOR_H

#include "ampi/datatype/typemap.h"

/* Sets the run that follows the one that is used up; packed_bytes must be where it begins. False at the end
 * of the data. Never switches. */
bool ampi_cursor_next_run(struct ampi_cursor *cursor);

/* The frame with this number, which must be in the ring: low <= depth. */
static inline struct ampi_cursor_frame *ampi_cursor_frame_at(struct ampi_cursor *cursor, unsigned depth)
{
    return &cursor->frames[depth % AMPI_CURSOR_FRAMES];
}

#endif
