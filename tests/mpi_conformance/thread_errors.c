/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that a thread may not make end the job with a line that says why: see testlist. A thread that raises an
 * error gets its code, if the error handler returns. */
#include "mtest.h"
#include <pthread.h>
#include <sched.h>

static void *send(void *arg)
{
    int error = MPI_Send(arg, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);

    *(int *)arg = error;
    return NULL;
}

static void *send_wrongly(void *arg)
{
    *(int *)arg = mtest_class(MPI_Send(arg, 1, MPI_INT, mtest_size, 0, MPI_COMM_WORLD));
    return NULL;
}

static void *receive(void *arg)
{
    MPI_Recv(arg, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

/* Tells the main thread, and stays in the same call. */
static void *stay(void *arg)
{
    int got;

    MPI_Sendrecv(arg, 1, MPI_INT, 0, 9, &got, 1, MPI_INT, 0, 7, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    return NULL;
}

static void *finalize(void *arg)
{
    MPI_Finalize();
    return arg;
}

static void *abort_job(void *arg)
{
    MPI_Abort(MPI_COMM_WORLD, 9);
    return arg;
}

static void *probe(void *arg)
{
    for (int flag = 0;;)
        MPI_Iprobe(MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    return arg;
}

static void run(void *(*function)(void *), void *arg)
{
    pthread_t thread;

    pthread_create(&thread, NULL, function, arg);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int value = 0, is_serialized = strncmp(how, "serialized", 10) == 0,
        level = strcmp(how, "funneled") == 0 ? MPI_THREAD_FUNNELED
                : is_serialized              ? MPI_THREAD_SERIALIZED
                                             : MPI_THREAD_MULTIPLE;
    pthread_t thread;

    if (strcmp(how, "early") == 0)
        run(send, &value);
    MPI_Init_thread(&argc, &argv, level, &level);
    mtest_learn_world(1);
    if (strcmp(how, "funneled") == 0)
        run(send, &value);
    if (strcmp(how, "finalize") == 0)
        run(finalize, NULL);
    if (strcmp(how, "abort") == 0)
        run(abort_job, NULL);
    if (strcmp(how, "join") == 0 && mtest_rank == 0)
        run(receive, &value);
    if (is_serialized || strcmp(how, "deadlock") == 0)
        pthread_create(&thread, NULL, receive, &value);
    if (strcmp(how, "serialized") == 0)
        probe(NULL);
    if (is_serialized)
        run(probe, NULL);
    if (strcmp(how, "deadlock") == 0)
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (strcmp(how, "inside") == 0) {
        int told;
        pthread_create(&thread, NULL, stay, &value);
        MPI_Recv(&told, 1, MPI_INT, 0, 9, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        MPI_Finalize();
    }
    if (strcmp(how, "join") == 0) {
        MPI_Finalize();
        return 0;
    }
    if (strcmp(how, "late") == 0) {
        MPI_Finalize();
        run(send, &value);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    run(send_wrongly, &value);
    MTEST_CHECK(value == MPI_ERR_RANK, "error class %d", value);
    return mtest_end();
}
