/* SPDX-License-Identifier: BSD-3-Clause
 *
 * mpi_check.cuh: a rank whose call of CUDA fails ends the job.
 */
#ifndef MPI_CHECK_CUH
#define MPI_CHECK_CUH

#include <mpi.h>

#include <cstdio>

#define CHECK(call)                                                                             \
    do {                                                                                        \
        cudaError_t result_ = (call);                                                           \
        if (result_ != cudaSuccess) {                                                           \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(result_)); \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                       \
        }                                                                                       \
    } while (0)

#endif
