/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tool.c: starting and ending the tool interface (MPI 5.0, section 15.3.4).
 */
#include "ampi/object/gate.h"
#include "ampi/object/rank.h"
#include "ampi/tool/event_queue.h"

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
    if (ampi_self()->n_tool_inits == 1)
        ampi_events_end(ampi_self());                           /* callbacks may still use the interface */
    ampi_self()->n_tool_inits -= ampi_self()->n_tool_inits > 0; /* a callback may have been faster */
    return MPI_SUCCESS;
}
