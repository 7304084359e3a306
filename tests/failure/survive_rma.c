/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that a failed process ends the pending operations of others in a window: every call returns
 * MPI_ERR_PROC_ABORTED instead of waiting for ever, operations with requests included, and windows of the
 * survivors work. Locks of the failed process are free afterwards: each survivor is told once that data may be half
 * written, and can lock then.
 *
 *   survive_rma lock|lock_shared|lock_late|lock_all|start|wait|test|fence|flush|request|large_flush|large_request
 *   survive_rma torn|granted|free
 *
 * One rank per process; the last one kills itself, holding a lock of rank 0's window; torn: within an accumulate on
 * rank 0's memory, which all processes share; granted: two ranks per process, on one PE, and the last process has
 * granted its part of MPI_Win_lock_all to others when it kills itself; free: rank 0 frees the window at once, while the other
 * survivors still write to its memory, so MPI_Win_free has to wait for them.
 */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "connect.h"

/* Ints that a rank writes at once: enough for the library to copy them without a message. */
#define BLOCK 8192

static int memory[8 * BLOCK], data[2 * BLOCK];

/* The call that waits for the last rank. */
static int wait_for_it(const char *what, MPI_Win win, MPI_Group last)
{
    MPI_Request request;
    int error = MPI_SUCCESS, count = strncmp(what, "large", 5) == 0 ? 16384 : 1;

    if (strcmp(what, "lock") == 0)
        return MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    if (strcmp(what, "lock_shared") == 0)
        return MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    if (strcmp(what, "lock_late") == 0) { /* when the loss is known */
        while (!MPI_Win_lock(MPI_LOCK_SHARED, mtest_size - 1, 0, win))
            MTEST_OK(MPI_Win_unlock(mtest_size - 1, win));
        return MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    }
    if (strcmp(what, "lock_all") == 0)
        return MPI_Win_lock_all(0, win);
    if (strcmp(what, "start") == 0)
        return MPI_Win_start(last, 0, win);
    if (strcmp(what, "wait") == 0) {
        MTEST_OK(MPI_Win_post(last, 0, win));
        return MPI_Win_wait(win);
    }
    if (strcmp(what, "test") == 0) {
        MTEST_OK(MPI_Win_post(last, 0, win));
        for (int flag = 0; !flag;)
            error = MPI_Win_test(win, &flag);
        return error;
    }
    if (strcmp(what, "fence") == 0)
        return MPI_Win_fence(0, win);
    error = MPI_Win_lock(MPI_LOCK_SHARED, mtest_size - 1, MPI_MODE_NOCHECK, win);
    while (!error) { /* until the loss is known */
        if (strstr(what, "flush")) {
            error = MPI_Put(data, count, MPI_INT, mtest_size - 1, 0, count, MPI_INT, win);
            error = error ? error : MPI_Win_flush(mtest_size - 1, win);
        } else {
            error = MPI_Rput(data, count, MPI_INT, mtest_size - 1, 0, count, MPI_INT, win, &request);
            error = error ? error : MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    }
    return error;
}

/* Each of the survivors can lock, and adds 1 without another one between its get and its put. */
static void check_locks(const char *what, MPI_Win win)
{
    int value;

    MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    MTEST_OK(MPI_Get(&value, 1, MPI_INT, 0, 1, 1, MPI_INT, win));
    MTEST_OK(MPI_Win_flush(0, win));
    value++;
    MTEST_OK(MPI_Put(&value, 1, MPI_INT, 0, 1, 1, MPI_INT, win));
    MTEST_OK(MPI_Win_unlock(0, win));
    while (mtest_rank == 0 && value < mtest_size - 1) { /* the others are under way */
        MTEST_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        MTEST_OK(MPI_Get(&value, 1, MPI_INT, 0, 1, 1, MPI_INT, win));
        MTEST_OK(MPI_Win_unlock(0, win));
    }
    MTEST_CHECK(value < mtest_size, "%s: the lock was not exclusive: %d", what, value);
}

/* The origin's data ends at a page that cannot be read, so its process fails while it combines. */
static void accumulate_and_die(MPI_Win win)
{
    long page = sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    mprotect(pages + page, (size_t)page, PROT_NONE);
    MPI_Accumulate(pages + page - 64, 512, MPI_INT, 0, 0, 512, MPI_INT, MPI_SUM, win);
    _exit(0);
}

/* Accumulates go on, and each survivor is told once. */
static void check_torn(void)
{
    int *mine, one = 1, old, error;
    MPI_Win win;

    MTEST_OK(MPI_Win_allocate(512 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win));
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    memset(mine, 0, 512 * sizeof(int));
    MTEST_OK(MPI_Win_lock_all(0, win));
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == mtest_size - 1)
        accumulate_and_die(win);
    do {
        MTEST_OK(MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 511, MPI_SUM, win));
        error = MPI_Win_flush(0, win);
    } while (!error);
    MTEST_CLASS(error, MPI_ERR_PROC_ABORTED);
    MTEST_OK(MPI_Fetch_and_op(&one, &old, MPI_INT, 0, 511, MPI_SUM, win));
    MTEST_OK(MPI_Win_flush(0, win));
    MTEST_CHECK(old > 0, "%d in the window", old);
}

