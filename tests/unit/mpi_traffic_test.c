/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows that messages and collectives between ranks of several PEs, many at once, arrive whole: for the
 * sanitizers, which cannot run the conformance programs with several ranks (docs/testing.md).
 */
#include <string.h>

#include "mpi_job.h"

#define N_ROUNDS 60

static const int sizes[] = {0, 1, 8, 24, 48, 64, 200, 1024, 5000, 16384, 16385, 70000};

static unsigned char byte_of(int source, int round, int i)
{
    return (unsigned char)(source * 31 + round * 7 + i);
}

static void check_bytes(const unsigned char *data, int source, int round, int size)
{
    for (int i = 0; i < size; i++)
        if (data[i] != byte_of(source, round, i)) {
            ULT_CHECK(!"data arrived whole");
            return;
        }
}

/* Everybody sends to everybody, of all sizes, from before and after the receive is posted; wildcards in every
 * third round. */
static void exchange(struct ampi_rank *self)
{
    int n, me = self->world_rank;
    unsigned char *out, *in;
    MPI_Request requests[2 * 16];
    MPI_Status statuses[2 * 16];

    MPI_Comm_size(MPI_COMM_WORLD, &n);
    out = malloc(70000);
    in = malloc((size_t)n * 70000);
    for (int round = 0; round < N_ROUNDS; round++) {
        int size = sizes[round % (int)BASE_COUNT(sizes)];
        bool is_wild = round % 3 == 2, receives_late = (round + me) % 2;
        for (int i = 0; i < size; i++)
            out[i] = byte_of(me, round, i);
        for (int step = 0; step < 2; step++)
            for (int peer = 0; peer < n; peer++) {
                if ((step == 0) == receives_late)
                    ULT_CHECK(MPI_Isend(out, size, MPI_BYTE, peer, round, MPI_COMM_WORLD,
                                        &requests[n + peer]) == MPI_SUCCESS);
                else
                    ULT_CHECK(MPI_Irecv(in + (size_t)peer * 70000, 70000, MPI_BYTE,
                                        is_wild ? MPI_ANY_SOURCE : peer,
                                        is_wild && round % 2 ? MPI_ANY_TAG : round, MPI_COMM_WORLD,
                                        &requests[peer]) == MPI_SUCCESS);
            }
        ULT_CHECK(MPI_Waitall(2 * n, requests, statuses) == MPI_SUCCESS);
        for (int i = 0; i < n; i++) {
            int count = -1;
            MPI_Get_count(&statuses[i], MPI_BYTE, &count);
            ULT_CHECK(count == size && statuses[i].MPI_TAG == round);
            ULT_CHECK(is_wild || statuses[i].MPI_SOURCE == i);
            check_bytes(in + (size_t)i * 70000, statuses[i].MPI_SOURCE, round, size);
        }
        if (is_wild)
            MPI_Barrier(MPI_COMM_WORLD); /* a message of the next round must not match */
    }
    free(out);
    free(in);
}

/* Blocking calls of every mode between neighbours, with probes and polling. */
static void ring(struct ampi_rank *self)
{
    int n, me = self->world_rank, value, flag;
    MPI_Status status;
    MPI_Request request;

    MPI_Comm_size(MPI_COMM_WORLD, &n);
    for (int round = 0; round < 200; round++) {
        int next = (me + 1) % n, before = (me + n - 1) % n;
        value = me * 1000 + round;
        if (round % 4 == 0) {
            MPI_Sendrecv_replace(&value, 1, MPI_INT, next, 1, before, 1, MPI_COMM_WORLD, &status);
        } else {
            int sent = value;
            if (round % 4 == 1)
                MPI_Issend(&sent, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &request);
            else
                MPI_Isend(&sent, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &request);
            if (round % 4 == 2)
                MPI_Probe(before, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            if (round % 4 == 3)
                do
                    MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, &status);
                while (!flag);
            MPI_Recv(&value, 1, MPI_INT, before, 1, MPI_COMM_WORLD, &status);
            do
                MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            while (!flag);
        }
        ULT_CHECK(value == before * 1000 + round);
    }
}

