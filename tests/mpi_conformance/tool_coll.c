/* SPDX-License-Identifier: BSD-3-Clause */
/* The control variable heddle_coll is the text of the environment variable HEDDLE_COLL, argument 1 here, and constant. */
#include "mtest.h"

int main(int argc, char **argv)
{
    int provided, index = -1, count = 0, scope = -1;
    char value[256] = "";
    MPI_Datatype type;
    MPI_T_cvar_handle handle;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    mtest_init(&argc, &argv, 1);
    MTEST_CHECK(MPI_T_cvar_get_index("heddle_coll", &index) == MPI_SUCCESS, "no variable heddle_coll");
    MTEST_CHECK(MPI_T_cvar_get_info(index, NULL, NULL, NULL, &type, NULL, NULL, NULL, NULL, &scope) ==
                        MPI_SUCCESS &&
                    type == MPI_CHAR && scope == MPI_T_SCOPE_CONSTANT,
                "type or scope %d", scope);
    MTEST_CHECK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS, "no handle");
    MTEST_CHECK(count == (int)strlen(argv[1]) + 1, "%d characters", count);
    MTEST_CHECK(MPI_T_cvar_read(handle, value) == MPI_SUCCESS && strcmp(value, argv[1]) == 0, "value %s",
                value);
    MTEST_CHECK(MPI_T_cvar_write(handle, "bcast:1") == MPI_T_ERR_CVAR_SET_NEVER, "can be written");
    MPI_T_cvar_handle_free(&handle);
    MPI_T_finalize();
    return mtest_end();
}
