/* SPDX-License-Identifier: BSD-3-Clause
 *
 * comm_memory: the cost of communicators: the memory (PSS) of rank 0's process before and after every rank
 * has duplicated MPI_COMM_WORLD 10 times and has used each duplicate for a reduction, a barrier, and a
 * message to the next rank. If each rank is a process, it is one rank's memory.
 *
 * usage: comm_memory
 * prints: comm_memory.made MB, comm_memory.used MB
 */
#include <mpi.h>
#include <stdio.h>

#define N_COMMS 10

static long pss_kib(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    long kib = 0;

    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "Pss: %ld", &kib);
    }
    if (file) {
        fclose(file);
    }
    return kib;
}

/* Prints how much there is more than at first, at a moment when no rank does anything else. */
static void report(const char *what, int rank, long before)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("comm_memory.%s %.3f MB\n", what, (double)(pss_kib() - before) * 1024 / 1e6);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rank, size, one = 1, got = 0, wrong = 0;
    long before = 0;
    MPI_Comm comms[N_COMMS];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        before = pss_kib();
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < N_COMMS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    }
    report("made", rank, before);
    for (int i = 0; i < N_COMMS; i++) {
        MPI_Allreduce(&one, &got, 1, MPI_INT, MPI_SUM, comms[i]);
        wrong += got != size;
        MPI_Barrier(comms[i]);
        MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &got, 1, MPI_INT, (rank + size - 1) % size, 0,
                     comms[i], MPI_STATUS_IGNORE);
        wrong += got != (rank + size - 1) % size;
    }
    report("used", rank, before);
    for (int i = 0; i < N_COMMS; i++) {
        MPI_Comm_free(&comms[i]);
    }
    if (wrong) {
        fprintf(stderr, "comm_memory: rank %d has wrong data\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
