/* SPDX-License-Identifier: BSD-3-Clause
 *
 * view.c: see view.h.
 */
#include "ampi/io/view.h"

#include "ampi/datatype/cursor.h"
#include "ampi/io/datarep.h"
#include "base/log.h"

/* Runs of a filetype that are checked; a filetype of more runs is trusted from there on. */
#define CHECKED_RUNS 65536

static struct ampi_view *create(MPI_Offset disp, struct ampi_type *etype, struct ampi_type *filetype,
                                struct ampi_type *layout, const struct ampi_datarep *rep)
{
    struct ampi_view *view = base_calloc(1, sizeof *view, "the view of a file");
    MPI_Count step = layout->extent_bytes > layout->size_bytes ? layout->extent_bytes : layout->size_bytes;

    view->refs = 1;
    view->disp = disp;
    view->etype = etype;
    view->filetype = filetype;
    view->layout = layout;
    view->rep = rep;
    view->n_tiles = step > 0 ? (AMPI_VIEW_BYTES_MAX - 1) / step : 0;
    ampi_type_ref(etype);
    ampi_type_ref(filetype);
    return view;
}

struct ampi_view *ampi_view_create_default(void)
{
    struct ampi_type *byte = ampi_type_of(MPI_BYTE);
    struct ampi_view *view = create(0, byte, byte, byte, ampi_datarep_native());

    view->etype_bytes = 1;
    return view;
}

/* NULL, or the rule that the filetype's displacements break: not negative, ascending and, for writing, without overlap. */
static const char *check_order(const struct ampi_type *layout, bool may_write)
{
    struct ampi_cursor cursor;
    int64_t last_begin = 0, last_end = 0;

    if (layout->size_bytes == 0)
        return NULL;
    ampi_cursor_init(&cursor, NULL, 1, layout);
    for (int i = 0; i < CHECKED_RUNS && cursor.run.n_blocks > 0; i++) {
        const struct ampi_cursor_run *run = &cursor.run;
        int64_t begin = (int64_t)run->ptr, n_blocks = (int64_t)run->n_blocks, block = (int64_t)run->block;
        if (begin < 0)
            return "a displacement in the filetype is negative";
        if (begin < last_begin || (n_blocks > 1 && run->stride < 0))
            return "the displacements in the filetype do not ascend";
        if (may_write && (begin < last_end || (n_blocks > 1 && run->stride < block)))
            return "blocks of the filetype overlap, but the file may be written";
        last_begin = begin + (n_blocks - 1) * run->stride;
        last_end = last_begin + block;
        cursor.packed_bytes += n_blocks * block;
        cursor.run.n_blocks = 0;
        if (!ampi_cursor_next_run(&cursor))
            break;
    }
    return layout->extent_bytes < 0 ? "the filetype's extent is negative" : NULL;
}

int ampi_view_create(MPI_Offset disp, struct ampi_type *etype, struct ampi_type *filetype,
                     const struct ampi_datarep *rep, bool may_write, struct ampi_view **view_out,
                     const char **text_out)
{
    struct ampi_type *layout;
    MPI_Count etype_bytes;
    int error = ampi_datarep_size(rep, etype, &etype_bytes);

    *text_out = "the data representation has no extent for a datatype of the view";
    if (error || (error = ampi_datarep_layout(rep, filetype, &layout)))
        return error;
    *text_out = NULL;
    error = MPI_ERR_TYPE;
    if (etype_bytes <= 0)
        *text_out = "the etype has no data";
    else if (layout->size_bytes % etype_bytes)
        *text_out = "the filetype does not consist of whole etypes";
    if (!*text_out && (*text_out = check_order(layout, may_write)))
        error = MPI_ERR_IO; /* the class of other MPI libraries, which programs expect */
    if (*text_out) {
        ampi_type_unref(layout);
        return error;
    }
    *view_out = create(disp, etype, filetype, layout, rep);
    (*view_out)->etype_bytes = etype_bytes;
    return MPI_SUCCESS;
}

void ampi_view_ref(struct ampi_view *view)
{
    view->refs++;
}

void ampi_view_unref(struct ampi_view *view)
{
    if (--view->refs > 0)
        return;
    ampi_type_unref(view->etype);
    ampi_type_unref(view->filetype);
    ampi_type_unref(view->layout);
    free(view);
}

void ampi_view_seek(const struct ampi_view *view, struct ampi_cursor *cursor, MPI_Offset data_byte)
{
    *cursor = (struct ampi_cursor){.type = view->layout, .count = view->n_tiles};
    ampi_cursor_seek(cursor, data_byte);
}

bool ampi_view_find(const struct ampi_view *view, MPI_Offset etype, MPI_Count n_bytes, MPI_Offset *byte_out)
{
    MPI_Offset all_bytes = view->n_tiles * view->layout->size_bytes;

    if (__builtin_mul_overflow(etype, view->etype_bytes, byte_out))
        return false;
    return n_bytes == 0 || (n_bytes <= all_bytes && *byte_out <= all_bytes - n_bytes);
}

MPI_Offset ampi_view_place(const struct ampi_view *view, MPI_Offset data_byte)
{
    struct ampi_cursor cursor;

    ampi_view_seek(view, &cursor, data_byte);
    return view->disp + (MPI_Offset)(cursor.run.ptr + cursor.run.used);
}

/* Places ascend with data bytes, so a binary search finds the first etype at or after the place. */
MPI_Offset ampi_view_etypes_before(const struct ampi_view *view, MPI_Offset place)
{
    MPI_Offset low = 0, high;

    if (place <= view->disp || view->layout->size_bytes == 0)
        return 0;
    high = (place - view->disp) / view->etype_bytes + 1; /* no byte of the view lies before its number */
    if (high > view->n_tiles * (view->layout->size_bytes / view->etype_bytes))
        high = view->n_tiles * (view->layout->size_bytes / view->etype_bytes);
    while (low < high) {
        MPI_Offset middle = low + (high - low) / 2;
        if (ampi_view_place(view, middle * view->etype_bytes) < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
