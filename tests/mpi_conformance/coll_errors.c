/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrong calls of collectives are errors of their class before any data moves: wrong roots, operations that
 * are not defined on the type, counts, types and buffers, MPI_IN_PLACE where it is not allowed. The
 * communicator still works. */
#include "mcoll.h"

enum { N = 64, UNTOUCHED = -77 };

static int in[N * 64], out[N * 64], counts[64], displs[64], bad_counts[64];
static MPI_Datatype types[64], bad_types[64];
static MPI_Comm comm;

/* The error class of a call in the form that is tested. A persistent one that got as far is not started. */
#define CLASS_OF(class_, Name, name, ...)                                          \
    do {                                                                           \
        MPI_Request request_ = MPI_REQUEST_NULL;                                   \
        int code_;                                                                 \
        if (mcoll_form == MCOLL_BLOCKING)                                          \
            code_ = MPI_##Name(__VA_ARGS__);                                       \
        else if (mcoll_form == MCOLL_NONBLOCKING)                                  \
            code_ = MPI_I##name(__VA_ARGS__, &request_);                           \
        else                                                                       \
            code_ = MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &request_);      \
        MPI_Error_class(code_, &(class_));                                         \
        MTEST_CHECK(request_ == MPI_REQUEST_NULL, "MPI_" #Name " made a request"); \
    } while (0)

