/* SPDX-License-Identifier: BSD-3-Clause
 *
 * status.h: the hidden fields of an MPI_Status (MPI 5.0, section 3.2.5).
 *
 *      MPI_internal[0..1]  the bytes received, as a 64-bit integer
 *      MPI_internal[2]     flags: AMPI_STATUS_CANCELLED
 *      MPI_internal[3..4]  zero
 *
 * The library sets these only through the functions below; none of them accepts MPI_STATUS_IGNORE.
 */
#ifndef AMPI_STATUS_H
#define AMPI_STATUS_H

#include <string.h>

#include "ampi/object/handle.h"

#define AMPI_STATUS_CANCELLED 1

static inline void ampi_status_set_bytes(MPI_Status *status, MPI_Count n_bytes)
{
    memcpy(&status->MPI_internal[0], &n_bytes, sizeof n_bytes);
}

static inline MPI_Count ampi_status_bytes(const MPI_Status *status)
{
    MPI_Count n_bytes;

    memcpy(&n_bytes, &status->MPI_internal[0], sizeof n_bytes);
    return n_bytes;
}

static inline void ampi_status_set_cancelled(MPI_Status *status, bool is_cancelled)
{
    status->MPI_internal[2] = is_cancelled ? AMPI_STATUS_CANCELLED : 0;
}

static inline bool ampi_status_is_cancelled(const MPI_Status *status)
{
    return status->MPI_internal[2] & AMPI_STATUS_CANCELLED;
}

/* Copies a status to the program, member by member: a wider load would have to wait until the stores of the
 * members have left the core. MPI_ERROR is unchanged: only calls that return MPI_ERR_IN_STATUS set it. */
static inline void ampi_status_hand_out(MPI_Status *to, const MPI_Status *from)
{
    if (to == MPI_STATUS_IGNORE)
        return;
    to->MPI_SOURCE = from->MPI_SOURCE;
    to->MPI_TAG = from->MPI_TAG;
    ampi_status_set_bytes(to, ampi_status_bytes(from));
    to->MPI_internal[2] = from->MPI_internal[2];
    to->MPI_internal[3] = to->MPI_internal[4] = 0;
}

/* The empty status (MPI 5.0, section 3.7.3): any source, any tag, no error, no data. */
static inline void ampi_status_set_empty(MPI_Status *status)
{
    memset(status, 0, sizeof *status);
    status->MPI_SOURCE = MPI_ANY_SOURCE;
    status->MPI_TAG = MPI_ANY_TAG;
    status->MPI_ERROR = MPI_SUCCESS;
}

#endif
