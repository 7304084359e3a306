/* SPDX-License-Identifier: BSD-3-Clause */
/* More data than 64 bits can count is MPI_ERR_COUNT in every call that takes a count and a type; nothing is
 * sent, received or written. (2^61 + 1 doubles are 8 bytes modulo 2^64.) */
#include "mtest.h"

#define MANY (((MPI_Count)1 << 61) + 1)
#define GUARD 4711.0

static double in[4] = {GUARD, GUARD, GUARD, GUARD}, out[4] = {1, 2, 3, 4};
static MPI_Comm comm;

#define REFUSED(call) MTEST_CLASS(call, MPI_ERR_COUNT)

static void point_to_point(void)
{
    MPI_Request request;
    MPI_Message message;
    int flag;

    REFUSED(MPI_Send_c(out, MANY, MPI_DOUBLE, 0, 1, comm));
    REFUSED(MPI_Ssend_c(out, MANY, MPI_DOUBLE, 0, 1, comm));
    REFUSED(MPI_Rsend_c(out, MANY, MPI_DOUBLE, 0, 1, comm));
    REFUSED(MPI_Bsend_c(out, MANY, MPI_DOUBLE, 0, 1, comm));
    REFUSED(MPI_Isend_c(out, MANY, MPI_DOUBLE, 0, 1, comm, &request));
    REFUSED(MPI_Issend_c(out, MANY, MPI_DOUBLE, 0, 1, comm, &request));
    REFUSED(MPI_Irsend_c(out, MANY, MPI_DOUBLE, 0, 1, comm, &request));
    REFUSED(MPI_Ibsend_c(out, MANY, MPI_DOUBLE, 0, 1, comm, &request));
    REFUSED(MPI_Send_init_c(out, MANY, MPI_DOUBLE, 0, 1, comm, &request));
    REFUSED(MPI_Ssend_init_c(out, MANY, MPI_DOUBLE, 0, 1, comm, &request));
    REFUSED(MPI_Rsend_init_c(out, MANY, MPI_DOUBLE, 0, 1, comm, &request));
    REFUSED(MPI_Bsend_init_c(out, MANY, MPI_DOUBLE, 0, 1, comm, &request));
    REFUSED(MPI_Recv_c(in, MANY, MPI_DOUBLE, 0, 1, comm, MPI_STATUS_IGNORE));
    REFUSED(MPI_Irecv_c(in, MANY, MPI_DOUBLE, 0, 1, comm, &request));
    REFUSED(MPI_Recv_init_c(in, MANY, MPI_DOUBLE, 0, 1, comm, &request));
    REFUSED(MPI_Sendrecv_c(out, MANY, MPI_DOUBLE, 0, 1, in, 1, MPI_DOUBLE, 0, 1, comm, MPI_STATUS_IGNORE));
    REFUSED(MPI_Sendrecv_c(out, 1, MPI_DOUBLE, 0, 1, in, MANY, MPI_DOUBLE, 0, 1, comm, MPI_STATUS_IGNORE));
    REFUSED(MPI_Sendrecv_replace_c(in, MANY, MPI_DOUBLE, 0, 1, 0, 1, comm, MPI_STATUS_IGNORE));
    REFUSED(MPI_Isendrecv_c(out, MANY, MPI_DOUBLE, 0, 1, in, 1, MPI_DOUBLE, 0, 1, comm, &request));
    REFUSED(MPI_Isendrecv_replace_c(in, MANY, MPI_DOUBLE, 0, 1, 0, 1, comm, &request));
    REFUSED(MPI_Psend_init(out, 1, MANY, MPI_DOUBLE, 0, 1, comm, MPI_INFO_NULL, &request));
    REFUSED(MPI_Psend_init(out, 4, MANY / 4, MPI_DOUBLE, 0, 1, comm, MPI_INFO_NULL, &request));
    REFUSED(MPI_Precv_init(in, 8, MANY, MPI_BYTE, 0, 1, comm, MPI_INFO_NULL, &request));
    MTEST_OK(MPI_Iprobe(0, 1, comm, &flag, MPI_STATUS_IGNORE));
    MTEST_CHECK(!flag, "something was sent");
    MTEST_OK(MPI_Send(out, 1, MPI_DOUBLE, 0, 2, comm));
    MTEST_OK(MPI_Mprobe(0, 2, comm, &message, MPI_STATUS_IGNORE));
    REFUSED(MPI_Imrecv_c(in, MANY, MPI_DOUBLE, &message, &request));
    REFUSED(MPI_Mrecv_c(in, MANY, MPI_DOUBLE, &message, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Mrecv_c(in, 1, MPI_DOUBLE, &message, MPI_STATUS_IGNORE));
    in[0] = GUARD;
}

/* An int count of a large type. */
static void large_type(void)
{
    MPI_Datatype large;
    MPI_Request request;
    int count = 1 << 23;

    MTEST_OK(MPI_Type_contiguous_c((MPI_Count)1 << 40, MPI_BYTE, &large));
    MTEST_OK(MPI_Type_commit(&large));
    REFUSED(MPI_Send(out, count, large, 0, 1, comm));
    REFUSED(MPI_Irecv(in, count, large, 0, 1, comm, &request));
    REFUSED(MPI_Bcast(in, count, large, 0, comm));
    REFUSED(MPI_Allgather(out, count, large, in, 1, MPI_DOUBLE, comm));
    MTEST_CHECK(MPI_Pack_size(count, large, comm, &count) != MPI_SUCCESS, "a size that does not fit");
    MTEST_OK(MPI_Type_free(&large));
}

static void collectives(void)
{
    MPI_Request request;
    MPI_Count many[1] = {MANY}, one[1] = {1};
    MPI_Aint zero[1] = {0};
    MPI_Datatype types[1] = {MPI_DOUBLE};

    REFUSED(MPI_Bcast_c(in, MANY, MPI_DOUBLE, 0, comm));
    REFUSED(MPI_Ibcast_c(in, MANY, MPI_DOUBLE, 0, comm, &request));
    REFUSED(MPI_Bcast_init_c(in, MANY, MPI_DOUBLE, 0, comm, MPI_INFO_NULL, &request));
    REFUSED(MPI_Gather_c(out, MANY, MPI_DOUBLE, in, 1, MPI_DOUBLE, 0, comm));
    REFUSED(MPI_Gather_c(out, 1, MPI_DOUBLE, in, MANY, MPI_DOUBLE, 0, comm));
    REFUSED(MPI_Gatherv_c(out, 1, MPI_DOUBLE, in, many, zero, MPI_DOUBLE, 0, comm));
    REFUSED(MPI_Scatter_c(out, MANY, MPI_DOUBLE, in, 1, MPI_DOUBLE, 0, comm));
    REFUSED(MPI_Scatterv_c(out, many, zero, MPI_DOUBLE, in, 1, MPI_DOUBLE, 0, comm));
    REFUSED(MPI_Allgather_c(out, 1, MPI_DOUBLE, in, MANY, MPI_DOUBLE, comm));
    REFUSED(MPI_Allgatherv_c(out, 1, MPI_DOUBLE, in, many, zero, MPI_DOUBLE, comm));
    REFUSED(MPI_Alltoall_c(out, MANY, MPI_DOUBLE, in, 1, MPI_DOUBLE, comm));
    REFUSED(MPI_Alltoallv_c(out, many, zero, MPI_DOUBLE, in, one, zero, MPI_DOUBLE, comm));
    REFUSED(MPI_Alltoallw_c(out, one, zero, types, in, many, zero, types, comm));
    REFUSED(MPI_Reduce_c(out, in, MANY, MPI_DOUBLE, MPI_SUM, 0, comm));
    REFUSED(MPI_Allreduce_c(out, in, MANY, MPI_DOUBLE, MPI_SUM, comm));
    REFUSED(MPI_Iallreduce_c(out, in, MANY, MPI_DOUBLE, MPI_SUM, comm, &request));
    REFUSED(MPI_Scan_c(out, in, MANY, MPI_DOUBLE, MPI_SUM, comm));
    REFUSED(MPI_Exscan_c(out, in, MANY, MPI_DOUBLE, MPI_SUM, comm));
    REFUSED(MPI_Reduce_scatter_c(out, in, many, MPI_DOUBLE, MPI_SUM, comm));
    REFUSED(MPI_Reduce_scatter_block_c(out, in, MANY, MPI_DOUBLE, MPI_SUM, comm));
    REFUSED(MPI_Reduce_local_c(out, in, MANY, MPI_DOUBLE, MPI_SUM));
}

/* Each block fits, all together do not. */
static void many_blocks(void)
{
    MPI_Count *half = mtest_alloc((size_t)mtest_size * sizeof *half);
    MPI_Aint *zeros = mtest_alloc((size_t)mtest_size * sizeof *zeros);
    MPI_Comm dup;

    for (int i = 0; i < mtest_size; i++) {
        half[i] = i < 2 ? (MPI_Count)1 << 59 : 0;
        zeros[i] = 0;
    }
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    if (mtest_size >= 2) {
        REFUSED(MPI_Allgatherv_c(out, 0, MPI_DOUBLE, in, half, zeros, MPI_DOUBLE, dup));
        REFUSED(MPI_Allgather_c(out, 0, MPI_DOUBLE, in, half[0], MPI_DOUBLE, dup));
        REFUSED(MPI_Reduce_scatter_c(out, in, half, MPI_DOUBLE, MPI_SUM, dup));
    }
    MTEST_OK(MPI_Comm_free(&dup));
    free(half);
    free(zeros);
}

static void packing(void)
{
    char packed[64];
    MPI_Count position = 0, size;

    MTEST_CHECK(MPI_Pack_c(out, MANY, MPI_DOUBLE, packed, sizeof packed, &position, comm) != MPI_SUCCESS,
                "Pack");
    MTEST_CHECK(MPI_Unpack_c(packed, sizeof packed, &position, in, MANY, MPI_DOUBLE, comm) != MPI_SUCCESS,
                "Unpack");
    MTEST_CHECK(MPI_Pack_external_c("external32", out, MANY, MPI_DOUBLE, packed, sizeof packed, &position) !=
                    MPI_SUCCESS,
                "Pack_external");
    MTEST_CHECK(MPI_Pack_size_c(MANY, MPI_DOUBLE, comm, &size) != MPI_SUCCESS, "Pack_size");
    MTEST_CHECK(MPI_Pack_external_size_c("external32", MANY, MPI_DOUBLE, &size) != MPI_SUCCESS,
                "Pack_external_size");
    MTEST_CHECK(position == 0, "the position has moved");
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    mtest_errors_return(MPI_COMM_WORLD);
    MTEST_OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    point_to_point();
    large_type();
    collectives();
    many_blocks();
    packing();
    for (int i = 0; i < 4; i++)
        MTEST_CHECK(in[i] == GUARD, "element %d was written", i);
    MTEST_OK(MPI_Comm_free(&comm));
    return mtest_end();
}
