/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Small programs with errors that people make, each wrong or right, one by argument. The comments name lines of reports.
 *
 *   bugs KIND wrong|right
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORLD MPI_COMM_WORLD

static int rank, size, is_wrong;
static int data[4096], more[4096], word = 1, sum;

static int next(void)
{
    return (rank + 1) % size;
}
static int prev(void)
{
    return (rank + size - 1) % size;
}

/* A buffer of a persistent send is filled again before the send is complete. */
static void persistent_early(void)
{
    MPI_Request requests[2];

    MPI_Send_init(data, 4, MPI_INT, next(), 0, WORLD, &requests[0]);
    MPI_Recv_init(more, 4, MPI_INT, prev(), 0, WORLD, &requests[1]);
    for (int i = 0; i < 3; i++) {
        data[0] = 100 * i + rank;
        MPI_Startall(2, requests); /* startall */
        if (is_wrong)
            data[0] = -1;
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE); /* waitall */
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* Received data that is changed before the wait; small. */
static void recv_early(void)
{
    MPI_Request request;
    MPI_Irecv(data, 4, MPI_INT, prev(), 0, WORLD, &request); /* irecv-early */
    if (is_wrong)
        data[1]++;
    MPI_Send(more, 4, MPI_INT, next(), 0, WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    data[1]++;
}

/* The request of a send in a loop is overwritten. */
static void missing_wait(void)
{
    MPI_Request requests[3];

    for (int i = 0; i < 3; i++) {
        MPI_Isend(&word, 1, MPI_INT, next(), i, WORLD, &requests[is_wrong ? 0 : i]); /* isend-lost */
        MPI_Recv(&data[i], 1, MPI_INT, prev(), i, WORLD, MPI_STATUS_IGNORE);
    }
    if (is_wrong)
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    else
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
}

/* Two synchronous sends whose receives are in the other order. */
static void tag_order(void)
{
    if (rank == 0) {
        MPI_Ssend(&word, 1, MPI_INT, 1, 1, WORLD); /* ssend-1 */
        MPI_Ssend(&word, 1, MPI_INT, 1, 2, WORLD);
    } else if (rank == 1) {
        MPI_Recv(data, 1, MPI_INT, 0, is_wrong ? 2 : 1, WORLD, MPI_STATUS_IGNORE); /* recv-2 */
        MPI_Recv(data, 1, MPI_INT, 0, is_wrong ? 1 : 2, WORLD, MPI_STATUS_IGNORE);
    }
}

/* All send before they receive. */
static void head_to_head(void)
{
    if (is_wrong || rank % 2 == 0) {
        MPI_Send(&word, 1, MPI_INT, next(), 0, WORLD); /* send-all */
        MPI_Recv(data, 1, MPI_INT, prev(), 0, WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(data, 1, MPI_INT, prev(), 0, WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&word, 1, MPI_INT, next(), 0, WORLD);
    }
}

/* Collectives of two kinds in two orders. */
static void collective_order(void)
{
    if (is_wrong && rank == 1) {
        MPI_Reduce(&word, &sum, 1, MPI_INT, MPI_SUM, 0, WORLD); /* reduce-first */
        MPI_Bcast(&word, 1, MPI_INT, 0, WORLD);
    } else {
        MPI_Bcast(&word, 1, MPI_INT, 0, WORLD); /* bcast-first */
        MPI_Reduce(&word, &sum, 1, MPI_INT, MPI_SUM, 0, WORLD);
    }
}

/* The same on two communicators. */
static void comm_order(void)
{
    MPI_Comm a, b;

    MPI_Comm_dup(WORLD, &a);
    MPI_Comm_dup(WORLD, &b);
    MPI_Comm_set_name(a, "a");
    MPI_Comm_set_name(b, "b");
    MPI_Barrier(is_wrong && rank == 1 ? b : a); /* barrier-a */
    MPI_Barrier(is_wrong && rank == 1 ? a : b);
    MPI_Comm_free(&a);
    MPI_Comm_free(&b);
}

/* A rank leaves a loop with collectives earlier than others. */
static void fewer_rounds(void)
{
    int n = is_wrong && rank == 1 ? 2 : 3;

    for (int i = 0; i < n; i++)
        MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, WORLD); /* allreduce-rounds */
    if (rank == 1)
        MPI_Send(&word, 1, MPI_INT, 0, 9, WORLD);
    if (rank == 0)
        MPI_Recv(data, 1, MPI_INT, 1, 9, WORLD, MPI_STATUS_IGNORE);
}

/* Arguments that are no valid ones. */
static void bad_rank(void)
{
    int dest = is_wrong ? rank + 1 : next();
    MPI_Request request;
    MPI_Isend(&word, 1, MPI_INT, dest, 0, WORLD, &request); /* isend-rank */
    if (!is_wrong || rank > 0)
        MPI_Recv(data, 1, MPI_INT, prev(), 0, WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}
static void bad_type(void)
{
    MPI_Datatype type;

    MPI_Type_contiguous(2, MPI_INT, &type);
    if (!is_wrong)
        MPI_Type_commit(&type);
    MPI_Bcast(data, 1, type, 0, WORLD); /* bcast-uncommitted */
    MPI_Type_free(&type);
}
static void bad_displacement(void)
{
    MPI_Win win;

    MPI_Win_create(data, 16, 4, MPI_INFO_NULL, WORLD, &win);
    MPI_Win_fence(0, win);
    if (rank == 0)
        MPI_Put(&word, 1, MPI_INT, 1, is_wrong ? 4 : 3, 1, MPI_INT, win); /* put-outside */
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

/* Roots, counts and types that do not agree. */
static void scatter_count(void)
{
    MPI_Scatter(data, 2, MPI_INT, more, is_wrong && rank == 1 ? 1 : 2, MPI_INT, 0, WORLD); /* scatter */
}
static void bcast_root(void)
{
    MPI_Bcast(data, 2, MPI_INT, is_wrong && rank == 2 ? 1 : 0, WORLD); /* bcast-root */
}
static void form_of_some(void)
{
    MPI_Request request;

    if (is_wrong && rank == 1) {
        MPI_Ibcast(data, 2, MPI_INT, 0, WORLD, &request); /* ibcast-some */
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Bcast(data, 2, MPI_INT, 0, WORLD); /* bcast-some */
    }
}
static void split_comm(void) /* a message on a communicator, a receive on another */
{
    MPI_Comm dup;

    MPI_Comm_dup(WORLD, &dup);
    if (rank == 0)
        MPI_Send(&word, 1, MPI_INT, 1, 0, is_wrong ? WORLD : dup);
    if (rank == 1)
        MPI_Recv(data, 1, MPI_INT, 0, 0, dup, MPI_STATUS_IGNORE); /* recv-dup */
    MPI_Comm_free(&dup);
}
static void recv_short(void) /* more data than the receive takes */
{
    if (rank == 0)
        MPI_Send(data, 3, MPI_INT, 1, 0, WORLD); /* send-long */
    if (rank == 1)
        MPI_Recv(more, is_wrong ? 2 : 4, MPI_INT, 0, 0, WORLD, MPI_STATUS_IGNORE); /* recv-short */
}

/* Objects that are never freed. */
static void leaks(void)
{
    MPI_Group group, sub;
    MPI_Datatype type;
    MPI_Comm half;
    int zero = 0;

    MPI_Comm_group(WORLD, &group);             /* group */
    MPI_Group_incl(group, 1, &zero, &sub);     /* group-incl */
    MPI_Comm_split(WORLD, rank % 2, 0, &half); /* split */
    MPI_Type_vector(2, 1, 2, MPI_INT, &type);  /* vector */
    MPI_Type_commit(&type);
    if (is_wrong)
        return;
    MPI_Group_free(&group);
    MPI_Group_free(&sub);
    MPI_Comm_free(&half);
    MPI_Type_free(&type);
}

/* Requests in a wrong state. */
static void started_twice(void)
{
    MPI_Request request, recv;

    MPI_Irecv(more, 1, MPI_INT, prev(), 0, WORLD, &recv);
    MPI_Send_init(data, 1, MPI_INT, next(), 0, WORLD, &request);
    MPI_Start(&request); /* start-1 */
    if (is_wrong)
        MPI_Start(&request); /* start-2 */
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Wait(&recv, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
}
static void never_started(void) /* a persistent receive that no one starts: the message is never received */
{
    MPI_Request request;

    MPI_Recv_init(more, 1, MPI_INT, prev(), 0, WORLD, &request);
    if (!is_wrong)
        MPI_Start(&request);
    MPI_Send(data, 1, MPI_INT, next(), 0, WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE); /* wait-inactive */
    MPI_Request_free(&request);
}

/* Epochs. */
static void no_epoch(void)
{
    MPI_Win win;

    MPI_Win_create(data, sizeof data, 4, MPI_INFO_NULL, WORLD, &win);
    if (!is_wrong)
        MPI_Win_fence(0, win);
    if (rank == 0)
        MPI_Put(&word, 1, MPI_INT, 1, 0, 1, MPI_INT, win); /* put-no-epoch */
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}
static void no_last_fence(void)
{
    MPI_Win win;

    MPI_Win_create(data, sizeof data, 4, MPI_INFO_NULL, WORLD, &win);
    MPI_Win_fence(0, win); /* fence-first */
    if (rank == 0)
        MPI_Put(&word, 1, MPI_INT, 1, 0, 1, MPI_INT, win); /* put-no-end */
    if (!is_wrong)
        MPI_Win_fence(0, win);
    MPI_Win_free(&win); /* win-free */
}
static void fence_of_some(void)
{
    MPI_Win win;

    MPI_Win_create(data, sizeof data, 4, MPI_INFO_NULL, WORLD, &win);
    MPI_Win_fence(0, win);
    if (rank == 0)
        MPI_Put(&word, 1, MPI_INT, 1, 0, 1, MPI_INT, win);
    if (!is_wrong || rank != 1)
        MPI_Win_fence(0, win); /* fence-some */
    MPI_Win_free(&win);        /* free-some */
}
static void no_unlock(void)
{
    MPI_Win win;

    MPI_Win_create(data, sizeof data, 4, MPI_INFO_NULL, WORLD, &win);
    for (int turn = 0; turn < 2; turn++) { /* rank 1 is the first */
        if ((rank == 1) == (turn == 0)) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win); /* lock-0 */
            MPI_Put(&word, 1, MPI_INT, 0, rank, 1, MPI_INT, win);
            if (!is_wrong || rank != 1)
                MPI_Win_unlock(0, win);
        }
        MPI_Barrier(WORLD);
    }
    MPI_Win_free(&win); /* free-locked */
}
static void unlock_twice(void)
{
    MPI_Win win;

    MPI_Win_create(data, sizeof data, 4, MPI_INFO_NULL, WORLD, &win);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Win_unlock(0, win);
    if (is_wrong)
        MPI_Win_unlock(0, win); /* unlock-twice */
    MPI_Win_free(&win);
}
static void no_post(void)
{
    int others[64], n = 0, zero = 0;
    MPI_Group world, origins, target;
    MPI_Win win;

    MPI_Win_create(data, sizeof data, 4, MPI_INFO_NULL, WORLD, &win);
    MPI_Comm_group(WORLD, &world);
    for (int i = 1; i < size; i++)
        others[n++] = i;
    MPI_Group_incl(world, n, others, &origins);
    MPI_Group_incl(world, 1, &zero, &target);
    if (rank == 0) {
        if (!is_wrong)
            MPI_Win_post(origins, 0, win);
        if (!is_wrong)
            MPI_Win_wait(win);
    } else {
        MPI_Win_start(target, 0, win); /* start-no-post */
        MPI_Put(&word, 1, MPI_INT, 0, rank, 1, MPI_INT, win);
        MPI_Win_complete(win);
    }
    MPI_Group_free(&world);
    MPI_Group_free(&origins);
    MPI_Group_free(&target);
    MPI_Win_free(&win); /* free-no-post */
}

/* Races of one-sided operations. */
static void get_and_store(void) /* the target stores where another gets, in one epoch */
{
    MPI_Win win;

    MPI_Win_create(data, sizeof data, 4, MPI_INFO_NULL, WORLD, &win);
    MPI_Win_fence(0, win);
    if (rank == 0)
        MPI_Get(more, 1, MPI_INT, 1, 5, 1, MPI_INT, win); /* get-race */
    MPI_Barrier(WORLD);
    if (rank == 1)
        data[is_wrong ? 5 : 6] = 3;
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}
static void put_and_put(void)
{
    MPI_Win win;

    MPI_Win_create(data, sizeof data, 4, MPI_INFO_NULL, WORLD, &win);
    MPI_Win_lock_all(0, win);
    MPI_Put(&word, 1, MPI_INT, 0, is_wrong ? 0 : rank, 1, MPI_INT, win); /* put-race */
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}
static void put_reused(void)
{
    MPI_Win win;

    MPI_Win_create(data, sizeof data, 4, MPI_INFO_NULL, WORLD, &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next(), 0, win);
    word = rank;
    MPI_Put(&word, 1, MPI_INT, next(), 0, 1, MPI_INT, win); /* put-reused */
    if (!is_wrong)
        MPI_Win_flush_local(next(), win);
    word = -1;
    MPI_Win_unlock(next(), win); /* unlock-reused */
    MPI_Win_free(&win);
}
static void get_used_early(void)
{
    MPI_Win win;

    MPI_Win_create(data, sizeof data, 4, MPI_INFO_NULL, WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Get(&word, 1, MPI_INT, next(), 7, 1, MPI_INT, win);                   /* get-early */
    MPI_Put(is_wrong ? &word : more, 1, MPI_INT, next(), 9, 1, MPI_INT, win); /* put-got */
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

/* The order of wildcards. */
static void any_then_named(void)
{
    for (int i = 1; rank == 0 && i < size; i++) {
        int source = is_wrong && i == 1 ? MPI_ANY_SOURCE : i;
        MPI_Recv(data, 1, MPI_INT, source, 0, WORLD, MPI_STATUS_IGNORE); /* recv-any */
    }
    if (rank > 0)
        MPI_Send(&rank, 1, MPI_INT, 0, 0, WORLD);
}
static void any_sum(void)
{
    double at = 0;

    for (int i = 1; rank == 0 && i < size; i++) {
        MPI_Recv(data, 1, MPI_INT, MPI_ANY_SOURCE, 0, WORLD, MPI_STATUS_IGNORE);
        at = is_wrong ? at * 10 + data[0] : at + data[0];
    }
    if (rank > 0)
        MPI_Send(&rank, 1, MPI_INT, 0, 0, WORLD);
    else
        printf("%g\n", at);
}

/* The same memory for both directions. */
static void sendrecv_overlap(void)
{
    int *to = data + (is_wrong ? 2 : 4);
    MPI_Status status;

    MPI_Sendrecv(data, 4, MPI_INT, next(), 0, to, 4, MPI_INT, prev(), 0, WORLD, &status); /* sendrecv */
}
static void allreduce_alias(void)
{
    MPI_Allreduce(is_wrong ? data : MPI_IN_PLACE, data, 2, MPI_INT, MPI_SUM, WORLD); /* allreduce-alias */
}

static const struct {
    const char *name;
    void (*run)(void);
} kinds[] = {
#define K(f)  \
    {         \
#f, f \
    }
    K(persistent_early), K(recv_early),       K(missing_wait),     K(tag_order),
    K(head_to_head),     K(collective_order), K(comm_order),       K(fewer_rounds),
    K(bad_rank),         K(bad_type),         K(bad_displacement), K(scatter_count),
    K(bcast_root),       K(split_comm),       K(recv_short),       K(leaks),
    K(started_twice),    K(never_started),    K(no_epoch),         K(no_last_fence),
    K(fence_of_some),    K(no_unlock),        K(unlock_twice),     K(no_post),
    K(get_and_store),    K(put_and_put),      K(put_reused),       K(get_used_early),
    K(any_then_named),   K(any_sum),          K(sendrecv_overlap), K(allreduce_alias),
    K(form_of_some),
};

int main(int argc, char **argv)
{
    if (argc < 3) {
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            puts(kinds[i].name);
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(WORLD, &rank);
    MPI_Comm_size(WORLD, &size);
    is_wrong = strcmp(argv[2], "wrong") == 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, argv[1]) == 0)
            kinds[i].run();
    MPI_Finalize();
    return 0;
}
