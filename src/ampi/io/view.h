/* SPDX-License-Identifier: BSD-3-Clause
 *
 * view.h: views (MPI 5.0, section 14.3): the bytes of a file that a rank sees.
 *
 * The data of a view is the data of its filetype, repeated from the displacement on. Data bytes are numbered; the cursor of
 * datatypes (type.h) finds the place of a data byte, with the displacement in the file in place of an address. So a view costs
 * no memory, whatever its filetype.
 */
#ifndef AMPI_IO_VIEW_H
#define AMPI_IO_VIEW_H

#include "ampi/datatype/type.h"

struct ampi_datarep;

/* Bytes that a view, and its displacement, can have: sums of two offsets fit into 63 bits. */
#define AMPI_VIEW_BYTES_MAX ((MPI_Count)1 << 62)

/* Immutable; pending accesses hold references. */
struct ampi_view {
    uint32_t refs;                  /* of the owner's file and its accesses */
    MPI_Offset disp;                /* bytes before the first filetype */
    struct ampi_type *etype;        /* as passed by the program; holds a reference */
    struct ampi_type *filetype;     /* the same */
    struct ampi_type *layout;       /* the filetype in the file's data representation; holds a reference */
    MPI_Count etype_bytes;          /* of an etype in the file */
    MPI_Count n_tiles;              /* as many filetypes as fit into 62 bits */
    const struct ampi_datarep *rep; /* never NULL */
};

/* The view of a new file: bytes from the beginning. */
struct ampi_view *ampi_view_create_default(void);

/* Takes references to the types; etype and filetype are checked. Returns an error class; *text_out: a sentence about it. */
int ampi_view_create(MPI_Offset disp, struct ampi_type *etype, struct ampi_type *filetype,
                     const struct ampi_datarep *rep, bool may_write, struct ampi_view **view_out,
                     const char **text_out);
void ampi_view_ref(struct ampi_view *view);
void ampi_view_unref(struct ampi_view *view);

/* A cursor at a data byte; addresses are bytes from the view's displacement. */
void ampi_view_seek(const struct ampi_view *view, struct ampi_cursor *cursor, MPI_Offset data_byte);

/* Sets the data byte at which an etype begins. False if the n_bytes from there are more than the view can have. */
bool ampi_view_find(const struct ampi_view *view, MPI_Offset etype, MPI_Count n_bytes, MPI_Offset *byte_out);

/* The offset in the file of a data byte. */
MPI_Offset ampi_view_place(const struct ampi_view *view, MPI_Offset data_byte);

/* The number of etypes of which at least one byte lies before this offset in the file: the end of the file in the view. */
MPI_Offset ampi_view_etypes_before(const struct ampi_view *view, MPI_Offset place);

#endif
