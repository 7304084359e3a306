/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that the ranks of other processes survive the failure of one: calls that involve its ranks return
 * MPI_ERR_PROC_FAILED instead of waiting for ever, and all others work, on the old communicators and on new ones.
 *
 *   survive PROCS LOST [traffic | collectives | late | default | wait] [deadlock]
 *
 * PROCS processes were started; number LOST kills itself. Meanwhile all exchange messages (`traffic`) or
 * large data (`collectives`), or one process is in a collective that the others enter when they know of the loss
 * (`late`), or the others wait in all kinds of operations. `default`: errors are not
 * returned, so the job has to end. `wait`: the process does not kill itself but prints its process id and
 * waits to be killed. `deadlock`: at the end the survivors wait for each other for ever, which must be
 * detected.
 */
#include <mpi-ext.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "connect.h"

#define LARGE (4 << 20)

static int num_procs, lost_proc, first_lost, num_lost;

static int proc_of(int rank)
{
    return (int)((((long)rank + 1) * num_procs - 1) / mtest_size);
}

/* The call has to fail because of the loss. */
#define LOST(call) MTEST_CLASS(call, MPI_ERR_PROC_FAILED)

static void *kill_later(void *arg)
{
    usleep(*(int *)arg);
    kill(getpid(), SIGKILL);
    return NULL;
}

static void die_in(int us)
{
    static int delay_us;
    pthread_t thread;
    delay_us = us;
    if (pthread_create(&thread, NULL, kill_later, &delay_us) != 0)
        abort();
}

/* ---- Before the loss ---- */

static int count_of(int round)
{
    return round % 3 == 0 ? LARGE : round % 3 == 1 ? 8 : 20000;
}

/* Each survivor exchanges messages, small and large, with one of the ranks that will be lost; never ends
 * there. */
static void exchange_until_loss(void)
{
    char *in = mtest_alloc((size_t)LARGE), *out = mtest_alloc((size_t)LARGE);
    int is_lost = proc_of(mtest_rank) == lost_proc, num_partners = 0, error = MPI_SUCCESS;
    int *partners = mtest_alloc((size_t)mtest_size * sizeof(int));
    MPI_Request *requests = mtest_alloc((size_t)mtest_size * 2 * sizeof(MPI_Request));
    for (int rank = 0; rank < mtest_size; rank++)
        if (is_lost ? proc_of(rank) != lost_proc && first_lost + rank % num_lost == mtest_rank
                    : rank == first_lost + mtest_rank % num_lost)
            partners[num_partners++] = rank;
    for (int round = 0; error == MPI_SUCCESS; round++) {
        int failed = MPI_SUCCESS;
        for (int i = 0; i < num_partners; i++) {
            MPI_Irecv(in, count_of(round), MPI_BYTE, partners[i], 5, MPI_COMM_WORLD, &requests[2 * i]);
            MPI_Isend(out, count_of(round), MPI_BYTE, partners[i], 5, MPI_COMM_WORLD, &requests[2 * i + 1]);
        }
        for (int i = 0; i < 2 * num_partners; i++) {
            int result = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            failed = result ? result : failed;
        }
        error = failed;
    }
    MTEST_CLASS(error, MPI_ERR_PROC_FAILED);
    /* A receive that has failed leaves its buffer alone from then on. */
    memset(in, 7, LARGE);
    usleep(200000);
    MPI_Iprobe(mtest_rank, 99, MPI_COMM_WORLD, &(int){0}, MPI_STATUS_IGNORE);
    MTEST_CHECK(mtest_touched(in, LARGE, 7) < 0, "a buffer was written after its receive had failed");
    free(requests);
    free(partners);
    free(in);
    free(out);
}

/* The operation of this round gives all ranks as much as they send. */
static int is_for_all(int round)
{
    return round % 6 == 0 || round % 6 == 1 || round % 6 == 3;
}

/* Large data in collectives of all kinds, on buffers that are freed as soon as one has failed; never ends at
 * the rank that fails. */
