/* SPDX-License-Identifier: BSD-3-Clause */
/* MPIX_Start_progress_thread: large messages arrive at a rank that computes and does not call MPI, until the thread has been
 * stopped as often as started. Then it can be started again. A callback can stop it. */
#define _GNU_SOURCE
#include "mtest.h"

#ifdef MPIX_ANY_INDEX
#include <dirent.h>
#include <sched.h>
#include <time.h>

enum { N = 1 << 20, LIMIT_S = 100 };

/* The progress threads of this process. */
static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    char path[300], name[32];
    int n = 0;

    for (const struct dirent *entry; (entry = readdir(tasks));) {
        FILE *file;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        file = fopen(path, "r");
        if (file && fgets(name, sizeof name, file))
            n += strncmp(name, "progress ", 9) == 0;
        if (file)
            fclose(file);
    }
    closedir(tasks);
    return n;
}

/* It has its name when it runs. A list of threads of which others end meanwhile may lack it. */
static int has_thread(void)
{
    time_t end = time(NULL) + LIMIT_S;
    int n;

    while ((n = count_threads()) == 0 && time(NULL) < end)
        sched_yield();
    return n > 0;
}

/* Computes until the data has arrived. */
static int has_arrived(const volatile int *last, int value)
{
    time_t end = time(NULL) + LIMIT_S;

    while (*last != value && time(NULL) < end)
        sched_yield();
    return *last == value;
}

static void round_of(int rank, int size, int value)
{
    static int data[N];
    MPI_Request request;

    if (rank % 2 == 0 && rank + 1 < size) {
        data[N - 1] = value;
        MPI_Recv(NULL, 0, MPI_INT, rank + 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(data, N, MPI_INT, rank + 1, 2, MPI_COMM_WORLD);
    } else if (rank % 2 == 1) {
        MPI_Irecv(data, N, MPI_INT, rank - 1, 2, MPI_COMM_WORLD, &request);
        MPI_Send(NULL, 0, MPI_INT, rank - 1, 1, MPI_COMM_WORLD);
        MTEST_CHECK(has_arrived(&data[N - 1], value), "the message %d has not arrived", value);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static int stop(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    return MPIX_Stop_progress_thread(MPIX_STREAM_NULL);
}

int main(int argc, char **argv)
{
    MPIX_Stream stream;
    int rank, size, key;

    mtest_init(&argc, &argv, 1);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MTEST_OK(MPIX_Stream_create(MPI_INFO_NULL, &stream));
    MTEST_CLASS(MPIX_Stop_progress_thread(stream), MPI_ERR_OTHER);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 1; i <= 3; i++) {
        MTEST_OK(MPIX_Start_progress_thread(stream));
        MTEST_OK(MPIX_Start_progress_thread(MPIX_STREAM_NULL));
        round_of(rank, size, i);
        MTEST_OK(MPIX_Stop_progress_thread(stream));
        MTEST_CHECK(has_thread(), "the progress thread has ended early");
        MTEST_OK(MPIX_Stop_progress_thread(MPIX_STREAM_NULL));
        MPI_Barrier(MPI_COMM_WORLD);
        MTEST_CHECK(count_threads() == 0, "a progress thread has not ended");
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MTEST_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, stop, &key, NULL));
    MTEST_OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL));
    MTEST_OK(MPIX_Start_progress_thread(stream));
    MTEST_OK(MPI_Comm_delete_attr(MPI_COMM_SELF, key));
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_CHECK(count_threads() == 0, "a callback has not ended the progress thread");
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPIX_Start_progress_thread(stream)); /* ends with the job */
    MTEST_OK(MPIX_Stream_free(&stream));
    return mtest_end();
}
#else
int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_skip("MPIX_Start_progress_thread is not available");
    return mtest_end();
}
#endif
