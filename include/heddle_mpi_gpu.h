/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heddle_mpi_gpu.h: the questions by which programs find out whether MPI takes buffers on GPUs, by the names
 * of Open MPI's mpi-ext.h and of MPICH's mpi.h. Both mpi-ext.h and mpi.h (unless HEDDLE_NO_MPI_COMPAT is
 * defined) include it.
 */
#ifndef HEDDLE_MPI_GPU_H
#define HEDDLE_MPI_GPU_H

/* The compiler's answer: these headers are those of a library that can take such buffers. The functions tell whether the
 * library with which the program runs was built with CUDA. Programs look for both names. */
#define MPIX_CUDA_AWARE_SUPPORT 1
#define OMPI_HAVE_MPI_EXT_CUDA 1

/* MPIX_GPU_query_support: the kinds of GPUs. */
#define MPIX_GPU_SUPPORT_CUDA 0
#define MPIX_GPU_SUPPORT_ZE 1
#define MPIX_GPU_SUPPORT_HIP 2

#ifdef __cplusplus
extern "C" {
#endif

/* May be called at any time, also before MPI_Init. */

/* Returns 1 if the library takes buffers on GPUs of NVIDIA, 0 if it was built without CUDA. */
int MPIX_Query_cuda_support(void);

/* Return 0: GPUs of AMD (MPICH's and Open MPI's names) and of Intel are not supported. */
int MPIX_Query_hip_support(void);
int MPIX_Query_rocm_support(void);
int MPIX_Query_ze_support(void);

/* Sets *is_supported to 1 or 0 in the same sense. Raises MPI_ERR_ARG for another gpu_type than the three
 * above, and where is_supported is NULL. */
int MPIX_GPU_query_support(int gpu_type, int *is_supported);

#ifdef __cplusplus
}
#endif

#endif /* HEDDLE_MPI_GPU_H */
