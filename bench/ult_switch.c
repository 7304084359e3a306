/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ult_switch: the bare switch between user-level threads, and the switch through the scheduler, measured
 * inside the library (src/ult alone, no MPI, no images). In the first, each thread switches to the next one
 * of a ring with ult_arch_switch; in the second, each calls ult_yield. The time of many switches is divided
 * by their number.
 *
 * usage: ult_switch [-t seconds_per_point]
 * prints: ult_switch.THREADS value ns and ult_yield.THREADS value ns (and .p5, .p95)
 */
#include <sys/mman.h>

#include "bench_stats.h"
#include "ult/arch/ult_arch.h"
#include "ult/ult.h"

#define STACK_BYTES 16384
#define THREADS_MAX 1000

static struct {
    void *sp[THREADS_MAX + 1]; /* saved stack pointers; the last is the main context's */
    char *stacks;
    int n_threads;
    long left; /* switches to do */
} ring;

static double seconds_per_point = 0.2;

static char *stack_hi_of(int i)
{
    return ring.stacks + (size_t)(i + 1) * STACK_BYTES - (size_t)(i % 16) * 192;
}

/* One thread of the ring; its argument is its place. The last switch goes back to the main context. */
static void hand_on(void *arg)
{
    int me = (int)(intptr_t)arg;
    int next = (me + 1) % ring.n_threads;

    for (;;)
        ult_arch_switch(&ring.sp[me], --ring.left > 0 ? ring.sp[next] : ring.sp[THREADS_MAX]);
}

static double bare_switches(long n_switches)
{
    double start;

    for (int i = 0; i < ring.n_threads; i++)
        ring.sp[i] = ult_arch_prepare(stack_hi_of(i), hand_on, (void *)(intptr_t)i);
    ring.left = n_switches + ring.n_threads; /* the first round only begins the threads */
    start = bench_now();
    ult_arch_switch(&ring.sp[THREADS_MAX], ring.sp[0]);
    return (bench_now() - start) / (double)(n_switches + ring.n_threads);
}

static long yields_each;

static void yield_often(void *arg)
{
    (void)arg;
    for (long i = 0; i < yields_each; i++)
        ult_yield();
}

static double yields(long n_switches)
{
    static struct ult threads[THREADS_MAX];
    double start;

    yields_each = n_switches / ring.n_threads;
    for (int i = 0; i < ring.n_threads; i++) {
        threads[i].world_rank = -1;
        ult_create(&threads[i], ult_pe_get(0), stack_hi_of(i) - STACK_BYTES / 2, stack_hi_of(i), yield_often,
                   NULL);
    }
    start = bench_now();
    ult_job_run();
    return (bench_now() - start) / (double)n_switches;
}

/* Samples one kind of switch for the given time. */
static void measure(const char *what, double (*run)(long), int n_threads)
{
    double values[BENCH_SAMPLES];
    char name[64];
    double until = bench_now() + seconds_per_point;
    int n_values = 0;

    ring.n_threads = n_threads;
    while (n_values < BENCH_SAMPLES && (n_values < 5 || bench_now() < until))
        values[n_values++] = run(100000);
    snprintf(name, sizeof name, "%s.%d", what, n_threads);
    bench_print_time(name, bench_summarize(values, n_values), 1e9, "ns");
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "-t") == 0)
        seconds_per_point = atof(argv[2]);
    ring.stacks = mmap(NULL, (size_t)THREADS_MAX * STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ring.stacks == MAP_FAILED)
        return 1;
    ult_job_init(1, NULL);
    measure("ult_switch", bare_switches, 2);
    measure("ult_switch", bare_switches, 1000);
    measure("ult_yield", yields, 2);
    measure("ult_yield", yields, 1000);
    return 0;
}
