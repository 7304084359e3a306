/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that an unimplemented function raises MPI_ERR_UNSUPPORTED_OPERATION, naming itself, through the error
 * handler of its communicator, and through that of MPI_COMM_SELF if it has none. With an argument: by the
 * default handler, which ends the job. Calls functions that a process without siblings rarely needs.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static MPI_Comm raised_on;
static int raised_class;

static void record(MPI_Comm *comm, int *code, ...)
{
    raised_on = *comm;
    MPI_Error_class(*code, &raised_class);
}

static int spawn(MPI_Comm comm)
{
    MPI_Comm children = MPI_COMM_NULL;

    return MPI_Comm_spawn("program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, comm, &children,
                          MPI_ERRCODES_IGNORE);
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    MPI_Comm comm;
    char port[MPI_MAX_PORT_NAME];
    int code, class = MPI_SUCCESS, n_wrong = 0;

    MPI_Init(&argc, &argv);
    if (argc > 1)
        spawn(MPI_COMM_WORLD);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_create_errhandler(record, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    code = spawn(comm);
    MPI_Error_class(code, &class);
    n_wrong += class != MPI_ERR_UNSUPPORTED_OPERATION || raised_class != class || raised_on != comm;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    raised_class = MPI_SUCCESS;
    code = MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Error_class(code, &class);
    n_wrong += class != MPI_ERR_UNSUPPORTED_OPERATION || raised_class != class || raised_on != MPI_COMM_SELF;
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    if (n_wrong)
        printf("%d of 2 wrong\n", n_wrong);
    return n_wrong != 0;
}
