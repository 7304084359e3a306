/* SPDX-License-Identifier: BSD-3-Clause
 *
 * bench_stats.h: the part of bench.h without MPI: clock, statistics, options, output, a sink.
 */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BENCH_SAMPLES 101 /* most samples per point */

/* Samples of one point, in the order of size. */
struct bench_stats {
    double median; /* 50th percentile */
    double p5;     /* 5th percentile */
    double p95;    /* 95th percentile */
    int samples;   /* how many there were */
};

/* Results that the program does not print are stored here, so that the compiler must compute them. */
static volatile unsigned char bench_sink_byte;

static inline void bench_sink(const void *data, size_t len_bytes)
{
    const unsigned char *byte = data;
    if (len_bytes > 0) {
        bench_sink_byte = (unsigned char)(byte[0] ^ byte[len_bytes / 2] ^ byte[len_bytes - 1]);
    }
}

/* Seconds on a clock that is never set back. */
static inline double bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline int bench_compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value below which the given fraction of the sorted values lies, interpolated. */
static inline double bench_percentile(const double *sorted, int n, double fraction)
{
    double place = fraction * (n - 1);
    int below = (int)place;
    int above = below + 1 < n ? below + 1 : below;
    return sorted[below] + (sorted[above] - sorted[below]) * (place - below);
}

/* Sorts the values in place. */
static inline struct bench_stats bench_summarize(double *values, int n)
{
    struct bench_stats stats;
    qsort(values, (size_t)n, sizeof values[0], bench_compare_doubles);
    stats.median = bench_percentile(values, n, 0.50);
    stats.p5 = bench_percentile(values, n, 0.05);
    stats.p95 = bench_percentile(values, n, 0.95);
    stats.samples = n;
    return stats;
}

/* Prints a time (seconds in stats) as "key value unit" and the percentiles beside it. */
static inline void bench_print_time(const char *key, struct bench_stats stats, double scale, const char *unit)
{
    printf("%s %.6g %s\n", key, stats.median * scale, unit);
    printf("%s.p5 %.6g %s\n", key, stats.p5 * scale, unit);
    printf("%s.p95 %.6g %s\n", key, stats.p95 * scale, unit);
    fflush(stdout);
}

/* Prints a rate: `work` done in each of the times; p5 is the slow end here too (5 % were slower). */
static inline void bench_print_rate(const char *key, struct bench_stats stats, double work, const char *unit)
{
    printf("%s %.6g %s\n", key, work / stats.median, unit);
    printf("%s.p5 %.6g %s\n", key, work / stats.p95, unit);
    printf("%s.p95 %.6g %s\n", key, work / stats.p5, unit);
    fflush(stdout);
}

/* The text after the option `name` ("-t"), or fallback. getopt is not used: its state is shared. */
static inline const char *bench_option(int argc, char **argv, const char *name, const char *fallback)
{
    for (int i = 1; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return argv[i + 1];
        }
    }
    return fallback;
}

static inline double bench_option_double(int argc, char **argv, const char *name, double fallback)
{
    const char *text = bench_option(argc, argv, name, NULL);
    return text ? atof(text) : fallback;
}

static inline long bench_option_long(int argc, char **argv, const char *name, long fallback)
{
    const char *text = bench_option(argc, argv, name, NULL);
    return text ? atol(text) : fallback;
}

/* Page-aligned memory whose every page has been written. */
static inline unsigned char *bench_alloc(size_t len_bytes, int fill)
{
    size_t rounded = (len_bytes + 4095) / 4096 * 4096;
    unsigned char *memory = aligned_alloc(4096, rounded ? rounded : 4096);
    if (!memory) {
        fprintf(stderr, "benchmark failed: no memory for %zu bytes\n", len_bytes);
        exit(2);
    }
    memset(memory, fill, rounded ? rounded : 4096);
    return memory;
}

#endif
