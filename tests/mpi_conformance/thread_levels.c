/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Init_thread and sessions provide the thread level that is asked for; at MPI_THREAD_SERIALIZED threads call
 * MPI one after another, and each knows whether it is the main thread. Any thread begins and ends sessions. */
#include "mtest.h"
#include <pthread.h>

static int asked;

static void *call(void *arg)
{
    int value = -1, level = -1, is_main = 1, right = (mtest_rank + 1) % mtest_size;

    *(int *)arg = 1;
    if (MPI_Is_thread_main(&is_main) != MPI_SUCCESS || is_main || MPI_Query_thread(&level) != MPI_SUCCESS ||
        level != asked)
        return NULL;
    MPI_Sendrecv(&mtest_rank, 1, MPI_INT, right, 1, &value, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if ((value + 1) % mtest_size == mtest_rank)
        *(int *)arg = 0;
    return NULL;
}

static void check_session(void)
{
    char value[40] = "";
    int flag, len = sizeof value;
    MPI_Session session;
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE");
    MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Info_free(&info);
    MPI_Session_get_info(session, &info);
    MPI_Info_get_string(info, "thread_level", &len, value, &flag);
    MTEST_CHECK(flag && strcmp(value, "MPI_THREAD_MULTIPLE") == 0, "thread_level is %s", value);
    MPI_Info_free(&info);
    MPI_Session_finalize(&session);
}

/* Threads begin sessions at the same time, and make communicators from them. */
static void *use_session(void *arg)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    int size = 0;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://SELF", &group);
    MPI_Comm_create_from_group(group, "thread", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Comm_size(comm, &size);
    *(int *)arg = size != 1;
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    return NULL;
}

static void check_sessions_of_threads(void)
{
    pthread_t threads[3];
    int is_wrong[3] = {1, 1, 1};

    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, use_session, &is_wrong[i]);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        MTEST_CHECK(!is_wrong[i], "thread %d has no communicator of its session", i);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int level;
    } levels[] = {{"single", MPI_THREAD_SINGLE},
                  {"funneled", MPI_THREAD_FUNNELED},
                  {"serialized", MPI_THREAD_SERIALIZED},
                  {"multiple", MPI_THREAD_MULTIPLE}};
    int provided = -1, level = -1, is_wrong = 0;

    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (argc > 1 && strcmp(argv[1], levels[i].name) == 0)
            asked = levels[i].level;
    MPI_Init_thread(&argc, &argv, asked, &provided);
    mtest_learn_world(1);
    MTEST_CHECK(provided == asked, "asked for %d, got %d", asked, provided);
    MPI_Query_thread(&level);
    MTEST_CHECK(level == asked, "asked for %d, MPI_Query_thread says %d", asked, level);
    for (int i = 0; i < 3 && asked >= MPI_THREAD_SERIALIZED; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, call, &is_wrong);
        pthread_join(thread, NULL);
        MTEST_CHECK(!is_wrong, "a thread could not call");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    check_session();
    if (asked == MPI_THREAD_MULTIPLE)
        check_sessions_of_threads();
    return mtest_end();
}
