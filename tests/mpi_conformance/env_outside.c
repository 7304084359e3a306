/* SPDX-License-Identifier: BSD-3-Clause */
/* A function that needs an initialized MPI, called before MPI_Init or after MPI_Finalize, ends the job with a
 * line that reports it, also with MPI_ERRORS_RETURN.
 *
 * usage: env_outside before|after FUNCTION
 */
#include "mtest.h"

static int buf[4], number;
static MPI_Comm comm = MPI_COMM_NULL;
static MPI_Request request = MPI_REQUEST_NULL;
static MPI_Datatype type = MPI_DATATYPE_NULL;
static MPI_Group group = MPI_GROUP_NULL;
static MPI_Op op = MPI_OP_NULL;

static void user_fn(void *in, void *inout, int *len, MPI_Datatype *of)
{
    (void)in;
    (void)inout;
    (void)len;
    (void)of;
}

/* One or two functions of each chapter. */
static void call(const char *name)
{
#define CALL(function, ...)           \
    if (strcmp(name, #function) == 0) \
    MPI_##function(__VA_ARGS__)
    CALL(Send, buf, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    CALL(Recv, buf, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CALL(Isend, buf, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request);
    CALL(Iprobe, 0, 0, MPI_COMM_WORLD, &number, MPI_STATUS_IGNORE);
    CALL(Wait, &request, MPI_STATUS_IGNORE);
    CALL(Psend_init, buf, 1, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    CALL(Buffer_flush, );
    CALL(Type_contiguous, 2, MPI_INT, &type);
    CALL(Type_size, MPI_INT, &number);
    CALL(Pack_size, 1, MPI_INT, MPI_COMM_WORLD, &number);
    CALL(Barrier, MPI_COMM_WORLD);
    CALL(Allreduce, MPI_IN_PLACE, buf, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CALL(Op_create, user_fn, 1, &op);
    CALL(Comm_rank, MPI_COMM_WORLD, &number);
    CALL(Comm_dup, MPI_COMM_WORLD, &comm);
    CALL(Comm_group, MPI_COMM_WORLD, &group);
    CALL(Group_size, MPI_GROUP_EMPTY, &number);
    CALL(Comm_set_errhandler, MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CALL(Comm_create_keyval, MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &number, NULL);
    CALL(Dims_create, 4, 1, buf);
    CALL(Cart_create, MPI_COMM_WORLD, 0, buf, buf, 0, &comm);
    CALL(Query_thread, &number);
    CALL(Finalize, );
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    if (strcmp(argv[1], "before") == 0) {
        call(argv[2]);
        return 0; /* wrong: it returned */
    }
    mtest_init(&argc, &argv, 1);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Finalize();
    call(argv[2]);
    return 0;
}
