/* SPDX-License-Identifier: BSD-3-Clause */
/* Every error class has a text of its own and is its own class. */
#include "mtest.h"

int main(int argc, char **argv)
{
    int classes[] = {MPI_SUCCESS,    MPI_ERR_BUFFER, MPI_ERR_COUNT,        MPI_ERR_TYPE,
                     MPI_ERR_TAG,    MPI_ERR_COMM,   MPI_ERR_RANK,         MPI_ERR_REQUEST,
                     MPI_ERR_ROOT,   MPI_ERR_GROUP,  MPI_ERR_OP,           MPI_ERR_TOPOLOGY,
                     MPI_ERR_DIMS,   MPI_ERR_ARG,    MPI_ERR_UNKNOWN,      MPI_ERR_TRUNCATE,
                     MPI_ERR_OTHER,  MPI_ERR_INTERN, MPI_ERR_IN_STATUS,    MPI_ERR_PENDING,
                     MPI_ERR_KEYVAL, MPI_ERR_NO_MEM, MPI_ERR_INFO_KEY,     MPI_ERR_INFO,
                     MPI_ERR_WIN,    MPI_ERR_FILE,   MPI_ERR_NO_SUCH_FILE, MPI_ERR_UNSUPPORTED_OPERATION};
    enum { N = sizeof classes / sizeof classes[0] };
    static char texts[N][MPI_MAX_ERROR_STRING];
    mtest_init(&argc, &argv, 1);
    for (int i = 0; i < N; i++) {
        int len = -1, got = -1;
        MTEST_OK(MPI_Error_class(classes[i], &got));
        MTEST_CHECK(got == classes[i], "class %d has class %d", classes[i], got);
        MTEST_OK(MPI_Error_string(classes[i], texts[i], &len));
        MTEST_CHECK(len > 0 && (int)strlen(texts[i]) == len, "class %d: text of length %d", classes[i], len);
        MTEST_CHECK(classes[i] <= MPI_ERR_LASTCODE, "class %d is above MPI_ERR_LASTCODE", classes[i]);
        for (int j = 0; j < i; j++)
            MTEST_CHECK(strcmp(texts[i], texts[j]) != 0, "classes %d and %d have the same text", classes[i],
                        classes[j]);
    }
    return mtest_end();
}
