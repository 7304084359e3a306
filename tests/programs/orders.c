/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Small programs for mpirun --explore all and +schedule record, each wrong in some orders of messages, or right in all of them.
 *
 *   orders WAY wrong|right
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, is_wrong;

static void check(int is_right, const char *what)
{
    if (is_right)
        return;
    printf("wrong: %s\n", what);
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static int receive(int source, int tag)
{
    MPI_Status status;
    int x;

    MPI_Recv(&x, 1, MPI_INT, source, tag, MPI_COMM_WORLD, &status);
    check(x == status.MPI_SOURCE, "a message of another rank");
    return status.MPI_SOURCE;
}

static void send(int dest, int tag)
{
    MPI_Send(&rank, 1, MPI_INT, dest, tag, MPI_COMM_WORLD);
}

/* Takes the first message for that of rank 1. */
static void first_sender(void)
{
    if (rank > 0)
        send(0, 0);
    for (int i = 1; rank == 0 && i < size; i++) {
        int source = receive(MPI_ANY_SOURCE, 0);
        check(!is_wrong || source == i, "the source is not i");
    }
}

/* Rank 1 sends to 0 before it sends to 2, which sends to 0 then: this does not order the messages at 0. */
static void triangle(void)
{
    if (rank == 0) {
        int first = receive(is_wrong ? MPI_ANY_SOURCE : 1, 0);
        check(first == 1, "rank 2 was faster");
        receive(MPI_ANY_SOURCE, 0);
    } else if (rank == 1) {
        send(0, 0);
        send(2, 0);
    } else if (rank == 2) {
        receive(1, 0);
        send(0, 0);
    }
}

/* The receive from any source may take the message for which the next one waits. */
static void starvation(void)
{
    if (rank > 0)
        send(0, 0);
    if (rank == 0) {
        receive(is_wrong ? MPI_ANY_SOURCE : 2, 0);
        receive(is_wrong ? 2 : MPI_ANY_SOURCE, 0);
    }
}

/* Takes the first completed request for the first one. */
static void waitany(void)
{
    int data[2] = {0}, index;
    MPI_Request requests[2];

    if (rank == 1 || rank == 2)
        send(0, 0);
    if (rank != 0)
        return;
    for (int i = 0; i < 2; i++)
        MPI_Irecv(&data[i], 1, MPI_INT, i + 1, 0, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < 2; i++) {
        MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
        check(!is_wrong || index == i, "the requests complete in another order");
        check(data[index] == index + 1, "the data of the request");
    }
}

/* Uses the data of a receive before it has waited for it: another message is no sign that it is there. */
static void missing_wait(void)
{
    int x = -1;
    MPI_Request request;

    if (rank == 1 || rank == 2)
        send(0, 0);
    if (rank != 0)
        return;
    MPI_Irecv(&x, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
    receive(2, 0);
    if (!is_wrong)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    check(x == 1, "the data is not there");
    if (is_wrong)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Receives from any source what it has probed. */
static void probe(void)
{
    int data[8], count;
    MPI_Status status;

    memset(data, 0, sizeof data);
    if (rank > 0)
        MPI_Send(data, rank, MPI_INT, 0, 0, MPI_COMM_WORLD);
    for (int i = 1; rank == 0 && i < size; i++) {
        MPI_Probe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        MPI_Recv(data, 8, MPI_INT, is_wrong ? MPI_ANY_SOURCE : status.MPI_SOURCE, 0, MPI_COMM_WORLD, &status);
        check(status.MPI_SOURCE == count, "another message than the probed one");
    }
}

/* A barrier orders the messages before it and after it; a message before it may be received after it. */
static void barrier(void)
{
    int first = 1;

    if (rank == 1 || (is_wrong && rank == 2))
        send(0, 0);
    if (rank == 0)
        first = receive(MPI_ANY_SOURCE, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 2 && !is_wrong)
        send(0, 0);
    if (rank == 0)
        receive(MPI_ANY_SOURCE, 0);
    check(first == 1, "the message of rank 2 came before the barrier");
}

/* The root of a broadcast may return before rank 0 has called it; here it does not. */
static void broadcast(void)
{
    int x = 0;

    if (rank == 2)
        send(0, 0);
    if (rank == 0)
        receive(MPI_ANY_SOURCE, 0);
    MPI_Bcast(&x, 1, MPI_INT, 1, MPI_COMM_WORLD);
    if (rank == 1)
        send(0, 0);
    if (rank == 0)
        receive(MPI_ANY_SOURCE, 0);
}

/* An error in one order of all (size - 1)!. */
static void permutation(void)
{
    int is_reversed = 1;

    if (rank > 0)
        MPI_Ssend(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    for (int i = 1; rank == 0 && i < size; i++)
        is_reversed &= receive(MPI_ANY_SOURCE, 0) == size - i;
    check(!is_wrong || rank > 0 || !is_reversed, "the reversed order");
}

/* Rank 2 sends only when it has chosen a message itself. */
static void late(void)
{
    if (rank == 0) {
        int first = receive(MPI_ANY_SOURCE, 0);
        int second = receive(MPI_ANY_SOURCE, 0);
        check(first + second == 3 && (!is_wrong || first == 1), "rank 2 was first");
    } else if (rank == 1) {
        send(0, 0);
    } else if (rank == 2) {
        receive(MPI_ANY_SOURCE, 0);
        send(0, 0);
    } else if (rank == 3) {
        send(2, 0);
    }
}

/* The first message of rank 1 fits both receives, its second one only the receive that names it. If the receive from any source takes
 * the message of rank 2, the first message of rank 1 is still there, and its second one must not overtake it. */
static void overtaking(void)
{
    int data[2] = {-1, -1};
    MPI_Request requests[2];
    MPI_Status statuses[2];

    if (rank == 1 || rank == 2)
        send(0, 0);
    if (rank == 1)
        send(0, 1);
    if (rank != 0)
        return;
    MPI_Irecv(&data[0], 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&data[1], 1, MPI_INT, 1, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    check(statuses[1].MPI_TAG == (data[0] == 1), "the second message was faster than the first");
    check(!is_wrong || data[0] == 1, "rank 2 was first");
    receive(MPI_ANY_SOURCE, MPI_ANY_TAG);
}

/* Sends to each other may wait for their receives. */
static void exchange(void)
{
    int other = rank ^ 1, x = -1;

    if (is_wrong) {
        send(other, 0);
        receive(other, 0);
    } else {
        MPI_Sendrecv(&rank, 1, MPI_INT, other, 0, &x, 1, MPI_INT, other, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        check(x == other, "the data of the other");
    }
}

/* For recording: the second receive gets no message. */
static void stuck(void)
{
    if (rank == 1)
        send(0, 0);
    for (int i = 0; rank == 0 && i < 2; i++)
        receive(MPI_ANY_SOURCE, 0);
}

/* A test need not find a message that was sent before a barrier. */
static void test(void)
{
    int x = -1, flag = 0;
    MPI_Request request = MPI_REQUEST_NULL;

    if (rank == 0)
        MPI_Irecv(&x, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
    if (rank == 1)
        send(0, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    do
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    while (!flag && !is_wrong);
    check(flag && (rank > 0 || x == 1), "the message is not there");
}

/* Sends and receives from any source in an order that the seed chooses; the ranks append the sources of what they receive to the
 * file "seen". Every order of matches is possible that keeps each rank's own order, and none ends in a deadlock. */
static void random_program(unsigned seed)
{
    enum { MESSAGES = 7, LINE = 200 };
    int sends[MESSAGES][3], is_sent[MESSAGES] = {0}, n_sent = 0, n_received = 0, n_requests = 0;
    MPI_Request requests[MESSAGES];
    char line[LINE] = "", all[10][LINE];
    FILE *file;

    for (int i = 0; i < MESSAGES; i++)
        for (int k = 0; k < 3; k++)
            sends[i][k] = (int)((seed = seed * 1103515245 + 12345) >> 16) % (k < 2 ? size : 2);
    while (n_received <
           MESSAGES) { /* a global order of sends and receives, of which each rank does its own */
        int is_send = (seed = seed * 1103515245 + 12345) >> 16 & 1 && n_sent < MESSAGES;
        if (is_send || n_sent == n_received) {
            if (sends[n_sent][0] == rank)
                MPI_Isend(&rank, 1, MPI_INT, sends[n_sent][1], sends[n_sent][2], MPI_COMM_WORLD,
                          &requests[n_requests++]);
            is_sent[n_sent++] = 1;
        } else {
            int i = (int)((seed = seed * 1103515245 + 12345) >> 16) % n_sent;
            while (!is_sent[i])
                i = (i + 1) % n_sent;
            is_sent[i] = 0;
            n_received++;
            if (sends[i][1] == rank)
                line[strlen(line)] = (char)('0' + receive(MPI_ANY_SOURCE, sends[i][2]));
        }
    }
    MPI_Waitall(n_requests, requests, MPI_STATUSES_IGNORE);
    MPI_Gather(line, LINE, MPI_CHAR, all[0], LINE, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank > 0)
        return;
    file = fopen("seen", "a");
    for (int i = 1; i < size; i++)
        fprintf(file, "%s,", all[i]);
    fprintf(file, "%s\n", line);
    fclose(file);
}

/* For recording: the ranks send in the order of the word after WAY, and rank 0 prints what it gets. */
static void record(const char *order)
{
    int token, index, flag = 0, n_failed = 0, n, indices[4], data[4];
    MPI_Request requests[4];
    MPI_Status status;
    const char *own = strchr(order, '0' + rank);

    if (rank == 0) {
        for (int i = 1; i < size; i++)
            printf("%d ", receive(MPI_ANY_SOURCE, 0));
        MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, &status);
        printf("| %d ", flag);
        for (int i = 1; i < size; i++)
            MPI_Irecv(&data[i], 1, MPI_INT, i, 1, MPI_COMM_WORLD, &requests[i - 1]);
        MPI_Waitany(size - 1, requests, &index, MPI_STATUS_IGNORE);
        printf("| %d ", index);
        for (; !flag; n_failed++)
            MPI_Testany(size - 1, requests, &index, &flag, MPI_STATUS_IGNORE);
        printf("| %d %d ", n_failed, index);
        MPI_Waitsome(size - 1, requests, &n, indices, MPI_STATUSES_IGNORE);
        printf("| %d\n", n == MPI_UNDEFINED ? -1 : indices[0]);
        MPI_Waitall(size - 1, requests, MPI_STATUSES_IGNORE);
        return;
    }
    if (own > order)
        MPI_Recv(&token, 1, MPI_INT, own[-1] - '0', 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    send(0, 0);
    if (own[1])
        send(own[1] - '0', 2);
    send(0, 1);
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {
    {"first_sender", first_sender},
    {"triangle", triangle},
    {"starvation", starvation},
    {"waitany", waitany},
    {"missing_wait", missing_wait},
    {"probe", probe},
    {"barrier", barrier},
    {"broadcast", broadcast},
    {"permutation", permutation},
    {"late", late},
    {"overtaking", overtaking},
    {"exchange", exchange},
    {"test", test},
    {"stuck", stuck},
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    is_wrong = argc > 2 && strcmp(argv[2], "wrong") == 0;
    if (strcmp(argv[1], "random") == 0)
        random_program((unsigned)atoi(argv[2]));
    if (strcmp(argv[1], "record") == 0)
        record(argv[2]);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (strcmp(argv[1], ways[i].name) == 0)
            ways[i].run();
    MPI_Finalize();
    return 0;
}
