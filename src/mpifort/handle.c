/* SPDX-License-Identifier: BSD-3-Clause
 *
 * handle.c: handles that are not constants, from their integers. Called by the entry points (fort_comm and
 * the like).
 *
 * MPI_Xxx_fromint returns the null handle for an invalid integer. The called function would then report a
 * null handle that the program has not passed, so it gets UNKNOWN instead, which no MPI accepts.
 */
#include "fort.h"

#include <stdio.h>

/* Neither a handle of the ABI nor an address. */
#define UNKNOWN ((uintptr_t)(FORT_PREDEFINED_END - 1))

/* handle: the result of fromint. Prints the invalid integer on stderr, because the call will raise an
 * error. */
static void *checked(void *handle, const void *null, const char *type, MPI_Fint number)
{
    if (handle != null)
        return handle;
    fprintf(stderr, "MPI for Fortran: %d is not a valid %s\n", number, type);
    return (void *)UNKNOWN;
}

MPI_Comm fort_comm_find(MPI_Fint handle)
{
    return checked(MPI_Comm_fromint(handle), MPI_COMM_NULL, "MPI_Comm", handle);
}

MPI_Datatype fort_datatype_find(MPI_Fint handle)
{
    return checked(MPI_Type_fromint(handle), MPI_DATATYPE_NULL, "MPI_Datatype", handle);
}

MPI_Errhandler fort_errhandler_find(MPI_Fint handle)
{
    return checked(MPI_Errhandler_fromint(handle), MPI_ERRHANDLER_NULL, "MPI_Errhandler", handle);
}

MPI_File fort_file_find(MPI_Fint handle)
{
    return checked(MPI_File_fromint(handle), MPI_FILE_NULL, "MPI_File", handle);
}

MPI_Group fort_group_find(MPI_Fint handle)
{
    return checked(MPI_Group_fromint(handle), MPI_GROUP_NULL, "MPI_Group", handle);
}

MPI_Info fort_info_find(MPI_Fint handle)
{
    return checked(MPI_Info_fromint(handle), MPI_INFO_NULL, "MPI_Info", handle);
}

MPI_Message fort_message_find(MPI_Fint handle)
{
    return checked(MPI_Message_fromint(handle), MPI_MESSAGE_NULL, "MPI_Message", handle);
}

MPI_Op fort_op_find(MPI_Fint handle)
{
    return checked(MPI_Op_fromint(handle), MPI_OP_NULL, "MPI_Op", handle);
}

MPI_Request fort_request_find(MPI_Fint handle)
{
    return checked(MPI_Request_fromint(handle), MPI_REQUEST_NULL, "MPI_Request", handle);
}

MPI_Session fort_session_find(MPI_Fint handle)
{
    return checked(MPI_Session_fromint(handle), MPI_SESSION_NULL, "MPI_Session", handle);
}

MPI_Win fort_win_find(MPI_Fint handle)
{
    return checked(MPI_Win_fromint(handle), MPI_WIN_NULL, "MPI_Win", handle);
}
