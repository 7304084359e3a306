/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The ring of idle_ring.c without MPI: processes that count in shared memory, and yield their core while they
 * wait. This is the cost of the kernel's switching alone: the limit for bench/idle.
 *
 *   idle_bare PROCESSES [STEPS]
 *
 * Prints the time of all steps in seconds.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Number of polls before it yields: some 100 ns. */
#define LOOKS 20

struct place {
    _Alignas(128) atomic_int n_got; /* steps that the process before it has made */
};

static void wait_until(const struct place *place, int n)
{
    while (1) {
        for (int i = 0; i < LOOKS; i++) {
            if (atomic_load_explicit(&place->n_got, memory_order_acquire) >= n) {
                return;
            }
        }
        sched_yield();
    }
}

static void run(struct place *places, int self, int n_procs, int steps)
{
    for (int step = 1; step <= steps; step++) {
        atomic_fetch_add(&places[(self + 1) % n_procs].n_got, 1);
        wait_until(&places[self], step);
    }
}

/* A core for each, if there are enough, as with mpirun --procs. */
static void pin(int self, int n_procs)
{
    cpu_set_t allowed, one;
    int n_cores, place;
    sched_getaffinity(0, sizeof allowed, &allowed);
    n_cores = CPU_COUNT(&allowed);
    place = n_procs > n_cores ? -1 : self; /* more than cores: the kernel places them */
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && place >= 0; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && place-- == 0) {
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
        }
    }
}

int main(int argc, char **argv)
{
    int n_procs = argc > 1 ? atoi(argv[1]) : 2, steps = argc > 2 ? atoi(argv[2]) : 1000;
    struct place *places = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct timespec began, ended;
    if (n_procs < 1 || (size_t)n_procs > (1 << 16) / sizeof *places - 1 || places == MAP_FAILED) {
        fprintf(stderr, "usage: idle_bare PROCESSES [STEPS]\n");
        return 2;
    }
    for (int i = 0; i < n_procs; i++) {
        if (fork() == 0) {
            pin(i, n_procs);
            atomic_fetch_add(&places[n_procs].n_got, 1);
            wait_until(&places[n_procs], n_procs); /* for all */
            clock_gettime(CLOCK_MONOTONIC, &began);
            run(places, i, n_procs, steps);
            clock_gettime(CLOCK_MONOTONIC, &ended);
            if (i == 0) {
                printf("%.4f\n", (double)(ended.tv_sec - began.tv_sec) +
                                     1e-9 * (double)(ended.tv_nsec - began.tv_nsec));
            }
            fflush(stdout);
            _exit(0);
        }
    }
    while (wait(NULL) > 0) {
    }
    return 0;
}
