/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that use MPI wrongly, one by argument, and right ones that look alike ("right"). The comments name lines of reports. */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE (1 << 18)

static int rank, size, ints[256], other[256], large[LARGE];
static double doubles[256];
static const char *kind;

static int is(const char *what)
{
    return strcmp(kind, what) == 0;
}

static MPI_Datatype pair_type(void)
{
    struct pair {
        int i;
        double d;
    };
    int lengths[] = {1, 1};
    MPI_Aint places[] = {0, offsetof(struct pair, d)};
    MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE}, pair;

    MPI_Type_create_struct(2, lengths, places, types, &pair);
    MPI_Type_commit(&pair);
    return pair;
}

/* ---- Messages ---- */

static void wrong_types(void)
{
    MPI_Request request;

    if (rank == 0) {
        MPI_Send(ints, 4, MPI_INT, 1, 5, MPI_COMM_WORLD); /* send-int */
    } else if (rank == 1) {
        if (is("type-posted")) {
            MPI_Irecv(doubles, 2, MPI_FLOAT, 0, 5, MPI_COMM_WORLD, &request); /* irecv-float */
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else if (is("type-probed")) {
            MPI_Message message;
            MPI_Mprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
            MPI_Mrecv(doubles, 8, MPI_FLOAT, &message, MPI_STATUS_IGNORE); /* mrecv-float */
        } else {
            MPI_Probe(0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(doubles, 16, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* recv-byte */
        }
    }
}

static void wrong_struct(void)
{
    MPI_Datatype pair = pair_type();
    MPI_Request request;

    if (rank == 0) {
        MPI_Recv_init(doubles, 3, pair, 1, 0, MPI_COMM_WORLD, &request);
        MPI_Start(&request); /* start-pair */
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
    } else if (rank == 1) {
        MPI_Ssend(ints, 2, MPI_INT, 0, 0, MPI_COMM_WORLD); /* ssend-int */
    }
    MPI_Type_free(&pair);
}

/* The init calls of the receive come first, or its start does. */
static void wrong_partitions(void)
{
    MPI_Request request;

    if (rank == 0) {
        if (is("parts-late"))
            MPI_Recv(other, 1, MPI_INT, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Psend_init(ints, 4, 2, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &request); /* psend-init */
        MPI_Start(&request);
        MPI_Pready_range(0, 3, request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Send(ints, 1, MPI_INT, 1, 6, MPI_COMM_WORLD);
    } else if (rank == 1) {
        if (is("parts-early"))
            MPI_Probe(0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Precv_init(doubles, 2, 4, MPI_FLOAT, 0, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request); /* start-parts */
        if (is("parts-late"))
            MPI_Send(ints, 1, MPI_INT, 0, 6, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* ---- Buffers ---- */

static void wrong_buffer(void)
{
    MPI_Request requests[2];

    if (rank == 0) {
        MPI_Isend(ints, 8, MPI_INT, 1, 0, MPI_COMM_WORLD, &requests[0]); /* isend-changed */
        ints[3] = 7;
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE); /* wait-changed */
    } else if (rank == 1) {
        MPI_Recv(ints, 8, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* A partition that is ready, and the data of a collective. */
static void wrong_started(void)
{
    int next = (rank + 1) % size, prev = (rank + size - 1) % size, n[64], at[64];
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};

    for (int i = 0; i < size; i++) {
        n[i] = 1;
        at[i] = 2 * i;
    }
    if (is("changed-part")) {
        MPI_Psend_init(ints, 4, 2, MPI_INT, next, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
        MPI_Precv_init(other, 2, 4, MPI_INT, prev, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
        MPI_Startall(2, requests);
        MPI_Pready_range(0, 1, requests[0]);
        MPI_Pready(3, requests[0]); /* pready */
        ints[4] = 5;                /* partition 2 is not ready */
        ints[7] += rank == 0;
        MPI_Pready_list(1, &(int){2}, requests[0]);
    } else if (is("changed-allreduce")) {
        MPI_Allreduce_init(ints, other, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
        MPI_Start(&requests[0]); /* start-allreduce */
        ints[3] += rank == 0;
    } else if (is("changed-bcast")) {
        MPI_Ibcast(ints, 4, MPI_INT, 0, MPI_COMM_WORLD, &requests[0]); /* ibcast */
        ints[3] += rank == 0;
    } else {
        MPI_Ialltoallv(ints, n, at, MPI_INT, other, n, at, MPI_INT, world, requests); /* ialltoallv */
        ints[1] = 1;                                                                  /* between two blocks */
        ints[2 * (size - 1)] += rank == 0;
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); /* wait-started */
}

static void wrong_overlap(void)
{
    MPI_Request requests[2];

    if (rank == 0) {
        MPI_Irecv(ints, 8, MPI_INT, 1, 0, MPI_COMM_WORLD, &requests[0]); /* irecv-first */
        if (is("overlap-recv"))
            MPI_Irecv(ints + 6, 8, MPI_INT, 1, 1, MPI_COMM_WORLD, &requests[1]); /* irecv-second */
        else
            MPI_Send(ints + 7, 1, MPI_INT, 1, 1, MPI_COMM_WORLD); /* send-second */
    }
}

/* The result of a started collective, and another buffer. */
static void wrong_result(void)
{
    int n[64], at[64];
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request requests[3];

    for (int i = 0; i < size; i++) {
        n[i] = 1;
        at[i] = 2 * i;
    }
    if (is("overlap-result")) {
        MPI_Irecv(other, 3, MPI_INT, rank, 1, world, &requests[0]);                /* irecv-result */
        MPI_Iallreduce(ints, other + 2, 4, MPI_INT, MPI_SUM, world, &requests[1]); /* iallreduce-result */
    } else {
        MPI_Ialltoallv(ints, n, at, MPI_INT, other, n, at, MPI_INT, world, &requests[0]); /* results */
        MPI_Irecv(other + 1, 1, MPI_INT, rank, 1, world, &requests[1]);              /* between two blocks */
        MPI_Irecv(other + 2 * (size - 1), 1, MPI_INT, rank, 1, world, &requests[2]); /* irecv-block */
    }
}

/* Pending columns of a matrix, one of them twice. */
static void wrong_column(void)
{
    enum { N = 3000 };
    static int matrix[4][N];
    static MPI_Request requests[N + 1];
    MPI_Datatype column;

    MPI_Type_vector(4, 1, N, MPI_INT, &column);
    MPI_Type_commit(&column);
    for (int i = 0; i < N; i++)
        MPI_Irecv(&matrix[0][i], 1, column, rank, i, MPI_COMM_WORLD, &requests[i]);  /* irecv-column */
    MPI_Irecv(&matrix[3][N - 1], 1, MPI_INT, rank, N, MPI_COMM_WORLD, &requests[N]); /* irecv-last */
}

/* ---- Pages: +check buffers ---- */

static double pages[3][4096];

/* The result of a get, before the program may use it. The library may not know yet that the data is there, so the callers try again. */
static void await_value(const volatile double *from, double value)
{
    int flag;

    for (int n = 0; *from != value || n < 100; n++)
        MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static void wrong_early(void)
{
    double *heap = malloc(sizeof pages[0]);
    MPI_Request request;
    MPI_Win win;

    if (is("early-send") && rank == 0) {
        MPI_Isend(heap, 4096, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, &request); /* isend-early */
        heap[2048] = 1;                                                    /* write-early */
        MPI_Recv(pages[0], 4096, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (is("early-recv") && rank == 0) {
        MPI_Irecv(pages[0], 4096, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, &request); /* irecv-early */
        memset(pages[0], 0, sizeof pages[0]);                                  /* memset-early */
        MPI_Send(heap, 4096, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (is("early-other") && rank == 0) { /* of two sends with the same pages, one is complete */
        MPI_Request other;
        MPI_Issend(pages[0], 4096, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, &request);
        MPI_Issend(pages[0], 4096, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, &other); /* issend-other */
        MPI_Recv(heap, 4096, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        pages[0][2048] = 1;
        MPI_Recv(heap, 4096, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&other, MPI_STATUS_IGNORE);
    } else if (is("early-get")) {
        heap[2048] = 5;
        MPI_Win_create(heap, sizeof pages[0], 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_lock_all(0, win);
        for (int i = 0; i < 1000 && rank == 0; i++) {
            pages[0][2048] = 0;
            MPI_Get(pages[0], 4096, MPI_DOUBLE, size - 1, 0, 4096, MPI_DOUBLE, win); /* get-early */
            await_value(&pages[0][2048], 5);
            MPI_Win_flush(size - 1, win);
        }
        MPI_Win_unlock_all(win);
    } else if ((is("early-first") || is("early-last")) && rank == 0) {
        MPI_Datatype halves;
        MPI_Type_vector(3, 2048, 4096, MPI_DOUBLE, &halves);
        MPI_Type_commit(&halves);
        MPI_Irecv(pages, 1, halves, 0, 0, MPI_COMM_WORLD, &request); /* irecv-blocks */
        pages[1][3072] = 1;                                          /* legal: between the blocks */
        pages[is("early-first") ? 0 : 2][1024] = 1;
        MPI_Send(heap, 4096, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Type_free(&halves);
    } else if (rank == 0) { /* the data has arrived, but the program does not know that */
        MPI_Irecv(pages[0], 4096, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, &request); /* irecv-arrived */
        MPI_Send(heap, 4096, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
        printf("%d\n", pages[0][2048] == 0); /* read-arrived */
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* Pages of pending operations that the program does not use: of several operations, and of messages that have come before. */
static void right_pages(void)
{
    int next = (rank + 1) % size, prev = (rank + size - 1) % size, flag = 0;
    MPI_Request requests[4];

    for (int i = 0; i < 3; i++) {
        pages[0][i] = rank;
        MPI_Irecv(pages[1], 4096, MPI_DOUBLE, prev, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(pages[0], 4096, MPI_DOUBLE, next, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Isend(pages[0] + 512, 1024, MPI_DOUBLE, next, 1, MPI_COMM_WORLD, &requests[2]);
        MPI_Probe(prev, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Irecv(pages[2], 4096, MPI_DOUBLE, prev, 1, MPI_COMM_WORLD, &requests[3]);
        MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
        while (!flag)
            MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
        flag = pages[1][i] != prev;
        MPI_Waitall(2, &requests[1], MPI_STATUSES_IGNORE);
        MPI_Wait(&requests[3], MPI_STATUS_IGNORE);
        memset(pages, 0, sizeof pages);
        if (flag)
            puts("wrong data");
        flag = 0;
    }
    MPI_Irecv(pages[1], 4096, MPI_DOUBLE, prev, 2, MPI_COMM_WORLD, &requests[0]);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    memset(pages, 0, sizeof pages);
}

/* ---- Handles ---- */

static void take_any(void *in, void *inout, int *n, MPI_Datatype *type)
{
    (void)in, (void)inout, (void)n, (void)type;
}

static void wrong_handle(void)
{
    MPI_Op op, old_op;
    MPI_Datatype row, copy;
    MPI_Request request, second;
    MPI_Comm dup, old;

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (is("freed-request")) {
        MPI_Isend(ints, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &request);
        second = request;
        MPI_Recv(other, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);                   /* wait-first */
        if (MPI_Wait(&second, MPI_STATUS_IGNORE) == MPI_SUCCESS) /* wait-again */
            puts("no error");
    } else if (is("freed-twice")) {
        MPI_Request requests[3] = {MPI_REQUEST_NULL};
        MPI_Irecv(other, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &requests[1]); /* irecv-twice */
        requests[2] = requests[1];
        MPI_Send(ints, 1, MPI_INT, rank, 0, MPI_COMM_WORLD);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE); /* waitall-twice */
    } else if (is("freed-op")) {
        MPI_Op_create(take_any, 1, &op);
        old_op = op;
        MPI_Op_free(&op);                                               /* op-free */
        MPI_Allreduce(ints, other, 1, MPI_INT, old_op, MPI_COMM_WORLD); /* allreduce-freed */
    } else if (is("freed-type")) {
        MPI_Type_contiguous(2, MPI_INT, &row);
        MPI_Type_commit(&row);
        copy = row;
        MPI_Type_free(&row);                                       /* type-free */
        MPI_Send(ints, 1, copy, MPI_PROC_NULL, 0, MPI_COMM_WORLD); /* send-freed */
    } else {
        MPI_Comm_dup(MPI_COMM_WORLD, &dup);
        old = dup;
        MPI_Comm_free(&dup); /* comm-free */
        MPI_Barrier(old);    /* barrier-freed */
    }
}

/* ---- Windows ---- */

static void wrong_window(void)
{
    MPI_Group world, targets, origins;
    int zero = 0, others[] = {1, 2};
    MPI_Op op = rank == 1 ? MPI_SUM : MPI_PROD;
    MPI_Win win;

    if (is("win-get")) {
        doubles[0] = 5;
        MPI_Win_create(doubles, 64, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        MPI_Win_fence(0, win);
        for (int i = 0; i < 1000; i++) {
            doubles[16] = 0;
            MPI_Get(doubles + 16, 4, MPI_DOUBLE, (rank + 1) % size, 0, 4, MPI_DOUBLE, win); /* get-fence */
            await_value(doubles + 16, 5);
            doubles[17]++;
            MPI_Win_fence(0, win); /* fence */
        }
    } else
        MPI_Win_create(ints, sizeof ints, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (is("win-fence")) {
        MPI_Win_fence(0, win);
        if (rank > 0)
            MPI_Put(other, 4, MPI_INT, 0, 3 * rank, 4, MPI_INT, win); /* put-fence */
        MPI_Win_fence(0, win);
    } else if (is("win-lock")) {
        MPI_Win_lock_all(0, win);
        if (rank == 1) {
            MPI_Put(other, 1, MPI_INT, 0, 2, 1, MPI_INT, win);     /* put-lock */
            MPI_Get(other + 9, 1, MPI_INT, 0, 2, 1, MPI_INT, win); /* get-lock */
        }
        MPI_Win_unlock_all(win);
    } else if (is("win-ops")) {
        MPI_Win_fence(0, win);
        if (rank > 0)
            MPI_Accumulate(other, 1, MPI_INT, 0, 0, 1, MPI_INT, op, win); /* accumulate */
        MPI_Win_fence(0, win);
    } else if (is("win-start")) {
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Group_incl(world, 1, &zero, &targets);
        MPI_Group_incl(world, 2, others, &origins);
        if (rank == 0) {
            MPI_Win_post(origins, 0, win);
            MPI_Win_wait(win);
        } else if (rank < 3) {
            MPI_Win_start(targets, 0, win);
            MPI_Put(other, 1, MPI_INT, 0, 0, 1, MPI_INT, win); /* put-start */
            MPI_Win_complete(win);
        }
    }
    MPI_Win_free(&win);
}

/* ---- Collectives ---- */

static MPI_Comm ring(void)
{
    int yes = 1;
    MPI_Comm comm;

    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &yes, 0, &comm);
    return comm;
}

static void wrong_collective(void)
{
    MPI_Datatype pair = pair_type();
    int is_last = rank == size - 1, counts[64], places[64], twos[2] = {2, 2}, many[64], far[64];
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Op op = is_last ? MPI_MAX : MPI_SUM;
    MPI_Comm world = MPI_COMM_WORLD;

    for (int i = 0; i < size; i++)
        counts[i] = places[i] = 1, many[i] = LARGE / 2 / size, far[i] = i * many[i];
    if (is("coll-op"))
        MPI_Iallreduce(ints, other, 1, MPI_INT, op, MPI_COMM_WORLD, &request); /* iallreduce */
    else if (is("coll-type"))
        MPI_Bcast(doubles, is_last ? 4 : 1, is_last ? MPI_INT : pair, 0, MPI_COMM_WORLD); /* bcast */
    else if (is("coll-float"))
        MPI_Bcast(ints, 4, is_last ? MPI_FLOAT : MPI_INT, 0, MPI_COMM_WORLD); /* bcast-float */
    else if (is("coll-neighbor"))
        MPI_Ineighbor_alltoall(ints, 2, is_last ? MPI_FLOAT : MPI_INT, other, 2, MPI_INT, ring(),
                               &request); /* neighbor */
    else if (is("coll-neighbors"))
        MPI_Neighbor_allgatherv(ints, 2, is_last ? MPI_FLOAT : MPI_INT, other, twos, places, MPI_INT,
                                ring()); /* neighbors */
    else if (is("coll-alltoallv"))
        MPI_Alltoallv(large, many, far, is_last ? MPI_FLOAT : MPI_INT, large + LARGE / 2, many, far, MPI_INT,
                      world); /* alltoallv */
    else if (is("coll-gather"))
        MPI_Gather(ints, 1, is_last ? MPI_FLOAT : MPI_INT, other, 1, MPI_INT, 0, world); /* gather-float */
    else if (is("coll-v")) {
        counts[0] += is_last && rank > 0;
        MPI_Iallgatherv(ints, 1, MPI_INT, other, counts, places, MPI_INT, world, &request); /* iallgatherv */
    } else {
        MPI_Reduce_init(ints, other, 1, MPI_INT, MPI_SUM, is_last, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request); /* start-reduce */
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* ---- Right programs ---- */

static void right_messages(void)
{
    MPI_Datatype pair = pair_type(), column;
    int next = (rank + 1) % size, prev = (rank + size - 1) % size, flag = 0;
    MPI_Request requests[4];
    char packed[64];
    int at = 0;

    MPI_Type_vector(4, 1, 4, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Irecv(ints, 1, column, prev, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(ints + 1, 1, column, prev, 1, MPI_COMM_WORLD, &requests[1]); /* the columns do not overlap */
    MPI_Isend(other, 4, MPI_INT, next, 0, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(other, 2, MPI_2INT, next, 1, MPI_COMM_WORLD, &requests[3]); /* two sends of a buffer */
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    other[0]++;
    MPI_Isend(doubles, 2, pair, next, 2, MPI_COMM_WORLD, &requests[0]); /* a part of what the receive takes */
    MPI_Recv(doubles + 32, 5, pair, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (!flag)
        MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE);
    doubles[0]++;
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Pack(ints, 3, MPI_INT, packed, sizeof packed, &at, MPI_COMM_WORLD);
    MPI_Send(packed, at, MPI_PACKED, next, 3, MPI_COMM_WORLD);
    MPI_Recv(other, 3, MPI_INT, prev, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(other, 3, MPI_INT, next, 4, MPI_COMM_WORLD);
    MPI_Recv(packed, at, MPI_PACKED, prev, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv_replace(doubles, 2, pair, next, 5, prev, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send_init(ints, 4, MPI_INT, next, 6, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(other, 4, MPI_INT, prev, 6, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 3; i++) {
        ints[0] = other[0] = i;
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE); /* inactive: legal */
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Issend(ints, 1, MPI_INT, next, 7, MPI_COMM_WORLD, &requests[0]); /* cancelled, or received */
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Iprobe(prev, 7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    if (flag)
        MPI_Recv(other, 1, MPI_INT, prev, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(doubles, 1, MPI_DOUBLE, next, 7, MPI_COMM_WORLD); /* the key of the cancelled one */
    MPI_Recv(doubles, 1, MPI_DOUBLE, prev, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Isend((void *)8, 4, MPI_INT, MPI_PROC_NULL, 8, MPI_COMM_WORLD,
              &requests[0]); /* buffers without use */
    MPI_Irecv(other, 1, MPI_INT, MPI_PROC_NULL, 8, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(other, 1, MPI_INT, prev, 8, MPI_COMM_WORLD, &requests[2]);
    MPI_Send(ints, 1, MPI_INT, next, 8, MPI_COMM_WORLD);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    MPI_Type_free(&pair);
    MPI_Type_free(&column);
}

static void right_windows(void)
{
    MPI_Group world, targets, origins;
    int zero = 0;
    MPI_Win win;

    MPI_Win_create(ints, sizeof ints, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (int i = 0; i < 4; i++) { /* epochs follow each other at the same place */
        MPI_Win_fence(0, win);
        if (rank == i % size)
            MPI_Put(other, 4, MPI_INT, 0, 0, 4, MPI_INT, win);
    }
    MPI_Win_fence(0, win);
    MPI_Accumulate(other, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win);
    MPI_Get(other + 8, 1, MPI_INT, 0, 9, 1, MPI_INT, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Put(other, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
    MPI_Win_unlock(0, win);
    MPI_Win_lock_all(0, win);
    MPI_Fetch_and_op(other, other + 1, MPI_INT, 0, 0, MPI_SUM, win);
    MPI_Fetch_and_op(other, other + 1, MPI_INT, 0, 0, MPI_NO_OP, win);
    MPI_Put(other, 1, MPI_INT, 0, 10 + rank, 1, MPI_INT, win);
    MPI_Win_flush(0, win);
    MPI_Get(other, 1, MPI_INT, 0, 10 + rank, 1, MPI_INT, win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &zero, &targets);
    for (int i = 1; i < size; i++) { /* exposure epochs follow each other */
        MPI_Group_incl(world, 1, &i, &origins);
        if (rank == 0) {
            MPI_Win_post(origins, 0, win);
            MPI_Win_wait(win);
        } else if (rank == i) {
            MPI_Win_start(targets, 0, win);
            MPI_Put(other, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
            MPI_Win_complete(win);
        }
        MPI_Group_free(&origins);
    }
    MPI_Win_free(&win);
}

/* Fortran's types: without a constant, and with another name than C's. */
static void right_f90_types(void)
{
    int next = (rank + 1) % size, prev = (rank + size - 1) % size;
    MPI_Datatype real, integer;

    MPI_Type_create_f90_real(15, 307, &real);
    MPI_Type_create_f90_integer(9, &integer);
    MPI_Bcast(doubles, 2, real, 0, MPI_COMM_WORLD);
    MPI_Allgather(ints, 1, integer, other, 1, integer, MPI_COMM_WORLD);
    MPI_Sendrecv(doubles, 2, real, next, 9, doubles + 8, 2, real, prev, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(ints, 1, integer, next, 9, other, 1, integer, prev, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(ints, 4, MPI_CHAR, next, 9, other, 4, MPI_CHARACTER, prev, 9, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(ints, 1, MPI_INTEGER, next, 9, other, 1, MPI_INT, prev, 9, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static void right_collectives(void)
{
    MPI_Datatype two;
    MPI_Request request;

    MPI_Type_contiguous(2, MPI_INT, &two);
    MPI_Type_commit(&two);
    MPI_Bcast(ints, rank ? 4 : 2, rank ? MPI_INT : two, 0, MPI_COMM_WORLD);
    MPI_Iallreduce(ints, other, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allgather(ints, 1, two, other, 2, MPI_INT, MPI_COMM_WORLD);
    MPI_Type_free(&two);
    right_f90_types();
}

/* Each direction has a type of its own. */
static void right_directions(void)
{
    int counts[2] = {1, 2};
    MPI_Aint places[2] = {0, 64};
    MPI_Datatype out[2] = {MPI_INT, MPI_FLOAT}, in[2] = {MPI_FLOAT, MPI_INT};
    int twice[2] = {2, 1};
    MPI_Comm comm = ring();

    MPI_Neighbor_alltoallw(ints, counts, places, out, other, twice, places, in, comm);
    MPI_Comm_free(&comm);
}

/* Rows of halos on a line of ranks, whose ends have no blocks. */
static void right_halos(void)
{
    int none = 0, counts[2] = {2, 2}, row = 0;
    MPI_Aint places[2] = {0, 64}, from[2] = {128, 256};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT};
    MPI_Request request;
    MPI_Comm line;

    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &none, 0, &line);
    MPI_Comm_rank(line, &row);
    if (row == 0)
        places[0] = (MPI_Aint)1 << 60;
    MPI_Neighbor_alltoallw_init(ints, counts, places, types, other, counts, from, types, line, MPI_INFO_NULL,
                                &request);
    for (int i = 0; i < 3; i++) {
        ints[0] = i;
        MPI_Start(&request);
        ints[8] = other[0] = i; /* no data of the operation */
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    MPI_Comm_free(&line);
}

/* Memory that started collectives use, or do not use, in other operations. */
static void right_results(void)
{
    int next = (rank + 1) % size, prev = (rank + size - 1) % size, counts[64], at[64], none = 0, row = 0;
    MPI_Comm world = MPI_COMM_WORLD, line;
    MPI_Request requests[6];

    for (int i = 0; i < size; i++) {
        counts[i] = 1;
        at[i] = 2 * i;
    }
    MPI_Ialltoallv(ints, counts, at, MPI_INT, other, counts, at, MPI_INT, world, &requests[0]);
    MPI_Ibcast(rank ? other + 64 : ints, 4, MPI_INT, 0, world, &requests[1]);
    MPI_Irecv(other + 1, 1, MPI_INT, prev, 10, world, &requests[2]);
    MPI_Isend(ints, 1, MPI_INT, next, 10, world, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    MPI_Ireduce(ints, other, 4, MPI_INT, MPI_SUM, 0, world, &requests[0]); /* the others have no result */
    MPI_Iexscan(ints, other + 8, 4, MPI_INT, MPI_SUM, world, &requests[1]);
    MPI_Iscatter(ints, 1, MPI_INT, rank ? other + 16 : MPI_IN_PLACE, 1, MPI_INT, 0, world, &requests[2]);
    MPI_Ireduce_scatter_block(ints, other + 24, 1, MPI_INT, MPI_SUM, world, &requests[3]);
    MPI_Irecv(rank ? other : other + 8, 4, MPI_INT, prev, 11, world, &requests[4]);
    MPI_Irecv(other + 25, 4, MPI_INT, prev, 11, world, &requests[5]);
    MPI_Send(ints, 4, MPI_INT, next, 11, world);
    MPI_Send(ints, 4, MPI_INT, next, 11, world);
    MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
    MPI_Cart_create(world, 1, &size, &none, 0, &line);
    MPI_Comm_rank(line, &row);
    MPI_Ineighbor_allgather(ints, 4, MPI_INT, other, 4, MPI_INT, line, &requests[0]);
    MPI_Irecv(row == 0 ? other : other + 8, 4, MPI_INT, prev, 12, world, &requests[1]);
    MPI_Send(ints, 4, MPI_INT, next, 12, world);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&line);
}

/* The same handle twice: of an inactive request, or in a call that completes one. */
static void right_twice(void)
{
    int next = (rank + 1) % size, prev = (rank + size - 1) % size, index;
    MPI_Request requests[4], same[2];

    MPI_Send_init(ints, 1, MPI_INT, next, 13, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(other, 1, MPI_INT, prev, 13, MPI_COMM_WORLD, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    requests[2] = requests[0];
    requests[3] = requests[1];
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Irecv(other, 1, MPI_INT, rank, 13, MPI_COMM_WORLD, &same[0]);
    same[1] = same[0];
    MPI_Send(ints, 1, MPI_INT, rank, 13, MPI_COMM_WORLD);
    MPI_Waitany(2, same, &index, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; i++) /* sends that are complete at once */
        MPI_Isend(ints, 1, MPI_INT, next, 14, MPI_COMM_WORLD, &requests[i]);
    MPI_Irecv(other, 1, MPI_INT, prev, 14, MPI_COMM_WORLD, &requests[2]);
    MPI_Irecv(other + 1, 1, MPI_INT, prev, 14, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

/* Buffers that change as soon as they may. */
static void right_started(void)
{
    int next = (rank + 1) % size, prev = (rank + size - 1) % size, flag;
    MPI_Request requests[2], coll;
    MPI_Datatype two;

    MPI_Type_contiguous(2, MPI_INT, &two);
    MPI_Type_commit(&two);
    MPI_Psend_init(ints, 4, 1, two, next, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Type_free(&two);
    MPI_Precv_init(other, 2, 4, MPI_INT, prev, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    MPI_Allreduce_init(doubles, doubles + 64, 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &coll);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, requests);
        MPI_Start(&coll);
        for (int part = 0; part < 4; part++) {
            ints[2 * part] = i;
            MPI_Pready(part, requests[0]);
        }
        for (flag = 0; !flag;)
            MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
        ints[0] = 7;
        MPI_Wait(&coll, MPI_STATUS_IGNORE);
        doubles[0] += 1;
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Request_free(&coll);
    MPI_Iallreduce(MPI_IN_PLACE, ints, 4, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &coll);
    MPI_Wait(&coll, MPI_STATUS_IGNORE);
    MPI_Ialltoall(ints, 2, MPI_INT, other, 2, MPI_INT, MPI_COMM_WORLD, &coll);
    ints[2 * size]++;
    MPI_Wait(&coll, MPI_STATUS_IGNORE);
    MPI_Psend_init((void *)8, 4, 2, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Start(&requests[0]);
    MPI_Pready_range(0, 3, requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Request_free(&requests[0]);
    right_halos();
    right_results();
    right_twice();
    right_directions();
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kind = argv[1];
    if (is("right")) {
        for (int i = 0; i < 3; i++) {
            right_messages();
            right_pages();
            right_windows();
            right_collectives();
            right_started();
        }
    } else if (is("struct"))
        wrong_struct();
    else if (strncmp(kind, "parts", 5) == 0)
        wrong_partitions();
    else if (strncmp(kind, "type", 4) == 0)
        wrong_types();
    else if (strncmp(kind, "early", 5) == 0)
        wrong_early();
    else if (is("changed"))
        wrong_buffer();
    else if (strncmp(kind, "changed", 7) == 0)
        wrong_started();
    else if (is("overlap-column"))
        wrong_column();
    else if (is("overlap-result") || is("overlap-blocks"))
        wrong_result();
    else if (strncmp(kind, "overlap", 7) == 0)
        wrong_overlap();
    else if (strncmp(kind, "freed", 5) == 0)
        wrong_handle();
    else if (strncmp(kind, "win", 3) == 0)
        wrong_window();
    else
        wrong_collective();
    MPI_Finalize();
    puts("end");
    return 0;
}
