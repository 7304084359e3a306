/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries support for device buffers with Open MPI's and MPICH's functions, and prints the answer. Run by
 * names_test.sh. */
#ifdef WITH_MPI_EXT
#include <mpi-ext.h>
#else
#include <mpi.h>
#endif
#include <stdio.h>

#if !(MPIX_CUDA_AWARE_SUPPORT + 0) || !(OMPI_HAVE_MPI_EXT_CUDA + 0)
#error "not CUDA-aware"
#endif
#ifndef MPIX_GPU_SUPPORT_CUDA
#error "cannot ask as with MPICH"
#endif

int main(int argc, char **argv)
{
    int is_supported = -1;

    MPI_Init(&argc, &argv);
    MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &is_supported);
    printf("CUDA %d %d\n", MPIX_Query_cuda_support(), is_supported);
    MPI_Finalize();
    return 0;
}
