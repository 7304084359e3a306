/* SPDX-License-Identifier: BSD-3-Clause
 *
 * type_attr.c: the attributes of datatypes (MPI 5.0, section 7.7.4).
 */
#include "ampi/datatype/type.h"
#include "ampi/object/attr.h"
#include "ampi/object/rank.h"

struct ampi_attrs **ampi_attr_of_type(struct ampi_rank *self, struct ampi_type *type)
{
    if (!type->is_predefined)
        return &type->attrs;
    if (!ampi_handle_is_predefined(type->predefined)) /* MPI_Type_create_f90_real */
        return ampi_attr_of_shared(self, type);
    return ampi_attr_of_predefined(self, (uintptr_t)type->predefined - AMPI_TYPE_FIRST, AMPI_TYPE_COUNT);
}

int ampi_type_copy_attrs(struct ampi_type *old, struct ampi_type *dup)
{
    struct ampi_rank *self = ampi_self();
    struct ampi_attr_owner from = {.kind = AMPI_ATTR_ON_TYPE, .handle = ampi_type_handle(old)};
    struct ampi_attr_owner to = {.kind = AMPI_ATTR_ON_TYPE, .handle = ampi_type_handle(dup)};

    if (!self->keyvals) /* no key, no attribute; saves the table for duplicates of predefined types */
        return MPI_SUCCESS;
    from.attrs = ampi_attr_of_type(self, old);
    to.attrs = ampi_attr_of_type(self, dup);
    return ampi_attr_copy_all(&from, &to);
}

int ampi_type_delete_attrs(struct ampi_type *type)
{
    struct ampi_attr_owner owner = {
        .kind = AMPI_ATTR_ON_TYPE, .handle = ampi_type_handle(type), .attrs = &type->attrs};

    return ampi_attr_delete_all(&owner);
}
