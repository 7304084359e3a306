/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a lost process ends the wait of ranks at its port (`home`), and that a connect of a lost process is
 * dropped: the next one is accepted (`waiting`); and that spawned ranks are lost with their process (`spawned`). Of 4
 * processes with one rank each, the last one kills itself.
 */
#include <mpi-ext.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "../mpi_conformance/mtest.h"

static void *kill_self(void *arg)
{
    kill(getpid(), SIGKILL);
    return arg;
}

static void lose_home(void)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm inter;

    if (mtest_rank == 3) {
        MPI_Open_port(MPI_INFO_NULL, port);
        for (int i = 0; i < 3; i++)
            MPI_Ssend(port, MPI_MAX_PORT_NAME, MPI_CHAR, i, 0, MPI_COMM_WORLD);
        kill(getpid(), SIGKILL);
    }
    MTEST_OK(MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 3, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MTEST_CLASS(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter), MPI_ERR_PROC_FAILED);
    MTEST_CLASS(MPI_Close_port(port), MPI_ERR_PROC_FAILED);
}

static void lose_waiting(void)
{
    char port[MPI_MAX_PORT_NAME];
    pthread_t thread;
    MPI_Comm inter;
    int error;

    if (mtest_rank == 0)
        MTEST_OK(MPI_Open_port(MPI_INFO_NULL, port));
    for (int i = 1; mtest_rank == 0 && i < 3; i++) /* before the last rank can be lost */
        MTEST_OK(MPI_Ssend(port, MPI_MAX_PORT_NAME, MPI_CHAR, i, 0, MPI_COMM_WORLD));
    if (mtest_rank == 0)
        MTEST_OK(MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 3, 0, MPI_COMM_WORLD));
    else
        MTEST_OK(MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (mtest_rank == 3 && pthread_create(&thread, NULL, kill_self, NULL) != 0)
        abort();
    if (mtest_rank == 1) /* until the loss is known */
        MTEST_CLASS(MPI_Recv(&error, 1, MPI_INT, 3, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
                    MPI_ERR_PROC_FAILED);
    if (mtest_rank == 1 || mtest_rank == 3)
        MTEST_OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    if (mtest_rank == 3)
        pause();
    if (mtest_rank == 1)
        MTEST_OK(MPI_Send(&error, 0, MPI_INT, 0, 0, inter));
    if (mtest_rank != 0)
        return;
    do { /* the lost process may have been accepted: it sends nothing */
        error = MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        if (!error)
            error = MPI_Recv(&error, 0, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE);
    } while (mtest_class(error) == MPI_ERR_PROC_FAILED);
    MTEST_OK(error);
}

/* The root's process runs the spawned ranks. */
static void lose_spawned(char *program)
{
    MPI_Comm inter;
    int value = 0;

    MTEST_OK(MPI_Comm_spawn(program, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 3, MPI_COMM_WORLD, &inter,
                            MPI_ERRCODES_IGNORE));
    mtest_errors_return(inter);
    MPI_Barrier(inter); /* when all have spawned */
    MTEST_CLASS(MPI_Recv(&value, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE), MPI_ERR_PROC_FAILED);
    MTEST_CLASS(MPI_Barrier(inter), MPI_ERR_PROC_FAILED);
}

int main(int argc, char **argv)
{
    MPI_Comm parent;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Barrier(parent);
        kill_self(NULL);
        pause();
    }
    mtest_learn_world(4);
    mtest_errors_return(MPI_COMM_WORLD);
    if (argc > 1 && strcmp(argv[1], "home") == 0)
        lose_home();
    else if (argc > 1 && strcmp(argv[1], "spawned") == 0)
        lose_spawned(argv[0]);
    else
        lose_waiting();
    if (mtest_errors == 0)
        printf("survived\n");
    fflush(stdout);
    MPI_Finalize();
    return mtest_errors > 0;
}
