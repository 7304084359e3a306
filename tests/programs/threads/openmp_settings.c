/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows that what a rank sets in its OpenMP runtime is the rank's: the number of threads, schedule, dynamic adjustment, nesting, device and
 * allocator, and, for the whole program, the format of affinity messages and the numbers of teams. Ranks on one PE set different
 * values in turns, and find their own ones after others have run, outside of parallel regions and in them. */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

static int rank, size, n_wrong;

static void expect(const char *what, long found, long expected)
{
    if (found == expected)
        return;
    fprintf(stderr, "rank %d: %s is %ld, not %ld\n", rank, what, found, expected);
#pragma omp atomic
    n_wrong++;
}

static int own_threads(void)
{
    return 1 + rank % 4;
}

static const omp_sched_t kinds[] = {omp_sched_static, omp_sched_dynamic, omp_sched_guided};

static void set_all(void)
{
    char format[32];

    omp_set_num_threads(own_threads());
    omp_set_schedule(kinds[rank % 3], 2 + rank);
    omp_set_dynamic(0);
    omp_set_max_active_levels(1 + rank % 3);
    omp_set_default_device(rank + 1);
    snprintf(format, sizeof format, "rank %d", rank);
    omp_set_affinity_format(format);
    omp_set_default_allocator(rank % 2 ? omp_low_lat_mem_alloc : omp_high_bw_mem_alloc);
    omp_set_num_teams(3 + rank);
    omp_set_teams_thread_limit(5 + rank);
}

static void check_all(void)
{
    omp_sched_t kind = omp_sched_auto;
    int chunk = 0, n_threads = 0;
    char format[32] = "", own[32];

    expect("omp_get_max_threads", omp_get_max_threads(), own_threads());
    omp_get_schedule(&kind, &chunk);
    expect("the schedule", kind & 15, kinds[rank % 3]);
    expect("the chunk", chunk, 2 + rank);
    expect("omp_get_dynamic", omp_get_dynamic(), 0);
    expect("omp_get_max_active_levels", omp_get_max_active_levels(), 1 + rank % 3);
    expect("omp_get_default_device", omp_get_default_device(), rank + 1);
    omp_get_affinity_format(format, sizeof format);
    snprintf(own, sizeof own, "rank %d", rank);
    expect("the comparison of affinity formats", strcmp(format, own), 0);
    expect("the allocator", (long)omp_get_default_allocator(),
           (long)(rank % 2 ? omp_low_lat_mem_alloc : omp_high_bw_mem_alloc));
    expect("omp_get_max_teams", omp_get_max_teams(), 3 + rank);
    expect("omp_get_teams_thread_limit", omp_get_teams_thread_limit(), 5 + rank);
#pragma omp parallel reduction(+ : n_threads)
    {
        expect("omp_get_num_threads", omp_get_num_threads(), own_threads());
        n_threads++;
#pragma omp master
        MPI_Barrier(MPI_COMM_WORLD); /* others run inside of their regions */
    }
    expect("the number of threads", n_threads, own_threads());
}

int main(int argc, char **argv)
{
    int provided, all = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int turn = 0; turn < size; turn++) { /* one after the other */
        if (turn == rank)
            set_all();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int round = 0; round < 3; round++)
        check_all();
    omp_set_num_threads(own_threads() + 1); /* once more, with teams that exist */
    MPI_Barrier(MPI_COMM_WORLD);
    expect("the changed number", omp_get_max_threads(), own_threads() + 1);
    omp_set_num_threads(own_threads());
    MPI_Barrier(MPI_COMM_WORLD);
    check_all();
    MPI_Allreduce(&n_wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s\n", all == 0 ? "ok" : "wrong");
    MPI_Finalize();
    return 0;
}
