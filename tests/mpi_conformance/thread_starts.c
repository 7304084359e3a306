/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that is not the program's first can start MPI, and is MPI's main thread then: `funneled`, `multiple`; `session`
 * starts a session. If the first thread of a rank that is alone on its PE waits otherwise than by pthread_join, it is an error:
 * `blocked`. Without a wish a session has the level of MPI_Init_thread, else MPI_THREAD_MULTIPLE: `levels`. */
#include "mtest.h"
#include <pthread.h>
#include <semaphore.h>

static int asked;
static sem_t is_over;

static void exchange(MPI_Comm comm)
{
    int value = -1, right = (mtest_rank + 1) % mtest_size, left = (mtest_rank + mtest_size - 1) % mtest_size;

    MPI_Sendrecv(&mtest_rank, 1, MPI_INT, right, 1, &value, 1, MPI_INT, left, 1, comm, MPI_STATUS_IGNORE);
    MTEST_CHECK(value == left, "received %d instead of %d", value, left);
    MPI_Barrier(comm);
}

static void *start_world(void *arg)
{
    int provided = -1, level = -1, is_main = 0;

    (void)arg;
    MPI_Init_thread(NULL, NULL, asked, &provided);
    MTEST_CHECK(provided == asked, "provided is %d instead of %d", provided, asked);
    MPI_Comm_rank(MPI_COMM_WORLD, &mtest_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mtest_size);
    MPI_Query_thread(&level);
    MPI_Is_thread_main(&is_main);
    MTEST_CHECK(level == asked && is_main, "level %d, is_main %d", level, is_main);
    exchange(MPI_COMM_WORLD);
    MPI_Finalize();
    sem_post(&is_over);
    return NULL;
}

static void *start_session(void *arg)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;

    (void)arg;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "started by a thread", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Comm_rank(comm, &mtest_rank);
    MPI_Comm_size(comm, &mtest_size);
    exchange(comm);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    return NULL;
}

static void check_level(const char *expected)
{
    char value[40] = "";
    int flag = 0, len = sizeof value;
    MPI_Session session;
    MPI_Info info;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Session_get_info(session, &info);
    MPI_Info_get_string(info, "thread_level", &len, value, &flag);
    MTEST_CHECK(flag && strcmp(value, expected) == 0, "thread_level is %s instead of %s", value, expected);
    MPI_Info_free(&info);
    MPI_Session_finalize(&session);
}

static void check_levels(void)
{
    int provided;

    check_level("MPI_THREAD_MULTIPLE");
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    check_level("MPI_THREAD_FUNNELED");
    MPI_Finalize();
    check_level("MPI_THREAD_MULTIPLE");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "multiple";
    pthread_t thread;

    sem_init(&is_over, 0, 0);
    asked = strcmp(what, "funneled") == 0 ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE;
    if (strcmp(what, "levels") == 0) {
        check_levels();
    } else {
        pthread_create(&thread, NULL, strcmp(what, "session") == 0 ? start_session : start_world, NULL);
        if (strcmp(what, "blocked") == 0)
            sem_wait(&is_over);
        pthread_join(thread, NULL);
    }
    return mtest_errors != 0;
}
