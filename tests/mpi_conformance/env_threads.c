/* SPDX-License-Identifier: BSD-3-Clause */
/* The program's own threads: functions that are allowed at any time work there, in many threads at once,
 * before, between and after MPI_Init and MPI_Finalize, and return the state of the thread's rank. If
 * MPI_THREAD_MULTIPLE is requested, a lower level is provided, and calls from other threads are refused
 * according to that level. */
#include "mtest.h"
#include <pthread.h>
#include <threads.h>

#define N_THREADS 4

static int is_initialized, is_finalized; /* the values that threads must see */
static int n_wrong;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void wrong(const char *what)
{
    pthread_mutex_lock(&lock);
    if (n_wrong++ < 5)
        fprintf(stderr, "FAIL thread of rank %d (%s MPI): %s\n", mtest_rank,
                is_finalized     ? "after"
                : is_initialized ? "in"
                                 : "before",
                what);
    pthread_mutex_unlock(&lock);
}

#define OK(call)          \
    do {                  \
        if ((call) != 0)  \
            wrong(#call); \
    } while (0)
#define CHECK(cond)       \
    do {                  \
        if (!(cond))      \
            wrong(#cond); \
    } while (0)

static void *ask(void *arg)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING], value[16];
    int flag = -1, a, b, len, provided, n;

    (void)arg;
    for (int i = 0; i < 50; i++) {
        MPI_Info info, dup;
        OK(MPI_Initialized(&flag));
        CHECK(flag == is_initialized);
        OK(MPI_Finalized(&flag));
        CHECK(flag == is_finalized);
        OK(MPI_Get_version(&a, &b));
        OK(MPI_Get_library_version(text, &len));
        OK(MPI_Error_class(MPI_ERR_TAG, &a));
        CHECK(a == MPI_ERR_TAG);
        OK(MPI_Error_string(MPI_ERR_TAG, text, &len));
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "key", "value"));
        OK(MPI_Info_dup(info, &dup));
        OK(MPI_Info_free(&info));
        len = sizeof value;
        OK(MPI_Info_get_string(dup, "key", &len, value, &flag));
        CHECK(flag && strcmp(value, "value") == 0);
        OK(MPI_Info_get_nkeys(dup, &n));
        CHECK(n == 1);
        OK(MPI_Info_free(&dup));
        CHECK(MPI_Wtime() > 0);
        if (is_initialized && !is_finalized) {
            OK(MPI_Is_thread_main(&flag));
            CHECK(!flag);
            OK(MPI_Query_thread(&provided));
            CHECK(provided == MPI_THREAD_FUNNELED || provided == MPI_THREAD_MULTIPLE);
        }
    }
    return NULL;
}

static int ask_thrd(void *arg)
{
    return ask(arg) != NULL;
}

/* Threads that the program makes itself, and threads that a library makes for it. */
static void ask_from_threads(void)
{
    pthread_t threads[N_THREADS];
    thrd_t others[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        pthread_create(&threads[i], NULL, ask, NULL);
        thrd_create(&others[i], ask_thrd, NULL);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        thrd_join(others[i], NULL);
    }
}

int main(int argc, char **argv)
{
    int provided = -1, flag, sum;

    ask_from_threads();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    mtest_learn_world(1);
    is_initialized = 1;
    MTEST_CHECK(provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE, "provided %d", provided);
    MTEST_OK(MPI_Is_thread_main(&flag));
    MTEST_CHECK(flag, "not the main thread");
    ask_from_threads();
    MTEST_OK(MPI_Allreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MTEST_CHECK(sum == mtest_size * (mtest_size - 1) / 2, "sum %d", sum);
    MTEST_CHECK(n_wrong == 0, "%d wrong answers in threads", n_wrong);
    if (mtest_end() != 0)
        return 1;
    is_finalized = 1;
    ask_from_threads();
    return n_wrong != 0;
}
