/* SPDX-License-Identifier: BSD-3-Clause
 *
 * datatype_reference.h: the naive reference of the datatype tests: a type is the list of its basic elements,
 * as the formal definitions of MPI 5.0, chapter 5, give it. Every constructor is a loop that places copies of
 * a child.
 */
#ifndef DATATYPE_REFERENCE_H
#define DATATYPE_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mpi.h"

#define REF_ITEMS_MAX 1500

struct ref_item {
    int64_t disp;
    int size;
};

struct ref {
    MPI_Datatype handle;
    int n; /* items */
    struct ref_item *items;
    bool has_markers;
    int64_t marker_lb, marker_ub;
    int64_t align;
    int64_t end;                            /* of the last child with items, its padding included */
    bool is_struct;                         /* padded to its alignment */
    int64_t lb, ub, true_lb, true_ub, size; /* set by ref_finish */
    int depth;                              /* of nesting */
    bool is_named;                          /* predefined */
};

static inline void ref_init(struct ref *r)
{
    memset(r, 0, sizeof *r);
    r->handle = MPI_DATATYPE_NULL;
    r->align = 1;
    r->items = malloc(REF_ITEMS_MAX * sizeof *r->items);
}

/* Adds one copy of the child. Too many items: n becomes REF_ITEMS_MAX + 1 and stays so. */
static inline void ref_place(struct ref *r, const struct ref *child, int64_t disp)
{
    if (child->has_markers) {
        if (!r->has_markers || disp + child->marker_lb < r->marker_lb)
            r->marker_lb = disp + child->marker_lb;
        if (!r->has_markers || disp + child->marker_ub > r->marker_ub)
            r->marker_ub = disp + child->marker_ub;
        r->has_markers = true;
    }
    if (child->n > 0 && (r->n == 0 || disp + child->ub > r->end))
        r->end = disp + child->ub;
    for (int i = 0; i < child->n; i++) {
        if (r->n >= REF_ITEMS_MAX) {
            r->n = REF_ITEMS_MAX + 1;
            return;
        }
        r->items[r->n].disp = disp + child->items[i].disp;
        r->items[r->n].size = child->items[i].size;
        r->n++;
    }
    if (child->n > 0 && child->align > r->align)
        r->align = child->align;
}

static inline int64_t ref_extent(const struct ref *r)
{
    return r->ub - r->lb;
}

static inline void ref_place_block(struct ref *r, const struct ref *child, int64_t disp, int64_t len)
{
    for (int64_t j = 0; j < len; j++)
        ref_place(r, child, disp + j * ref_extent(child));
}

static inline void ref_set_markers(struct ref *r, int64_t lb, int64_t extent)
{
    r->has_markers = true;
    r->marker_lb = lb;
    r->marker_ub = lb + extent;
}

/* The bounds, from the items and markers. */
static inline void ref_finish(struct ref *r)
{
    r->size = r->true_lb = r->true_ub = 0;
    for (int i = 0; i < r->n; i++) {
        int64_t low = r->items[i].disp, high = low + r->items[i].size;
        if (i == 0 || low < r->true_lb)
            r->true_lb = low;
        if (i == 0 || high > r->true_ub)
            r->true_ub = high;
        r->size += r->items[i].size;
    }
    r->lb = r->true_lb;
    r->ub = r->is_struct || r->n == 0 ? r->true_ub : r->end;
    while (r->is_struct && (r->ub - r->lb) % r->align)
        r->ub++;
    if (r->has_markers) {
        r->lb = r->marker_lb;
        r->ub = r->marker_ub;
    }
}

/* A predefined type: one element, or the two of a pair. */
static inline void ref_basic(struct ref *r, MPI_Datatype handle, int first, int disp_second, int second,
                             int align)
{
    ref_init(r);
    r->handle = handle;
    r->is_named = r->is_struct = true;
    r->align = align;
    r->items[r->n++] = (struct ref_item){0, first};
    if (second)
        r->items[r->n++] = (struct ref_item){disp_second, second};
    ref_finish(r);
}

static inline void ref_pack(const struct ref *r, int64_t count, const char *buf, char *out)
{
    for (int64_t k = 0; k < count; k++) {
        for (int i = 0; i < r->n; i++) {
            memcpy(out, buf + k * ref_extent(r) + r->items[i].disp, (size_t)r->items[i].size);
            out += r->items[i].size;
        }
    }
}

/* Unpacks the first n_bytes. */
static inline void ref_unpack(const struct ref *r, int64_t count, char *buf, const char *in, int64_t n_bytes)
{
    for (int64_t k = 0; k < count; k++) {
        for (int i = 0; i < r->n; i++) {
            int64_t size = r->items[i].size < n_bytes ? r->items[i].size : n_bytes;
            memcpy(buf + k * ref_extent(r) + r->items[i].disp, in, (size_t)size);
            in += size;
            n_bytes -= size;
        }
    }
}

/* Basic elements in n_bytes of data, MPI_UNDEFINED if they end within one. */
static inline int64_t ref_elements(const struct ref *r, int64_t n_bytes)
{
    int64_t n = 0;

    if (r->size == 0)
        return n_bytes ? MPI_UNDEFINED : 0;
    n = n_bytes / r->size * r->n;
    n_bytes %= r->size;
    for (int i = 0; n_bytes > 0; i++, n++)
        n_bytes -= r->items[i].size;
    return n_bytes < 0 ? MPI_UNDEFINED : n;
}

#endif
