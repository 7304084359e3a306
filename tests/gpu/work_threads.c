/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of a rank submit requests, and wait for all of the rank's at the same time; those that are freed end before MPI_Finalize does. */
#include "work.h"

#include <pthread.h>

#define N 300
#define THREADS 3

static AMPI_GPU_Work work;

/* Reads the data, or changes it. */
static void submit(unsigned *data, int access, MPI_Request *request)
{
    struct wm_task task = {1, 3, {{0, N, 1, N, access}}};
    struct AMPI_GPU_Work_buffer buffer = {data, N, MPI_UNSIGNED, access};

    MTEST_OK(AMPI_GPU_Work_submit(work, 1, &task, 1, &buffer, request));
}

static void *change(void *unused)
{
    struct wm_task task = {1, 3, {{0, N, 1, N, AMPI_GPU_WORK_READWRITE}}};
    unsigned data[N] = {0}, model[N] = {0}, *models[] = {model};
    MPI_Request request;

    for (int step = 0; step < 50; step++) {
        submit(data, AMPI_GPU_WORK_READWRITE, &request);
        MTEST_OK(AMPI_GPU_Work_wait_all());
        MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        wm_do(&task, models);
    }
    MTEST_OK(AMPI_GPU_Work_sync(data, sizeof data));
    MTEST_CHECK(memcmp(data, model, sizeof data) == 0, "the data is wrong");
    MTEST_OK(AMPI_GPU_Work_invalidate(data, sizeof data));
    return unused;
}

int main(int argc, char **argv)
{
    static unsigned data[N];
    pthread_t threads[THREADS];
    MPI_Request request;
    int provided;

    MTEST_OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    mtest_learn_world(1);
    if (!fakecuda_is_here() || provided < MPI_THREAD_MULTIPLE)
        mtest_skip("the kernel is a function of the CPU");
    gtest_init();
    gtest_select(GTEST_GPU0);
    wtest_register("change", wm_cpu, &work);
    for (int i = 0; i < THREADS; i++)
        MTEST_CHECK(pthread_create(&threads[i], NULL, change, NULL) == 0, "no thread");
    change(NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    submit(data, AMPI_GPU_WORK_READ, &request);
    MTEST_OK(MPI_Request_free(&request));
    MTEST_OK(AMPI_GPU_Work_free(&work));
    return mtest_end();
}
