/* SPDX-License-Identifier: BSD-3-Clause
 *
 * handoff: the machine's limit for a message between two cores, measured without MPI: two threads on two
 * cores pass one cache line back and forth; half the round trip is the time until one core sees a store of
 * the other. "handoff_data" passes 8 bytes of payload in a second line, as a message queue does;
 * "handoff_message" has a line for each direction, with the payload beside the turn: a bare message of 8 bytes.
 *
 * usage: handoff [-t seconds]
 * prints: handoff, handoff_data and handoff_message, value ns (and .p5, .p95), or n/a on one core
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "bench_stats.h"

/* Lines with the turn, and one with the payload; the neighbouring lines are kept empty for the prefetcher. */
static struct {
    struct {
        _Alignas(256) atomic_long turn; /* even: the first thread's, odd: the second's, -1: the end */
        volatile long payload;          /* of handoff_message */
    } lines[2]; /* which both write; handoff_message: which the first, the second thread reads */
    _Alignas(256) volatile long payload; /* written before the turn is passed */
} shared;

static enum { TURN, DATA, MESSAGE } kind;
static cpu_set_t allowed; /* the cores at the start of the program: a thread inherits the pinning */

static void pin(int place)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && place-- == 0) {
            CPU_SET(cpu, &one);
        }
    }
    sched_setaffinity(0, sizeof one, &one);
}

/* Passes the turn, and the payload, to a thread (0, 1). */
static void pass(int to, long turn)
{
    int line = kind == MESSAGE ? to : 0;

    if (kind == DATA) {
        shared.payload = shared.payload + 1;
    } else if (kind == MESSAGE) {
        shared.lines[to].payload = shared.lines[1 - to].payload + 1;
    }
    atomic_store_explicit(&shared.lines[line].turn, turn, memory_order_release);
}

static void *answer(void *unused)
{
    int line = kind == MESSAGE ? 1 : 0;
    long seen = 0;

    (void)unused;
    pin(1);
    for (;;) {
        long turn = atomic_load_explicit(&shared.lines[line].turn, memory_order_acquire);
        if (turn < 0) {
            return NULL;
        }
        if ((turn & 1) && turn != seen) {
            pass(0, turn + 1);
            seen = turn;
        }
    }
}

static double round_trips(long iterations)
{
    double start = bench_now();
    long turn = atomic_load(&shared.lines[0].turn);
    for (long i = 0; i < iterations; i++) {
        pass(1, turn + 1);
        turn += 2;
        while (atomic_load_explicit(&shared.lines[0].turn, memory_order_acquire) != turn) {
        }
    }
    return bench_now() - start;
}

static void measure(const char *key, double seconds)
{
    double samples[BENCH_SAMPLES], total = 0;
    long iterations = 1000;
    pthread_t thread;
    int n = 0;

    for (int i = 0; i < 2; i++) {
        atomic_store(&shared.lines[i].turn, 0);
    }
    if (pthread_create(&thread, NULL, answer, NULL) != 0) {
        fprintf(stderr, "handoff: no second thread\n");
        exit(2);
    }
    while (round_trips(iterations) < seconds / 100) {
        iterations *= 2;
    }
    while (n < BENCH_SAMPLES && (n < 3 || total < seconds)) {
        double last = round_trips(iterations);
        total += last;
        samples[n++] = last / (double)iterations / 2;
    }
    for (int i = 0; i < 2; i++) {
        atomic_store(&shared.lines[i].turn, -1);
    }
    pthread_join(thread, NULL);
    bench_print_time(key, bench_summarize(samples, n), 1e9, "ns");
}

int main(int argc, char **argv)
{
    double seconds = bench_option_double(argc, argv, "-t", 0.3);

    sched_getaffinity(0, sizeof allowed, &allowed);
    if (CPU_COUNT(&allowed) < 2) {
        printf("handoff n/a ns\nhandoff_data n/a ns\nhandoff_message n/a ns\n");
        return 0;
    }
    pin(0);
    measure("handoff", seconds);
    kind = DATA;
    measure("handoff_data", seconds);
    kind = MESSAGE;
    measure("handoff_message", seconds);
    return 0;
}
