/* SPDX-License-Identifier: BSD-3-Clause
 *
 * session.c: invalid handles of sessions. The MPI functions are in job/session_api.c.
 */
#include "ampi/object/session.h"

#include "ampi/object/error.h"

int ampi_session_raise_invalid(MPI_Session handle)
{
    return ampi_raise_self(MPI_ERR_SESSION, "%p is not a valid session%s", (void *)handle,
                           handle == MPI_SESSION_NULL ? " (MPI_SESSION_NULL)" : "");
}
