/* SPDX-License-Identifier: BSD-3-Clause
 *
 * section.c: array sections as buffers (mpi_f08 with MPI_SUBARRAYS_SUPPORTED). The count and datatype of a
 * call describe the elements as if they were contiguous. Called by the generated entry points, with
 * sections that have gaps. A section becomes a datatype, or a contiguous copy that is stored in the section when the
 * operation ends; a persistent request fills its copy at each start.
 */
#include "fort.h"

#include <string.h>

bool fort_section_is_contiguous(const struct fort_descriptor *section)
{
    ptrdiff_t bytes = (ptrdiff_t)section->elem_len;

    if (!section->base_addr) /* an array that is not allocated: its extents are undefined */
        return true;
    /* An assumed-size array has no gaps. gfortran 11 describes sections without elements like this, too. */
    if (section->rank > 0 && section->dim[section->rank - 1].extent == -1)
        return true;
    for (int i = 0; i < section->rank; i++) {
        ptrdiff_t extent = section->dim[i].extent;
        if (extent == 0)
            return true;
        if (extent != 1 && section->dim[i].sm != bytes)
            return false;
        bytes *= extent;
    }
    return true;
}

bool fort_section_has_one(const struct fort_descriptor *section, MPI_Fint datatype)
{
    MPI_Count size = 0;

    return fort_section_is_contiguous(section) ||
           PMPI_Type_size_c(fort_datatype(datatype), &size) != MPI_SUCCESS || /* the call reports that */
           size <= (MPI_Count)section->elem_len;
}

static MPI_Count n_elements(const struct fort_descriptor *section)
{
    MPI_Count n = 1;

    for (int i = 0; i < section->rank; i++)
        n *= section->dim[i].extent;
    return n;
}

/* ---- Datatypes ---- */

/* A section without dimensions of one element, and with dimensions joined whose elements are evenly spaced. */
struct shape {
    int rank;
    struct {
        MPI_Count extent; /* elements; a slab has all of this dimension */
        MPI_Count slab;   /* elements of the dimensions before this one */
        MPI_Aint sm;      /* distance between elements, in bytes */
    } dim[15];
};

static struct shape shape_of(const struct fort_descriptor *section)
{
    struct shape shape = {0};
    MPI_Count elements = 1;

    for (int i = 0; i < section->rank; i++) {
        MPI_Count extent = section->dim[i].extent;
        int last = shape.rank - 1;
        if (extent == 1)
            continue;
        if (shape.rank > 0 && shape.dim[last].extent * shape.dim[last].sm == section->dim[i].sm) {
            shape.dim[last].extent *= extent;
        } else {
            shape.dim[shape.rank].extent = extent;
            shape.dim[shape.rank].slab = elements;
            shape.dim[shape.rank++].sm = section->dim[i].sm;
        }
        elements *= extent;
    }
    return shape;
}

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
static MPI_Datatype whole(const struct shape *shape, int rank, MPI_Datatype element)
{
    MPI_Datatype type = element;

    if (rank == 0)
        PMPI_Type_dup(element, &type);
    for (int i = 0; i < rank; i++)
        repeat(&type, shape->dim[i].extent, shape->dim[i].sm, i == 0);
    return type;
}

/* The datatype of the first n elements: whole slabs of the last dimension, then slabs of the one before, and so on. */
static MPI_Datatype first_elements(const struct shape *shape, MPI_Count n, MPI_Datatype element)
{
    enum { MAX_RANK = 15 };
    MPI_Datatype parts[MAX_RANK] = {0}, type;
    MPI_Count ones[MAX_RANK] = {0}, at[MAX_RANK] = {0}, offset = 0;
    int n_parts = 0;

    for (int rank = shape->rank; rank > 0 && n > 0; rank--) {
        MPI_Count in_slab = shape->dim[rank - 1].slab, slabs = n / in_slab;
        if (slabs == 0)
            continue;
        parts[n_parts] = whole(shape, rank - 1, element);
        repeat(&parts[n_parts], slabs, shape->dim[rank - 1].sm, false);
        ones[n_parts] = 1;
        at[n_parts++] = offset;
        offset += slabs * shape->dim[rank - 1].sm;
        n -= slabs * in_slab;
    }
    PMPI_Type_create_struct_c(n_parts, ones, at, parts, &type);
    for (int i = 0; i < n_parts; i++)
        PMPI_Type_free(&parts[i]);
    return type;
}

/* The distance in bytes between blocks of n elements each, if all of them have the same shape: they are equal parts of one
 * dimension. False if they are not, or end behind the section. The section has at least n elements. */
