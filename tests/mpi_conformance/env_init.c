/* SPDX-License-Identifier: BSD-3-Clause */
/* Initialized, Finalized, versions, Wtime, processor name: before, between and after Init and Finalize. */
#include "mtest.h"

static int asked; /* 0 in every rank at the start */

int main(int argc, char **argv)
{
    int flag = -1, version, subversion, len, *value, found;
    char text[MPI_MAX_LIBRARY_VERSION_STRING], name[MPI_MAX_PROCESSOR_NAME];
    MPI_Initialized(&flag);
    if (flag != 0 || asked++ != 0) {
        fprintf(stderr, "FAIL: initialized %d, asked %d before MPI_Init\n", flag, asked);
        return 1;
    }
    MPI_Finalized(&flag);
    if (flag != 0) {
        fprintf(stderr, "FAIL: finalized before MPI_Init\n");
        return 1;
    }
    MPI_Get_version(&version, &subversion);
    mtest_init(&argc, &argv, 1);
    MPI_Initialized(&flag);
    MTEST_CHECK(flag, "not initialized");
    MPI_Finalized(&flag);
    MTEST_CHECK(!flag, "finalized");
    MTEST_CHECK(version == MPI_VERSION && subversion == MPI_SUBVERSION, "version %d.%d", version, subversion);
    MTEST_OK(MPI_Get_library_version(text, &len));
    MTEST_CHECK(len > 0 && len < MPI_MAX_LIBRARY_VERSION_STRING && (int)strlen(text) == len,
                "library version '%s'", text);
    MTEST_OK(MPI_Get_processor_name(name, &len));
    MTEST_CHECK(len > 0 && (int)strlen(name) == len, "processor name '%s', length %d", name, len);
    double before = MPI_Wtime(), tick = MPI_Wtick();
    MTEST_CHECK(tick > 0 && tick < 1, "Wtick is %g", tick);
    for (int i = 0; i < 1000; i++) {
        double now = MPI_Wtime();
        MTEST_CHECK(now >= before, "time runs backwards by %g", before - now);
        before = now;
    }
    MTEST_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found));
    MTEST_CHECK(found && *value >= 32767, "MPI_TAG_UB");
    MTEST_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &found));
    MTEST_CHECK(!found || *value == 0 || *value == 1, "MPI_WTIME_IS_GLOBAL");
    MTEST_CHECK(argc == 3 && strcmp(argv[1], "one") == 0 && strcmp(argv[2], "two words") == 0 &&
                    argv[3] == NULL,
                "argc is %d", argc);
    int code = mtest_end();
    MPI_Finalized(&flag);
    if (!flag)
        return 2;
    MPI_Initialized(&flag);
    if (!flag)
        return 3;
    MPI_Get_version(&version, &subversion);
    return code;
}
