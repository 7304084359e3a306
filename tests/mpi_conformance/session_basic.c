/* SPDX-License-Identifier: BSD-3-Clause */
/* Sessions: without MPI_Init, process sets mpi://WORLD and mpi://SELF give groups and communicators; errors
 * return. */
#include "mtest.h"

int main(int argc, char **argv)
{
    int wrong_sets = argc > 1 && strcmp(argv[1], "errors") == 0;
#if MPI_VERSION >= 4
    static int initialized_elsewhere;
    MPI_Session session, second;
    MPI_Group group, self;
    MPI_Comm comm, alone;
    MPI_Info info;
    int n, len, sum, size, flag, result, worlds = 0, selves = 0;
    char name[MPI_MAX_PSET_NAME_LEN], value[32];
    MPI_Initialized(&initialized_elsewhere);
    if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS) {
        fprintf(stderr, "FAIL: MPI_Session_init\n");
        return 1;
    }
    MTEST_OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n));
    for (int i = 0; i < n; i++) {
        len = sizeof name;
        MTEST_OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, name));
        worlds += strcmp(name, "mpi://WORLD") == 0;
        selves += strcmp(name, "mpi://SELF") == 0;
    }
    MTEST_CHECK(worlds == 1 && selves == 1, "%d sets, %d world, %d self", n, worlds, selves);
    MTEST_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    MTEST_OK(MPI_Group_size(group, &mtest_size));
    MTEST_OK(MPI_Group_rank(group, &mtest_rank));
    /* The names are URIs: in any case of their letters. */
    MTEST_OK(MPI_Group_from_session_pset(session, "MPI://world", &self));
    MTEST_OK(MPI_Group_compare(group, self, &result));
    MTEST_CHECK(result == MPI_IDENT, "MPI://world is not mpi://WORLD: %d", result);
    MTEST_OK(MPI_Group_free(&self));
    MTEST_OK(MPI_Session_get_pset_info(session, "mpi://Self", &info));
    MTEST_OK(MPI_Info_get(info, "mpi_size", 31, value, &flag));
    MTEST_CHECK(flag && atoi(value) == 1, "mpi_size of mpi://Self is %s", flag ? value : "absent");
    MTEST_OK(MPI_Info_free(&info));
    MTEST_OK(MPI_Session_get_pset_info(session, "mpi://WORLD", &info));
    MTEST_OK(MPI_Info_get(info, "mpi_size", 31, value, &flag));
    MTEST_CHECK(flag && atoi(value) == mtest_size, "mpi_size is %s", flag ? value : "absent");
    MTEST_OK(MPI_Info_free(&info));
    MTEST_OK(MPI_Comm_create_from_group(group, "heddle.test", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    MTEST_OK(MPI_Comm_size(comm, &size));
    MTEST_CHECK(size == mtest_size, "communicator of %d", size);
    int one = 1;
    MTEST_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    MTEST_CHECK(sum == mtest_size, "sum %d", sum);
    MTEST_CLASS(MPI_Bcast(&one, 1, MPI_INT, mtest_size, comm), MPI_ERR_ROOT);
    /* A second session at the same time. */
    MTEST_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second));
    MTEST_OK(MPI_Group_from_session_pset(second, "mpi://SELF", &self));
    MTEST_OK(MPI_Comm_create_from_group(self, "heddle.self", MPI_INFO_NULL, MPI_ERRORS_RETURN, &alone));
    MTEST_OK(MPI_Comm_size(alone, &size));
    MTEST_CHECK(size == 1, "self has %d", size);
    MTEST_OK(MPI_Comm_free(&alone));
    MTEST_OK(MPI_Group_compare(self, group, &result));
    MTEST_CHECK(result == (mtest_size == 1 ? MPI_IDENT : MPI_UNEQUAL), "self and world: %d", result);
    MTEST_OK(MPI_Group_free(&self));
    MTEST_OK(MPI_Session_finalize(&second));
    MTEST_CHECK(second == MPI_SESSION_NULL, "Session_finalize leaves the handle");
    if (wrong_sets)
        MTEST_CHECK(MPI_Group_from_session_pset(session, "mpi://NOWHERE", &self) != MPI_SUCCESS,
                    "a set that does not exist");
    MTEST_OK(MPI_Comm_free(&comm));
    MTEST_OK(MPI_Group_free(&group));
    MTEST_OK(MPI_Session_finalize(&session));
    if (mtest_errors != 0) {
        fprintf(stderr, "FAIL rank %d: %d errors\n", mtest_rank, mtest_errors);
        return 1;
    }
    return 0;
#else
    (void)wrong_sets;
    return MTEST_SKIP_CODE;
#endif
}
