/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows partitioned channels whose ends are on one PE: a partition arrives when it is marked ready if both ends
 * have started, else at the second start; a send that is complete before goes as a message; freed ends are
 * forgotten.
 */
#include "ampi/p2p/partitioned/partitioned.h"
#include "mpi_job.h"

enum { LEN = 24, TAG = 3 };

static char out[LEN], in[LEN];

/* Ends of a channel of the rank to itself. */
static void make(int n_send, int n_recv, MPI_Request *send, MPI_Request *recv)
{
    ULT_CHECK(MPI_Precv_init(in, n_recv, LEN / n_recv, MPI_BYTE, 0, TAG, MPI_COMM_SELF, MPI_INFO_NULL,
                             recv) == MPI_SUCCESS);
    ULT_CHECK(MPI_Psend_init(out, n_send, LEN / n_send, MPI_BYTE, 0, TAG, MPI_COMM_SELF, MPI_INFO_NULL,
                             send) == MPI_SUCCESS);
    memset(in, 0, sizeof in);
    for (int i = 0; i < LEN; i++)
        out[i] = (char)(i + 1);
}

static struct ampi_partitioned *end_of(MPI_Request request)
{
    return ((struct ampi_request *)request)->u.extra;
}

static bool has_arrived(MPI_Request recv, int partition)
{
    int flag = -1;

    ULT_CHECK(MPI_Parrived(recv, partition, &flag) == MPI_SUCCESS);
    return flag;
}

static void finish(MPI_Request *send, MPI_Request *recv)
{
    MPI_Status status;
    int count = -1;

    ULT_CHECK(MPI_Wait(send, MPI_STATUS_IGNORE) == MPI_SUCCESS && MPI_Wait(recv, &status) == MPI_SUCCESS);
    MPI_Get_count(&status, MPI_BYTE, &count);
    ULT_CHECK(status.MPI_SOURCE == 0 && status.MPI_TAG == TAG && count == LEN && memcmp(in, out, LEN) == 0);
    memset(in, 0, sizeof in);
}

