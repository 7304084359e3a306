/* SPDX-License-Identifier: BSD-3-Clause
 *
 * collectives: the time of blocking collectives on MPI_COMM_WORLD, by operation and size. Two methods: "loop"
 * (default) runs the operations back to back and divides the last rank's time by their number; the root
 * advances by one rank per operation, so that a root cannot run ahead of the others for long. "each" times
 * every operation separately, with an untimed barrier after it, and reports the mean over the ranks: the OSU
 * benchmarks' method, for comparisons with their figures; the root is rank 0. The barrier is timed back to
 * back in both. BYTES is the contribution of one rank: the whole vector for bcast, reduce, allreduce; the
 * data for each other rank for alltoall, scatter; the data of each rank for gather, allgather.
 *
 * usage: collectives [-o op,op,...] [-s bytes,bytes,...] [-k loop|each] [-t seconds_per_point] [-B gpus]
 * prints: coll.OP.RANKS.BYTES value us (and .p5, .p95; barrier has 0 bytes; n/a: needs too much memory)
 */
#include "bench_buffer.h"

#define RANK_BYTES_MAX ((size_t)256 << 20) /* no larger buffer per rank */
#define TOTAL_BYTES_MAX ((size_t)3 << 30)  /* nor of all ranks together, in the memory of the host */

struct work;
typedef void (*operation_fn)(struct work *w, int root);

/* How large the buffers of an operation are: in units of the contribution. */
enum extent { NOTHING, ONE, PER_RANK };

struct operation {
    const char *name;    /* on the command line and in the key */
    operation_fn run;    /* does it once */
    enum extent send;    /* size of the send buffer */
    enum extent receive; /* size of the receive buffer */
    int is_everywhere;   /* the result is at every rank, not only at the root */
    int is_sum;          /* the result is the sum of the contributions */
};

struct work {
    const struct operation *op;
    int rank, size;  /* mine, and of MPI_COMM_WORLD */
    int is_each;     /* the method */
    int count;       /* doubles that one rank contributes */
    double *sendbuf; /* every element is the rank's number + 1 */
    double *recvbuf;
    struct bench_buffers buffers; /* the memory of sendbuf and recvbuf */
};

