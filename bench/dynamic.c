/* SPDX-License-Identifier: BSD-3-Clause
 *
 * dynamic: spawn: the time of MPI_Comm_spawn of 4 ranks of COMMAND (default: this program) by MPI_COMM_WORLD, until all have
 * been heard of in a barrier. connect: MPI_Comm_connect of rank 1 to MPI_Comm_accept of rank 0, from a barrier on. Each is
 * done -k times; the disconnect is not timed.
 *
 * usage: dynamic [-k times] [-c COMMAND]
 * prints: dynamic.spawn value ms (and .p5, .p95), with several ranks dynamic.connect
 */
#include "bench.h"

#define N_SPAWNED 4
#define MAX_TIMES 1000

static double spawn_once(const char *command)
{
    MPI_Comm children;
    double start = bench_now(), seconds;
    MPI_Comm_spawn(command, MPI_ARGV_NULL, N_SPAWNED, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                   MPI_ERRCODES_IGNORE);
    MPI_Barrier(children);
    seconds = bench_now() - start;
    MPI_Comm_disconnect(&children);
    return seconds;
}

/* Ranks 0 and 1. */
static double connect_once(const char *port)
{
    MPI_Comm other;
    double start = bench_now(), seconds;
    if (bench_comm_rank() == 0) {
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
    } else {
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
    }
    seconds = bench_now() - start;
    MPI_Comm_disconnect(&other);
    return seconds;
}

static void report(const char *key, double *seconds, int times)
{
    if (bench_comm_rank() == 0) {
        bench_print_time(key, bench_summarize(seconds, times), 1e3, "ms");
    }
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    double seconds[MAX_TIMES];
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Barrier(parent);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    int times = (int)bench_option_long(argc, argv, "-k", 10);
    const char *command = bench_option(argc, argv, "-c", argv[0]);
    if (times < 1 || times > MAX_TIMES) {
        bench_fail("-k: from 1 to 1000");
    }
    for (int i = 0; i < times; i++) {
        seconds[i] = spawn_once(command);
    }
    report("dynamic.spawn", seconds, times);
    if (bench_comm_rank() == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
    }
    MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int i = 0; i < times && bench_comm_size() > 1; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        seconds[i] = bench_comm_rank() < 2 ? connect_once(port) : 0;
    }
    if (bench_comm_size() > 1) {
        report("dynamic.connect", seconds, times);
    }
    MPI_Finalize();
    return 0;
}