static void collectives(struct ampi_rank *self)
{
    int n, me = self->world_rank;
    enum { LARGE = 20000 };
    int *a = malloc(LARGE * sizeof *a), *b = malloc(LARGE * sizeof *b);
    int *all = malloc(64 * 16 * sizeof *all), *all2 = malloc(64 * 16 * sizeof *all2);

    MPI_Comm_size(MPI_COMM_WORLD, &n);
    for (int round = 0; round < N_ROUNDS; round++) {
        int root = round % n, length = round % 4 == 3 ? LARGE : 1 + round, sum = n * (n - 1) / 2;
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < length; i++)
            a[i] = me + i + round;
        MPI_Allreduce(a, b, length, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        ULT_CHECK(b[0] == sum + n * round && b[length - 1] == sum + n * (length - 1 + round));
        MPI_Reduce(a, b, length, MPI_INT, MPI_MAX, root, MPI_COMM_WORLD);
        ULT_CHECK(me != root || b[length - 1] == n - 1 + length - 1 + round);
        MPI_Bcast(a, length, MPI_INT, root, MPI_COMM_WORLD);
        ULT_CHECK(a[0] == root + round && a[length - 1] == root + length - 1 + round);
        MPI_Scan(&me, b, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        ULT_CHECK(b[0] == me * (me + 1) / 2);
        for (int i = 0; i < n; i++)
            all[i] = me * 100 + i;
        MPI_Alltoall(all, 1, MPI_INT, all2, 1, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            ULT_CHECK(all2[i] == i * 100 + me);
        MPI_Allgather(&me, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++)
            ULT_CHECK(all[i] == i);
        MPI_Gather(&me, 1, MPI_INT, all2, 1, MPI_INT, root, MPI_COMM_WORLD);
        MPI_Scatter(all, 1, MPI_INT, b, 1, MPI_INT, root, MPI_COMM_WORLD);
        ULT_CHECK(b[0] == me);
    }
    free(a);
    free(b);
    free(all);
    free(all2);
}

/* Pairs: nothing behind the last one is read or written. */
static void pairs(struct ampi_rank *self)
{
    int n, me = self->world_rank;

    MPI_Comm_size(MPI_COMM_WORLD, &n);
    for (int count = 1; count <= 4; count++) {
        struct {
            double value;
            int index;
        } in[8], out[8];
        for (int i = 0; i < 8; i++) {
            in[i].value = i < count ? (me + i) % n : -1;
            in[i].index = me;
            out[i].value = out[i].index = 77;
        }
        MPI_Allreduce(in, out, count, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
        for (int i = 0; i < 8; i++) {
            ULT_CHECK(out[i].value == (i < count ? 0 : 77));
            ULT_CHECK(out[i].index == (i < count ? (n - i % n) % n : 77));
        }
    }
}

/* Communicators come and go while messages and collectives of others are under way. */
static void communicators(struct ampi_rank *self)
{
    int me = self->world_rank, n;

    MPI_Comm_size(MPI_COMM_WORLD, &n);
    for (int round = 0; round < 30; round++) {
        MPI_Comm made, half;
        MPI_Request request;
        int sum = -1, size, other = me, got = -1;
        MPI_Comm_dup(MPI_COMM_WORLD, &made);
        MPI_Comm_split(made, (me + round) % 2, -me, &half);
        MPI_Comm_size(half, &size);
        MPI_Iallreduce(&other, &sum, 1, MPI_INT, MPI_SUM, made, &request);
        MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % n, 0, &got, 1, MPI_INT, (me + n - 1) % n, 0, made,
                     MPI_STATUS_IGNORE);
        MPI_Comm_free(&made);
        MPI_Barrier(half);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        ULT_CHECK(sum == n * (n - 1) / 2 && got == (me + n - 1) % n);
        MPI_Comm_free(&half);
    }
}

static void (*const bodies[])(struct ampi_rank *) = {exchange, ring, collectives, communicators, pairs};
static const int shapes[][2] = {{2, 1}, {2, 2}, {5, 2}, {8, 3}, {12, 4}};

START_TEST(traffic)
{
    mpi_job_start(shapes[_i % 5][0], shapes[_i % 5][1], bodies[_i / 5]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mpi_traffic");
    TCase *tcase = tcase_create("traffic");

    tcase_set_timeout(tcase, 200);
    tcase_add_loop_test(tcase, traffic, 0, (int)(BASE_COUNT(bodies) * BASE_COUNT(shapes)));
    suite_add_tcase(suite, tcase);
    return ult_run_suite(suite);
}
