/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Every error of a call on a window is raised on this window: its error handler is called once, with the window and the error
 * class, and MPI_COMM_SELF's is not. The same holds for calls that set handlers of communicators and sessions.
 */
#include "mtest.h"

static int cells[8], raised, n_raised, n_elsewhere, must_fail = 1;
static MPI_Win win, raised_on;

static void on_window(MPI_Win *where, int *code, ...)
{
    raised = mtest_class(*code);
    raised_on = *where;
    n_raised++;
}

static void on_comm(MPI_Comm *where, int *code, ...)
{
    raised = mtest_class(*code);
    n_raised += *where != MPI_COMM_SELF;
    n_elsewhere += *where == MPI_COMM_SELF;
}

static void on_session(MPI_Session *where, int *code, ...)
{
    (void)where;
    raised = mtest_class(*code);
    n_raised++;
}

static void check(int code, int error_class, const char *call, int line)
{
    if (n_raised != 1 || n_elsewhere != 0 || raised != error_class || mtest_class(code) != error_class)
        mtest_fail(__FILE__, line,
                   "%s: %d errors, and %d on MPI_COMM_SELF; class %d, and %d returned, instead of %d", call,
                   n_raised, n_elsewhere, raised, mtest_class(code), error_class);
    n_raised = n_elsewhere = 0;
}

#define RAISES(call, error_class) check((call), (error_class), #call, __LINE__)
#define RAISES_ON_WIN(call, error_class) \
    RAISES(call, error_class);           \
    MTEST_CHECK(raised_on == win, #call ": the handler got another window")

static int refuse_delete(MPI_Win where, int keyval, void *value, void *extra)
{
    (void)where;
    (void)keyval;
    (void)value;
    (void)extra;
    return must_fail ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void check_handlers(MPI_Errhandler of_comms)
{
    RAISES_ON_WIN(MPI_Win_set_errhandler(win, of_comms), MPI_ERR_ERRHANDLER);
    RAISES_ON_WIN(MPI_Win_set_errhandler(win, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
    RAISES_ON_WIN(MPI_Win_get_errhandler(win, NULL), MPI_ERR_ARG);
}

static void check_attributes(void)
{
    void *value;
    int flag, keyval;
    MPI_Win before = win;

    RAISES_ON_WIN(MPI_Win_set_attr(win, MPI_KEYVAL_INVALID, NULL), MPI_ERR_KEYVAL);
    RAISES_ON_WIN(MPI_Win_set_attr(win, MPI_WIN_BASE, NULL), MPI_ERR_KEYVAL);
    RAISES_ON_WIN(MPI_Win_delete_attr(win, MPI_WIN_SIZE), MPI_ERR_KEYVAL);
    RAISES_ON_WIN(MPI_Win_get_attr(win, MPI_KEYVAL_INVALID, &value, &flag), MPI_ERR_KEYVAL);
    RAISES_ON_WIN(MPI_Win_get_attr(win, MPI_WIN_BASE, NULL, &flag), MPI_ERR_ARG);
    MTEST_OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, refuse_delete, &keyval, NULL));
    MTEST_OK(MPI_Win_set_attr(win, keyval, cells));
    RAISES_ON_WIN(MPI_Win_set_attr(win, keyval, NULL), MPI_ERR_OTHER);
    RAISES_ON_WIN(MPI_Win_delete_attr(win, keyval), MPI_ERR_OTHER);
    RAISES_ON_WIN(MPI_Win_free(&win), MPI_ERR_OTHER);
    MTEST_CHECK(win == before, "the window is gone although its attribute's callback failed");
    must_fail = 0;
    MTEST_OK(MPI_Win_delete_attr(win, keyval));
    MTEST_OK(MPI_Win_free_keyval(&keyval));
}

static void check_objects(void)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length;

    RAISES_ON_WIN(MPI_Win_get_name(win, NULL, &length), MPI_ERR_ARG);
    RAISES_ON_WIN(MPI_Win_get_name(win, name, NULL), MPI_ERR_ARG);
    RAISES_ON_WIN(MPI_Win_set_name(win, NULL), MPI_ERR_ARG);
    RAISES_ON_WIN(MPI_Win_get_group(win, NULL), MPI_ERR_ARG);
    RAISES_ON_WIN(MPI_Win_set_info(win, MPI_INFO_NULL), MPI_ERR_INFO);
    RAISES_ON_WIN(MPI_Win_get_info(win, NULL), MPI_ERR_ARG);
    RAISES_ON_WIN(MPI_Win_post(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
    RAISES_ON_WIN(MPI_Put(cells, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    RAISES_ON_WIN(MPI_Win_unlock(mtest_size, win), MPI_ERR_RANK);
}

static void check_others(MPI_Errhandler of_comms)
{
    MPI_Comm comm;
    MPI_Session session;
    MPI_Errhandler own, of_windows;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, of_comms);
    MTEST_OK(MPI_Win_get_errhandler(win, &of_windows));
    RAISES(MPI_Comm_set_errhandler(comm, of_windows), MPI_ERR_ERRHANDLER);
    RAISES(MPI_Comm_get_errhandler(comm, NULL), MPI_ERR_ARG);
    RAISES(MPI_Comm_get_info(comm, NULL), MPI_ERR_ARG);
    MPI_Comm_free(&comm);
    MTEST_OK(MPI_Session_create_errhandler(on_session, &own));
    MTEST_OK(MPI_Session_init(MPI_INFO_NULL, own, &session));
    RAISES(MPI_Session_set_errhandler(session, of_windows), MPI_ERR_ERRHANDLER);
    RAISES(MPI_Session_get_errhandler(session, NULL), MPI_ERR_ARG);
    MTEST_OK(MPI_Session_finalize(&session));
    MPI_Errhandler_free(&own);
    MPI_Errhandler_free(&of_windows);
}

int main(int argc, char **argv)
{
    MPI_Errhandler of_windows, of_comms;

    mtest_init(&argc, &argv, 1);
    MPI_Comm_create_errhandler(on_comm, &of_comms);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, of_comms);
    MTEST_OK(MPI_Win_create(cells, sizeof cells, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MTEST_OK(MPI_Win_create_errhandler(on_window, &of_windows));
    MTEST_OK(MPI_Win_set_errhandler(win, of_windows));
    MPI_Errhandler_free(&of_windows);
    check_handlers(of_comms);
    check_attributes();
    check_objects();
    check_others(of_comms);
    MPI_Errhandler_free(&of_comms);
    MTEST_OK(MPI_Win_free(&win));
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    return mtest_end();
}
