/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tool.c: starting and ending the tool interface, and its enumerations, of which it has none (MPI 5.0,
 * sections 15.3.4 and 15.3.5).
 */
#include "ampi/object/gate.h"
#include "ampi/object/rank.h"
#include "ampi/tool/tool.h"

#include <stdio.h>
#include <string.h>

int ampi_tool_check(void)
{
    const struct ampi_rank *self = ampi_self();

    return self && self->n_tool_inits > 0 ? MPI_SUCCESS : MPI_T_ERR_NOT_INITIALIZED;
}

void ampi_tool_put_string(const char *string, char *buffer, int *length)
{
    if (!length)
        return;
    if (buffer && *length > 0)
        snprintf(buffer, (size_t)*length, "%s", string);
    *length = (int)strlen(string) + 1;
}

AMPI_EXPORT(T_init_thread);
int PMPI_T_init_thread(int required, int *provided)
{
    struct ampi_rank *self = ampi_upper.adopt_caller();

    if (!self)
        return MPI_T_ERR_CANNOT_INIT;
    if (!provided)
        return MPI_T_ERR_INVALID;
    self->n_tool_inits++;
    *provided = ampi_gate_level(required);
    ampi_gate_set_level(self, *provided);
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_finalize);
int PMPI_T_finalize(void)
{
    if (ampi_tool_check())
        return MPI_T_ERR_NOT_INITIALIZED;
    ampi_self()->n_tool_inits--;
    return MPI_SUCCESS;
}

AMPI_EXPORT(T_enum_get_info);
int PMPI_T_enum_get_info(MPI_T_enum enumtype, int *num, char *name, int *name_len)
{
    int error = ampi_tool_check();

    return error ? error : MPI_T_ERR_INVALID_HANDLE;
}

AMPI_EXPORT(T_enum_get_item);
int PMPI_T_enum_get_item(MPI_T_enum enumtype, int indx, int *value, char *name, int *name_len)
{
    int error = ampi_tool_check();

    return error ? error : MPI_T_ERR_INVALID_HANDLE;
}