/* The processes that will survive say that they have the grant. */
static void serve_and_die(void)
{
    for (int round = 0; round < 2; round++)
        for (int rank = 1; rank < mtest_size - 1; rank += 2) {
            MPI_Recv(NULL, 0, MPI_BYTE, rank, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(NULL, 0, MPI_BYTE, rank, round, MPI_COMM_WORLD);
        }
    kill(getpid(), SIGKILL);
}

/* MPI_Win_lock_all fails although the lost process had granted its part: the lock that the call waits for was broken.
 * While the even ranks wait, the odd ranks, on the same PE, exchange messages with the last process: these come after
 * the request for the lock and after the grant. */
static void check_granted(void)
{
    static volatile int has_begun;
    MPI_Aint flag = (MPI_Aint)&has_begun;
    int last = mtest_size - 1;
    MPI_Win win;

    MTEST_OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    if (mtest_rank % 2 == 0)
        MPI_Send(&flag, 1, MPI_AINT, mtest_rank + 1, 0, MPI_COMM_WORLD);
    else
        MPI_Recv(&flag, 1, MPI_AINT, mtest_rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (mtest_rank == last)
        MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == last)
        serve_and_die();
    else if (mtest_rank == last - 1)
        MPI_Recv(NULL, 0, MPI_BYTE, last, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (mtest_rank % 2 == 0) {
        has_begun = 1;
    } else {
        while (!*(volatile int *)flag)
            sched_yield();
        for (int round = 0; round < 2; round++)
            MPI_Sendrecv(NULL, 0, MPI_BYTE, last, round, NULL, 0, MPI_BYTE, last, round, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < 3; i++)
        MTEST_CLASS(MPI_Win_lock_all(0, win), MPI_ERR_PROC_ABORTED);
}

/* Writes to rank 0's memory when the loss is known, and rank 0 waits in MPI_Win_free. */
static void write_late(MPI_Win win)
{
    while (!MPI_Win_lock(MPI_LOCK_SHARED, mtest_size - 1, 0, win))
        MTEST_OK(MPI_Win_unlock(mtest_size - 1, win));
    for (int round = 1; round <= 100; round++) {
        for (int i = 0; i < BLOCK; i++)
            data[i] = round;
        MTEST_OK(MPI_Win_lock(round % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, win));
        MTEST_OK(MPI_Accumulate(data, 1, MPI_INT, 0, mtest_rank, 1, MPI_INT, MPI_SUM, win));
        MTEST_OK(MPI_Put(data, BLOCK, MPI_INT, 0, mtest_rank * BLOCK, BLOCK, MPI_INT, win));
        MTEST_OK(MPI_Win_unlock(0, win));
    }
}

static void check_free(int num_lost)
{
    MPI_Win win;

    MTEST_OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank >= mtest_size - num_lost)
        kill(getpid(), SIGKILL);
    if (mtest_rank > 0)
        write_late(win);
    MTEST_OK(MPI_Win_free(&win));
    if (mtest_rank > 0)
        return;
    for (int rank = 1; rank < mtest_size - num_lost; rank++) {
        MTEST_CHECK(memory[rank] == 5050, "rank %d had added %d when the window was free", rank,
                    memory[rank]);
        MTEST_CHECK(memory[(rank + 1) * BLOCK - 1] == 100, "rank %d had put %d when the window was free",
                    rank, memory[(rank + 1) * BLOCK - 1]);
    }
}

static void check_survivors(int num_lost)
{
    MPI_Comm comm;
    MPI_Win win;
    MPI_Group world, left;
    int rank, size, *mine;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_excl(world, 1, (int[1][3]){{mtest_size - num_lost, mtest_size - 1, 1}}, &left);
    MTEST_OK(MPI_Comm_create_group(MPI_COMM_WORLD, left, 4, &comm));
    MPI_Group_free(&world);
    MPI_Group_free(&left);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MTEST_OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &mine, &win));
    *mine = -1;
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_OK(MPI_Put(&rank, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, win));
    MTEST_OK(MPI_Win_fence(0, win));
    MTEST_CHECK(*mine == (rank + size - 1) % size, "%d in the survivors' window", *mine);
    MTEST_OK(MPI_Win_free(&win));
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    MPI_Win win;
    MPI_Group all, last;
    int number;

    mtest_init(&argc, &argv, 2);
    mtest_errors_return(MPI_COMM_WORLD);
    connect_all();
    if (strcmp(argv[1], "torn") == 0 || strcmp(argv[1], "granted") == 0 || strcmp(argv[1], "free") == 0) {
        int num_lost = mtest_size / 4;
        if (strcmp(argv[1], "free") == 0)
            check_free(num_lost);
        else
            strcmp(argv[1], "torn") == 0 ? check_torn() : check_granted();
        check_survivors(num_lost);
        printf("survived\n");
        return mtest_end();
    }
    MTEST_OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_get_group(win, &all);
    number = mtest_size - 1;
    MPI_Group_incl(all, 1, &number, &last);
    if (mtest_rank == number && strncmp(argv[1], "lock", 4) == 0)
        MTEST_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    MPI_Barrier(MPI_COMM_WORLD);
    if (mtest_rank == number) {
        usleep(100000);
        kill(getpid(), SIGKILL);
    }
    MTEST_CLASS(wait_for_it(argv[1], win, last), MPI_ERR_PROC_ABORTED);
    if (strncmp(argv[1], "lock", 4) == 0 && strcmp(argv[1], "lock_all") != 0)
        check_locks(argv[1], win);
    check_survivors(1);
    printf("survived\n");
    MPI_Group_free(&all);
    MPI_Group_free(&last);
    return mtest_end();
}
