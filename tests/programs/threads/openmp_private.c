/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Threads of OpenMP read the main thread's threadprivate variable (copyin, copyprivate), also while the runtime lets other ranks run.
 */
#include <mpi.h>
#include <stdio.h>

#define ROUNDS 100

static int rank;
static int private_value;
#pragma omp threadprivate(private_value)

int main(int argc, char **argv)
{
    int n_wrong = 0, sum, provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < ROUNDS; i++) {
#pragma omp parallel num_threads(3) reduction(+ : n_wrong)
        {
#pragma omp single copyprivate(private_value)
            private_value = rank * ROUNDS + i;
            n_wrong += private_value != rank * ROUNDS + i;
        }
        private_value = -rank - 1;
#pragma omp parallel num_threads(3) copyin(private_value) reduction(+ : n_wrong)
        n_wrong += private_value != -rank - 1;
    }
    MPI_Reduce(&n_wrong, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf(sum == 0 ? "ok\n" : "%d wrong values\n", sum);
    MPI_Finalize();
    return 0;
}
