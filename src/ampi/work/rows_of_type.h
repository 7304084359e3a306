/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rows_of_type.h: the bytes of data of a datatype as rows of equal size at equal distances.
 */
#ifndef AMPI_WORK_ROWS_OF_TYPE_H
#define AMPI_WORK_ROWS_OF_TYPE_H

#include "ampi/datatype/type.h"
#include "ampi/work/ranges.h"
#include "base/layout.h"

/* count elements at buf, count and size positive. False: they have another form. */
static inline bool ampi_rows_of_type(const void *buf, MPI_Count count, const struct ampi_type *type,
                                     struct ampi_rows *rows_out)
{
    struct ampi_rows rows = {.from = (uintptr_t)ampi_type_address(buf, type->true_lb_bytes),
                             .row_bytes = (size_t)type->size_bytes,
                             .n = 1};

    if (!type->is_dense) {
        const struct base_node *node = base_layout_node(type->map->words, type->map->root);
        if (node->kind != BASE_NODE_STRIDED || node->stride < node->unit)
            return false;
        rows.row_bytes = (size_t)node->unit;
        rows.n = (size_t)node->n;
        rows.stride = (size_t)node->stride;
    }
    if (count > 1 && rows.n == 1) {
        if (type->extent_bytes < (MPI_Count)rows.row_bytes)
            return false;
        rows.n = (size_t)count;
        rows.stride = (size_t)type->extent_bytes;
    } else if (count > 1) {
        if (type->extent_bytes != (MPI_Count)(rows.n * rows.stride))
            return false;
        rows.n *= (size_t)count;
    }
    if (rows.n == 1 || rows.stride == rows.row_bytes) {
        rows.row_bytes *= rows.n;
        rows.n = 1;
        rows.stride = rows.row_bytes;
    }
    *rows_out = rows;
    return true;
}

#endif
