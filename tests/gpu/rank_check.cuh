/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rank_check.cuh: checks of the CUDA tests for a GPU. A failed one names the rank.
 */
#ifndef RANK_CHECK_CUH
#define RANK_CHECK_CUH

#include <mpi.h>

#include <cstdio>

static int rank, size; /* of MPI_COMM_WORLD, set by main */

/* A rank that sees an error ends the job: the others may wait for it. */
#define CHECK(cond, ...)                                                \
    do {                                                                \
        if (!(cond)) {                                                  \
            fprintf(stderr, "FAIL rank %d, line %d: ", rank, __LINE__); \
            fprintf(stderr, __VA_ARGS__);                               \
            fprintf(stderr, "\n");                                      \
            MPI_Abort(MPI_COMM_WORLD, 1);                               \
        }                                                               \
    } while (0)
#define CUDA(call)                                                                   \
    do {                                                                             \
        cudaError_t result_ = (call);                                                \
        CHECK(result_ == cudaSuccess, "%s: %s", #call, cudaGetErrorString(result_)); \
    } while (0)
#define MPI(call) CHECK((call) == MPI_SUCCESS, #call)

#endif
