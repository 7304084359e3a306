/* SPDX-License-Identifier: BSD-3-Clause
 *
 * special.c: addresses with a meaning (MPI_BOTTOM, ...), values of LOGICAL, handles of unknown integers, errors of the bindings.
 * Called by the entry points.
 */
#include "fort.h"

#include <stdio.h>

struct fort_special heddlef_;
struct fort_special_text heddlec_;
MPI_Fint fort_true = 1;

void *fort_special_buffer(const void *address)
{
    if (address == &heddlef_.in_place)
        return MPI_IN_PLACE;
    if (address == &heddlef_.buffer_automatic)
        return MPI_BUFFER_AUTOMATIC;
    return MPI_BOTTOM;
}

void fort_logical_init(void)
{
    MPI_Fint is_true = 1, is_false = 0;
    int is_set = 0;

    if (PMPI_Abi_get_fortran_booleans(sizeof is_true, &is_true, &is_false, &is_set) != MPI_SUCCESS)
        return;
    if (is_set)
        fort_true = is_true;
    else
        PMPI_Abi_set_fortran_booleans(sizeof fort_true, &fort_true, &is_false);
}

void fort_indices_out(MPI_Fint *indices, int n, int error)
{
    if ((error != MPI_SUCCESS && error != MPI_ERR_IN_STATUS) || n == MPI_UNDEFINED)
        return;
    for (int i = 0; i < n; i++)
        indices[i] = fort_index(indices[i]);
}

int fort_raise(MPI_Comm comm, int error_class, const char *text)
{
    int code = error_class;

    if (PMPI_Add_error_code(error_class, &code) == MPI_SUCCESS)
        PMPI_Add_error_string(code, text);
    else
        code = error_class;
    PMPI_Comm_call_errhandler(comm, code);
    return code;
}
