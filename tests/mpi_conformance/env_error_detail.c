/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Error_string of a code that a call has returned, or that an error handler gets, says what was wrong; other codes, and
 * those of other ranks, have the text of their class. */
#include "mtest.h"

static char in_handler[MPI_MAX_ERROR_STRING];

static void note(MPI_File *file, int *code, ...)
{
    int length;

    (void)file;
    MTEST_OK(MPI_Error_string(*code, in_handler, &length));
}

/* Checks that the text of the code contains the words. */
static void check_text(int code, const char *words)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = -1;

    MTEST_OK(MPI_Error_string(code, text, &length));
    MTEST_CHECK(strstr(text, words) && length == (int)strlen(text), "'%s' of length %d has no '%s'", text,
                length, words);
}

int main(int argc, char **argv)
{
    static char name[3000];
    MPI_Errhandler handler;
    MPI_File file;
    int code;

    mtest_init(&argc, &argv, 2);
    MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    check_text(MPI_ERR_NO_SUCH_FILE, "MPI_ERR_NO_SUCH_FILE: the file does not exist");
    if (mtest_rank % 2 == 0) {
        code = MPI_File_open(MPI_COMM_SELF, "/no such folder/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
        check_text(code, "MPI_ERR_NO_SUCH_FILE: ");
        check_text(code, "/no such folder/file");
        check_text(MPI_ERR_TAG, "MPI_ERR_TAG: the tag argument is invalid");
        check_text(code, "/no such folder/file");
        code = MPI_Send(NULL, 0, MPI_INT, mtest_size + 7, 0, MPI_COMM_WORLD);
        check_text(code, "MPI_ERR_RANK: ");
        snprintf(name, sizeof name, "%d", mtest_size + 7);
        check_text(code, name);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank % 2 == 1)
        check_text(MPI_ERR_RANK, "MPI_ERR_RANK: the rank is invalid");

    MTEST_OK(MPI_File_create_errhandler(note, &handler));
    MTEST_OK(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
    code = MPI_File_delete("/no such folder/other", MPI_INFO_NULL);
    MTEST_CHECK(code != MPI_SUCCESS && strstr(in_handler, "/no such folder/other"), "the handler has '%s'",
                in_handler);
    memset(name, 'x', sizeof name - 1);
    name[0] = '/';
    code = MPI_File_delete(name, MPI_INFO_NULL);
    check_text(code, "xxx");
    MTEST_OK(MPI_Errhandler_free(&handler));
    return mtest_end();
}