static void collect_until_loss(void)
{
    int error = MPI_SUCCESS, bytes = LARGE / mtest_size, num = LARGE / 8;
    for (int round = 0; error == MPI_SUCCESS; round++) {
        char *in = mtest_alloc((size_t)LARGE), *out = mtest_alloc((size_t)LARGE);
        memset(out, 1, LARGE);
        if (round % 6 == 0)
            error = MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
        else if (round % 6 == 1)
            error = MPI_Allreduce(out, in, num, MPI_INT64_T, MPI_BOR, MPI_COMM_WORLD);
        else if (round % 6 == 2)
            error = MPI_Bcast(round % mtest_size == mtest_rank ? out : in, LARGE, MPI_BYTE,
                              round % mtest_size, MPI_COMM_WORLD);
        else if (round % 6 == 3)
            error = MPI_Allgather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
        else if (round % 6 == 4)
            error =
                MPI_Scatter(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, round % mtest_size, MPI_COMM_WORLD);
        else
            error = MPI_Gather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, round % mtest_size, MPI_COMM_WORLD);
        MTEST_CHECK(error != MPI_SUCCESS || !is_for_all(round) || in[num / 2] == 1, "round %d: wrong data",
                    round);
        memset(in, 7, LARGE);
        if (error != MPI_SUCCESS) {
            usleep(100000);
            MPI_Iprobe(mtest_rank, 99, MPI_COMM_WORLD, &(int){0}, MPI_STATUS_IGNORE);
        }
        MTEST_CHECK(mtest_touched(in, LARGE, 7) < 0, "a buffer was written after its operation was over");
        free(in);
        free(out);
    }
    MTEST_CLASS(error, MPI_ERR_PROC_FAILED);
}

