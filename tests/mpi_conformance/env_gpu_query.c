/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPU queries (Open MPI's and MPICH's names) return the same answer, 0 or 1, before MPI_Init, between and
 * after MPI_Finalize; an unknown type of GPU and a NULL output are errors. */
#include <mpi-ext.h>

#include "mtest.h"

/* Returns the answer, or -1 if the two questions are answered differently. */
static int ask(void)
{
    int is_supported = -1;

    if (MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &is_supported) != MPI_SUCCESS)
        return -1;
    return is_supported == MPIX_Query_cuda_support() ? is_supported : -1;
}

int main(int argc, char **argv)
{
    int before = ask(), is_supported = -1;

    mtest_init(&argc, &argv, 1);
    MTEST_CHECK(MPIX_Query_hip_support() + MPIX_Query_rocm_support() + MPIX_Query_ze_support() == 0,
                "GPUs of AMD or Intel");
    MTEST_CHECK(before == 0 || before == 1, "before MPI_Init the answer is %d", before);
    MTEST_CHECK(ask() == before, "after MPI_Init the answer is %d, before it was %d", ask(), before);
    MTEST_OK(MPIX_GPU_query_support(MPIX_GPU_SUPPORT_ZE, &is_supported));
    MTEST_CHECK(is_supported == 0, "GPUs of Intel: %d", is_supported);
    is_supported = -1;
    MTEST_OK(MPIX_GPU_query_support(MPIX_GPU_SUPPORT_HIP, &is_supported));
    MTEST_CHECK(is_supported == 0, "GPUs of AMD: %d", is_supported);

    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    is_supported = 7;
    MTEST_CLASS(MPIX_GPU_query_support(3, &is_supported), MPI_ERR_ARG);
    MTEST_CLASS(MPIX_GPU_query_support(-1, &is_supported), MPI_ERR_ARG);
    MTEST_CHECK(is_supported == 7, "a call that failed has set the answer to %d", is_supported);
    MTEST_CLASS(MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, NULL), MPI_ERR_ARG);
    int code = mtest_end();
    return ask() == before ? code : 1;
}