static void same_partitions(struct ampi_rank *self)
{
    MPI_Request send, recv;

    make(4, 4, &send, &recv);
    ULT_CHECK(end_of(send)->peer == (struct ampi_request *)recv &&
              end_of(recv)->peer == (struct ampi_request *)send);
    for (int round = 0; round < 4; round++) {
        ULT_CHECK(MPI_Start(round % 2 ? &send : &recv) == MPI_SUCCESS);
        if (round == 3)
            ULT_CHECK(MPI_Pready(2, send) == MPI_SUCCESS);
        ULT_CHECK(MPI_Start(round % 2 ? &recv : &send) == MPI_SUCCESS);
        if (round < 3)
            ULT_CHECK(!has_arrived(recv, 2) && MPI_Pready(2, send) == MPI_SUCCESS);
        ULT_CHECK(end_of(send)->is_direct && has_arrived(recv, 2) && in[12] == out[12] && in[17] == out[17]);
        ULT_CHECK(!has_arrived(recv, 1) && in[11] == 0 && in[18] == 0);
        ULT_CHECK(MPI_Pready_range(0, 1, send) == MPI_SUCCESS && MPI_Pready(3, send) == MPI_SUCCESS);
        finish(&send, &recv);
    }
    for (int round = 0; round < 2; round++) { /* the send is first, twice: two messages */
        ULT_CHECK(MPI_Start(&send) == MPI_SUCCESS && MPI_Pready_range(0, 3, send) == MPI_SUCCESS);
        ULT_CHECK(!end_of(send)->is_direct && MPI_Wait(&send, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    }
    ULT_CHECK(MPI_Start(&send) == MPI_SUCCESS && MPI_Pready(1, send) == MPI_SUCCESS);
    for (int round = 0; round < 2; round++)
        ULT_CHECK(MPI_Start(&recv) == MPI_SUCCESS && !end_of(recv)->is_direct &&
                  MPI_Wait(&recv, MPI_STATUS_IGNORE) == MPI_SUCCESS && memcmp(in, out, LEN) == 0);
    memset(in, 0, sizeof in);
    ULT_CHECK(MPI_Start(&recv) == MPI_SUCCESS && end_of(recv)->is_direct && has_arrived(recv, 1));
    ULT_CHECK(!has_arrived(recv, 0) && MPI_Pready(0, send) == MPI_SUCCESS);
    ULT_CHECK(MPI_Pready_range(2, 3, send) == MPI_SUCCESS);
    finish(&send, &recv);
    MPI_Request_free(&send);
    ULT_CHECK(!end_of(recv)->peer);
    MPI_Request_free(&recv);
    ULT_CHECK(self->n_requests == 0);
}

START_TEST(partitions_arrive_one_by_one)
{
    mpi_job_start(1, 1, same_partitions);
}
END_TEST

/* Partitions of 8 bytes are sent, of 6 received. */
static void other_partitions(struct ampi_rank *self)
{
    MPI_Request send, recv;

    make(3, 4, &send, &recv);
    ULT_CHECK(MPI_Start(&recv) == MPI_SUCCESS && MPI_Start(&send) == MPI_SUCCESS);
    ULT_CHECK(MPI_Pready(1, send) == MPI_SUCCESS); /* bytes 8 to 15: parts of partitions 1 and 2 */
    for (int i = 0; i < 4; i++)
        ULT_CHECK(!has_arrived(recv, i));
    ULT_CHECK(MPI_Pready(2, send) == MPI_SUCCESS);
    for (int i = 0; i < 4; i++)
        ULT_CHECK(has_arrived(recv, i) == (i >= 2));
    ULT_CHECK(MPI_Pready(0, send) == MPI_SUCCESS);
    finish(&send, &recv);
    ULT_CHECK(MPI_Start(&recv) == MPI_SUCCESS && MPI_Start(&send) == MPI_SUCCESS);
    ULT_CHECK(MPI_Request_free(&recv) == MPI_SUCCESS); /* while active: freed at its end */
    ULT_CHECK(MPI_Pready_range(0, 2, send) == MPI_SUCCESS &&
              MPI_Wait(&send, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    ULT_CHECK(memcmp(in, out, LEN) == 0 && !end_of(send)->peer && self->n_requests == 1);
    MPI_Request_free(&send);
}

START_TEST(partitions_that_overlap)
{
    mpi_job_start(1, 1, other_partitions);
}
END_TEST

/* The send's request is freed, and its memory used again, before the receive learns of it. */
static void early_end(struct ampi_rank *self)
{
    MPI_Request send, recv, other;

    ULT_CHECK(MPI_Psend_init(out, 1, LEN, MPI_BYTE, 0, TAG, MPI_COMM_SELF, MPI_INFO_NULL, &send) ==
              MPI_SUCCESS);
    other = send;
    MPI_Request_free(&send);
    ULT_CHECK(MPI_Psend_init(out, 1, LEN, MPI_BYTE, 0, TAG + 1, MPI_COMM_SELF, MPI_INFO_NULL, &send) ==
              MPI_SUCCESS);
    ULT_CHECK(send == other);
    ULT_CHECK(MPI_Precv_init(in, 1, LEN, MPI_BYTE, 0, TAG, MPI_COMM_SELF, MPI_INFO_NULL, &recv) ==
              MPI_SUCCESS);
    ULT_CHECK(end_of(recv)->channel == 0 && !end_of(recv)->peer && !end_of(send)->peer);
    MPI_Request_free(&recv);
    MPI_Request_free(&send);
    ULT_CHECK(self->n_requests == 0);
}

START_TEST(a_freed_send_is_not_found)
{
    mpi_job_start(1, 1, early_end);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("partitioned");
    TCase *tcase = tcase_create("partitioned");

    tcase_add_test(tcase, partitions_arrive_one_by_one);
    tcase_add_test(tcase, partitions_that_overlap);
    tcase_add_test(tcase, a_freed_send_is_not_found);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
