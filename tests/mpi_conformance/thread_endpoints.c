/* SPDX-License-Identifier: BSD-3-Clause */
/* Each thread of a rank has endpoints of its own: a communicator of a session that it opened, and one with a stream that it
 * created, of no GPU. Threads of the same number exchange messages on them with equal tags at the same time, and receive
 * from any source. Argument: the kind, session or stream. */
#include "mtest_threads.h"

#ifdef MPIX_STREAM_NULL
enum { THREADS = 4, ROUNDS = 400, LEN = 600 };

static int use_sessions;
static MPI_Comm worlds[THREADS];

static int content(int rank, int thread, int round)
{
    return rank * 1000000 + thread * 100000 + round;
}

/* A ring, and a reduction now and then. */
static void exchange(int thread, MPI_Comm comm)
{
    int out[LEN], in[LEN], rank, size, sum;
    MPI_Status status;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int round = 0; round < ROUNDS; round++) {
        int len = 1 + round % LEN, next = (rank + 1) % size, prev = (rank + size - 1) % size;
        MPI_Request request;
        for (int i = 0; i < len; i++)
            out[i] = content(rank, thread, round) + i;
        MPI_Isend(out, len, MPI_INT, next, 7, comm, &request);
        MPI_Recv(in, len, MPI_INT, MPI_ANY_SOURCE, 7, comm, &status);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < len; i++)
            mtest_thread_check(thread, in[i] == content(prev, thread, round) + i);
        mtest_thread_check(thread, status.MPI_SOURCE == prev);
        if (round % 50 == 0) {
            MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
            mtest_thread_check(thread, sum == size * (size - 1) / 2);
        }
    }
}

static void by_session(int thread)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Info info;
    char name[20];

    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE");
    MTEST_OK(MPI_Session_init(info, MPI_ERRORS_RETURN, &session));
    MPI_Info_free(&info);
    MTEST_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    snprintf(name, sizeof name, "thread %d", thread);
    MTEST_OK(MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    exchange(thread, comm);
    MPI_Group_free(&group);
    MPI_Comm_free(&comm);
    MTEST_OK(MPI_Session_finalize(&session));
}

static void by_stream(int thread)
{
    MPIX_Stream stream, found;
    MPI_Comm comm;

    MTEST_OK(MPIX_Stream_create(MPI_INFO_NULL, &stream));
    MTEST_OK(MPIX_Stream_comm_create(worlds[thread], stream, &comm));
    MTEST_OK(MPIX_Comm_get_stream(comm, 0, &found));
    mtest_thread_check(thread, found == stream);
    exchange(thread, comm);
    MPI_Comm_free(&comm);
    MTEST_OK(MPIX_Stream_free(&stream));
}

static void *run(void *arg)
{
    int thread = mtest_thread_number(arg);

    if (use_sessions)
        by_session(thread);
    else
        by_stream(thread);
    return NULL;
}

int main(int argc, char **argv)
{
    mtest_init_threads(&argc, &argv, 1);
    use_sessions = argc > 1 && strcmp(argv[1], "session") == 0;
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &worlds[i]);
    mtest_run_threads(0, THREADS, run);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&worlds[i]);
    return mtest_end();
}
#else
int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_skip("streams of MPICH 4.1 are not available");
    return mtest_end();
}
#endif
