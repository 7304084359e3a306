/* SPDX-License-Identifier: BSD-3-Clause */
/* A flood of messages to a rank of another process that does not receive them is throttled: neither process
 * takes much memory, and all messages arrive in order.
 *
 * usage: flood_memory COUNT BYTES LIMIT_MB (2 ranks in 2 processes)
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TAG = 1, TAG_NEVER = 2, QUIET_ROUNDS = 300 };

/* Resident memory, shared memory included, in MB. */
static double resident_mb(void)
{
    long pages = 0, ignored;
    FILE *file = fopen("/proc/self/statm", "r");

    if (!file || fscanf(file, "%ld %ld", &ignored, &pages) != 2)
        MPI_Abort(MPI_COMM_WORLD, 1);
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

static void check_memory(const char *who, double before, double limit)
{
    double grown = resident_mb() - before;

    printf("the %s has taken %.0f MB\n", who, grown);
    if (grown > limit) {
        printf("FAILED: that is more than %.0f MB\n", limit);
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    int rank, flag;
    double before;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 4)
        MPI_Abort(MPI_COMM_WORLD, 2);
    long count = atol(argv[1]), n_bytes = atol(argv[2]);
    double limit = atof(argv[3]);
    unsigned char *data = calloc(1, (size_t)n_bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    before = resident_mb();
    if (rank == 0) {
        for (long i = 0; i < count; i++) {
            memcpy(data, &i, sizeof i);
            MPI_Send(data, (int)n_bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
        }
        check_memory("sender", before, limit);
    } else if (rank == 1) {
        /* Messages are taken in by any call, until no more come: memory has stayed the same for a while. */
        double last = 0;
        for (int quiet = 0; quiet < QUIET_ROUNDS;) {
            double now;
            for (int i = 0; i < 1000; i++)
                MPI_Iprobe(0, TAG_NEVER, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
            usleep(1000);
            now = resident_mb();
            quiet++;
            if (now > last + 0.5) {
                last = now;
                quiet = 0;
            }
        }
        check_memory("receiver", before, limit);
        for (long i = 0; i < count; i++) {
            long got;
            MPI_Recv(data, (int)n_bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            memcpy(&got, data, sizeof got);
            if (got != i) {
                printf("FAILED: message %ld came instead of %ld\n", got, i);
                fflush(stdout);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
        }
    }
    MPI_Finalize();
    return 0;
}
