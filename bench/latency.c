/* SPDX-License-Identifier: BSD-3-Clause
 *
 * latency: half the round trip of a message between two ranks. Rank A sends and receives, rank B receives and
 * sends back, with blocking calls; each has one send and one receive buffer, reused for every message (so
 * small messages stay in the cache, as in the OSU benchmark). The time of many round trips is divided by
 * twice their number.
 *
 * usage: latency [-a rankA] [-b rankB] [-m min_bytes] [-M max_bytes] [-t seconds_per_size] [-B gpus]
 * prints: latency.BYTES value us (and .p5, .p95)
 */
#include "bench_buffer.h"

#define TAG 1

struct pair {
    int a, b;               /* the two ranks */
    int rank;               /* mine */
    int len_bytes;          /* of a message */
    unsigned char *sendbuf; /* the size of the largest message */
    unsigned char *recvbuf;
};

static double ping_pong(void *ctx, long iterations)
{
    struct pair *p = ctx;
    int peer = p->rank == p->a ? p->b : p->a;
    double start = bench_now();

    if (p->rank == p->a) {
        for (long i = 0; i < iterations; i++) {
            MPI_Send(p->sendbuf, p->len_bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
            MPI_Recv(p->recvbuf, p->len_bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    } else if (p->rank == p->b) {
        for (long i = 0; i < iterations; i++) {
            MPI_Recv(p->recvbuf, p->len_bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(p->sendbuf, p->len_bytes, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
        }
    } else {
        return 0;
    }
    return (bench_now() - start) / 2;
}

int main(int argc, char **argv)
{
    struct pair p;
    MPI_Init(&argc, &argv);

    int min_bytes = (int)bench_option_long(argc, argv, "-m", 8);
    int max_bytes = (int)bench_option_long(argc, argv, "-M", 4 << 20);
    double seconds = bench_option_double(argc, argv, "-t", 0.2);
    p.a = (int)bench_option_long(argc, argv, "-a", 0);
    p.b = (int)bench_option_long(argc, argv, "-b", 1);
    p.rank = bench_comm_rank();
    if (p.a == p.b || p.a < 0 || p.b < 0 || p.a >= bench_comm_size() || p.b >= bench_comm_size()) {
        bench_fail("latency needs two different ranks (start it with -n 2)");
    }
    struct bench_buffers buffers = bench_buffers_init(argc, argv);
    if (min_bytes < 1 || max_bytes < min_bytes) {
        bench_fail("latency: the smallest size (-m) must be 1 or more and the largest (-M) not below it");
    }
    p.sendbuf = bench_buffer_alloc(&buffers, (size_t)max_bytes, p.rank + 1);
    p.recvbuf = bench_buffer_alloc(&buffers, (size_t)max_bytes, 0);

    for (long len = min_bytes; len <= max_bytes; len *= 2) {
        char key[64];
        p.len_bytes = (int)len;
        struct bench_stats stats = bench_sample(ping_pong, &p, seconds, BENCH_MAX);

        int peer = p.rank == p.a ? p.b : p.a;
        if ((p.rank == p.a || p.rank == p.b) &&
            (bench_buffer_byte(&buffers, p.recvbuf, 0) != (peer + 1) % 256 ||
             bench_buffer_byte(&buffers, p.recvbuf, (size_t)len - 1) != (peer + 1) % 256)) {
            bench_fail("latency: the received data are wrong");
        }
        if (bench_comm_rank() == 0) {
            snprintf(key, sizeof key, "latency.%ld", len);
            bench_print_time(key, stats, 1e6, "us");
        }
    }
    bench_buffer_free(&buffers, p.sendbuf);
    bench_buffer_free(&buffers, p.recvbuf);
    MPI_Finalize();
    return 0;
}
