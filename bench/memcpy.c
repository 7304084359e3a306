/* SPDX-License-Identifier: BSD-3-Clause
 *
 * memcpy: the memory's limit, measured without MPI but with the access patterns of latency.c and bandwidth.c.
 * "memcpy" alternately copies a to b and c to d, like the ping-pong of two ranks in one address space;
 * "memcpy_window" copies one source to a window of destinations (64, or as many as fit into 64 MiB).
 *
 * usage: memcpy [-m min_bytes] [-M max_bytes] [-t seconds_per_size]
 * prints: memcpy.BYTES value us, memcpy_rate.BYTES value GB/s, memcpy_window.BYTES value GB/s
 */
#include "bench_stats.h"

#define RECV_BYTES_MAX ((size_t)64 << 20)

struct work {
    size_t len_bytes;          /* of one copy */
    int window;                /* destinations of the window pattern */
    unsigned char *buffers[4]; /* a, b, c, d */
    unsigned char *many;       /* the window's destinations */
};

/* A call that the compiler cannot see through, as the copy in an MPI library is one. */
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;

static double in_turns(struct work *w, long iterations)
{
    double start = bench_now();
    for (long i = 0; i < iterations; i++) {
        if (i & 1) {
            copy(w->buffers[3], w->buffers[2], w->len_bytes);
        } else {
            copy(w->buffers[1], w->buffers[0], w->len_bytes);
        }
    }
    return bench_now() - start;
}

static double to_window(struct work *w, long iterations)
{
    double start = bench_now();
    for (long i = 0; i < iterations; i++) {
        for (int k = 0; k < w->window; k++) {
            copy(w->many + (size_t)k * w->len_bytes, w->buffers[0], w->len_bytes);
        }
    }
    return bench_now() - start;
}

static struct bench_stats sample(double (*body)(struct work *, long), struct work *w, double seconds)
{
    double samples[BENCH_SAMPLES], total = 0, last;
    long iterations = 2;
    int n = 0;

    while ((last = body(w, iterations)) < seconds / 100) {
        iterations *= 2;
    }
    while (n < BENCH_SAMPLES && (n < 3 || total < seconds)) {
        last = body(w, iterations);
        total += last;
        samples[n++] = last / (double)iterations;
    }
    return bench_summarize(samples, n);
}

int main(int argc, char **argv)
{
    struct work w;
    size_t min_bytes = (size_t)bench_option_long(argc, argv, "-m", 8);
    size_t max_bytes = (size_t)bench_option_long(argc, argv, "-M", 4 << 20);
    double seconds = bench_option_double(argc, argv, "-t", 0.1);

    if (min_bytes < 1 || max_bytes < min_bytes || max_bytes > RECV_BYTES_MAX) {
        fprintf(stderr, "memcpy: sizes (-m, -M) must be 1 to 64 MiB, the smallest first\n");
        return 2;
    }
    for (int i = 0; i < 4; i++) {
        w.buffers[i] = bench_alloc(max_bytes, i);
    }
    w.many = bench_alloc(RECV_BYTES_MAX, 0);

    for (size_t len = min_bytes; len <= max_bytes; len *= 2) {
        char key[64];
        w.len_bytes = len;
        w.window = RECV_BYTES_MAX / len < 64 ? (int)(RECV_BYTES_MAX / len) : 64;

        struct bench_stats stats = sample(in_turns, &w, seconds);
        bench_sink(w.buffers[1], len);
        bench_sink(w.buffers[3], len);
        snprintf(key, sizeof key, "memcpy.%zu", len);
        bench_print_time(key, stats, 1e6, "us");
        snprintf(key, sizeof key, "memcpy_rate.%zu", len);
        bench_print_rate(key, stats, 1e-9 * (double)len, "GB/s");

        stats = sample(to_window, &w, seconds);
        bench_sink(w.many, len * (size_t)w.window);
        snprintf(key, sizeof key, "memcpy_window.%zu", len);
        bench_print_rate(key, stats, 1e-9 * (double)len * w.window, "GB/s");
    }
    free(w.many);
    for (int i = 0; i < 4; i++) {
        free(w.buffers[i]);
    }
    return 0;
}
