/* SPDX-License-Identifier: BSD-3-Clause */
/* The error of a request calls the handler of its communicator in all forms of Wait and Test, also if the
 * communicator has been freed; the statuses' MPI_ERROR is written only with MPI_ERR_IN_STATUS. */
#include "mtest.h"

static MPI_Comm called_on;
static int n_called, called_with, called_size;

static void note(MPI_Comm *comm, int *error, ...)
{
    n_called++;
    called_on = *comm;
    called_with = mtest_class(*error);
    MPI_Comm_size(*comm, &called_size);
}

enum form { WAIT, TEST, WAITANY, TESTANY, WAITALL, TESTALL, WAITSOME, TESTSOME, N_FORMS };
static const char *const names[] = {"Wait",    "Test",    "Waitany",  "Testany",
                                    "Waitall", "Testall", "Waitsome", "Testsome"};

/* Completes both requests; returns the first error. */
static int complete(enum form form, MPI_Request requests[2], MPI_Status statuses[2])
{
    int error = MPI_SUCCESS, each = MPI_SUCCESS, flag = 0, index, n = 0, n_done = 0, indices[2];
    MPI_Status some[2];

    switch (form) {
    case WAIT:
        for (int i = 0; i < 2; i++, error = error ? error : each)
            each = MPI_Wait(&requests[i], &statuses[i]);
        break;
    case TEST:
        for (int i = 0; i < 2; i++, error = error ? error : each)
            for (flag = 0; !flag;)
                each = MPI_Test(&requests[i], &flag, &statuses[i]);
        break;
    case WAITANY:
        for (int i = 0; i < 2; i++, error = error ? error : each)
            each = MPI_Waitany(2, requests, &index, &some[0]);
        break;
    case TESTANY:
        for (int i = 0; i < 2; i++, error = error ? error : each)
            for (flag = 0; !flag;)
                each = MPI_Testany(2, requests, &index, &flag, &some[0]);
        break;
    case WAITALL:
        return MPI_Waitall(2, requests, statuses);
    case TESTALL:
        while (!flag)
            error = MPI_Testall(2, requests, &flag, statuses);
        break;
    default:
        while (n_done < 2) {
            memcpy(some, statuses, sizeof some);
            each = form == WAITSOME ? MPI_Waitsome(2, requests, &n, indices, some)
                                    : MPI_Testsome(2, requests, &n, indices, some);
            error = error ? error : each;
            for (int i = 0; i < n; i++)
                statuses[indices[i]] = some[i];
            n_done += n;
        }
    }
    return error;
}

static void try_form(enum form form, MPI_Errhandler handler, int fails, int free_first)
{
    int out[4] = {1, 2, 3, 4}, in[2][4], size = mtest_size;
    int next = (mtest_rank + 1) % size, prev = (mtest_rank + size - 1) % size;
    int is_multiple = form >= WAITALL;
    MPI_Comm comm, kept;
    MPI_Request requests[2];
    MPI_Status statuses[2];

    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MTEST_OK(MPI_Comm_set_errhandler(comm, handler));
    kept = comm;
    for (int i = 0; i < 2; i++) {
        statuses[i].MPI_ERROR = 4711;
        MTEST_OK(MPI_Irecv(in[i], fails && i == 1 ? 2 : 4, MPI_INT, prev, i, comm, &requests[i]));
    }
    for (int i = 0; i < 2; i++)
        MTEST_OK(MPI_Send(out, 4, MPI_INT, next, i, comm));
    MTEST_OK(MPI_Barrier(comm));
    if (free_first)
        MTEST_OK(MPI_Comm_free(&comm));
    n_called = 0;
    int error = complete(form, requests, statuses);
    MTEST_CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL, "%s leaves a request",
                names[form]);
    if (fails) {
        int wanted = is_multiple ? MPI_ERR_IN_STATUS : MPI_ERR_TRUNCATE;
        MTEST_CHECK(mtest_class(error) == wanted, "%s returns class %d", names[form], mtest_class(error));
        MTEST_CHECK(n_called == 1 && called_with == wanted && called_size == size,
                    "%s calls the handler %d times, with class %d, a communicator of %d ranks", names[form],
                    n_called, called_with, called_size);
        MTEST_CHECK(free_first || called_on == kept, "%s calls the handler on another communicator",
                    names[form]);
        if (is_multiple)
            MTEST_CHECK(mtest_class(statuses[1].MPI_ERROR) == MPI_ERR_TRUNCATE &&
                            (statuses[0].MPI_ERROR == MPI_SUCCESS || statuses[0].MPI_ERROR == 4711),
                        "%s: MPI_ERROR is %d and %d", names[form], statuses[0].MPI_ERROR,
                        statuses[1].MPI_ERROR);
    } else {
        MTEST_CHECK(error == MPI_SUCCESS && n_called == 0, "%s: error %d, handler called %d times",
                    names[form], error, n_called);
        MTEST_CHECK(statuses[0].MPI_ERROR == 4711 && statuses[1].MPI_ERROR == 4711,
                    "%s without an error sets MPI_ERROR to %d and %d", names[form], statuses[0].MPI_ERROR,
                    statuses[1].MPI_ERROR);
    }
    if (!free_first)
        MTEST_OK(MPI_Comm_free(&comm));
}

