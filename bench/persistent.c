/* SPDX-License-Identifier: BSD-3-Clause
 *
 * persistent: half the round trip of persistent and of partitioned requests between ranks 0 and 1, beside the
 * same with blocking calls. Rank 0 starts its send and waits for it, then its receive; rank 1 the other way
 * round, as osu_latency_persistent does. "early": the receive is started before the send, as in a halo exchange.
 * The time of many round trips is divided by twice their number. With partitions, all of a message are
 * marked ready one by one, first to last.
 *
 * usage: persistent [-m min_bytes] [-M max_bytes] [-p partitions] [-b partition_bytes] [-t seconds_per_point] [-B gpus] [-D 1]
 *        -D 1: CUDA is in use, though the buffers are in host memory
 * prints: persistent.BYTES, persistent_early.BYTES, blocking.BYTES, partitioned.PARTITIONS.BYTES, ready value us
 *         (and .p5, .p95)
 */
#include <stdbool.h>

#include "bench_buffer.h"

#define TAG 1

struct pair {
    int rank;
    int len_bytes; /* of a message */
    int n_parts;   /* of a partitioned one */
    struct bench_buffers buffers;
    unsigned char *sendbuf;
    unsigned char *recvbuf;
    unsigned char *zeros;    /* as many */
    MPI_Request requests[2]; /* send, receive */
};

