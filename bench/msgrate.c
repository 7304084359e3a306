/* SPDX-License-Identifier: BSD-3-Clause
 *
 * msgrate: small messages per second. Each of the pairs (rank i and rank i + ranks/2) sends windows of 64
 * messages: nonblocking sends on one side, nonblocking receives on the other, both wait for all, and an empty
 * answer closes the window. The figure is the messages of all pairs over the time of the slowest pair; the
 * answers are not counted.
 *
 * usage: msgrate [-p pairs] [-s bytes] [-w window] [-t seconds] [-B gpus] (pairs: default ranks/2)
 * prints: msgrate.PAIRS value million/s (and .p5, .p95)
 */
#include "bench_buffer.h"

#define TAG_DATA 1
#define TAG_ACK 2
#define WINDOW_MAX 1024

struct pair {
    int sends;              /* 1: I send, 0: I receive, -1: I watch */
    int peer;               /* the other rank */
    int window;             /* messages per window */
    int len_bytes;          /* of a message */
    unsigned char *buffers; /* one message slot for each of the window, none shares a cache line */
    size_t slot_bytes;      /* from slot to slot */
    MPI_Request requests[WINDOW_MAX];
};

static double windows(void *ctx, long iterations)
{
    struct pair *p = ctx;
    double start = bench_now();

    if (p->sends < 0) {
        return 0;
    }
    for (long i = 0; i < iterations; i++) {
        if (p->sends) {
            for (int k = 0; k < p->window; k++) {
                MPI_Isend(p->buffers + (size_t)k * p->slot_bytes, p->len_bytes, MPI_BYTE, p->peer, TAG_DATA,
                          MPI_COMM_WORLD, &p->requests[k]);
            }
            MPI_Waitall(p->window, p->requests, MPI_STATUSES_IGNORE);
            MPI_Recv(NULL, 0, MPI_BYTE, p->peer, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            for (int k = 0; k < p->window; k++) {
                MPI_Irecv(p->buffers + (size_t)k * p->slot_bytes, p->len_bytes, MPI_BYTE, p->peer, TAG_DATA,
                          MPI_COMM_WORLD, &p->requests[k]);
            }
            MPI_Waitall(p->window, p->requests, MPI_STATUSES_IGNORE);
            MPI_Send(NULL, 0, MPI_BYTE, p->peer, TAG_ACK, MPI_COMM_WORLD);
        }
    }
    return bench_now() - start;
}

int main(int argc, char **argv)
{
    static struct pair p;
    MPI_Init(&argc, &argv);

    int rank = bench_comm_rank(), half = bench_comm_size() / 2;
    int pairs = (int)bench_option_long(argc, argv, "-p", half);
    double seconds = bench_option_double(argc, argv, "-t", 0.5);
    p.len_bytes = (int)bench_option_long(argc, argv, "-s", 8);
    p.window = (int)bench_option_long(argc, argv, "-w", 64);
    if (pairs < 1 || pairs > half || p.window < 1 || p.window > WINDOW_MAX || p.len_bytes < 1) {
        bench_fail(
            "msgrate needs 1 to ranks/2 pairs (-p), a window (-w) of 1 to 1024, bytes (-s) of 1 or more");
    }
    p.sends = rank < pairs ? 1 : rank >= half && rank < half + pairs ? 0 : -1;
    p.peer = rank < half ? rank + half : rank - half;
    p.slot_bytes = ((size_t)p.len_bytes + 63) / 64 * 64;
    struct bench_buffers memory = bench_buffers_init(argc, argv);
    p.buffers = bench_buffer_alloc(&memory, p.slot_bytes * (size_t)p.window, p.sends == 1 ? 7 : 0);

    struct bench_stats stats = bench_sample(windows, &p, seconds, BENCH_MAX);
    if (p.sends == 0 && (bench_buffer_byte(&memory, p.buffers, 0) != 7 ||
                         bench_buffer_byte(&memory, p.buffers, p.slot_bytes * (size_t)(p.window - 1)) != 7)) {
        bench_fail("msgrate: the received data are wrong");
    }
    if (rank == 0) {
        char key[64];
        snprintf(key, sizeof key, "msgrate.%d", pairs);
        bench_print_rate(key, stats, 1e-6 * p.window * pairs, "million/s");
    }
    bench_buffer_free(&memory, p.buffers);
    MPI_Finalize();
    return 0;
}
