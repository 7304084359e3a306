/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows when persistent requests of one PE are bound to each other, and when they stop being it: after a match,
 * unless the receive has wildcards, is too small or its key is taken; until either is freed.
 */
#include "ampi/p2p/channel.h"
#include "mpi_job.h"

static int from[4], to[4];

static struct ampi_request *new_send(int count, int tag)
{
    MPI_Request request;

    ULT_CHECK(MPI_Send_init(from, count, MPI_INT, 0, tag, MPI_COMM_SELF, &request) == MPI_SUCCESS);
    return (struct ampi_request *)request;
}

static struct ampi_request *new_recv(int count, int source, int tag)
{
    MPI_Request request;

    ULT_CHECK(MPI_Recv_init(to, count, MPI_INT, source, tag, MPI_COMM_SELF, &request) == MPI_SUCCESS);
    return (struct ampi_request *)request;
}

static void start(struct ampi_request *request)
{
    MPI_Request handle = (MPI_Request)request;

    ULT_CHECK(MPI_Start(&handle) == MPI_SUCCESS);
}

static int wait_for(struct ampi_request *request)
{
    MPI_Request handle = (MPI_Request)request;

    return MPI_Wait(&handle, MPI_STATUS_IGNORE);
}

static void free_it(struct ampi_request *request)
{
    MPI_Request handle = (MPI_Request)request;

    ULT_CHECK(MPI_Request_free(&handle) == MPI_SUCCESS);
}

/* One message; the receive first. */
static int exchange(struct ampi_request *send, struct ampi_request *recv)
{
    int error;

    from[0] = rand();
    start(recv);
    start(send);
    ULT_CHECK(wait_for(send) == MPI_SUCCESS);
    error = wait_for(recv);
    ULT_CHECK(to[0] == from[0]);
    return error;
}

static bool are_bound(const struct ampi_request *send, const struct ampi_request *recv)
{
    return send->kind == &ampi_channel_send_kind && send->u.p2p.channel.recv == recv &&
           recv->kind == &ampi_channel_recv_kind && recv->u.p2p.bound_send == send;
}

static bool are_ordinary(const struct ampi_request *send, const struct ampi_request *recv)
{
    return send->kind == &ampi_send_kind && recv->kind == &ampi_recv_kind;
}

static void bind(struct ampi_rank *self)
{
    struct ampi_request *send = new_send(2, 1), *recv = new_recv(2, 0, 1);
    struct ampi_request *wild = new_recv(2, 0, MPI_ANY_TAG), *larger = new_send(3, 1),
                        *twin = new_recv(2, 0, 1);

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    ULT_CHECK(exchange(send, wild) == MPI_SUCCESS && are_ordinary(send, wild));
    ULT_CHECK(exchange(larger, recv) == MPI_ERR_TRUNCATE && are_ordinary(larger, recv));
    start(send); /* the message waits for its receive: nothing to be bound to */
    start(recv);
    ULT_CHECK(wait_for(send) == MPI_SUCCESS && wait_for(recv) == MPI_SUCCESS && are_ordinary(send, recv));
    ULT_CHECK(exchange(send, recv) == MPI_SUCCESS && are_bound(send, recv));
    ULT_CHECK(exchange(send, recv) == MPI_SUCCESS && are_bound(send, recv));
    ULT_CHECK(exchange(larger, recv) == MPI_ERR_TRUNCATE && are_bound(send, recv));
    ULT_CHECK(exchange(send, twin) == MPI_SUCCESS && are_bound(send, recv) && twin->kind == &ampi_recv_kind);
    ULT_CHECK(ampi_match_validate(&ampi_comm_self(self)->match));
    free_it(wild);
    free_it(larger);
    free_it(twin);
    free_it(send);
    free_it(recv);
    ULT_CHECK(ampi_comm_self(self)->match.n_posted == 0 && ampi_comm_self(self)->match.bound->n_nodes == 0);
}

START_TEST(bound_after_a_match_that_can_be_repeated)
{
    mpi_job_start(1, 1, bind);
}
END_TEST

static void free_send(struct ampi_rank *self)
{
    struct ampi_request *send = new_send(2, 1), *recv = new_recv(2, 0, 1), *next;

    ULT_CHECK(exchange(send, recv) == MPI_SUCCESS && are_bound(send, recv));
    start(recv);
    free_it(send);
    ULT_CHECK(!recv->u.p2p.bound_send);
    next = new_send(2, 1);
    ULT_CHECK(next == send); /* its memory: the receive must not touch it */
    start(next);             /* the posted receive is found among bound ones, but is not bound to this one */
    ULT_CHECK(wait_for(next) == MPI_SUCCESS && wait_for(recv) == MPI_SUCCESS);
    ULT_CHECK(next->kind == &ampi_send_kind);
    ULT_CHECK(exchange(next, recv) == MPI_SUCCESS && are_bound(next, recv));
    free_it(next);
    next = new_recv(2, 0, 2);
    start(recv);
    ULT_CHECK(next->kind == &ampi_recv_kind && recv->kind == &ampi_recv_kind);
    free_it(next);
    free_it(recv); /* posted */
    ULT_CHECK(MPI_Send(from, 1, MPI_INT, 0, 1, MPI_COMM_SELF) == MPI_SUCCESS);
    ULT_CHECK(ampi_comm_self(self)->match.n_posted == 0 && self->n_requests == 0);
}

START_TEST(a_freed_send_leaves_an_ordinary_receive)
{
    mpi_job_start(1, 1, free_send);
}
END_TEST

static void free_recv(struct ampi_rank *self)
{
    struct ampi_request *send = new_send(2, 1), *recv = new_recv(2, 0, 1);

    ULT_CHECK(exchange(send, recv) == MPI_SUCCESS && are_bound(send, recv));
    start(recv);
    free_it(recv); /* completes, and is freed, within the start of the send */
    ULT_CHECK(are_bound(send, recv));
    start(send);
    ULT_CHECK(wait_for(send) == MPI_SUCCESS && send->kind == &ampi_send_kind && self->n_requests == 1);
    recv = new_recv(2, 0, 1);
    ULT_CHECK(exchange(send, recv) == MPI_SUCCESS && are_bound(send, recv));
    free_it(recv);
    ULT_CHECK(send->kind == &ampi_send_kind);
    free_it(send);
    ULT_CHECK(ampi_match_validate(&ampi_comm_self(self)->match) && self->n_requests == 0);
}

START_TEST(a_freed_receive_leaves_an_ordinary_send)
{
    mpi_job_start(1, 1, free_recv);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("channel");
    TCase *tcase = tcase_create("channel");

    tcase_add_test(tcase, bound_after_a_match_that_can_be_repeated);
    tcase_add_test(tcase, a_freed_send_leaves_an_ordinary_receive);
    tcase_add_test(tcase, a_freed_receive_leaves_an_ordinary_send);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
