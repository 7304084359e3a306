/* SPDX-License-Identifier: BSD-3-Clause
 *
 * old_versions.c: functions that the driver has in two versions, each with its own address. CUDA's runtime
 * requests the first versions.
 */
#include "fake.h"

#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset

CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice device);

FAKE_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    return cuDevicePrimaryCtxRelease_v2(device);
}

FAKE_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    return cuDevicePrimaryCtxReset_v2(device);
}
