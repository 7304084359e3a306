/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bandwidth: bytes per second from rank A to rank B with a window of messages in transit, and in both
 * directions at once. Per window the receiver posts its receives, the sender its nonblocking sends, both wait
 * for all, and the receiver answers with an empty message. The window is 64 messages, or as many as fit into
 * 64 MiB: every pending receive has its own buffer, as the standard requires. All sends read one buffer. For
 * the bidirectional figure both ranks do both; it counts the bytes of both directions.
 *
 * usage: bandwidth [-a rankA] [-b rankB] [-m min_bytes] [-M max_bytes] [-w window] [-t seconds_per_size]
 *                  [-d uni|bi|both] [-B gpus]
 * prints: bandwidth.BYTES value GB/s and bibandwidth.BYTES value GB/s (and .p5, .p95; GB = 10^9 bytes)
 */
#include "bench_buffer.h"

#define TAG_DATA 1
#define TAG_ACK 2
#define WINDOW_MAX 1024
#define RECV_BYTES_MAX ((size_t)64 << 20)

struct pair {
    int a, b;               /* the two ranks */
    int rank;               /* mine */
    int window;             /* messages on the way at this size */
    int len_bytes;          /* of a message */
    unsigned char *sendbuf; /* one message */
    unsigned char *recvbuf; /* window messages */
    MPI_Request requests[2 * WINDOW_MAX];
    struct bench_buffers buffers; /* the memory of sendbuf and recvbuf */
};

static int post_receives(struct pair *p, int peer, MPI_Request *requests)
{
    for (int i = 0; i < p->window; i++) {
        MPI_Irecv(p->recvbuf + (size_t)i * (size_t)p->len_bytes, p->len_bytes, MPI_BYTE, peer, TAG_DATA,
                  MPI_COMM_WORLD, &requests[i]);
    }
    return p->window;
}

static int post_sends(struct pair *p, int peer, MPI_Request *requests)
{
    for (int i = 0; i < p->window; i++) {
        MPI_Isend(p->sendbuf, p->len_bytes, MPI_BYTE, peer, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
    }
    return p->window;
}

static double one_way(void *ctx, long iterations)
{
    struct pair *p = ctx;
    double start = bench_now();

    if (p->rank == p->a) {
        for (long i = 0; i < iterations; i++) {
            int n = post_sends(p, p->b, p->requests);
            MPI_Waitall(n, p->requests, MPI_STATUSES_IGNORE);
            MPI_Recv(NULL, 0, MPI_BYTE, p->b, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    } else if (p->rank == p->b) {
        for (long i = 0; i < iterations; i++) {
            int n = post_receives(p, p->a, p->requests);
            MPI_Waitall(n, p->requests, MPI_STATUSES_IGNORE);
            MPI_Send(NULL, 0, MPI_BYTE, p->a, TAG_ACK, MPI_COMM_WORLD);
        }
    } else {
        return 0;
    }
    return bench_now() - start;
}

static double both_ways(void *ctx, long iterations)
{
    struct pair *p = ctx;
    double start = bench_now();

    if (p->rank != p->a && p->rank != p->b) {
        return 0;
    }
    int peer = p->rank == p->a ? p->b : p->a;
    for (long i = 0; i < iterations; i++) {
        int n = post_receives(p, peer, p->requests);
        n += post_sends(p, peer, p->requests + n);
        MPI_Waitall(n, p->requests, MPI_STATUSES_IGNORE);
        if (p->rank == p->a) {
            MPI_Recv(NULL, 0, MPI_BYTE, peer, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Send(NULL, 0, MPI_BYTE, peer, TAG_ACK, MPI_COMM_WORLD);
        }
    }
    return bench_now() - start;
}

static void check_received(const struct pair *p, int from)
{
    size_t len_bytes = (size_t)p->len_bytes * (size_t)p->window;
    unsigned char expected = (unsigned char)(from + 1);
    if (bench_buffer_byte(&p->buffers, p->recvbuf, 0) != expected ||
        bench_buffer_byte(&p->buffers, p->recvbuf, len_bytes - 1) != expected) {
        bench_fail("bandwidth: the received data are wrong");
    }
}

int main(int argc, char **argv)
{
    static struct pair p;
    MPI_Init(&argc, &argv);

    int min_bytes = (int)bench_option_long(argc, argv, "-m", 8);
    int max_bytes = (int)bench_option_long(argc, argv, "-M", 4 << 20);
    int window = (int)bench_option_long(argc, argv, "-w", 64);
    double seconds = bench_option_double(argc, argv, "-t", 0.2);
    const char *direction = bench_option(argc, argv, "-d", "both");
    p.a = (int)bench_option_long(argc, argv, "-a", 0);
    p.b = (int)bench_option_long(argc, argv, "-b", 1);
    p.rank = bench_comm_rank();
    if (p.a == p.b || p.a < 0 || p.b < 0 || p.a >= bench_comm_size() || p.b >= bench_comm_size()) {
        bench_fail("bandwidth needs two different ranks (start it with -n 2)");
    }
    if (min_bytes < 1 || max_bytes < min_bytes || window < 1 || window > WINDOW_MAX) {
        bench_fail("bandwidth: sizes (-m, -M) must be 1 or more, and the window (-w) 1 to 1024");
    }
    size_t largest = (size_t)max_bytes > RECV_BYTES_MAX ? (size_t)max_bytes : RECV_BYTES_MAX;
    size_t wanted = (size_t)max_bytes * (size_t)window;
    p.buffers = bench_buffers_init(argc, argv);
    p.sendbuf = bench_buffer_alloc(&p.buffers, (size_t)max_bytes, p.rank + 1);
    p.recvbuf = bench_buffer_alloc(&p.buffers, wanted < largest ? wanted : largest, 0);

    for (long len = min_bytes; len <= max_bytes; len *= 2) {
        char key[64];
        size_t fitting = RECV_BYTES_MAX / (size_t)len;
        p.len_bytes = (int)len;
        p.window = fitting < 1 ? 1 : fitting < (size_t)window ? (int)fitting : window;
        double work = 1e-9 * (double)len * p.window;

        if (strcmp(direction, "bi") != 0) {
            struct bench_stats stats = bench_sample(one_way, &p, seconds, BENCH_MAX);
            if (p.rank == p.b) {
                check_received(&p, p.a);
            }
            if (p.rank == 0) {
                snprintf(key, sizeof key, "bandwidth.%ld", len);
                bench_print_rate(key, stats, work, "GB/s");
            }
        }
        if (strcmp(direction, "uni") != 0) {
            struct bench_stats stats = bench_sample(both_ways, &p, seconds, BENCH_MAX);
            if (p.rank == p.a || p.rank == p.b) {
                check_received(&p, p.rank == p.a ? p.b : p.a);
            }
            if (p.rank == 0) {
                snprintf(key, sizeof key, "bibandwidth.%ld", len);
                bench_print_rate(key, stats, 2 * work, "GB/s");
            }
        }
    }
    bench_buffer_free(&p.buffers, p.sendbuf);
    bench_buffer_free(&p.buffers, p.recvbuf);
    MPI_Finalize();
    return 0;
}
