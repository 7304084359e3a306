/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows that OpenMP's threads call MPI in their parallel region, all at once, by a master, in tasks and in a
 * critical section, and that the barriers of the region do not keep other ranks from going on. */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>

#define THREADS 4
#define ROUNDS 30

static int rank, size, n_wrong, n_critical;

static void exchange(int tag, int round)
{
    int in = -1, out = rank * 1000 + tag + round;

    MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % size, tag, &in, 1, MPI_INT, (rank + size - 1) % size, tag,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (in != (rank + size - 1) % size * 1000 + tag + round) {
#pragma omp atomic
        n_wrong++;
    }
}

int main(int argc, char **argv)
{
    int provided, sum = 0, all = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    omp_set_dynamic(0);
#pragma omp parallel num_threads(THREADS)
    {
        for (int i = 0; i < ROUNDS; i++)
            exchange(omp_get_thread_num(), i);
#pragma omp barrier
#pragma omp for schedule(static, 1)
        for (int i = 0; i < 2 * THREADS; i++)
            exchange(100 + i, i);
#pragma omp single
        exchange(200, 0);
#pragma omp master
        exchange(300, 0);
#pragma omp critical
        exchange(400 + n_critical++, 0); /* the threads of another rank may come in another order */
    }
#pragma omp parallel for reduction(+ : sum) num_threads(THREADS)
    for (int i = 0; i < 100; i++)
        sum += i + rank;
    MPI_Allreduce(&sum, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    n_wrong += all != size * 4950 + 100 * size * (size - 1) / 2;
    MPI_Allreduce(MPI_IN_PLACE, &n_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%s\n", provided == MPI_THREAD_MULTIPLE && n_wrong == 0 ? "ok" : "wrong");
    MPI_Finalize();
    return 0;
}
