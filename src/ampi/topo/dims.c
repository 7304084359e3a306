/* SPDX-License-Identifier: BSD-3-Clause
 *
 * dims.c: MPI_Dims_create (MPI 5.0, section 8.5.2).
 *
 * The factors are as close to each other as possible: the difference between the largest and the smallest is minimal;
 * among the non-increasing sequences with that difference, the result is the lexicographically smallest. The search
 * tries all divisors as the largest factor, from the root upwards, each with the smallest factor from the root
 * downwards, until the difference to the root alone is no better. No factor can be less than a prime factor of the
 * remaining product; this prunes nearly all useless branches.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ampi/object/error.h"
#include "ampi/object/rank.h"
#include "ampi/comm/topo.h"
#include "base/log.h"

static int largest_prime_factor(int n)
{
    int largest = 1;

    for (int p = 2; (int64_t)p * p <= n; p++) {
        while (n % p == 0) {
            largest = p;
            n /= p;
        }
    }
    return n > 1 ? n : largest;
}

/* base ** exponent, or a number greater than n if that is greater. */
static int64_t power_up_to(int base, int exponent, int n)
{
    int64_t power = 1;

    while (base > 1 && exponent-- > 0 && power <= n)
        power *= base;
    return power;
}

static bool power_reaches(int base, int exponent, int n)
{
    return power_up_to(base, exponent, n) >= n;
}

/* The divisors of a number, ascending. No int has more than 1600. */
struct divisors {
    int n;
    int list[1600];
};

static void find_divisors(int n, struct divisors *divisors)
{
    divisors->n = 0;
    for (int d = 1; (int64_t)d * d <= n; d++)
        if (n % d == 0)
            divisors->list[divisors->n++] = d;
    for (int i = divisors->n - 1; i >= 0; i--) { /* each has a partner above the root, or is the root */
        int partner = n / divisors->list[i];
        if (partner != divisors->list[i])
            divisors->list[divisors->n++] = partner;
    }
}

/* Writes n as n_dims non-increasing factors between `least` and `most`, the lexicographically smallest such
 * sequence; false: there is none. The factors are among the divisors. */
static bool factorize(const struct divisors *divisors, int n, int n_dims, int least, int most, int *dims_out)
{
    int from;

    if (n_dims == 0)
        return n == 1;
    if (n_dims == 1) {
        dims_out[0] = n;
        return n >= least && n <= most;
    }
    from = largest_prime_factor(n);
    from = from > least ? from : least;
    for (int i = 0; i < divisors->n && divisors->list[i] <= most; i++) {
        int first = divisors->list[i];
        if (first >= from && n % first == 0 && power_reaches(first, n_dims, n) &&
            factorize(divisors, n / first, n_dims - 1, least, first, dims_out + 1)) {
            dims_out[0] = first;
            return true;
        }
    }
    return false;
}

/* Finds factors with this largest one and a smallest one that is at most `root` and greater than
 * most_below; returns the smallest one, or 0. */
static int factorize_below(const struct divisors *divisors, int n, int n_dims, int largest, int root,
                           int most_below, int *dims_out)
{
    for (int i = divisors->n - 1; i >= 0 && divisors->list[i] > most_below; i--) {
        int smallest = divisors->list[i];
        if (smallest > root || n / largest % smallest != 0 ||
            !factorize(divisors, n / largest / smallest, n_dims - 2, smallest, largest, dims_out + 1))
            continue;
        dims_out[0] = largest;
        dims_out[n_dims - 1] = smallest;
        return smallest;
    }
    return 0;
}

/* Writes non-increasing factors of n, the largest as small as possible, then the second largest, and so on. */
static void balance(int n, int n_dims, int *dims_out)
{
    struct divisors *divisors;
    int trial[32], root = 1, spread = INT_MAX;

    if (n_dims == 1)
        dims_out[0] = n;
    if (n_dims <= 1)
        return;
    while (power_up_to(root + 1, n_dims, n) <= n)
        root++;
    divisors =
        base_malloc(sizeof *divisors, "MPI_Dims_create"); /* would take two pages of each rank's stack */
    find_divisors(n, divisors);
    for (int i = 0; i < divisors->n && divisors->list[i] - root < spread; i++) {
        int largest = divisors->list[i], smallest;
        if (!power_reaches(largest, n_dims, n))
            continue;
        smallest = factorize_below(divisors, n, n_dims, largest, root,
                                   spread == INT_MAX ? 0 : largest - spread, trial);
        if (smallest > 0) {
            spread = largest - smallest;
            memcpy(dims_out, trial, (size_t)n_dims * sizeof *trial);
        }
    }
    free(divisors);
}

/* Counts the dimensions that are 0 and divides the nodes by the others; raises errors. */
static int check(int nnodes, int ndims, const int *dims, int *n_free_out, int *n_left_out)
{
    int n_free = 0;
    int64_t product = 1;

    if (nnodes <= 0 || ndims < 0)
        return ampi_raise_self(MPI_ERR_ARG, "nnodes is %d and ndims is %d", nnodes, ndims);
    if (ndims > 0 && !dims)
        return ampi_raise_self(MPI_ERR_ARG, "dims is NULL");
    for (int i = 0; i < ndims; i++) {
        if (dims[i] < 0)
            return ampi_raise_self(MPI_ERR_DIMS, "dims[%d] is %d", i, dims[i]);
        n_free += dims[i] == 0;
        product *= dims[i] ? dims[i] : 1;
        if (product > nnodes)
            break;
    }
    if (nnodes % product != 0 || (ndims > 0 && n_free == 0 && product != nnodes))
        return ampi_raise_self(MPI_ERR_DIMS, "%d nodes do not fit the given dimensions", nnodes);
    *n_free_out = n_free;
    *n_left_out = (int)(nnodes / product);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Dims_create);
int PMPI_Dims_create(int nnodes, int ndims, int dims[])
{
    int factors[32]; /* 2 ** 31 has no more factors greater than 1 */
    int n_free = 0, n_left = 1, next = 0;
    int error;

    ampi_enter("MPI_Dims_create");
    error = check(nnodes, ndims, dims, &n_free, &n_left);
    if (error)
        return error;
    balance(n_left, n_free < 32 ? n_free : 32, factors);
    for (int i = 0; i < ndims; i++) {
        if (dims[i] == 0) {
            dims[i] = next < 32 ? factors[next] : 1;
            next++;
        }
    }
    return MPI_SUCCESS;
}