static void start_and_wait(MPI_Request *request)
{
    MPI_Start(request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

static double persistent(void *ctx, long iterations)
{
    struct pair *p = ctx;
    double start = bench_now();

    for (long i = 0; p->rank < 2 && i < iterations; i++) {
        start_and_wait(&p->requests[p->rank]);
        start_and_wait(&p->requests[1 - p->rank]);
    }
    return (bench_now() - start) / 2;
}

/* Rank 1's next receive is started before it sends, so no message comes before its receive. */
static double persistent_early(void *ctx, long iterations)
{
    struct pair *p = ctx;
    double start = bench_now();

    if (p->rank == 0) {
        for (long i = 0; i < iterations; i++) {
            MPI_Startall(2, (MPI_Request[]){p->requests[1], p->requests[0]});
            MPI_Waitall(2, p->requests, MPI_STATUSES_IGNORE);
        }
    } else if (p->rank == 1) {
        MPI_Start(&p->requests[1]);
        for (long i = 0; i < iterations; i++) {
            MPI_Wait(&p->requests[1], MPI_STATUS_IGNORE);
            if (i + 1 < iterations)
                MPI_Start(&p->requests[1]);
            start_and_wait(&p->requests[0]);
        }
    }
    return (bench_now() - start) / 2;
}

static double blocking(void *ctx, long iterations)
{
    struct pair *p = ctx;
    double start = bench_now();

    if (p->rank == 0) {
        for (long i = 0; i < iterations; i++) {
            MPI_Send(p->sendbuf, p->len_bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
            MPI_Recv(p->recvbuf, p->len_bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    } else if (p->rank == 1) {
        for (long i = 0; i < iterations; i++) {
            MPI_Recv(p->recvbuf, p->len_bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(p->sendbuf, p->len_bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        }
    }
    return (bench_now() - start) / 2;
}

static void send_partitions(struct pair *p)
{
    MPI_Start(&p->requests[0]);
    for (int i = 0; i < p->n_parts; i++)
        MPI_Pready(i, p->requests[0]);
    MPI_Wait(&p->requests[0], MPI_STATUS_IGNORE);
}

static double partitioned(void *ctx, long iterations)
{
    struct pair *p = ctx;
    double start = bench_now();

    for (long i = 0; p->rank < 2 && i < iterations; i++) {
        if (p->rank == 0)
            send_partitions(p);
        start_and_wait(&p->requests[1]);
        if (p->rank == 1)
            send_partitions(p);
    }
    return (bench_now() - start) / 2;
}

/* The cost of marking partitions ready without a transfer. */
static double ready(void *ctx, long iterations)
{
    struct pair *p = ctx;
    double start = bench_now();

    for (long i = 0; p->rank < 2 && i < iterations; i++)
        send_partitions(p);
    return bench_now() - start;
}

static void check(struct pair *p, int len)
{
    int expected = 2 - p->rank;

    if (p->rank < 2 && (bench_buffer_byte(&p->buffers, p->recvbuf, 0) != expected ||
                        bench_buffer_byte(&p->buffers, p->recvbuf, (size_t)len - 1) != expected))
        bench_fail("persistent: the received data are wrong");
    bench_buffer_write(&p->buffers, p->recvbuf, p->zeros, (size_t)len);
}

static void point(struct pair *p, bench_body_fn body, double seconds, const char *name)
{
    struct bench_stats stats = bench_sample(body, p, seconds, BENCH_MAX);

    if (p->rank == 0)
        bench_print_time(name, stats, 1e6, "us");
}

/* Both requests of a message of this size, or of this number of partitions. */
static void init(struct pair *p, int peer, bool is_partitioned)
{
    int each = is_partitioned ? p->len_bytes / p->n_parts : 0;

    if (p->rank >= 2)
        return;
    if (is_partitioned) {
        MPI_Psend_init(p->sendbuf, p->n_parts, each, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &p->requests[0]);
        MPI_Precv_init(p->recvbuf, p->n_parts, each, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_INFO_NULL,
                       &p->requests[1]);
    } else {
        MPI_Send_init(p->sendbuf, p->len_bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &p->requests[0]);
        MPI_Recv_init(p->recvbuf, p->len_bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &p->requests[1]);
    }
}

static void fini(struct pair *p)
{
    for (int i = 0; p->rank < 2 && i < 2; i++)
        MPI_Request_free(&p->requests[i]);
}

static void measure_partitioned(struct pair *p, int part_bytes, double seconds)
{
    char key[64];
    int peer = 1 - p->rank;

    p->len_bytes = part_bytes * p->n_parts;
    init(p, peer, true);
    snprintf(key, sizeof key, "partitioned.%d.%d", p->n_parts, part_bytes);
    point(p, partitioned, seconds, key);
    check(p, p->len_bytes);
    fini(p);
    init(p, MPI_PROC_NULL, true);
    point(p, ready, seconds, "ready");
    fini(p);
    snprintf(key, sizeof key, "blocking.%d", p->len_bytes);
    point(p, blocking, seconds, key);
    check(p, p->len_bytes);
}

int main(int argc, char **argv)
{
    struct pair p;
    MPI_Init(&argc, &argv);

    int min_bytes = (int)bench_option_long(argc, argv, "-m", 8);
    int max_bytes = (int)bench_option_long(argc, argv, "-M", 8);
    int part_bytes = (int)bench_option_long(argc, argv, "-b", 1024);
    double seconds = bench_option_double(argc, argv, "-t", 0.5);
    p.n_parts = (int)bench_option_long(argc, argv, "-p", 64);
    p.rank = bench_comm_rank();
    if (bench_comm_size() < 2)
        bench_fail("persistent needs two ranks (start it with -n 2)");
    if (min_bytes < 1 || max_bytes < min_bytes || p.n_parts < 1 || part_bytes < 1)
        bench_fail("persistent: sizes and the number of partitions must be 1 or more, -M not below -m");
    size_t room = (size_t)p.n_parts * (size_t)part_bytes;
    room = room < (size_t)max_bytes ? (size_t)max_bytes : room;
    p.buffers = bench_buffers_init(argc, argv);
    if (bench_option_long(argc, argv, "-D", 0) != 0)
        (void)bench_buffers_init(3, (char *[]){argv[0], "-B", "0"});
    p.sendbuf = bench_buffer_alloc(&p.buffers, room, p.rank + 1);
    p.recvbuf = bench_buffer_alloc(&p.buffers, room, 0);
    p.zeros = bench_alloc(room, 0);

    for (long len = min_bytes; len <= max_bytes; len *= 2) {
        char key[64];
        p.len_bytes = (int)len;
        init(&p, 1 - p.rank, false);
        snprintf(key, sizeof key, "persistent.%ld", len);
        point(&p, persistent, seconds, key);
        check(&p, (int)len);
        snprintf(key, sizeof key, "persistent_early.%ld", len);
        point(&p, persistent_early, seconds, key);
        check(&p, (int)len);
        fini(&p);
        snprintf(key, sizeof key, "blocking.%ld", len);
        point(&p, blocking, seconds, key);
        check(&p, (int)len);
    }
    measure_partitioned(&p, part_bytes, seconds);
    bench_buffer_free(&p.buffers, p.sendbuf);
    bench_buffer_free(&p.buffers, p.recvbuf);
    free(p.zeros);
    MPI_Finalize();
    return 0;
}
