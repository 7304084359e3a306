/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of a rank spawn ranks at the same time, again and again, on MPI_COMM_SELF: the memory of a rank that has ended is not
 * freed while its PE still waits on its stack. */
#include "mtest_threads.h"

enum { N_THREADS = 4, N_SPAWNS = 40 };

static char *program;

static void *spawn(void *arg)
{
    int number = mtest_thread_number(arg), value;
    char text[16], *args[] = {text, NULL};
    MPI_Comm child;

    snprintf(text, sizeof text, "%d", number);
    for (int i = 0; i < N_SPAWNS; i++) {
        value = -1;
        mtest_thread_check(number, MPI_Comm_spawn(program, args, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child,
                                                  MPI_ERRCODES_IGNORE) == MPI_SUCCESS);
        MPI_Recv(&value, 1, MPI_INT, 0, number, child, MPI_STATUS_IGNORE);
        mtest_thread_check(number, value == number);
        MPI_Comm_disconnect(&child);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    MPI_Comm parent;

    mtest_init_threads(&argc, &argv, 1);
    MTEST_OK(MPI_Comm_get_parent(&parent));
    program = argv[0];
    if (parent == MPI_COMM_NULL) {
        mtest_run_threads(0, N_THREADS, spawn);
    } else {
        int tag = atoi(argv[1]);
        MTEST_OK(MPI_Send(&tag, 1, MPI_INT, 0, tag, parent));
        MTEST_OK(MPI_Comm_disconnect(&parent));
    }
    return mtest_end();
}
