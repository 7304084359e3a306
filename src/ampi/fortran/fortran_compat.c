/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fortran_compat.c: handles and statuses in Fortran's form, under the names of MPI 4.1
 * (heddle_mpi_compat.h). The integers are those of MPI_*_toint; a status in Fortran is MPI_F_STATUS_SIZE
 * integers, laid out as MPI_Status is.
 */
#include <string.h>

#include "ampi/object/error.h"
#include "ampi/object/rank.h"

_Static_assert(sizeof(MPI_Fint[MPI_F_STATUS_SIZE]) == sizeof(MPI_Status), "one layout");

AMPI_EXPORT_COMPAT(Comm_c2f);
MPI_Fint PMPI_Comm_c2f(MPI_Comm comm)
{
    return PMPI_Comm_toint(comm);
}

AMPI_EXPORT_COMPAT(Comm_f2c);
MPI_Comm PMPI_Comm_f2c(MPI_Fint comm)
{
    return PMPI_Comm_fromint(comm);
}

AMPI_EXPORT_COMPAT(Type_c2f);
MPI_Fint PMPI_Type_c2f(MPI_Datatype datatype)
{
    return PMPI_Type_toint(datatype);
}

AMPI_EXPORT_COMPAT(Type_f2c);
MPI_Datatype PMPI_Type_f2c(MPI_Fint datatype)
{
    return PMPI_Type_fromint(datatype);
}

AMPI_EXPORT_COMPAT(Group_c2f);
MPI_Fint PMPI_Group_c2f(MPI_Group group)
{
    return PMPI_Group_toint(group);
}

AMPI_EXPORT_COMPAT(Group_f2c);
MPI_Group PMPI_Group_f2c(MPI_Fint group)
{
    return PMPI_Group_fromint(group);
}

AMPI_EXPORT_COMPAT(Request_c2f);
MPI_Fint PMPI_Request_c2f(MPI_Request request)
{
    return PMPI_Request_toint(request);
}

AMPI_EXPORT_COMPAT(Request_f2c);
MPI_Request PMPI_Request_f2c(MPI_Fint request)
{
    return PMPI_Request_fromint(request);
}

AMPI_EXPORT_COMPAT(Message_c2f);
MPI_Fint PMPI_Message_c2f(MPI_Message message)
{
    return PMPI_Message_toint(message);
}

AMPI_EXPORT_COMPAT(Message_f2c);
MPI_Message PMPI_Message_f2c(MPI_Fint message)
{
    return PMPI_Message_fromint(message);
}

AMPI_EXPORT_COMPAT(Op_c2f);
MPI_Fint PMPI_Op_c2f(MPI_Op op)
{
    return PMPI_Op_toint(op);
}

AMPI_EXPORT_COMPAT(Op_f2c);
MPI_Op PMPI_Op_f2c(MPI_Fint op)
{
    return PMPI_Op_fromint(op);
}

AMPI_EXPORT_COMPAT(Info_c2f);
MPI_Fint PMPI_Info_c2f(MPI_Info info)
{
    return PMPI_Info_toint(info);
}

AMPI_EXPORT_COMPAT(Info_f2c);
MPI_Info PMPI_Info_f2c(MPI_Fint info)
{
    return PMPI_Info_fromint(info);
}

AMPI_EXPORT_COMPAT(Errhandler_c2f);
MPI_Fint PMPI_Errhandler_c2f(MPI_Errhandler errhandler)
{
    return PMPI_Errhandler_toint(errhandler);
}

AMPI_EXPORT_COMPAT(Errhandler_f2c);
MPI_Errhandler PMPI_Errhandler_f2c(MPI_Fint errhandler)
{
    return PMPI_Errhandler_fromint(errhandler);
}

AMPI_EXPORT_COMPAT(Win_c2f);
MPI_Fint PMPI_Win_c2f(MPI_Win win)
{
    return PMPI_Win_toint(win);
}

AMPI_EXPORT_COMPAT(Win_f2c);
MPI_Win PMPI_Win_f2c(MPI_Fint win)
{
    return PMPI_Win_fromint(win);
}

AMPI_EXPORT_COMPAT(File_c2f);
MPI_Fint PMPI_File_c2f(MPI_File file)
{
    return PMPI_File_toint(file);
}

AMPI_EXPORT_COMPAT(File_f2c);
MPI_File PMPI_File_f2c(MPI_Fint file)
{
    return PMPI_File_fromint(file);
}

AMPI_EXPORT_COMPAT(Session_c2f);
MPI_Fint PMPI_Session_c2f(MPI_Session session)
{
    return PMPI_Session_toint(session);
}

AMPI_EXPORT_COMPAT(Session_f2c);
MPI_Session PMPI_Session_f2c(MPI_Fint session)
{
    return PMPI_Session_fromint(session);
}

/* All statuses are the same 32 bytes. */
static int copy(const char *call, const void *from, void *to)
{
    ampi_enter_any_time(call);
    if (!from || !to)
        return ampi_raise_self(MPI_ERR_ARG, "the status to %s is NULL or ignored", from ? "write" : "read");
    memcpy(to, from, sizeof(MPI_Status));
    return MPI_SUCCESS;
}

AMPI_EXPORT_COMPAT(Status_c2f);
int PMPI_Status_c2f(const MPI_Status *c_status, MPI_Fint *f_status)
{
    return copy("MPI_Status_c2f", c_status, f_status);
}

AMPI_EXPORT_COMPAT(Status_f2c);
int PMPI_Status_f2c(const MPI_Fint *f_status, MPI_Status *c_status)
{
    return copy("MPI_Status_f2c", f_status, c_status);
}

AMPI_EXPORT_COMPAT(Status_c2f08);
int PMPI_Status_c2f08(const MPI_Status *c_status, MPI_F08_status *f08_status)
{
    return copy("MPI_Status_c2f08", c_status, f08_status);
}

AMPI_EXPORT_COMPAT(Status_f082c);
int PMPI_Status_f082c(const MPI_F08_status *f08_status, MPI_Status *c_status)
{
    return copy("MPI_Status_f082c", f08_status, c_status);
}

AMPI_EXPORT_COMPAT(Status_f2f08);
int PMPI_Status_f2f08(const MPI_Fint *f_status, MPI_F08_status *f08_status)
{
    return copy("MPI_Status_f2f08", f_status, f08_status);
}

AMPI_EXPORT_COMPAT(Status_f082f);
int PMPI_Status_f082f(const MPI_F08_status *f08_status, MPI_Fint *f_status)
{
    return copy("MPI_Status_f082f", f08_status, f_status);
}
