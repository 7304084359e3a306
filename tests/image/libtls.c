/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The shared library of tls_library.c: thread_local variables with and without initial values, compiled for
 * different models.
 */
#include "libtls.h"

static int target = 5;
_Thread_local int tls_counter = 77;
static _Thread_local int *pointer = &target;
static _Thread_local int aligned __attribute__((aligned(64))) = 3;
static _Thread_local int page __attribute__((aligned(4096))) = 4;
static _Thread_local volatile double one = 1;
static _Thread_local char big[190000];

int *tls_counter_address(void)
{
    return &tls_counter;
}

int tls_is_pointer_right(void)
{
    return pointer == &target && *pointer == 5;
}

int *tls_aligned_address(void)
{
    return &aligned;
}

int *tls_page_address(void)
{
    return &page;
}

double tls_sum(double a, double b, double c, double d, double e, double f, double g, double h, long i, long j,
               long k, long l, long m, long n)
{
    double sum = one;

    sum += a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
    return sum + (double)(i + 2 * j + 3 * k + 4 * l + 5 * m + 6 * n);
}

char *tls_big_address(void)
{
    return big;
}
