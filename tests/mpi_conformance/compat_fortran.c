/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles and statuses convert to Fortran's form and back (MPI_*_c2f, MPI_*_f2c), as programs with Fortran
 * callers and LAMMPS's library interface use them. */
#include "mtest.h"

/* The handle comes back from an integer, and the null handle from its own. */
#define ROUND_TRIP(name, type, handle, null_handle)                                                  \
    do {                                                                                             \
        type here_ = (handle);                                                                       \
        MPI_Fint number_ = MPI_##name##_c2f(here_);                                                  \
        MTEST_CHECK(MPI_##name##_f2c(number_) == here_ && MPI_##name##_c2f(here_) == number_,        \
                    #handle ": another handle from integer %d", (int)number_);                       \
        MTEST_CHECK(MPI_##name##_f2c(MPI_##name##_c2f(null_handle)) == (null_handle), #null_handle); \
    } while (0)

static int library_open(MPI_Fint f_comm)
{
    int rank;
    MPI_Comm comm = MPI_Comm_f2c(f_comm);
    MTEST_OK(MPI_Comm_rank(comm, &rank));
    return rank;
}

static void try_status(void)
{
    int value = 0, count, flag;
    MPI_Status status, back;
    MPI_Fint *f_status = mtest_alloc(sizeof(MPI_Status) * 2);
    MPI_Request request;

    MTEST_OK(MPI_Irecv(&value, 1, MPI_INT, 0, 5, MPI_COMM_SELF, &request));
    MTEST_OK(MPI_Cancel(&request));
    MTEST_OK(MPI_Wait(&request, &status));
    MTEST_OK(MPI_Status_c2f(&status, f_status));
    memset(&back, 0, sizeof back);
    MTEST_OK(MPI_Status_f2c(f_status, &back));
    MTEST_OK(MPI_Test_cancelled(&back, &flag));
    MTEST_CHECK(flag, "a cancelled status is not cancelled in C again");
    MTEST_OK(MPI_Sendrecv(&mtest_rank, 1, MPI_INT, 0, 7, &value, 1, MPI_INT, 0, 7, MPI_COMM_SELF, &status));
    status.MPI_ERROR = MPI_ERR_OTHER;
    MTEST_OK(MPI_Status_c2f(&status, f_status));
    memset(&back, 0xff, sizeof back);
    MTEST_OK(MPI_Status_f2c(f_status, &back));
    MTEST_OK(MPI_Get_count(&back, MPI_INT, &count));
    MTEST_CHECK(back.MPI_SOURCE == 0 && back.MPI_TAG == 7 && back.MPI_ERROR == MPI_ERR_OTHER && count == 1,
                "source %d tag %d error %d count %d", back.MPI_SOURCE, back.MPI_TAG, back.MPI_ERROR, count);
#if MPI_VERSION >= 5
    MTEST_CHECK(f_status[MPI_F_SOURCE] == 0 && f_status[MPI_F_TAG] == 7 &&
                    f_status[MPI_F_ERROR] == MPI_ERR_OTHER,
                "the Fortran status is laid out otherwise");
    MPI_F08_status f08, f08_too;
    MTEST_OK(MPI_Status_c2f08(&status, &f08));
    MTEST_OK(MPI_Status_f2f08(f_status, &f08_too));
    MTEST_CHECK(memcmp(&f08, &f08_too, sizeof f08) == 0, "two ways to a status of mpi_f08");
    memset(&back, 0, sizeof back);
    MTEST_OK(MPI_Status_f082c(&f08, &back));
    MTEST_CHECK(memcmp(&back, &status, sizeof back) == 0, "mpi_f08 to C");
    MTEST_OK(MPI_Status_f082f(&f08, f_status));
    MTEST_CHECK(f_status[MPI_F_TAG] == 7, "mpi_f08 to Fortran");
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_CLASS(MPI_Status_f2c(MPI_F_STATUS_IGNORE, &status), MPI_ERR_ARG);
    MTEST_CLASS(MPI_Status_c2f(MPI_STATUS_IGNORE, f_status), MPI_ERR_ARG);
#endif
    free(f_status);
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    MPI_Group group;
    MPI_Datatype type;
    MPI_Info info;
    MPI_Request request;
    int value;
    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, mtest_rank & 1, mtest_rank, &comm));
    MTEST_CHECK(library_open(MPI_Comm_c2f(comm)) == mtest_rank / 2,
                "the rank in a library called from Fortran");
    ROUND_TRIP(Comm, MPI_Comm, comm, MPI_COMM_NULL);
    ROUND_TRIP(Comm, MPI_Comm, MPI_COMM_WORLD, MPI_COMM_NULL);
    MTEST_OK(MPI_Comm_group(comm, &group));
    ROUND_TRIP(Group, MPI_Group, group, MPI_GROUP_NULL);
    MTEST_OK(MPI_Type_vector(3, 1, 2, MPI_INT, &type));
    ROUND_TRIP(Type, MPI_Datatype, type, MPI_DATATYPE_NULL);
    ROUND_TRIP(Type, MPI_Datatype, MPI_DOUBLE, MPI_DATATYPE_NULL);
    MTEST_OK(MPI_Info_create(&info));
    ROUND_TRIP(Info, MPI_Info, info, MPI_INFO_NULL);
    ROUND_TRIP(Op, MPI_Op, MPI_MAXLOC, MPI_OP_NULL);
    ROUND_TRIP(Errhandler, MPI_Errhandler, MPI_ERRORS_RETURN, MPI_ERRHANDLER_NULL);
    ROUND_TRIP(Message, MPI_Message, MPI_MESSAGE_NO_PROC, MPI_MESSAGE_NULL);
    MTEST_CHECK(MPI_Win_f2c(MPI_Win_c2f(MPI_WIN_NULL)) == MPI_WIN_NULL, "MPI_WIN_NULL");
    MTEST_CHECK(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL, "MPI_FILE_NULL");
    MTEST_OK(MPI_Recv_init(&value, 1, MPI_INT, 0, 0, comm, &request));
    ROUND_TRIP(Request, MPI_Request, request, MPI_REQUEST_NULL);
    try_status();
    MTEST_OK(MPI_Request_free(&request));
    MTEST_OK(MPI_Info_free(&info));
    MTEST_OK(MPI_Type_free(&type));
    MTEST_OK(MPI_Group_free(&group));
    MTEST_OK(MPI_Comm_free(&comm));
    return mtest_end();
}