#define WRONG(want, Name, name, ...)                                                                 \
    do {                                                                                             \
        int class_ = -1;                                                                             \
        CLASS_OF(class_, Name, name, __VA_ARGS__);                                                   \
        MTEST_CHECK(class_ == (want), "MPI_" #Name "(" #__VA_ARGS__ "): class %d instead of " #want, \
                    class_);                                                                         \
        for (int i_ = 0; i_ < N * mtest_size; i_++)                                                  \
            if (out[i_] != UNTOUCHED) {                                                              \
                MTEST_CHECK(0, "MPI_" #Name "(" #__VA_ARGS__ ") has moved data");                    \
                break;                                                                               \
            }                                                                                        \
    } while (0)

static void roots(void)
{
    const int wrong[] = {-1, mtest_size, MPI_ROOT, MPI_PROC_NULL};

    for (int i = 0; i < 4; i++) {
        WRONG(MPI_ERR_ROOT, Bcast, bcast, out, 1, MPI_INT, wrong[i], comm);
        WRONG(MPI_ERR_ROOT, Gather, gather, in, 1, MPI_INT, out, 1, MPI_INT, wrong[i], comm);
        WRONG(MPI_ERR_ROOT, Gatherv, gatherv, in, 1, MPI_INT, out, counts, displs, MPI_INT, wrong[i], comm);
        WRONG(MPI_ERR_ROOT, Scatter, scatter, in, 1, MPI_INT, out, 1, MPI_INT, wrong[i], comm);
        WRONG(MPI_ERR_ROOT, Scatterv, scatterv, in, counts, displs, MPI_INT, out, 1, MPI_INT, wrong[i], comm);
        WRONG(MPI_ERR_ROOT, Reduce, reduce, in, out, 1, MPI_INT, MPI_SUM, wrong[i], comm);
    }
}

#define REDUCTIONS(want, count, type, op)                              \
    WRONG(want, Allreduce, allreduce, in, out, count, type, op, comm); \
    WRONG(want, Reduce, reduce, in, out, count, type, op, 0, comm);    \
    WRONG(want, Scan, scan, in, out, count, type, op, comm);           \
    WRONG(want, Exscan, exscan, in, out, count, type, op, comm);       \
    WRONG(want, Reduce_scatter_block, reduce_scatter_block, in, out, count, type, op, comm)

static void operations(void)
{
    MPI_Datatype derived;

    REDUCTIONS(MPI_ERR_OP, 1, MPI_DOUBLE, MPI_BAND);
    REDUCTIONS(MPI_ERR_OP, 1, MPI_INT, MPI_MAXLOC);
    REDUCTIONS(MPI_ERR_OP, 1, MPI_BYTE, MPI_SUM);
    REDUCTIONS(MPI_ERR_OP, 1, MPI_C_DOUBLE_COMPLEX, MPI_MAX);
    REDUCTIONS(MPI_ERR_OP, 1, MPI_2INT, MPI_SUM);
    REDUCTIONS(MPI_ERR_OP, 1, MPI_INT, MPI_OP_NULL);
    REDUCTIONS(MPI_ERR_OP, 1, MPI_INT, MPI_REPLACE);
    REDUCTIONS(MPI_ERR_OP, 0, MPI_DOUBLE, MPI_LXOR);
    WRONG(MPI_ERR_OP, Reduce_scatter, reduce_scatter, in, out, counts, MPI_FLOAT, MPI_BOR, comm);
    MTEST_OK(MPI_Type_vector(2, 1, 2, MPI_INT, &derived));
    REDUCTIONS(MPI_ERR_TYPE, 1, derived, MPI_SUM); /* not committed */
    MTEST_OK(MPI_Type_commit(&derived));
    REDUCTIONS(MPI_ERR_OP, 1, derived, MPI_SUM);
    MTEST_OK(MPI_Type_free(&derived));
    REDUCTIONS(MPI_ERR_COUNT, -1, MPI_INT, MPI_SUM);
    REDUCTIONS(MPI_ERR_TYPE, 1, MPI_DATATYPE_NULL, MPI_SUM);
    WRONG(MPI_ERR_COUNT, Reduce_scatter, reduce_scatter, in, out, bad_counts, MPI_INT, MPI_SUM, comm);
}

/* One argument of each operation is wrong. */
static void buffers(void)
{
    WRONG(MPI_ERR_COUNT, Bcast, bcast, out, -1, MPI_INT, 0, comm);
    WRONG(MPI_ERR_TYPE, Bcast, bcast, out, 1, MPI_DATATYPE_NULL, 0, comm);
    WRONG(MPI_ERR_BUFFER, Bcast, bcast, NULL, 1, MPI_INT, 0, comm);
    WRONG(MPI_ERR_BUFFER, Bcast, bcast, MPI_IN_PLACE, 1, MPI_INT, 0, comm);
    WRONG(MPI_ERR_COUNT, Gather, gather, in, -1, MPI_INT, out, 1, MPI_INT, 0, comm);
    WRONG(MPI_ERR_TYPE, Scatter, scatter, in, 1, MPI_INT, out, 1, MPI_DATATYPE_NULL, 0, comm);
    WRONG(MPI_ERR_COUNT, Allgather, allgather, in, 1, MPI_INT, out, -1, MPI_INT, comm);
    WRONG(MPI_ERR_BUFFER, Allgather, allgather, NULL, 1, MPI_INT, out, 1, MPI_INT, comm);
    WRONG(MPI_ERR_BUFFER, Allgather, allgather, in, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm);
    WRONG(MPI_ERR_COUNT, Allgatherv, allgatherv, in, 1, MPI_INT, out, bad_counts, displs, MPI_INT, comm);
    WRONG(MPI_ERR_ARG, Allgatherv, allgatherv, in, 1, MPI_INT, out, NULL, displs, MPI_INT, comm);
    WRONG(MPI_ERR_ARG, Allgatherv, allgatherv, in, 1, MPI_INT, out, counts, NULL, MPI_INT, comm);
    WRONG(MPI_ERR_COUNT, Alltoall, alltoall, in, -1, MPI_INT, out, 1, MPI_INT, comm);
    WRONG(MPI_ERR_COUNT, Alltoallv, alltoallv, in, bad_counts, displs, MPI_INT, out, counts, displs, MPI_INT,
          comm);
    WRONG(MPI_ERR_TYPE, Alltoallv, alltoallv, in, counts, displs, MPI_INT, out, counts, displs,
          MPI_DATATYPE_NULL, comm);
    WRONG(MPI_ERR_TYPE, Alltoallw, alltoallw, in, counts, displs, bad_types, out, counts, displs, types,
          comm);
    WRONG(MPI_ERR_ARG, Alltoallw, alltoallw, in, counts, displs, types, out, counts, displs, NULL, comm);
    WRONG(MPI_ERR_BUFFER, Scan, scan, in, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, comm);
    WRONG(MPI_ERR_BUFFER, Allreduce, allreduce, in, in, 1, MPI_INT, MPI_SUM, comm);
    WRONG(MPI_ERR_BUFFER, Alltoall, alltoall, in, 1, MPI_INT, in, 1, MPI_INT, comm);
    WRONG(MPI_ERR_TOPOLOGY, Neighbor_allgather, neighbor_allgather, in, 1, MPI_INT, out, 1, MPI_INT, comm);
    WRONG(MPI_ERR_TOPOLOGY, Neighbor_alltoallw, neighbor_alltoallw, in, counts, (MPI_Aint *)displs, types,
          out, counts, (MPI_Aint *)displs, types, comm);
}

static void between_groups(void)
{
    MPI_Comm world = comm, local;

    if (mtest_size < 2)
        return;
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, mtest_rank % 2, 0, &local));
    MTEST_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, 1 - mtest_rank % 2, 3, &comm));
    MTEST_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    WRONG(MPI_ERR_ROOT, Bcast, bcast, out, 1, MPI_INT, mtest_size, comm);
    WRONG(MPI_ERR_ROOT, Reduce, reduce, in, out, 1, MPI_INT, MPI_SUM, -10, comm);
    WRONG(MPI_ERR_BUFFER, Allgather, allgather, MPI_IN_PLACE, 1, MPI_INT, out, 1, MPI_INT, comm);
    WRONG(MPI_ERR_BUFFER, Alltoall, alltoall, MPI_IN_PLACE, 1, MPI_INT, out, 1, MPI_INT, comm);
    WRONG(MPI_ERR_BUFFER, Allreduce, allreduce, MPI_IN_PLACE, out, 1, MPI_INT, MPI_SUM, comm);
    WRONG(MPI_ERR_BUFFER, Reduce_scatter_block, reduce_scatter_block, MPI_IN_PLACE, out, 1, MPI_INT, MPI_SUM,
          comm);
    WRONG(MPI_ERR_OP, Allreduce, allreduce, in, out, 1, MPI_DOUBLE, MPI_BOR, comm);
    WRONG(MPI_ERR_COMM, Scan, scan, in, out, 1, MPI_INT, MPI_SUM, comm);
    WRONG(MPI_ERR_COMM, Exscan, exscan, in, out, 1, MPI_INT, MPI_SUM, comm);
    MTEST_OK(MPI_Comm_free(&comm));
    MTEST_OK(MPI_Comm_free(&local));
    comm = world;
}

int main(int argc, char **argv)
{
    int sum = 0;

    mcoll_init(&argc, &argv, 1);
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MTEST_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; i < N * 64; i++)
        out[i] = UNTOUCHED;
    for (int i = 0; i < 64; i++) {
        counts[i] = 1;
        displs[i] = 2 * i;
        bad_counts[i] = i == mtest_size - 1 ? -1 : 1;
        types[i] = MPI_INT;
        bad_types[i] = i == mtest_size - 1 ? MPI_DATATYPE_NULL : MPI_INT;
    }
    roots();
    operations();
    buffers();
    between_groups();
    MTEST_OK(MPI_Allreduce(&mtest_rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    MTEST_CHECK(sum == mtest_size * (mtest_size - 1) / 2, "the sum is %d", sum);
    MTEST_OK(MPI_Comm_free(&comm));
    return mtest_end();
}
