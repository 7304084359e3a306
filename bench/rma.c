/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rma: one-sided operations of rank 0 on the last rank, which meanwhile waits in a barrier: put and get of 8
 * bytes with a flush, fetch and add, compare and swap, an exclusive lock and unlock without contention; then
 * fences of all ranks, and large puts and accumulates. With all ranks on one PE (+p 1) or rank 0 and the last
 * one on two (+p 2), or in two processes (--procs 2).
 *
 * usage: rma [-t seconds_per_point] [-M max_bytes] [-c 1] [-B gpus]
 * -c 1: on memory of the program's own (MPI_Win_create) instead of the library's (MPI_Win_allocate)
 * -B: that memory and the origin's data are on GPUs (bench_buffer.h)
 * prints: rma.put.8, rma.get.8, rma.fetch_and_op, rma.compare_and_swap, rma.lock, rma.fence value ns;
 *         rma.put.BYTES and rma.accumulate.BYTES value us (and .p5, .p95)
 */
#include "bench_buffer.h"

struct rma {
    MPI_Win win;
    int target;
    int is_origin;
    int count; /* of doubles, in the large operations */
    double *data;
    long *value, *result, *compare; /* of the small operations */
};

/* Defines NAME, which does OPERATION at the origin and says how long that took. */
#define BODY(NAME, OPERATION)                      \
    static double NAME(void *ctx, long iterations) \
    {                                              \
        const struct rma *rma = ctx;               \
        double start;                              \
                                                   \
        if (!rma->is_origin)                       \
            return 0;                              \
        start = bench_now();                       \
        for (long i = 0; i < iterations; i++) {    \
            OPERATION;                             \
        }                                          \
        return bench_now() - start;                \
    }

BODY(put, MPI_Put(rma->value, 1, MPI_LONG, rma->target, 0, 1, MPI_LONG, rma->win);
     MPI_Win_flush(rma->target, rma->win))
BODY(get, MPI_Get(rma->result, 1, MPI_LONG, rma->target, 0, 1, MPI_LONG, rma->win);
     MPI_Win_flush(rma->target, rma->win))
BODY(fetch_and_op, MPI_Fetch_and_op(rma->value, rma->result, MPI_LONG, rma->target, 0, MPI_SUM, rma->win);
     MPI_Win_flush(rma->target, rma->win))
BODY(compare_and_swap,
     MPI_Compare_and_swap(rma->value, rma->compare, rma->result, MPI_LONG, rma->target, 0, rma->win);
     MPI_Win_flush(rma->target, rma->win))
BODY(lock, MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rma->target, 0, rma->win); MPI_Win_unlock(rma->target, rma->win))
BODY(put_large, MPI_Put(rma->data, rma->count, MPI_DOUBLE, rma->target, 0, rma->count, MPI_DOUBLE, rma->win);
     MPI_Win_flush(rma->target, rma->win))
BODY(accumulate_large, MPI_Accumulate(rma->data, rma->count, MPI_DOUBLE, rma->target, 0, rma->count,
                                      MPI_DOUBLE, MPI_SUM, rma->win);
     MPI_Win_flush(rma->target, rma->win))

static double fence(void *ctx, long iterations)
{
    const struct rma *rma = ctx;
    double start = bench_now();

    for (long i = 0; i < iterations; i++)
        MPI_Win_fence(0, rma->win);
    return bench_now() - start;
}

static void measure(const char *key, bench_body_fn body, struct rma *rma, double seconds)
{
    struct bench_stats stats = bench_sample(body, rma, seconds, BENCH_MAX);

    if (bench_comm_rank() == 0)
        bench_print_time(key, stats, 1e9, "ns");
}

static void measure_bytes(const char *name, bench_body_fn body, struct rma *rma, long len, double seconds)
{
    char key[64];
    struct bench_stats stats;

    rma->count = (int)(len / (long)sizeof(double));
    stats = bench_sample(body, rma, seconds, BENCH_MAX);
    snprintf(key, sizeof key, "rma.%s.%ld", name, len);
    if (bench_comm_rank() == 0)
        bench_print_time(key, stats, 1e6, "us");
}

static void *make_window(const struct bench_buffers *buffers, MPI_Win *win, long n_bytes, int is_created)
{
    void *memory;

    if (!is_created) {
        MPI_Win_allocate(n_bytes, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, win);
        memset(memory, 0, (size_t)n_bytes);
        return memory;
    }
    memory = bench_buffer_alloc(buffers, (size_t)n_bytes, 0);
    MPI_Win_create(memory, n_bytes, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, win);
    return memory;
}

static void measure_large(struct rma *rma, long len, double seconds)
{
    measure_bytes("put", put_large, rma, len, seconds);
    measure_bytes("accumulate", accumulate_large, rma, len, seconds);
}

int main(int argc, char **argv)
{
    struct bench_buffers buffers;
    struct rma rma;
    double seconds;
    void *memory;
    long max_bytes;
    int is_created;

    MPI_Init(&argc, &argv);
    seconds = bench_option_double(argc, argv, "-t", 0.2);
    max_bytes = bench_option_long(argc, argv, "-M", 4 << 20);
    rma.target = bench_comm_size() - 1;
    rma.is_origin = bench_comm_rank() == 0;
    buffers = bench_buffers_init(argc, argv);
    is_created = buffers.device >= 0 || bench_option_long(argc, argv, "-c", 0) != 0;
    memory = make_window(&buffers, &rma.win, max_bytes, is_created);
    rma.data = (double *)bench_buffer_alloc(&buffers, (size_t)max_bytes, 0);
    rma.value = (long *)bench_buffer_alloc(&buffers, sizeof(long), 1);
    rma.result = (long *)bench_buffer_alloc(&buffers, sizeof(long), 0);
    rma.compare = (long *)bench_buffer_alloc(&buffers, sizeof(long), 0);
    MPI_Barrier(MPI_COMM_WORLD);
    measure("rma.lock", lock, &rma, seconds);
    MPI_Win_lock_all(0, rma.win);
    measure("rma.put.8", put, &rma, seconds);
    measure("rma.get.8", get, &rma, seconds);
    measure("rma.fetch_and_op", fetch_and_op, &rma, seconds);
    measure("rma.compare_and_swap", compare_and_swap, &rma, seconds);
    for (long len = 4096; len < max_bytes; len *= 16)
        measure_large(&rma, len, seconds);
    measure_large(&rma, max_bytes, seconds);
    MPI_Win_unlock_all(rma.win);
    measure("rma.fence", fence, &rma, seconds);
    MPI_Win_free(&rma.win);
    if (is_created)
        bench_buffer_free(&buffers, memory);
    bench_buffer_free(&buffers, rma.data);
    bench_buffer_free(&buffers, rma.value);
    bench_buffer_free(&buffers, rma.result);
    bench_buffer_free(&buffers, rma.compare);
    MPI_Finalize();
    return 0;
}
