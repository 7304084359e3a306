/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cursor.h: the walk through a typemap program, for copy.c.
 */
#ifndef AMPI_DATATYPE_CURSOR_H
#define AMPI_DATATYPE_CURSOR_H

#include "ampi/datatype/typemap.h"

/* Sets the run after the exhausted one; packed_bytes must be its start. False at the end of the data. Never
 * switches. */
bool ampi_cursor_next_run(struct ampi_cursor *cursor);

/* The frame at this depth, which must be in the ring: low <= depth. */
static inline struct ampi_cursor_frame *ampi_cursor_frame_at(struct ampi_cursor *cursor, unsigned depth)
{
    return &cursor->frames[depth % AMPI_CURSOR_FRAMES];
}

#endif
