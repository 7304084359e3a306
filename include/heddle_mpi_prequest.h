/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heddle_mpi_prequest.h: partitioned messages whose partitions kernels mark ready, by the names of the MPI Forum's hybrid
 * working group: the host's functions. Those of kernels are in mpi-ext-device.cuh. Both mpi-ext.h and mpi.h (unless
 * HEDDLE_NO_MPI_COMPAT is defined) include this file. docs/gpu-extensions.md describes them.
 */
#ifndef HEDDLE_MPI_PREQUEST_H
#define HEDDLE_MPI_PREQUEST_H

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel's handle of a partitioned request. */
typedef struct HEDDLE_Prequest *MPIX_Prequest;
#define MPIX_PREQUEST_NULL ((MPIX_Prequest)0)

/* Of a request of MPI_Psend_init or MPI_Precv_init that is not active. One at a time; the kernels run on the current GPU. */
int MPIX_Prequest_create(MPI_Request request, MPIX_Prequest *prequest);

/* The request is not active, and no kernel uses the prequest. MPI_Request_free frees it, too. */
int MPIX_Prequest_free(MPIX_Prequest *prequest);

/* Of active requests: waits until the receivers of those that are sends with a prequest have started the same round. After
 * it, kernels may mark partitions. */
int MPIX_Pbuf_prepare(MPI_Request request);
int MPIX_Pbuf_prepareall(int count, MPI_Request array_of_requests[]);

#ifdef __cplusplus
}
#endif

#endif /* HEDDLE_MPI_PREQUEST_H */
