/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that threads of ranks call MPI at the same time, whatever the ranks' main threads do: calls on many
 * ranks, threads and PEs are chosen by chance, and each result is checked. Under a sanitizer it shows that no
 * two of them touch the same memory.
 *
 *      MPI_THREADS_TEST="RANKS PES THREADS SECONDS"    for a longer run than the usual one
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ampi/object/gate.h"
#include "mpi_job.h"

#include "heddle_mpi_stream.h"
#include "mpi-ext.h"

#define THREADS_MAX 16
#define RANKS_MAX 16

static int n_ranks = 4, n_pes = 2, n_threads = 3, seconds;
static _Atomic int n_running[RANKS_MAX]; /* threads of each rank */
static MPI_Comm comms[RANKS_MAX][THREADS_MAX];
static __thread struct ampi_rank *rank_of_this;
static __thread MPI_Comm own = MPI_COMM_NULL; /* with a stream of this thread's */
static __thread MPIX_Stream stream;

struct caller {
    struct ampi_rank *rank;
    int number;     /* of the thread, the same in all ranks */
    uint64_t state; /* of the chance, the same for the same number */
};

static unsigned draw(struct caller *caller, unsigned n)
{
    caller->state = caller->state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(caller->state >> 33) % n;
}

/* ---- The calls: each is made by the threads of one number in all ranks ---- */

