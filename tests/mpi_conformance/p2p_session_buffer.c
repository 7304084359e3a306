/* SPDX-License-Identifier: BSD-3-Clause */
/* A session's buffer serves only buffered sends on communicators that are created from the session and have
 * no buffer of their own; detaching waits for the messages in it. */
#include "mtest.h"

enum { LEN = 100, N = 3 };

static MPI_Session session;

static MPI_Comm create_comm(void)
{
    MPI_Group group;
    MPI_Comm comm;

    MTEST_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    MTEST_OK(
        MPI_Comm_create_from_group(group, "p2p_session_buffer", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    MTEST_OK(MPI_Group_free(&group));
    return comm;
}

/* The right neighbour receives only after the sender said that all its sends are done. */
static void check_sends(MPI_Comm comm)
{
    int out[LEN], in[LEN], next = (mtest_rank + 1) % mtest_size,
                           prev = (mtest_rank + mtest_size - 1) % mtest_size;

    for (int i = 0; i < N; i++) {
        for (int j = 0; j < LEN; j++)
            out[j] = 1000 * mtest_rank + 100 * i + j;
        MTEST_OK(MPI_Bsend(out, LEN, MPI_INT, next, i, comm));
    }
    MTEST_OK(MPI_Barrier(comm));
    for (int i = N - 1; i >= 0; i--) {
        memset(in, 0, sizeof in);
        MTEST_OK(MPI_Recv(in, LEN, MPI_INT, prev, i, comm, MPI_STATUS_IGNORE));
        MTEST_CHECK(in[0] == 1000 * prev + 100 * i && in[LEN - 1] == in[0] + LEN - 1,
                    "message %d begins with %d", i, in[0]);
    }
}

int main(int argc, char **argv)
{
    static char space[N * (LEN * sizeof(int) + MPI_BSEND_OVERHEAD)];
    MPI_Comm comm, dup;
    MPI_Request request;
    void *address;
    int size = 0;
    MPI_Count large_size = 0;

    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    MTEST_CLASS(MPI_Session_detach_buffer(session, &address, &size), MPI_ERR_BUFFER);
    MTEST_OK(MPI_Session_flush_buffer(session)); /* none: nothing to wait for */
    comm = create_comm();
    MTEST_OK(MPI_Comm_dup(comm, &dup));
    MTEST_CLASS(MPI_Bsend(space, 1, MPI_BYTE, 0, 0, comm), MPI_ERR_BUFFER);
    MTEST_OK(MPI_Session_attach_buffer(session, space, sizeof space));
    MTEST_CLASS(MPI_Session_attach_buffer(session, space, sizeof space), MPI_ERR_BUFFER);
    check_sends(comm);
    MTEST_OK(MPI_Session_flush_buffer(session));
    check_sends(dup);
    MTEST_OK(MPI_Session_iflush_buffer(session, &request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_CLASS(MPI_Bsend(space, 1, MPI_BYTE, 0, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    MTEST_OK(MPI_Session_detach_buffer_c(session, &address, &large_size));
    MTEST_CHECK(address == space && large_size == (MPI_Count)sizeof space, "detached %p, %lld bytes", address,
                (long long)large_size);
    MTEST_OK(MPI_Session_attach_buffer(session, MPI_BUFFER_AUTOMATIC, 0));
    check_sends(comm);
    MTEST_OK(MPI_Session_detach_buffer(session, &address, &size));
    MTEST_CHECK(address == MPI_BUFFER_AUTOMATIC, "detached %p", address);
    MTEST_OK(MPI_Comm_free(&dup));
    MTEST_OK(MPI_Comm_free(&comm));
    MTEST_OK(MPI_Session_finalize(&session));
    return mtest_end();
}
