/* SPDX-License-Identifier: BSD-3-Clause */
/* Each wrong argument of the functions for work requests is found, by its error class, and changes nothing: the same request, put right, runs. */
#include <mpi-ext.h>

#include "mtest.h"

static void add(const void *args, const struct AMPI_GPU_Work_block *at)
{
    int *to = at->buffers[0];

    for (unsigned i = 0; i < at->n_blocks; i++)
        to[i] += *(const int *)args;
}

static void check_register(void)
{
    AMPI_GPU_Work work = AMPI_GPU_WORK_NULL;

    MTEST_CLASS(AMPI_GPU_Work_register(NULL, NULL, 32, 4, add, &work), MPI_ERR_ARG);
    MTEST_CLASS(AMPI_GPU_Work_register("", NULL, 32, 4, add, &work), MPI_ERR_ARG);
    MTEST_CLASS(AMPI_GPU_Work_register("add", NULL, 32, 4, add, NULL), MPI_ERR_ARG);
    MTEST_CLASS(AMPI_GPU_Work_register("add", NULL, 0, 4, add, &work), MPI_ERR_ARG);
    MTEST_CLASS(AMPI_GPU_Work_register("add", NULL, 1025, 4, add, &work), MPI_ERR_ARG);
    MTEST_CLASS(AMPI_GPU_Work_register("add", NULL, 32, AMPI_GPU_WORK_ARGS_MAX + 1, add, &work),
                MPI_ERR_COUNT);
    MTEST_CLASS(AMPI_GPU_Work_register("add", NULL, 32, 4, NULL, &work), MPI_ERR_UNSUPPORTED_OPERATION);
    MTEST_CHECK(work == AMPI_GPU_WORK_NULL, "a call that failed has set the handle");
}

