/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Init and MPI_Init_thread accept NULL for argc and argv; the provided level is known and can be queried
 * later. */
#include "mtest.h"

int main(int argc, char **argv)
{
    int provided = -1, level = -2, main_thread = 0;
    if (argc > 1 && strcmp(argv[1], "thread") == 0) {
        MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
        MTEST_CHECK(provided == MPI_THREAD_SINGLE || provided == MPI_THREAD_FUNNELED ||
                        provided == MPI_THREAD_SERIALIZED || provided == MPI_THREAD_MULTIPLE,
                    "level %d", provided);
    } else {
        MPI_Init(NULL, NULL);
    }
    mtest_learn_world(1);
    MTEST_OK(MPI_Query_thread(&level));
    MTEST_CHECK(provided == -1 || level == provided, "provided %d, later %d", provided, level);
    MTEST_CHECK(MPI_THREAD_SINGLE < MPI_THREAD_FUNNELED && MPI_THREAD_FUNNELED < MPI_THREAD_SERIALIZED &&
                    MPI_THREAD_SERIALIZED < MPI_THREAD_MULTIPLE,
                "levels are not in order");
    MTEST_OK(MPI_Is_thread_main(&main_thread));
    MTEST_CHECK(main_thread, "the thread that called MPI_Init is not the main one");
    return mtest_end();
}
