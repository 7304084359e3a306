/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shows: ranks multiply and factorize matrices with the system's OpenBLAS at the same time and get right
 * results. The program's own xerbla, which OpenBLAS calls, is the calling rank's.
 */
#include <cblas.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, n_complaints;

void dgesv_(const int *n, const int *n_rhs, double *a, const int *lda, int *pivots, double *b, const int *ldb,
            int *info);
void dgemv_(const char *trans, const int *m, const int *n, const double *alpha, const double *a,
            const int *lda, const double *x, const int *incx, const double *beta, double *y, const int *incy);
void xerbla_(const char *name, const int *info, int len);

void xerbla_(const char *name, const int *info, int len)
{
    (void)name, (void)info, (void)len;
    n_complaints++;
}

static void fail(const char *what)
{
    printf("rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static void multiply(int n)
{
    double *a = malloc((size_t)n * n * sizeof *a), *b = malloc((size_t)n * n * sizeof *b),
           *c = calloc((size_t)n * n, sizeof *c);

    for (int i = 0; i < n * n; i++) {
        a[i] = (i * 7 + rank) % 11 - 5;
        b[i] = (i * 3 + rank) % 13 - 6;
    }
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, b, n, 0, c, n);
    for (int i = 0; i < n; i += 7)
        for (int j = 0; j < n; j += 5) {
            double sum = 0;

            for (int k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            if (c[i * n + j] != sum)
                fail("dgemm is wrong");
        }
    free(a);
    free(b);
    free(c);
}

static void solve(int n)
{
    double *a = malloc((size_t)n * n * sizeof *a), *b = calloc((size_t)n, sizeof *b);
    int *pivots = malloc((size_t)n * sizeof *pivots), one = 1, info = -1;

    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            a[j * n + i] = i == j ? n + rank : 1.0 / (1 + i + j);
            b[i] += a[j * n + i] * (j + 1);
        }
    dgesv_(&n, &one, a, &n, pivots, b, &n, &info);
    if (info != 0)
        fail("dgesv failed");
    for (int i = 0; i < n; i++)
        if (fabs(b[i] - (i + 1)) > 1e-9)
            fail("dgesv is wrong");
    free(a);
    free(b);
    free(pivots);
}

int main(int argc, char **argv)
{
    double alpha = 1, x = 1, y = 1;
    int one = 1, minus = -1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < 3; round++) {
        multiply(20 + rank % 7);
        multiply(128);
        solve(60);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    dgemv_("N", &minus, &one, &alpha, &x, &one, &x, &one, &alpha, &y, &one);
    if (n_complaints != 1)
        fail("the rank's own xerbla was not called");
    if (rank == 0)
        puts("ok");
    MPI_Finalize();
    return 0;
}
