/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For misuse_test.sh: messages that are longer than their receives: in MPI_Recv ("recv"), MPI_Wait ("wait"), MPI_Waitall ("all"),
 * or in calls that return the error ("returned"), which print the sends; or in freed requests first ("freed").
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank, ints[256], other[256];

/* Ends the job. */
static void receive(const char *how)
{
    MPI_Request requests[2];

    if (rank == 0) {
        MPI_Send(ints, 1, MPI_INT, 1, 4, MPI_COMM_WORLD);
        MPI_Send(ints, 4, MPI_INT, 1, 5, MPI_COMM_WORLD); /* send-long */
    } else if (rank == 1 && strcmp(how, "recv") == 0) {
        MPI_Recv(other, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(ints, 2, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Irecv(other, 2, MPI_INT, 0, 4, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(ints, 2, MPI_INT, 0, 5, MPI_COMM_WORLD, &requests[1]);
        if (strcmp(how, "wait") == 0)
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void print_send(int error)
{
    char text[MPI_MAX_ERROR_STRING];
    const char *send;
    int length;

    MPI_Error_string(error, text, &length);
    send = strstr(text, "sends");
    puts(send ? send : text);
}

static void receive_all(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0) {
        for (int i = 0; i < 3; i++)
            MPI_Ssend(ints, 3 + i, MPI_INT, 1, 5, MPI_COMM_WORLD);
    } else if (rank == 1) {
        for (int i = 0; i < 2; i++)
            MPI_Irecv(&ints[8 * i], 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &requests[i]);
        print_send(MPI_Waitall(2, requests, statuses));
        print_send(MPI_Recv(ints, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &statuses[0]));
    }
}

/* Receives of one element whose requests are freed before and after their messages come, and one that prints its send. */
static void free_requests(void)
{
    MPI_Request request;
    int flag = 0;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 1) {
        MPI_Irecv(ints, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
        MPI_Irecv(other, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &request);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 3 && rank == 0; i++)
        MPI_Ssend(ints, 3 + i, MPI_INT, 1, 5, MPI_COMM_WORLD);
    if (rank != 1)
        return;
    while (!flag)
        MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
    print_send(MPI_Recv(ints, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(argv[1], "returned") == 0)
        receive_all();
    else if (strcmp(argv[1], "freed") == 0)
        free_requests();
    else
        receive(argv[1]);
    MPI_Finalize();
    return 0;
}
