/* SPDX-License-Identifier: BSD-3-Clause
 *
 * dims.c: MPI_Dims_create (MPI 5.0, section 8.5.2).
 *
 * The factors are to be as close to each other as possible: the sequence, not increasing, is the least one in
 * lexicographic order. It is found by trying, for the largest factor, the divisors from the root upwards, and
 * the rest in the same way. No factor can be less than a prime factor of what is left, which cuts nearly all
 * fruitless branches off.
 */
#include "ampi/error.h"
#include "ampi/rank.h"
#include "ampi/topo.h"

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

/* True if base ** exponent >= n. */
static bool power_reaches(int base, int exponent, int n)
{
    int64_t power = 1;

    if (base == 1)
        return n <= 1;
    while (exponent-- > 0 && power < n)
        power *= base;
    return power >= n;
}

/* Writes n as n_dims factors, not increasing, each at most `limit`; false: that cannot be. */
static bool factorize(int n, int n_dims, int limit, int *dims_out)
{
    if (n_dims == 1 || n == 1) {
        dims_out[0] = n;
        for (int i = 1; i < n_dims; i++)
            dims_out[i] = 1;
        return n <= limit;
    }
    for (int first = largest_prime_factor(n); first <= limit && first <= n; first++) {
        if (n % first == 0 && power_reaches(first, n_dims, n) &&
            factorize(n / first, n_dims - 1, first, dims_out + 1)) {
            dims_out[0] = first;
            return true;
        }
    }
    return false;
}

void ampi_dims_balance(int n, int n_dims, int *dims_out)
{
    if (n_dims > 0)
        factorize(n, n_dims, n, dims_out);
}

/* Counts the dimensions that are 0 and divides the nodes by the others; raises what is wrong. */
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
        return ampi_raise_self(MPI_ERR_DIMS, "%d nodes do not fit the dimensions that are given", nnodes);
    *n_free_out = n_free;
    *n_left_out = (int)(nnodes / product);
    return MPI_SUCCESS;
}

AMPI_EXPORT(Dims_create)
int PMPI_Dims_create(int nnodes, int ndims, int dims[])
{
    int factors[32]; /* 2 ** 31 has no more that are not 1 */
    int n_free = 0, n_left = 1, next = 0;
    int error;

    ampi_enter("MPI_Dims_create");
    error = check(nnodes, ndims, dims, &n_free, &n_left);
    if (error)
        return error;
    ampi_dims_balance(n_left, n_free < 32 ? n_free : 32, factors);
    for (int i = 0; i < ndims; i++) {
        if (dims[i] == 0) {
            dims[i] = next < 32 ? factors[next] : 1;
            next++;
        }
    }
    return MPI_SUCCESS;
}