static void ring_sendrecv(struct caller *caller, int me, MPI_Comm comm)
{
    int out[600], in[600], tag = (int)draw(caller, 50), count = 1 + (int)draw(caller, 600);

    for (int i = 0; i < count; i++)
        out[i] = me * 1000 + i;
    ULT_CHECK(MPI_Sendrecv(out, count, MPI_INT, (me + 1) % n_ranks, tag, in, count, MPI_INT,
                           (me + n_ranks - 1) % n_ranks, tag, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    ULT_CHECK(in[count - 1] == (me + n_ranks - 1) % n_ranks * 1000 + count - 1);
}

/* On the communicator of all threads: the tag is the number's. */
static void pairs(struct caller *caller, int me)
{
    MPI_Request requests[2];
    int index, in = -1, out = me * 100 + caller->number, peer = (me + 1 + (int)draw(caller, 3)) % n_ranks;
    int from = (2 * n_ranks + me - (peer - me)) % n_ranks;

    MPI_Irecv(&in, 1, MPI_INT, from, 1000 + caller->number, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&out, 1, MPI_INT, peer, 1000 + caller->number, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
    if (draw(caller, 2))
        for (int flag = 0; !flag;)
            MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    ULT_CHECK(in == from * 100 + caller->number);
}

static void probe_ring(struct caller *caller, int me, MPI_Comm comm)
{
    int in = -1, flag = 0;
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;

    MPI_Isend(&me, 1, MPI_INT, (me + 1) % n_ranks, 77, comm, &request);
    if (draw(caller, 2))
        MPI_Mprobe(MPI_ANY_SOURCE, 77, comm, &message, &status);
    else
        while (!flag)
            MPI_Improbe(MPI_ANY_SOURCE, 77, comm, &flag, &message, &status);
    MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    ULT_CHECK(in == status.MPI_SOURCE && in == (me + n_ranks - 1) % n_ranks);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void reduce(struct caller *caller, int me, MPI_Comm comm)
{
    int sums[40], out[40], count = 1 + (int)draw(caller, 40);
    MPI_Request request = MPI_REQUEST_NULL;

    for (int i = 0; i < count; i++)
        out[i] = me + i;
    if (draw(caller, 2))
        MPI_Allreduce(out, sums, count, MPI_INT, MPI_SUM, comm);
    else
        MPI_Iallreduce(out, sums, count, MPI_INT, MPI_SUM, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    ULT_CHECK(sums[count - 1] == n_ranks * (n_ranks - 1) / 2 + n_ranks * (count - 1));
}

static void make_comm(int me, MPI_Comm comm)
{
    MPI_Comm dup;
    int all = 0;

    MPI_Comm_dup(comm, &dup);
    MPI_Bcast(me == 0 ? &(int){5} : &all, 1, MPI_INT, 0, dup);
    ULT_CHECK(me == 0 || all == 5);
    MPI_Comm_free(&dup);
}

/* ---- On communicators with a stream of the thread's own ---- */

static void drop_own(void)
{
    if (own == MPI_COMM_NULL)
        return;
    MPI_Comm_free(&own);
    MPIX_Stream_free(&stream);
}

/* Of all threads of the number at once. */
static void make_own(MPI_Comm comm)
{
    drop_own();
    MPIX_Stream_create(MPI_INFO_NULL, &stream);
    ULT_CHECK(MPIX_Stream_comm_create(comm, stream, &own) == MPI_SUCCESS);
}

/* A message of any size to the next rank, and calls of all kinds for it. The threads of a number draw the same. */
static void stream_ring(struct caller *caller, int me)
{
    static const int sizes[] = {1, 2, 7, 8, 300, 4096, 4097, 20000};
    static __thread int out[20000], in[20000];
    int count = sizes[draw(caller, 8)], prev = (me + n_ranks - 1) % n_ranks, flag = 0, index;
    MPI_Request requests[2];
    MPI_Status status;

    out[0] = out[count - 1] = me * 100 + count;
    if (draw(caller, 2)) {
        MPI_Isend(out, count, MPI_INT, (me + 1) % n_ranks, 5, own, &requests[0]);
        MPI_Irecv(in, count, MPI_INT, MPI_ANY_SOURCE, 5, own, &requests[1]);
    } else {
        MPI_Irecv(in, count, MPI_INT, prev, MPI_ANY_TAG, own, &requests[1]);
        MPI_Isend(out, count, MPI_INT, (me + 1) % n_ranks, 5, own, &requests[0]);
    }
    switch (draw(caller, 6)) {
    case 0:
        MPI_Waitany(2, requests, &index, &status);
        break;
    case 1:
        while (!flag)
            MPI_Test(&requests[1], &flag, &status);
        break;
    case 2:
        MPI_Wait(&requests[1], &status);
        ULT_CHECK(status.MPI_SOURCE == prev);
        break;
    case 3: /* the others may be far behind */
        usleep(200);
        break;
    default:
        break;
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    ULT_CHECK(in[0] == prev * 100 + count && in[count - 1] == prev * 100 + count);
}

static void stream_calls(struct caller *caller, int me, MPI_Comm comm)
{
    MPI_Status status;
    MPI_Request request;
    int in = -1, n = 1 + (int)draw(caller, 20);

    if (own == MPI_COMM_NULL || draw(caller, 10) == 0)
        make_own(comm);
    for (int i = 0; i < n; i++)
        stream_ring(caller, me);
    if (draw(caller, 20) == 0) { /* ends the use of the endpoint */
        MPI_Isend(&me, 1, MPI_INT, (me + 1) % n_ranks, 6, own, &request);
        MPI_Probe(MPI_ANY_SOURCE, 6, own, &status);
        MPI_Recv(&in, 1, MPI_INT, status.MPI_SOURCE, 6, own, MPI_STATUS_IGNORE);
        ULT_CHECK(in == (me + n_ranks - 1) % n_ranks);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    if (draw(caller, 20) == 0) {
        MPI_Irecv(&in, 1, MPI_INT, (me + n_ranks - 1) % n_ranks, 7, own, &request);
        MPI_Ssend(&me, 1, MPI_INT, (me + 1) % n_ranks, 7, own);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void call_once(struct caller *caller)
{
    int me = caller->rank->world_rank;
    MPI_Comm comm = comms[me][caller->number];

    switch (draw(caller, 12)) {
    case 0:
        probe_ring(caller, me, comm);
        break;
    case 1:
        reduce(caller, me, comm);
        break;
    case 2:
        MPI_Barrier(comm);
        break;
    case 3:
        if (draw(caller, 4) == 0)
            make_comm(me, comm);
        break;
    case 4:
        ring_sendrecv(caller, me, comm);
        break;
    case 5:
    case 6:
    case 7:
    case 8:
        stream_calls(caller, me, comm);
        break;
    default:
        pairs(caller, me);
    }
}

static void *run_thread(void *arg)
{
    struct caller *caller = arg;
    uint64_t end_ns = ult_now_ns() + (uint64_t)seconds * 1000000000u;
    int go_on = 1, is_main = 1;

    rank_of_this = caller->rank;
    MPI_Is_thread_main(&is_main);
    ULT_CHECK(!is_main && ult_self() == NULL);
    while (go_on) {
        for (int i = 0; i < 60; i++)
            call_once(caller);
        go_on = ult_now_ns() < end_ns;
        MPI_Bcast(&go_on, 1, MPI_INT, 0, comms[caller->rank->world_rank][caller->number]);
    }
    drop_own();
    n_running[caller->rank->world_rank]--;
    return NULL;
}

/* ---- Ranks ---- */

/* What the main thread does meanwhile. */
static void pass_time(const struct ampi_rank *self)
{
    int flag, me = self->world_rank;

    if (me % 4 == 1)
        while (n_running[me] > 0)
            MPI_Iprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    else if (me % 4 == 2)
        while (n_running[me] > 0)
            AMPI_Yield();
    else if (me % 4 == 3)
        for (int i = 0; i < 20; i++)
            MPI_Sendrecv(&i, 1, MPI_INT, me, 9, &flag, 1, MPI_INT, me, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void body(struct ampi_rank *self)
{
    struct caller callers[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    int me = self->world_rank;

    ult_leave(&self->ult); /* it is the program's code */
    ampi_gate_set_level(self, MPI_THREAD_MULTIPLE);
    for (int i = 0; i < n_threads; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[me][i]);
    n_running[me] = n_threads;
    for (int i = 0; i < n_threads; i++) {
        callers[i] = (struct caller){self, i, (uint64_t)i * 77 + 5};
        ULT_CHECK(pthread_create(&threads[i], NULL, run_thread, &callers[i]) == 0);
    }
    pass_time(self);
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL); /* blocks the OS thread: the PE continues without it */
    for (int i = 0; i < n_threads; i++)
        MPI_Comm_free(&comms[me][i]);
    MPI_Barrier(MPI_COMM_WORLD);
    ult_enter(&self->ult);
}

static struct ampi_rank *rank_of_thread(const void *caller)
{
    (void)caller;
    return rank_of_this;
}

static bool has_threads(const struct ampi_rank *rank)
{
    (void)rank;
    return true;
}

static bool may_keep(const struct ult *u)
{
    (void)u;
    return true;
}

static bool has_others(void)
{
    for (int i = 0; i < n_ranks; i++)
        if (n_running[i] > 0)
            return true;
    return false;
}

static void run(int ranks, int pes, int threads)
{
    n_ranks = ranks;
    n_pes = pes;
    n_threads = threads;
    ampi_upper.rank_of_thread = rank_of_thread;
    ampi_upper.has_threads = has_threads;
    mpi_job_hooks.may_keep_thread = may_keep;
    mpi_job_hooks.has_other_threads = has_others;
    mpi_job_start(n_ranks, n_pes, body);
}

START_TEST(threads_of_ranks_on_one_pe)
{
    run(3, 1, 2);
}
END_TEST

START_TEST(threads_of_ranks_on_two_pes)
{
    run(4, 2, 3);
}
END_TEST

START_TEST(threads_of_one_rank)
{
    run(1, 1, 4);
}
END_TEST

START_TEST(as_long_as_wanted)
{
    const char *wanted = getenv("MPI_THREADS_TEST");
    int ranks = 2, pes = 2, threads = 2;

    if (wanted)
        ck_assert_int_eq(sscanf(wanted, "%d %d %d %d", &ranks, &pes, &threads, &seconds), 4);
    ck_assert_int_le(ranks, RANKS_MAX);
    ck_assert_int_le(threads, THREADS_MAX);
    run(ranks, pes, threads);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mpi_threads");
    TCase *tcase = tcase_create("threads");

    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, threads_of_one_rank);
    tcase_add_test(tcase, threads_of_ranks_on_one_pe);
    tcase_add_test(tcase, threads_of_ranks_on_two_pes);
    tcase_add_test(tcase, as_long_as_wanted);
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
