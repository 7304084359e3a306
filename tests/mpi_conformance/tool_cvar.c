/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_T: control and performance variables can be listed, looked up by name, read; wrong indices are
 * refused. */
#include "mtest.h"

int main(int argc, char **argv)
{
    int provided, n, flag_index, verbosity, bind, scope, code;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) { /* allowed before MPI_Init */
        fprintf(stderr, "FAIL: MPI_T_init_thread\n");
        return 1;
    }
    mtest_init(&argc, &argv, 1);
    MTEST_CHECK(MPI_T_cvar_get_num(&n) == MPI_SUCCESS && n >= 0, "%d control variables", n);
    int unreadable = 0;
    for (int i = 0; i < n && i < 200; i++) {
        char name[256], desc[256];
        int name_len = sizeof name, desc_len = sizeof desc, count = 0;
        MPI_Datatype type;
        MPI_T_enum enumtype;
        MPI_T_cvar_handle handle;
        code = MPI_T_cvar_get_info(i, name, &name_len, &verbosity, &type, &enumtype, desc, &desc_len, &bind,
                                   &scope);
        if (code == MPI_T_ERR_INVALID_INDEX)
            continue; /* it existed, and no longer does: allowed */
        MTEST_CHECK(code == MPI_SUCCESS, "cvar %d has no info: %d", i, code);
        code = MPI_T_cvar_get_index(name, &flag_index);
        MTEST_CHECK(code == MPI_SUCCESS && flag_index == i, "cvar %d (%s) is found as %d", i, name,
                    flag_index);
        if (bind != MPI_T_BIND_NO_OBJECT || MPI_T_cvar_handle_alloc(i, NULL, &handle, &count) != MPI_SUCCESS)
            continue;
        char *value = mtest_alloc((size_t)(count > 0 ? count : 1) * 16);
        unreadable += MPI_T_cvar_read(handle, value) != MPI_SUCCESS;
        free(value);
        MTEST_CHECK(MPI_T_cvar_handle_free(&handle) == MPI_SUCCESS, "handle of cvar %d", i);
    }
    MTEST_CHECK(unreadable == 0, "%d control variables cannot be read", unreadable);
    char name[64];
    int name_len = sizeof name;
    code = MPI_T_cvar_get_info(n + 1000, name, &name_len, &verbosity, NULL, NULL, NULL, NULL, &bind, &scope);
    MTEST_CHECK(code == MPI_T_ERR_INVALID_INDEX, "a cvar beyond the last: %d", code);
    MTEST_CHECK(MPI_T_cvar_get_index("no such variable", &flag_index) == MPI_T_ERR_INVALID_NAME,
                "a name that does not exist");
    MTEST_CHECK(MPI_T_pvar_get_num(&n) == MPI_SUCCESS && n >= 0, "%d performance variables", n);
    MPI_T_pvar_session session;
    MTEST_CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS, "no performance session");
    MTEST_CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS, "session not freed");
    MTEST_CHECK(MPI_T_category_get_num(&n) == MPI_SUCCESS && n >= 0, "%d categories", n);
    MTEST_CHECK(MPI_T_finalize() == MPI_SUCCESS, "MPI_T_finalize");
    return mtest_end();
}