static void run_barrier(struct work *w, int root)
{
    (void)w;
    (void)root;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void run_bcast(struct work *w, int root)
{
    MPI_Bcast(w->rank == root ? w->sendbuf : w->recvbuf, w->count, MPI_DOUBLE, root, MPI_COMM_WORLD);
}

static void run_reduce(struct work *w, int root)
{
    MPI_Reduce(w->sendbuf, w->recvbuf, w->count, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
}

static void run_allreduce(struct work *w, int root)
{
    (void)root;
    MPI_Allreduce(w->sendbuf, w->recvbuf, w->count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void run_gather(struct work *w, int root)
{
    MPI_Gather(w->sendbuf, w->count, MPI_DOUBLE, w->recvbuf, w->count, MPI_DOUBLE, root, MPI_COMM_WORLD);
}

static void run_scatter(struct work *w, int root)
{
    MPI_Scatter(w->sendbuf, w->count, MPI_DOUBLE, w->recvbuf, w->count, MPI_DOUBLE, root, MPI_COMM_WORLD);
}

static void run_allgather(struct work *w, int root)
{
    (void)root;
    MPI_Allgather(w->sendbuf, w->count, MPI_DOUBLE, w->recvbuf, w->count, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void run_alltoall(struct work *w, int root)
{
    (void)root;
    MPI_Alltoall(w->sendbuf, w->count, MPI_DOUBLE, w->recvbuf, w->count, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void run_scan(struct work *w, int root)
{
    (void)root;
    MPI_Scan(w->sendbuf, w->recvbuf, w->count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void run_reduce_scatter(struct work *w, int root)
{
    (void)root;
    MPI_Reduce_scatter_block(w->sendbuf, w->recvbuf, w->count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static const struct operation operations[] = {
    {"barrier", run_barrier, NOTHING, NOTHING, 1, 0},
    {"bcast", run_bcast, ONE, ONE, 1, 0},
    {"reduce", run_reduce, ONE, ONE, 0, 1},
    {"allreduce", run_allreduce, ONE, ONE, 1, 1},
    {"gather", run_gather, ONE, PER_RANK, 0, 0},
    {"scatter", run_scatter, PER_RANK, ONE, 1, 0},
    {"allgather", run_allgather, ONE, PER_RANK, 1, 0},
    {"alltoall", run_alltoall, PER_RANK, PER_RANK, 1, 0},
    {"scan", run_scan, ONE, ONE, 1, 1},
    {"reduce_scatter_block", run_reduce_scatter, PER_RANK, ONE, 1, 1},
};

static double back_to_back(void *ctx, long iterations)
{
    struct work *w = ctx;
    int root = 0;
    double start = bench_now();
    for (long i = 0; i < iterations; i++) {
        w->op->run(w, root);
        root = root + 1 < w->size ? root + 1 : 0;
    }
    return bench_now() - start;
}

static double one_by_one(void *ctx, long iterations)
{
    struct work *w = ctx;
    double seconds = 0;
    for (long i = 0; i < iterations; i++) {
        double start = bench_now();
        w->op->run(w, 0);
        seconds += bench_now() - start;
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return seconds;
}

static size_t extent_bytes(const struct work *w, enum extent extent)
{
    size_t one = (size_t)w->count * sizeof(double);
    return extent == NOTHING ? 0 : extent == ONE ? one : one * (size_t)w->size;
}

/* Gives all elements of a buffer one value. */
static void fill(struct work *w, double *buf, size_t n, double value)
{
    double *values = (double *)bench_alloc(n * sizeof(double), 0);
    for (size_t i = 0; i < n; i++) {
        values[i] = value;
    }
    bench_buffer_write(&w->buffers, buf, values, n * sizeof(double));
    free(values);
}

/* One more operation with root 0, whose result is compared at the first and at the last element. */
static void check_result(struct work *w)
{
    size_t n = extent_bytes(w, w->op->receive) / sizeof(double);
    double all = 0.5 * w->size * (w->size + 1), first = 1, last = w->op->receive == PER_RANK ? w->size : 1;

    fill(w, w->recvbuf, n, -1);
    w->op->run(w, 0);
    if (n == 0 || (w->rank != 0 && !w->op->is_everywhere) || (w->rank == 0 && w->op->run == run_bcast)) {
        return;
    }
    if (w->op->is_sum) {
        first = last = w->op->run == run_scan ? 0.5 * (w->rank + 1) * (w->rank + 2) : all;
    }
    double got_first, got_last;
    bench_buffer_read(&w->buffers, &got_first, w->recvbuf, sizeof got_first);
    bench_buffer_read(&w->buffers, &got_last, w->recvbuf + n - 1, sizeof got_last);
    if (got_first != first || got_last != last) {
        bench_fail("collectives: the result is wrong");
    }
}

static void measure(struct work *w, size_t len_bytes, double seconds)
{
    char key[96];
    w->count = (int)(len_bytes / sizeof(double));
    snprintf(key, sizeof key, "coll.%s.%d.%zu", w->op->name, w->size, len_bytes);

    size_t send_bytes = extent_bytes(w, w->op->send), recv_bytes = extent_bytes(w, w->op->receive);
    if (send_bytes > RANK_BYTES_MAX || recv_bytes > RANK_BYTES_MAX ||
        (w->buffers.device < 0 && (send_bytes + recv_bytes) * (size_t)w->size > TOTAL_BYTES_MAX)) {
        if (w->rank == 0) {
            printf("%s n/a us\n", key);
        }
        return;
    }
    w->sendbuf = (double *)bench_buffer_alloc(&w->buffers, send_bytes, 0);
    w->recvbuf = (double *)bench_buffer_alloc(&w->buffers, recv_bytes, 0);
    fill(w, w->sendbuf, send_bytes / sizeof(double), w->rank + 1);
    int is_each = w->is_each && w->op->run != run_barrier;
    struct bench_stats stats =
        bench_sample(is_each ? one_by_one : back_to_back, w, seconds, is_each ? BENCH_MEAN : BENCH_MAX);
    check_result(w);
    if (w->rank == 0) {
        bench_print_time(key, stats, 1e6, "us");
    }
    bench_buffer_free(&w->buffers, w->sendbuf);
    bench_buffer_free(&w->buffers, w->recvbuf);
}

/* Is `name` one of the comma-separated words of the list? */
static int is_listed(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *word = list; word; word = strchr(word, ',')) {
        word += *word == ',';
        if (strncmp(word, name, len) == 0 && (word[len] == ',' || word[len] == '\0')) {
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct work w;
    MPI_Init(&argc, &argv);

    const char *ops =
        bench_option(argc, argv, "-o", "barrier,bcast,reduce,allreduce,gather,allgather,alltoall");
    const char *sizes = bench_option(argc, argv, "-s", "8,1024,65536");
    double seconds = bench_option_double(argc, argv, "-t", 0.1);
    w.is_each = strcmp(bench_option(argc, argv, "-k", "loop"), "each") == 0;
    w.rank = bench_comm_rank();
    w.size = bench_comm_size();
    w.buffers = bench_buffers_init(argc, argv);

    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        w.op = &operations[i];
        if (!is_listed(ops, w.op->name)) {
            continue;
        }
        if (w.op->send == NOTHING) {
            measure(&w, 0, seconds);
            continue;
        }
        for (const char *size = sizes; size; size = strchr(size, ',')) {
            size += *size == ',';
            long len = atol(size);
            if (len < 8 || len % 8 != 0) {
                bench_fail("collectives: sizes (-s) are multiples of 8");
            }
            measure(&w, (size_t)len, seconds);
        }
    }
    MPI_Finalize();
    return 0;
}
