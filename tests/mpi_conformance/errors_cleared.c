/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An error handler that sets the code to MPI_SUCCESS does not make the call continue with wrong arguments: it returns the
 * error, for communicators, windows, files and sessions.
 */
#include "mtest.h"

static int n_calls;

static void clear_comm(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    n_calls++;
    *code = MPI_SUCCESS;
}

static void clear_win(MPI_Win *win, int *code, ...)
{
    (void)win;
    n_calls++;
    *code = MPI_SUCCESS;
}

static void clear_file(MPI_File *file, int *code, ...)
{
    (void)file;
    n_calls++;
    *code = MPI_SUCCESS;
}

static void clear_session(MPI_Session *session, int *code, ...)
{
    (void)session;
    n_calls++;
    *code = MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    MPI_Errhandler of_comm, of_win, of_file, of_session;
    MPI_Session session;
    MPI_Request request;
    MPI_File file;
    MPI_Group group;
    MPI_Win win;
    int value = 0;

    mtest_init(&argc, &argv, 1);
    MPI_Comm_create_errhandler(clear_comm, &of_comm);
    MPI_Win_create_errhandler(clear_win, &of_win);
    MPI_File_create_errhandler(clear_file, &of_file);
    MPI_Session_create_errhandler(clear_session, &of_session);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, of_comm);
    MTEST_CLASS(MPI_Send(&value, 1, MPI_INT, mtest_size, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
    MTEST_CLASS(MPI_Irecv(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT);
    MTEST_CLASS(MPI_Bcast(&value, 1, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD), MPI_ERR_TYPE);
    MTEST_OK(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MPI_Win_set_errhandler(win, of_win);
    MTEST_CLASS(MPI_Put(&value, 1, MPI_INT, mtest_size, 0, 1, MPI_INT, win), MPI_ERR_RANK);
    MTEST_OK(MPI_Win_free(&win));
    MPI_File_set_errhandler(MPI_FILE_NULL, of_file);
    MTEST_CLASS(MPI_File_open(MPI_COMM_SELF, "/no/such/folder/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
                MPI_ERR_NO_SUCH_FILE);
    MTEST_OK(MPI_Session_init(MPI_INFO_NULL, of_session, &session));
    MTEST_CHECK(MPI_Group_from_session_pset(session, "no://set", &group) != MPI_SUCCESS,
                "no error of a session");
    MTEST_OK(MPI_Session_finalize(&session));
    MTEST_CHECK(n_calls == 6, "%d errors were handled", n_calls);
    MPI_Errhandler_free(&of_comm);
    MPI_Errhandler_free(&of_win);
    MPI_Errhandler_free(&of_file);
    MPI_Errhandler_free(&of_session);
    return mtest_end();
}