static void check_buffers(AMPI_GPU_Work work)
{
    int data[8] = {0}, one = 1;
    struct AMPI_GPU_Work_buffer good[2] = {{data, 4, MPI_INT, AMPI_GPU_WORK_READWRITE},
                                           {data + 4, 4, MPI_INT, AMPI_GPU_WORK_READ}};
    struct AMPI_GPU_Work_buffer bad[2] = {good[0], good[1]};
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype odd;

    MTEST_CLASS(AMPI_GPU_Work_submit(work, 0, &one, 2, good, &request), MPI_ERR_COUNT);
    MTEST_CLASS(AMPI_GPU_Work_submit(work, 4, NULL, 2, good, &request), MPI_ERR_ARG);
    MTEST_CLASS(AMPI_GPU_Work_submit(work, 4, &one, -1, good, &request), MPI_ERR_COUNT);
    MTEST_CLASS(AMPI_GPU_Work_submit(work, 4, &one, AMPI_GPU_WORK_BUFFERS_MAX + 1, good, &request),
                MPI_ERR_COUNT);
    MTEST_CLASS(AMPI_GPU_Work_submit(work, 4, &one, 2, NULL, &request), MPI_ERR_COUNT);
    MTEST_CLASS(AMPI_GPU_Work_submit(work, 4, &one, 2, good, NULL), MPI_ERR_ARG);
    MTEST_CLASS(AMPI_GPU_Work_submit(AMPI_GPU_WORK_NULL, 4, &one, 2, good, &request), MPI_ERR_ARG);
    bad[1].access = 4;
    MTEST_CLASS(AMPI_GPU_Work_submit(work, 4, &one, 2, bad, &request), MPI_ERR_ARG);
    bad[1] = good[1];
    bad[1].count = -1;
    MTEST_CLASS(AMPI_GPU_Work_submit(work, 4, &one, 2, bad, &request), MPI_ERR_COUNT);
    bad[1] = good[1];
    bad[1].address = NULL;
    MTEST_CLASS(AMPI_GPU_Work_submit(work, 4, &one, 2, bad, &request), MPI_ERR_BUFFER);
    bad[1] = good[1];
    bad[1].datatype = MPI_DATATYPE_NULL;
    MTEST_CLASS(AMPI_GPU_Work_submit(work, 4, &one, 2, bad, &request), MPI_ERR_TYPE);
    bad[1] = good[1];
    bad[1].address = data + 3; /* the first buffer, which is written, has this element, too */
    MTEST_CLASS(AMPI_GPU_Work_submit(work, 4, &one, 2, bad, &request), MPI_ERR_BUFFER);
    MTEST_OK(MPI_Type_indexed(2, (int[]){1, 2}, (int[]){0, 2}, MPI_INT, &odd));
    bad[1] = (struct AMPI_GPU_Work_buffer){data + 4, 1, odd, AMPI_GPU_WORK_READ};
    MTEST_CLASS(AMPI_GPU_Work_submit(work, 4, &one, 2, bad, &request), MPI_ERR_TYPE); /* not committed */
    MTEST_OK(MPI_Type_commit(&odd));
    MTEST_CLASS(AMPI_GPU_Work_submit(work, 4, &one, 2, bad, &request),
                MPI_ERR_TYPE); /* rows of different sizes */
    MTEST_OK(MPI_Type_free(&odd));
    MTEST_CHECK(request == MPI_REQUEST_NULL, "a call that failed has set the request");
    MTEST_OK(AMPI_GPU_Work_submit(work, 4, &one, 2, good, &request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_OK(AMPI_GPU_Work_sync(data, sizeof data));
    for (int i = 0; i < 8; i++)
        MTEST_CHECK(data[i] == (i < 4), "element %d is %d", i, data[i]);
}

static void check_memory(void)
{
    int data = 0;

    MTEST_CLASS(AMPI_GPU_Work_sync(&data, -1), MPI_ERR_COUNT);
    MTEST_CLASS(AMPI_GPU_Work_sync(NULL, 4), MPI_ERR_BUFFER);
    MTEST_CLASS(AMPI_GPU_Work_invalidate(NULL, 4), MPI_ERR_BUFFER);
    MTEST_CLASS(AMPI_GPU_Work_pin(NULL, 4), MPI_ERR_BUFFER);
    MTEST_CLASS(AMPI_GPU_Work_unpin(&data, -4), MPI_ERR_COUNT);
    MTEST_OK(AMPI_GPU_Work_sync(NULL, 0));
}

/* A freed handle is not valid, and its pending requests go on; a request that is freed does its work, too. */
static void check_free(AMPI_GPU_Work work)
{
    int data[4] = {0}, one = 1;
    struct AMPI_GPU_Work_buffer buffer = {data, 4, MPI_INT, AMPI_GPU_WORK_READWRITE};
    AMPI_GPU_Work copy = work;
    MPI_Request request[2];

    for (int i = 0; i < 2; i++)
        MTEST_OK(AMPI_GPU_Work_submit(work, 4, &one, 1, &buffer, &request[i]));
    MTEST_OK(MPI_Request_free(&request[1]));
    MTEST_CLASS(AMPI_GPU_Work_free(NULL), MPI_ERR_ARG);
    MTEST_OK(AMPI_GPU_Work_free(&work));
    MTEST_CHECK(work == AMPI_GPU_WORK_NULL, "the handle is not reset");
    MTEST_CLASS(AMPI_GPU_Work_free(&work), MPI_ERR_ARG);
    (void)copy;
    MTEST_OK(AMPI_GPU_Work_wait_all());
    MTEST_OK(AMPI_GPU_Work_sync(data, sizeof data));
    MTEST_CHECK(data[0] == 2 && data[3] == 2, "the elements are %d and %d", data[0], data[3]);
    MTEST_OK(MPI_Wait(&request[0], MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    AMPI_GPU_Work work = AMPI_GPU_WORK_NULL;

    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    mtest_errors_return(MPI_COMM_SELF);
    check_register();
    MTEST_OK(AMPI_GPU_Work_register("add", NULL, 32, sizeof(int), add, &work));
    check_buffers(work);
    check_memory();
    check_free(work);
    return mtest_end();
}
