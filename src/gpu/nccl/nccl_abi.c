/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nccl_abi.c: compares nccl_abi.h with NCCL's own header, if available.
 */
#include "gpu/nccl/nccl_abi.h"

#ifdef __has_include
#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>
#if NCCL_VERSION_CODE >= GPU_NCCL_OLDEST

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
SAME(GPU_NCCL_SUCCESS, ncclSuccess);
SAME(GPU_NCCL_UNHANDLED_CUDA_ERROR, ncclUnhandledCudaError);
SAME(GPU_NCCL_SYSTEM_ERROR, ncclSystemError);
SAME(GPU_NCCL_INVALID_USAGE, ncclInvalidUsage);
SAME(GPU_NCCL_REMOTE_ERROR, ncclRemoteError);
SAME(GPU_NCCL_IN_PROGRESS, ncclInProgress);
SAME(GPU_NCCL_INT8, ncclInt8);
SAME(GPU_NCCL_UINT8, ncclUint8);
SAME(GPU_NCCL_INT32, ncclInt32);
SAME(GPU_NCCL_UINT32, ncclUint32);
SAME(GPU_NCCL_INT64, ncclInt64);
SAME(GPU_NCCL_UINT64, ncclUint64);
SAME(GPU_NCCL_FLOAT16, ncclFloat16);
SAME(GPU_NCCL_FLOAT32, ncclFloat32);
SAME(GPU_NCCL_FLOAT64, ncclFloat64);
SAME(GPU_NCCL_SUM, ncclSum);
SAME(GPU_NCCL_PROD, ncclProd);
SAME(GPU_NCCL_MAX, ncclMax);
SAME(GPU_NCCL_MIN, ncclMin);
SAME(sizeof(struct gpu_nccl_unique_id), sizeof(ncclUniqueId));
SAME(sizeof(ncclResult_t), sizeof(int));
SAME(sizeof(ncclDataType_t), sizeof(int));
SAME(sizeof(ncclRedOp_t), sizeof(int));
#endif
#endif
#endif