static bool find_spacing(const struct shape *shape, MPI_Count n_blocks, MPI_Count n, MPI_Aint *spacing_out)
{
    if (n == 0) {
        *spacing_out = 0;
        return true;
    }
    for (int i = shape->rank - 1; i >= 0; i--) {
        MPI_Count slabs = n / shape->dim[i].slab;
        if (slabs == 0 || n % shape->dim[i].slab != 0)
            continue;
        if (slabs * n_blocks > shape->dim[i].extent)
            return false;
        *spacing_out = slabs * shape->dim[i].sm;
        return true;
    }
    return false;
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

/* Elements of the array in n elements of the datatype; -1 if the datatype does not divide into elements of the array. */
static MPI_Count array_elements(const struct fort_descriptor *buffer, MPI_Count n, MPI_Count size)
{
    MPI_Count per_element =
        size > 0 && buffer->elem_len % (size_t)size == 0 ? (MPI_Count)buffer->elem_len / size : 0;

    return per_element == 0 || n < 0 || n % per_element != 0 ? -1 : n / per_element;
}

static void as_given(struct fort_section *section, MPI_Count count, MPI_Fint datatype)
{
    section->count = count;
    section->count_int = (MPI_Fint)count;
    section->datatype = datatype;
}

bool fort_section_blocks(struct fort_section *section, const struct fort_descriptor *buffer, int n_blocks,
                         MPI_Count count, MPI_Fint datatype)
{
    struct shape shape;
    MPI_Datatype element, of_array, type;
    MPI_Count size, n;
    MPI_Aint spacing = 0;

    *section = (struct fort_section){.base = buffer->base_addr};
    if (fort_section_is_contiguous(buffer)) { /* also MPI_IN_PLACE: then the datatype may be anything */
        as_given(section, count, datatype);
        return true;
    }
    shape = shape_of(buffer);
    element = of_array = fort_datatype(datatype);
    size = dense_size(element);
    n = array_elements(buffer, count, size);
    if (n < 0 || n > n_elements(buffer) || (n_blocks != 1 && !find_spacing(&shape, n_blocks, n, &spacing)))
        return false;
    if ((MPI_Count)buffer->elem_len != size)
        PMPI_Type_contiguous_c((MPI_Count)buffer->elem_len / size, element, &of_array);
    type = first_elements(&shape, n, of_array);
    if (of_array != element)
        PMPI_Type_free(&of_array);
    if (n_blocks != 1) {
        MPI_Datatype unspaced = type;
        PMPI_Type_create_resized_c(unspaced, 0, spacing, &type);
        PMPI_Type_free(&unspaced);
    }
    PMPI_Type_commit(&type);
    as_given(section, 1, fort_datatype_int(type));
    section->is_own_type = true;
    return true;
}

void fort_section_typed(struct fort_section *section, const struct fort_descriptor *buffer, MPI_Count count,
                        MPI_Fint datatype, bool is_written)
{
    if (fort_section_blocks(section, buffer, 1, count, datatype))
        return;
    fort_section_copied(section, buffer, is_written);
    as_given(section, count, datatype);
}

/* ---- Copies ----
 *
 * A copy that MPI may write has the data from before the operation behind it: when the operation ends, only bytes that
 * differ are stored in the section. The others may belong to the program, or to another operation. */

static void store_changes(char *at, const char *copy, const char *before, size_t n_bytes)
{
    if (memcmp(copy, before, n_bytes) == 0)
        return;
    for (size_t i = 0; i < n_bytes; i++)
        if (copy[i] != before[i])
            at[i] = copy[i];
}

/* Copies the elements of the first rank dimensions from the section at `at` to *copy, which advances; or (to_before is the
 * distance from *copy to the data from before) stores the changes in the section. */
static void transfer(const struct fort_descriptor *section, int rank, char *at, char **copy,
                     ptrdiff_t to_before)
{
    if (rank == 0) {
        if (to_before)
            store_changes(at, *copy, *copy + to_before, section->elem_len);
        else
            memcpy(*copy, at, section->elem_len);
        *copy += section->elem_len;
        return;
    }
    for (ptrdiff_t i = 0; i < section->dim[rank - 1].extent; i++)
        transfer(section, rank - 1, at + i * section->dim[rank - 1].sm, copy, to_before);
}

static void copy_in(struct fort_pending *pending)
{
    const struct fort_descriptor *buffer = pending->source;
    char *at = pending->memory;

    transfer(buffer, buffer->rank, buffer->base_addr, &at, 0);
    if (pending->before)
        memcpy(pending->before, pending->memory, (size_t)(at - (char *)pending->memory));
}

static void copy_back(struct fort_pending *pending)
{
    const struct fort_descriptor *buffer = pending->source;
    char *at = pending->memory;

    transfer(buffer, buffer->rank, buffer->base_addr, &at, (char *)pending->before - at);
}

/* The copy has its own descriptor behind it: the caller's is gone when the operation ends. */
void fort_section_copied(struct fort_section *section, const struct fort_descriptor *buffer, bool is_written)
{
    size_t descriptor_bytes = sizeof *buffer + (size_t)buffer->rank * sizeof buffer->dim[0], bytes, all_bytes;
    struct fort_pending *pending;
    char *copy;

    *section = (struct fort_section){.base = buffer->base_addr};
    if (fort_section_is_contiguous(buffer))
        return;
    bytes = ((size_t)n_elements(buffer) * buffer->elem_len + 15) & ~(size_t)15;
    all_bytes = is_written ? 2 * bytes : bytes;
    copy = fort_alloc(all_bytes + descriptor_bytes);
    pending = fort_alloc(sizeof *pending);
    *pending = (struct fort_pending){.memory = copy,
                                     .before = is_written && bytes > 0 ? copy + bytes : NULL,
                                     .source = memcpy(copy + all_bytes, buffer, descriptor_bytes)};
    copy_in(pending);
    section->base = copy;
    section->copy = pending;
}

void fort_section_end(struct fort_section *section, bool is_persistent, const MPI_Fint *request)
{
    MPI_Datatype type;

    if (section->is_own_type) {
        type = fort_datatype(section->datatype);
        PMPI_Type_free(&type);
    }
    if (!section->copy)
        return;
    section->copy->finish = section->copy->before ? copy_back : NULL;
    section->copy->start = is_persistent ? copy_in : NULL;
    fort_pending_add(request ? *request : fort_request_int(MPI_REQUEST_NULL), section->copy);
}
