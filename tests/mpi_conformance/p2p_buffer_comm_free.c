/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator that is freed with its buffer attached: messages in the buffer still arrive, and no memory
 * leaks. */
#include <malloc.h>

#include "mtest.h"

static char space[8192 + MPI_BSEND_OVERHEAD];

/* Rank r leaves a message for rank r + 1 in the buffer, frees the communicator, and only then lets it
 * receive. */
static void check_message(void)
{
    int right = (mtest_rank + 1) % mtest_size, left = (mtest_rank + mtest_size - 1) % mtest_size;
    static char out[5000], in[5000];
    MPI_Request request;
    MPI_Comm comm;

    mtest_fill(out, sizeof out, (unsigned)mtest_rank);
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MTEST_OK(MPI_Comm_attach_buffer(comm, space, sizeof space));
    MTEST_OK(MPI_Bsend(out, sizeof out, MPI_BYTE, right, 0, comm));
    memset(out, 0, sizeof out);
    MPI_Barrier(MPI_COMM_WORLD);
    MTEST_OK(MPI_Irecv(in, sizeof in, MPI_BYTE, left, 0, comm, &request));
    MTEST_OK(MPI_Comm_free(&comm));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_CHECK(mtest_differs(in, sizeof in, (unsigned)left) < 0, "wrong data");
    MPI_Barrier(MPI_COMM_WORLD); /* all have received: the buffer's memory may go */
}

static void attach_and_free(int n)
{
    MPI_Comm comm;

    for (int i = 0; i < n; i++) {
        MTEST_OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
        MTEST_OK(MPI_Comm_attach_buffer(comm, space, sizeof space));
        MTEST_OK(MPI_Comm_free(&comm));
    }
}

/* As much memory is in use after many rounds as after a few. */
static void check_memory(void)
{
    size_t before;

    attach_and_free(100);
    before = mallinfo2().uordblks;
    attach_and_free(5000);
    MTEST_CHECK(mallinfo2().uordblks < before + 100000, "%zu bytes kept", mallinfo2().uordblks - before);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    check_message();
    check_message();
    if (mtest_size == 1)
        check_memory();
    return mtest_end();
}