/* Data for processes that will never await it. */
static void enter_before_others(void)
{
    char *in = mtest_alloc((size_t)LARGE), *out = mtest_alloc((size_t)LARGE);
    int got, bytes = LARGE / mtest_size;

    if (proc_of(mtest_rank) != (lost_proc == 0))
        LOST(MPI_Recv(&got, 1, MPI_INT, first_lost, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    LOST(MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD));
    free(in);
    free(out);
}

/* Everything that can be under way when it happens; the last two are persistent. Processes with several ranks have each
 * other's lists of the alltoall's blocks then, which they copy when the lost process's list has come. */
enum { N_UNDER_WAY = 9 };
static void wait_for_loss(void)
{
    char *large = mtest_alloc((size_t)LARGE), *blocks = mtest_alloc((size_t)LARGE);
    int small = 1, got[4], sum, sums[2], index, which = proc_of(mtest_rank) * 2 + mtest_rank % 2;
    MPI_Request requests[N_UNDER_WAY], any[2];
    MPI_Status status;
    MPI_Message message;
    memset(large, 1, LARGE);
    MPI_Irecv(&got[0], 1, MPI_INT, first_lost, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&got[1], 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Issend(&small, 1, MPI_INT, first_lost + num_lost - 1, 3, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(large, LARGE, MPI_BYTE, first_lost, 3, MPI_COMM_WORLD, &requests[3]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[4]);
    MPI_Iallreduce(&small, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[5]);
    MPI_Ialltoall(large, LARGE / mtest_size, MPI_BYTE, blocks, LARGE / mtest_size, MPI_BYTE, MPI_COMM_WORLD,
                  &requests[6]);
    MPI_Allreduce_init(&small, &sums[0], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[7]);
    MPI_Allreduce_init(&small, &sums[1], 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[8]);
    MPI_Start(&requests[7 + mtest_rank % 2]);
    MPI_Start(&requests[8 - mtest_rank % 2]);
    switch (which % 8) {
    case 0:
        LOST(MPI_Recv(&got[2], 1, MPI_INT, first_lost, 4, MPI_COMM_WORLD, &status));
        break;
    case 1:
        LOST(MPI_Probe(first_lost, 4, MPI_COMM_WORLD, &status));
        break;
    case 2:
        LOST(MPI_Allreduce(&small, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        break;
    case 3:
        MPI_Irecv(&got[2], 1, MPI_INT, first_lost, 4, MPI_COMM_WORLD, &any[0]);
        MPI_Irecv(&got[3], 1, MPI_INT, first_lost, 5, MPI_COMM_WORLD, &any[1]);
        LOST(MPI_Waitany(2, any, &index, &status));
        LOST(MPI_Wait(&any[1 - index], &status));
        break;
    case 4:
        LOST(MPI_Ssend(&small, 1, MPI_INT, first_lost, 6, MPI_COMM_WORLD));
        break;
    case 5:
        LOST(MPI_Mprobe(MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &message, &status));
        break;
    case 6:
        LOST(MPI_Recv(&got[2], 1, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &status));
        break;
    default:
        LOST(MPI_Sendrecv(&small, 1, MPI_INT, MPI_PROC_NULL, 0, &got[2], 1, MPI_INT, first_lost, 4,
                          MPI_COMM_WORLD, &status));
    }
    if (mtest_rank % 2) {
        MPI_Status statuses[N_UNDER_WAY];
        MTEST_CLASS(MPI_Waitall(N_UNDER_WAY, requests, statuses), MPI_ERR_IN_STATUS);
        for (int i = 0; i < N_UNDER_WAY; i++)
            MTEST_CHECK(mtest_class(statuses[i].MPI_ERROR) == MPI_ERR_PROC_FAILED, "request %d: class %d", i,
                        mtest_class(statuses[i].MPI_ERROR));
    } else {
        for (int i = 0; i < N_UNDER_WAY; i++)
            LOST(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    }
    for (int i = 7; i < N_UNDER_WAY; i++) {
        MTEST_OK(MPI_Start(&requests[i]));
        LOST(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        MTEST_OK(MPI_Request_free(&requests[i]));
    }
    free(blocks);
    free(large);
}

/* ---- After it ---- */

static int num_handled;

static void count_error(MPI_Comm *comm, int *error, ...)
{
    num_handled += *comm == MPI_COMM_WORLD && *error == MPI_ERR_PROC_FAILED;
}

/* The blocking barrier, too, calls the communicator's error handler. */
static void check_handler(void)
{
    MPI_Errhandler counting, before;

    MTEST_OK(MPI_Comm_create_errhandler(count_error, &counting));
    MTEST_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before));
    MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, counting));
    LOST(MPI_Barrier(MPI_COMM_WORLD));
    MTEST_CHECK(num_handled == 1, "%d calls of the error handler", num_handled);
    MTEST_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, before));
    MTEST_OK(MPI_Errhandler_free(&before));
    MTEST_OK(MPI_Errhandler_free(&counting));
}

/* Partitioned requests can be created; an error is returned by the wait. */
static void check_partitioned(void)
{
    int out[2] = {0}, in[2];
    MPI_Request requests[2];

    MTEST_OK(MPI_Psend_init(out, 2, 1, MPI_INT, first_lost, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    MTEST_OK(MPI_Precv_init(in, 2, 1, MPI_INT, first_lost, 8, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    for (int round = 0; round < 2; round++) {
        MTEST_OK(MPI_Startall(2, requests));
        MTEST_OK(MPI_Pready_range(0, 1, requests[0]));
        LOST(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        LOST(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    }
    MTEST_OK(MPI_Request_free(&requests[0]));
    MTEST_OK(MPI_Request_free(&requests[1]));
}

static void check_new_calls(void)
{
    int value = 1, got, flag = 0;
    MPI_Request request;
    MPI_Comm none;
    LOST(MPI_Send(&value, 1, MPI_INT, first_lost, 7, MPI_COMM_WORLD));
    LOST(MPI_Recv(&got, 1, MPI_INT, first_lost, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    LOST(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Isend(&value, 1, MPI_INT, first_lost, 7, MPI_COMM_WORLD, &request));
    LOST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Irecv(&got, 1, MPI_INT, first_lost, 7, MPI_COMM_WORLD, &request));
    for (int error = MPI_SUCCESS; !flag && error == MPI_SUCCESS;) {
        error = MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        MTEST_CHECK(flag == (error != MPI_SUCCESS), "MPI_Test: error %d, flag %d", error, flag);
    }
    LOST(MPI_Iprobe(first_lost, 7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    check_handler();
    LOST(MPI_Bcast(&value, 1, MPI_INT, mtest_rank, MPI_COMM_WORLD));
    LOST(MPI_Comm_dup(MPI_COMM_WORLD, &none));
    LOST(MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &none));
    MTEST_OK(MPI_Iallreduce(&value, &got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    LOST(MPI_Wait(&request, MPI_STATUS_IGNORE));
    check_partitioned();
}

/* A ring and some collectives on a communicator of survivors. */
static void use(MPI_Comm comm)
{
    static const int counts[] = {1, 2000, LARGE / 4};
    int rank, size, sum = 0;
    int *in = mtest_alloc((size_t)LARGE), *out = mtest_alloc((size_t)LARGE);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < counts[i]; j++)
            out[j] = rank + j;
        MTEST_OK(MPI_Sendrecv(out, counts[i], MPI_INT, (rank + 1) % size, 8, in, counts[i], MPI_INT,
                              i == 0 ? MPI_ANY_SOURCE : (rank + size - 1) % size, 8, comm,
                              MPI_STATUS_IGNORE));
        MTEST_CHECK(in[counts[i] - 1] == (rank + size - 1) % size + counts[i] - 1, "ring: %d",
                    in[counts[i] - 1]);
    }
    MTEST_OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    MTEST_CHECK(sum == size * (size - 1) / 2, "sum %d", sum);
    out[0] = rank == size - 1 ? 42 : 0;
    MTEST_OK(MPI_Bcast(out, LARGE / 4, MPI_INT, size - 1, comm));
    MTEST_CHECK(out[0] == 42, "bcast %d", out[0]);
    MTEST_OK(MPI_Barrier(comm));
    free(in);
    free(out);
}

/* Point-to-point on a communicator that has lost members, with those that are left. */
static void exchange_on_world(void)
{
    int to = mtest_rank, from = mtest_rank, got = -1;
    do
        to = (to + 1) % mtest_size;
    while (proc_of(to) == lost_proc);
    do
        from = (from + mtest_size - 1) % mtest_size;
    while (proc_of(from) == lost_proc);
    MTEST_OK(MPI_Sendrecv(&mtest_rank, 1, MPI_INT, to, 9, &got, 1, MPI_INT, from, 9, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
    MTEST_CHECK(got == from, "from %d came %d", from, got);
}

static MPI_Comm comm_of_survivors(void)
{
    MPI_Group world, survivors;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_excl(world, 1, (int[1][3]){{first_lost, first_lost + num_lost - 1, 1}}, &survivors);
    LOST(MPI_Comm_create_group(MPI_COMM_WORLD, world, 3, &comm));
    MTEST_OK(MPI_Comm_create_group(MPI_COMM_WORLD, survivors, 4, &comm));
    MPI_Group_free(&world);
    MPI_Group_free(&survivors);
    return comm;
}

int main(int argc, char **argv)
{
    MPI_Comm before, after;
    const char *mode = argc > 3 ? argv[3] : "";
    if (strcmp(mode, "init") == 0 && strcmp(getenv("PMIX_RANK"), argv[2]) == 0)
        raise(SIGKILL);
    mtest_init(&argc, &argv, 2);
    num_procs = atoi(argv[1]);
    lost_proc = atoi(argv[2]);
    while (proc_of(first_lost) != lost_proc)
        first_lost++;
    while (first_lost + num_lost < mtest_size && proc_of(first_lost + num_lost) == lost_proc)
        num_lost++;
    if (strcmp(mode, "default") != 0)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_split(MPI_COMM_WORLD, proc_of(mtest_rank) == lost_proc, mtest_rank, &before);
    use(before);
    connect_all();
    int is_busy = strcmp(mode, "traffic") == 0 || strcmp(mode, "collectives") == 0;
    if (proc_of(mtest_rank) == lost_proc && !is_busy) {
        if (strcmp(mode, "wait") == 0 && mtest_rank == first_lost)
            printf("process %d\n", (int)getpid());
        fflush(stdout);
        if (strcmp(mode, "wait") != 0 && mtest_rank == first_lost)
            die_in(300000);
        for (;;)
            usleep(10000);
    }
    if (mtest_rank == first_lost)
        die_in(100000 + (int)(getpid() * 7919 % 100000));
    if (strcmp(mode, "traffic") == 0)
        exchange_until_loss();
    else if (strcmp(mode, "collectives") == 0)
        collect_until_loss();
    else if (strcmp(mode, "late") == 0)
        enter_before_others();
    else
        wait_for_loss();
    check_new_calls();
    exchange_on_world();
    use(before);
    after = comm_of_survivors();
    use(after);
    MPI_Comm_free(&before);
    if (mtest_errors == 0)
        printf("survived\n");
    fflush(stdout);
    if (argc > 4 && mtest_errors == 0)
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 10, after, MPI_STATUS_IGNORE);
    MPI_Comm_free(&after);
    if (mtest_end() != 0)
        return 1;
    if (strcmp(mode, "thread") == 0)
        pthread_exit(NULL);
    return 0;
}
