/* SPDX-License-Identifier: BSD-3-Clause
 *
 * section.c: array sections as buffers (mpi_f08 with MPI_SUBARRAYS_SUPPORTED). The count and datatype of a
 * call describe the elements as if they were contiguous. Called by the generated entry points, with
 * sections that have gaps.
 */
#include "fort.h"

#include <string.h>

bool fort_section_is_contiguous(const struct fort_descriptor *section)
{
    ptrdiff_t bytes = (ptrdiff_t)section->elem_len;

    for (int i = 0; i < section->rank; i++) {
        ptrdiff_t extent = section->dim[i].extent;
        if (extent == 0)
            return true;
        if (extent != 1 && section->dim[i].sm != bytes)
            return extent == -1 && i == section->rank - 1;
        bytes *= extent;
    }
    return true;
}

static MPI_Count n_elements(const struct fort_descriptor *section, int rank)
{
    MPI_Count n = 1;

    for (int i = 0; i < rank; i++)
        n *= section->dim[i].extent;
    return n;
}

/* ---- Datatypes ---- */

/* Replaces *type by count of them, stride bytes apart. */
static void repeat(MPI_Datatype *type, MPI_Count count, MPI_Aint stride, bool is_first)
{
    MPI_Datatype more;

    PMPI_Type_create_hvector_c(count, 1, stride, *type, &more);
    if (!is_first)
        PMPI_Type_free(type);
    *type = more;
}

/* The datatype of all elements of the first rank dimensions; a new one. */
static MPI_Datatype whole(const struct fort_descriptor *section, int rank, MPI_Datatype element)
{
    MPI_Datatype type = element;

    if (rank == 0)
        PMPI_Type_dup(element, &type);
    for (int i = 0; i < rank; i++)
        repeat(&type, section->dim[i].extent, section->dim[i].sm, i == 0);
    return type;
}

/* The datatype of the first n elements: whole slabs of the last dimension, then slabs of the one before, and so on. */
static MPI_Datatype first_elements(const struct fort_descriptor *section, MPI_Count n, MPI_Datatype element)
{
    enum { MAX_RANK = 15 };
    MPI_Datatype parts[MAX_RANK] = {0}, type;
    MPI_Count ones[MAX_RANK] = {0}, at[MAX_RANK] = {0}, offset = 0;
    int n_parts = 0;

    for (int rank = section->rank; rank > 0 && n > 0; rank--) {
        MPI_Count in_slab = n_elements(section, rank - 1), slabs = n / in_slab;
        if (slabs == 0)
            continue;
        parts[n_parts] = whole(section, rank - 1, element);
        repeat(&parts[n_parts], slabs, section->dim[rank - 1].sm, false);
        ones[n_parts] = 1;
        at[n_parts++] = offset;
        offset += slabs * section->dim[rank - 1].sm;
        n -= slabs * in_slab;
    }
    PMPI_Type_create_struct_c(n_parts, ones, at, parts, &type);
    for (int i = 0; i < n_parts; i++)
        PMPI_Type_free(&parts[i]);
    return type;
}

/* Bytes of a datatype whose elements have no gaps, inside or between them; -1 for others. */
static MPI_Count dense_size(MPI_Datatype datatype)
{
    MPI_Count size = -1, lb = 0, extent = 0, true_lb = 0, true_extent = 0;

    if (datatype == MPI_DATATYPE_NULL || PMPI_Type_size_c(datatype, &size) != MPI_SUCCESS ||
        PMPI_Type_get_extent_c(datatype, &lb, &extent) != MPI_SUCCESS ||
        PMPI_Type_get_true_extent_c(datatype, &true_lb, &true_extent) != MPI_SUCCESS)
        return -1;
    return lb == 0 && true_lb == 0 && extent == size && true_extent == size ? size : -1;
}

void fort_section_typed(struct fort_section *section, const struct fort_descriptor *buffer, MPI_Count count,
                        MPI_Fint datatype)
{
    MPI_Datatype element = fort_datatype(datatype), type;
    MPI_Count size = dense_size(element), per_element;
    bool is_own = false;

    if (fort_section_is_contiguous(buffer)) {
        *section = (struct fort_section){
            .base = buffer->base_addr, .count = count, .count_int = (MPI_Fint)count, .datatype = datatype};
        return;
    }
    per_element = size > 0 && buffer->elem_len % (size_t)size == 0 ? (MPI_Count)buffer->elem_len / size : 0;
    if (per_element == 0 || count < 0 || count % per_element != 0 ||
        count / per_element > n_elements(buffer, buffer->rank)) {
        fort_section_copied(section, buffer);
        section->count = count;
        section->count_int = (MPI_Fint)count;
        section->datatype = datatype;
        return;
    }
    if (per_element > 1) {
        PMPI_Type_contiguous_c(per_element, element, &element);
        is_own = true;
    }
    type = first_elements(buffer, count / per_element, element);
    PMPI_Type_commit(&type);
    if (is_own)
        PMPI_Type_free(&element);
    *section = (struct fort_section){.base = buffer->base_addr,
                                     .count = 1,
                                     .count_int = 1,
                                     .datatype = fort_datatype_int(type),
                                     .is_own_type = true};
}

/* ---- Copies ---- */

/* Copies the elements of the first rank dimensions between the section at `at` and *copy, which advances. */
static void transfer(const struct fort_descriptor *section, int rank, char *at, char **copy, bool is_out)
{
    if (rank == 0) {
        memcpy(is_out ? at : *copy, is_out ? *copy : at, section->elem_len);
        *copy += section->elem_len;
        return;
    }
    for (ptrdiff_t i = 0; i < section->dim[rank - 1].extent; i++)
        transfer(section, rank - 1, at + i * section->dim[rank - 1].sm, copy, is_out);
}

void fort_section_copied(struct fort_section *section, const struct fort_descriptor *buffer)
{
    char *at;

    *section = (struct fort_section){.base = buffer->base_addr, .from = buffer};
    if (fort_section_is_contiguous(buffer))
        return;
    section->copy = fort_alloc((size_t)n_elements(buffer, buffer->rank) * buffer->elem_len);
    section->base = at = section->copy;
    transfer(buffer, buffer->rank, buffer->base_addr, &at, false);
}

static void copy_back(struct fort_pending *pending)
{
    const struct fort_descriptor *buffer = pending->source;
    char *at = pending->memory;

    transfer(buffer, buffer->rank, buffer->base_addr, &at, true);
    free(pending->target);
}

/* The descriptor belongs to the caller, and is gone when the operation ends. */
static struct fort_descriptor *keep(const struct fort_descriptor *buffer)
{
    size_t bytes = sizeof *buffer + (size_t)buffer->rank * sizeof buffer->dim[0];

    return memcpy(fort_alloc(bytes), buffer, bytes);
}

void fort_section_end(struct fort_section *section, bool is_written, const MPI_Fint *request)
{
    MPI_Datatype type = fort_datatype(section->datatype);
    struct fort_pending *pending;

    if (section->is_own_type)
        PMPI_Type_free(&type);
    if (!section->copy)
        return;
    pending = fort_alloc(sizeof *pending);
    *pending = (struct fort_pending){.memory = section->copy};
    if (is_written) {
        pending->target = keep(section->from);
        pending->source = pending->target;
        pending->finish = copy_back;
    }
    fort_pending_add(request ? *request : fort_request_int(MPI_REQUEST_NULL), pending);
}
