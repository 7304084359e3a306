/* SPDX-License-Identifier: BSD-3-Clause
 *
 * old_versions.c: functions that the driver keeps in two versions, with an address each. CUDA's runtime asks
 * for the first versions of these.
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
