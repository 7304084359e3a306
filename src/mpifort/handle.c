/* SPDX-License-Identifier: BSD-3-Clause
 *
 * handle.c: handles that are not constants, from their integers. Called by the generated functions fort_comm_find
 * and so on.
 *
 * MPI_Xxx_fromint returns the null handle for an invalid integer. The called function would then report a
 * null handle that the program has not passed, so it gets UNKNOWN instead, which no MPI accepts.
 */
#include "fort.h"

#include <stdio.h>

/* Neither a handle of the ABI nor an address. */
#define UNKNOWN ((uintptr_t)(FORT_PREDEFINED_END - 1))

void *fort_handle_found(void *handle, const void *null, const char *type, MPI_Fint number)
{
    if (handle != null)
        return handle;
    fprintf(stderr, "MPI for Fortran: %d is not a valid %s\n", number, type);
    return (void *)UNKNOWN;
}
