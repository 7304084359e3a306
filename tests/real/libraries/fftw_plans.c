/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: ranks that plan at the same time with the system's FFTW, whose planner is per process and has no
 * lock, get right transforms; each rank has its own wisdom.
 */
#include <fftw3.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank;

/* A wave of frequency k through n points has n in place k and 0 elsewhere. */
static void transform(int n, unsigned flags)
{
    fftw_complex *in = fftw_alloc_complex((size_t)n), *out = fftw_alloc_complex((size_t)n);
    fftw_plan plan = fftw_plan_dft_1d(n, in, out, FFTW_FORWARD, flags);
    int k = (rank * 7 + 3) % n;

    if (!plan)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < n; i++) {
        in[i][0] = cos(2 * M_PI * k * i / n);
        in[i][1] = sin(2 * M_PI * k * i / n);
    }
    fftw_execute(plan);
    for (int i = 0; i < n; i++)
        if (fabs(out[i][0] - (i == k ? n : 0)) > 1e-9 * n || fabs(out[i][1]) > 1e-9 * n) {
            printf("rank %d: n %d: place %d is %g + %gi\n", rank, n, i, out[i][0], out[i][1]);
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
    fftw_destroy_plan(plan);
    fftw_free(in);
    fftw_free(out);
}

int main(int argc, char **argv)
{
    char *wisdom;
    int is_rank_0s_known;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < 4; round++)
        for (int n = 8; n <= 1024; n *= 2) {
            transform(n + round + rank % 5, FFTW_ESTIMATE);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    if (rank == 0) {
        transform(64, FFTW_MEASURE);
        wisdom = fftw_export_wisdom_to_string();
        free(wisdom);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) { /* a plan from wisdom alone: only where something was measured */
        fftw_complex *data = fftw_alloc_complex(64);
        fftw_plan plan = fftw_plan_dft_1d(64, data, data + 32, FFTW_FORWARD, FFTW_MEASURE | FFTW_WISDOM_ONLY);

        is_rank_0s_known = plan != NULL;
        fftw_free(data);
        if (is_rank_0s_known) {
            printf("rank 1 knows rank 0's wisdom\n");
            MPI_Abort(MPI_COMM_WORLD, 4);
        }
    }
    fftw_cleanup();
    if (rank == 0)
        puts("ok");
    MPI_Finalize();
    return 0;
}
