/* SPDX-License-Identifier: BSD-3-Clause
 *
 * matching: the cost of a message while many receives or many unexpected messages are pending. Rank 1 posts N
 * receives with distinct tags and tells rank 0 to begin; rank 0 sends N messages of 8 bytes; rank 1 waits for
 * all. The time from "begin" to the end of the wait, at rank 1, is divided by N. Posting is timed separately.
 * The messages arrive in the order of the receives, in the reverse order (the worst case for a list that is
 * searched from its head) and shuffled. "unexpected": N messages have arrived at the receiver, which then
 * receives them in the reverse order with blocking receives; only the receives are timed.
 *
 * usage: matching [-m min] [-M max] [-t seconds_per_point] (N = 10, 100, 1000, 10000)
 * prints: matching.ORDER.N value ns per message; ORDER: inorder, reverse, shuffled, unexpected; and
 *         matching.post.N: posting one receive
 */
#include "bench.h"

#define TAG_GO 1
#define TAG_FIRST 10

enum order { IN_ORDER, REVERSE, SHUFFLED, UNEXPECTED, POST, ORDERS };

static const char *const order_names[ORDERS] = {"inorder", "reverse", "shuffled", "unexpected", "post"};

struct work {
    enum order order;      /* of the messages, or of the timed operations */
    int rank;              /* mine: 0 sends, 1 receives */
    int n;                 /* receives that wait */
    int *tags;             /* the order of sending: n tags */
    double *values;        /* one per message */
    MPI_Request *requests; /* one per message */
};

static void order_tags(struct work *w)
{
    unsigned long state = 12345;
    for (int i = 0; i < w->n; i++) {
        w->tags[i] = TAG_FIRST + (w->order == REVERSE || w->order == UNEXPECTED ? w->n - 1 - i : i);
    }
    for (int i = w->n - 1; w->order == SHUFFLED && i > 0; i--) {
        state = state * 6364136223846793005UL + 1442695040888963407UL;
        int other = (int)((state >> 33) % (unsigned long)(i + 1));
        int tag = w->tags[i];
        w->tags[i] = w->tags[other];
        w->tags[other] = tag;
    }
}

static void send_all(struct work *w)
{
    for (int i = 0; i < w->n; i++) {
        double value = w->tags[i];
        MPI_Send(&value, 1, MPI_DOUBLE, 1, w->tags[i], MPI_COMM_WORLD);
    }
}

/* The receives are there first. Returns the seconds that this rank's timed part took. */
static double expected_round(struct work *w)
{
    if (w->rank == 0) {
        MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG_GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        send_all(w);
        return 0;
    }
    double start = bench_now();
    for (int i = 0; i < w->n; i++) {
        MPI_Irecv(&w->values[i], 1, MPI_DOUBLE, 0, TAG_FIRST + i, MPI_COMM_WORLD, &w->requests[i]);
    }
    double posted = bench_now();
    MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_GO, MPI_COMM_WORLD);
    MPI_Waitall(w->n, w->requests, MPI_STATUSES_IGNORE);
    return w->order == POST ? posted - start : bench_now() - posted;
}

/* The messages are there first: the last one received before the clock starts was sent after them. */
static double unexpected_round(struct work *w)
{
    if (w->rank == 0) {
        send_all(w);
        MPI_Send(NULL, 0, MPI_BYTE, 1, TAG_GO, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG_GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return 0;
    }
    MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG_GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double start = bench_now();
    for (int i = 0; i < w->n; i++) {
        MPI_Recv(&w->values[i], 1, MPI_DOUBLE, 0, TAG_FIRST + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    double seconds = bench_now() - start;
    MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_GO, MPI_COMM_WORLD);
    return seconds;
}

static double rounds(void *ctx, long iterations)
{
    struct work *w = ctx;
    double seconds = 0;
    for (long i = 0; w->rank < 2 && i < iterations; i++) {
        seconds += w->order == UNEXPECTED ? unexpected_round(w) : expected_round(w);
    }
    return seconds;
}

int main(int argc, char **argv)
{
    struct work w;
    MPI_Init(&argc, &argv);

    long min = bench_option_long(argc, argv, "-m", 10);
    long max = bench_option_long(argc, argv, "-M", 10000);
    double seconds = bench_option_double(argc, argv, "-t", 0.2);
    w.rank = bench_comm_rank();
    if (bench_comm_size() < 2 || min < 1 || max < min || max > 30000) {
        bench_fail("matching needs two ranks (start it with -n 2) and 1 to 30000 receives (-m, -M)");
    }
    w.tags = malloc((size_t)max * sizeof *w.tags);
    w.values = malloc((size_t)max * sizeof *w.values);
    w.requests = malloc((size_t)max * sizeof *w.requests);
    if (!w.tags || !w.values || !w.requests) {
        bench_fail("matching: no memory");
    }
    for (long n = min; n <= max; n *= 10) {
        for (int order = 0; order < ORDERS; order++) {
            w.n = (int)n;
            w.order = (enum order)order;
            order_tags(&w);
            memset(w.values, 0, (size_t)n * sizeof *w.values);
            struct bench_stats stats = bench_sample(rounds, &w, seconds, BENCH_MAX);
            for (int i = 0; w.rank == 1 && i < w.n; i++) {
                if (w.values[i] != TAG_FIRST + i) {
                    bench_fail("matching: a message came to the wrong receive");
                }
            }
            if (w.rank == 0) {
                char key[64];
                snprintf(key, sizeof key, "matching.%s.%ld", order_names[order], n);
                bench_print_time(key, stats, 1e9 / (double)n, "ns");
            }
        }
    }
    free(w.tags);
    free(w.values);
    free(w.requests);
    MPI_Finalize();
    return 0;
}
