/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nccl_abi.h: own declarations of the part of NCCL's binary interface that nccl.c uses: a build needs no
 * nccl.h. nccl_abi.c compares the two if that header is available. Enumerations are ints.
 */
#ifndef GPU_NCCL_ABI_H
#define GPU_NCCL_ABI_H

#include <stddef.h>

/* ncclResult_t */
enum {
    GPU_NCCL_SUCCESS = 0,
    GPU_NCCL_UNHANDLED_CUDA_ERROR = 1,
    GPU_NCCL_SYSTEM_ERROR = 2,
    GPU_NCCL_INVALID_USAGE = 5,
    GPU_NCCL_REMOTE_ERROR = 6,
    GPU_NCCL_IN_PROGRESS = 7,
};

/* ncclDataType_t */
enum {
    GPU_NCCL_INT8 = 0,
    GPU_NCCL_UINT8 = 1,
    GPU_NCCL_INT32 = 2,
    GPU_NCCL_UINT32 = 3,
    GPU_NCCL_INT64 = 4,
    GPU_NCCL_UINT64 = 5,
    GPU_NCCL_FLOAT16 = 6,
    GPU_NCCL_FLOAT32 = 7,
    GPU_NCCL_FLOAT64 = 8,
};

/* ncclRedOp_t */
enum { GPU_NCCL_SUM = 0, GPU_NCCL_PROD = 1, GPU_NCCL_MAX = 2, GPU_NCCL_MIN = 3 };

#define GPU_NCCL_UNIQUE_ID_BYTES 128
struct gpu_nccl_unique_id {
    char internal[GPU_NCCL_UNIQUE_ID_BYTES];
};

#define GPU_NCCL_OLDEST 21300 /* 2.13.0: the first with ncclGetLastError */

/* X(type of the result, name, parameters); a communicator is a void *, a stream a CUstream. */
#define GPU_NCCL_SYMBOLS(X)                                                                             \
    X(int, ncclGetVersion, (int *version))                                                              \
    X(int, ncclGetUniqueId, (struct gpu_nccl_unique_id * id))                                           \
    X(int, ncclCommInitRank, (void **comm, int n_ranks, struct gpu_nccl_unique_id id, int rank))        \
    X(int, ncclCommGetAsyncError, (void *comm, int *error))                                             \
    X(int, ncclCommDestroy, (void *comm))                                                               \
    X(int, ncclCommAbort, (void *comm))                                                                 \
    X(const char *, ncclGetErrorString, (int error))                                                    \
    X(const char *, ncclGetLastError, (void *comm))                                                     \
    X(int, ncclGroupStart, (void))                                                                      \
    X(int, ncclGroupEnd, (void))                                                                        \
    X(int, ncclAllReduce,                                                                               \
      (const void *from, void *to, size_t count, int type, int op, void *comm, void *stream))           \
    X(int, ncclReduce,                                                                                  \
      (const void *from, void *to, size_t count, int type, int op, int root, void *comm, void *stream)) \
    X(int, ncclReduceScatter,                                                                           \
      (const void *from, void *to, size_t count, int type, int op, void *comm, void *stream))           \
    X(int, ncclBroadcast,                                                                               \
      (const void *from, void *to, size_t count, int type, int root, void *comm, void *stream))         \
    X(int, ncclAllGather, (const void *from, void *to, size_t count, int type, void *comm, void *stream))

#endif