/* The call must fail with this class, and call the handler of the communicator. */
#define RAISES(call, error_class)                                                                     \
    do {                                                                                              \
        n_called = 0;                                                                                 \
        MTEST_CLASS(call, error_class);                                                               \
        MTEST_CHECK(n_called == 1 && called_with == (error_class) && called_on == comm,               \
                    #call ": the handler was called %d times, with class %d", n_called, called_with); \
    } while (0)

/* Wrong calls for requests and messages are errors of their communicator. */
static void try_wrong_calls(MPI_Errhandler handler)
{
    MPI_Comm comm;
    MPI_Request request;
    MPI_Message message;
    int value = 5, flag;

    MTEST_OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    MTEST_OK(MPI_Comm_set_errhandler(comm, handler));
    MTEST_OK(MPI_Send(&value, 1, MPI_INT, 0, 0, comm));
    MTEST_OK(MPI_Mprobe(0, 0, comm, &message, MPI_STATUS_IGNORE));
    RAISES(MPI_Mrecv(&value, -1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
    RAISES(MPI_Imrecv(&value, 1, MPI_DATATYPE_NULL, &message, &request), MPI_ERR_TYPE);
    MTEST_OK(MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Recv_init(&value, 1, MPI_INT, 0, 0, comm, &request));
    MTEST_OK(MPI_Start(&request));
    RAISES(MPI_Start(&request), MPI_ERR_REQUEST);
    MTEST_OK(MPI_Cancel(&request));
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Request_free(&request));
    MTEST_OK(MPI_Precv_init(&value, 1, 1, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_INFO_NULL, &request));
    RAISES(MPI_Parrived(request, 1, &flag), MPI_ERR_ARG);
    MTEST_OK(MPI_Request_free(&request));
    MTEST_OK(MPI_Psend_init(&value, 1, 1, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_INFO_NULL, &request));
    RAISES(MPI_Pready(0, request), MPI_ERR_REQUEST);
    MTEST_OK(MPI_Request_free(&request));
    MTEST_OK(MPI_Ibarrier(comm, &request));
    RAISES(MPI_Cancel(&request), MPI_ERR_REQUEST);
    MTEST_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    mtest_init(&argc, &argv, 1);
    MTEST_OK(MPI_Comm_create_errhandler((MPI_Comm_errhandler_function *)note, &handler));
    for (int form = 0; form < N_FORMS; form++)
        for (int how = 0; how < 4; how++)
            try_form((enum form)form, handler, how & 1, how >> 1);
    try_wrong_calls(handler);
    MTEST_OK(MPI_Errhandler_free(&handler));
    return mtest_end();
}
