/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks set, read and remove variables of their environment at the same time, and ask for the local time. */
#include "mtest.h"
#include <time.h>

#define N_ROUNDS 3000

int main(int argc, char **argv)
{
    char name[32], value[32];
    time_t now = 0;

    mtest_init(&argc, &argv, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < N_ROUNDS; i++) {
        const char *got;

        snprintf(name, sizeof name, "MTEST_%d", i);
        snprintf(value, sizeof value, "%d of %d", i, mtest_rank);
        MTEST_CHECK(setenv(name, value, 1) == 0, "in round %d", i);
        got = getenv(name);
        MTEST_CHECK(got && strcmp(got, value) == 0, "in round %d", i);
        MTEST_CHECK(getenv("MTEST_NOT_THERE") == NULL, "in round %d", i);
        MTEST_CHECK(localtime(&now) != NULL, "in round %d", i);
        if (i % 7 == 0)
            MTEST_CHECK(unsetenv(name) == 0 && getenv(name) == NULL, "in round %d", i);
        if (i % 100 == 0)
            MPI_Barrier(MPI_COMM_WORLD);
    }
    return mtest_end();
}
