/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: the system's GSL has an error handler, a default generator and a default seed per rank.
 */
#include <gsl/gsl_errno.h>
#include <gsl/gsl_integration.h>
#include <gsl/gsl_rng.h>
#include <gsl/gsl_sf_gamma.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, n_errors;

static void count_error(const char *reason, const char *file, int line, int error)
{
    (void)reason, (void)file, (void)line, (void)error;
    n_errors++;
}

static double power(double x, void *arg)
{
    return pow(x, *(int *)arg);
}

static void fail(const char *what)
{
    printf("rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

int main(int argc, char **argv)
{
    gsl_integration_workspace *room;
    gsl_function function;
    gsl_sf_result gamma;
    gsl_rng *rng, *again;
    double result, error;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gsl_set_error_handler(count_error);
    gsl_rng_default = rank % 2 ? gsl_rng_taus : gsl_rng_mt19937; /* variables of the library */
    gsl_rng_default_seed = 100 + (unsigned long)rank;
    MPI_Barrier(MPI_COMM_WORLD);
    if (gsl_rng_default != (rank % 2 ? gsl_rng_taus : gsl_rng_mt19937))
        fail("the default generator is another rank's");
    for (int round = 0; round < 20; round++) {
        gsl_sf_gamma_e(-1.0, &gamma);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (n_errors != 20)
        fail("the error handler is another rank's");
    rng = gsl_rng_alloc(gsl_rng_default);
    again = gsl_rng_alloc(gsl_rng_default);
    gsl_rng_set(again, 100 + (unsigned long)rank);
    for (int i = 0; i < 1000; i++)
        if (gsl_rng_get(rng) != gsl_rng_get(again))
            fail("the default seed is another rank's");
    gsl_rng_free(rng);
    gsl_rng_free(again);
    room = gsl_integration_workspace_alloc(100);
    function = (gsl_function){.function = power, .params = &rank};
    gsl_integration_qags(&function, 0, 1, 0, 1e-10, 100, room, &result, &error);
    if (fabs(result - 1.0 / (rank + 1)) > 1e-9)
        fail("the integral is wrong");
    gsl_integration_workspace_free(room);
    if (rank == 0)
        puts("ok");
    MPI_Finalize();
    return 0;
}
