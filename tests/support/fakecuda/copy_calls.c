/* SPDX-License-Identifier: BSD-3-Clause
 *
 * copy_calls.c: the fake driver's functions that copy and fill. Those without Async use the stream NULL. It
 * is compiled twice: the second time for the functions *_ptds and *_ptsz.
 */
#include "fake.h"

/* ---- Bytes in a row ---- */

static CUresult copy(const char *function, CUdeviceptr to, CUdeviceptr from, size_t n_bytes, CUstream handle,
                     bool is_sync)
{
    struct fake_copy what = {.to = to, .from = from, .n_bytes = n_bytes, .n_rows = 1, .n_slices = 1};

    return fake_copy(function, &what, FAKE_MEANT(handle), is_sync);
}

FAKE_EXPORT CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n_bytes)
{
    return copy(__func__, to, from, n_bytes, NULL, true);
}

FAKE_EXPORT CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n_bytes, CUstream stream)
{
    return copy(__func__, to, from, n_bytes, stream, false);
}

FAKE_EXPORT CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t n_bytes)
{
    return copy(__func__, to, (CUdeviceptr)from, n_bytes, NULL, true);
}

FAKE_EXPORT CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t n_bytes)
{
    return copy(__func__, (CUdeviceptr)to, from, n_bytes, NULL, true);
}

FAKE_EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t n_bytes, CUstream stream)
{
    return copy(__func__, to, (CUdeviceptr)from, n_bytes, stream, false);
}

FAKE_EXPORT CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t n_bytes, CUstream stream)
{
    return copy(__func__, (CUdeviceptr)to, from, n_bytes, stream, false);
}

FAKE_EXPORT CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t n_bytes)
{
    return copy(__func__, to, from, n_bytes, NULL, true);
}

/* Takes no address that the driver does not know, where the functions that copy anything read it as the
 * host's; nor memory that is closed to the current context's device, whatever the stream's. */
FAKE_EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t n_bytes, CUstream stream)
{
    return fake_can_copy_on_device(to, from) ? copy(__func__, to, from, n_bytes, stream, false)
                                             : CUDA_ERROR_INVALID_VALUE;
}

FAKE_EXPORT CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                  CUcontext from_context, size_t n_bytes)
{
    return copy(__func__, to, from, n_bytes, NULL, true);
}

FAKE_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                       CUcontext from_context, size_t n_bytes, CUstream stream)
{
    return copy(__func__, to, from, n_bytes, stream, false);
}

/* ---- Rows and slices ---- */

/* The address of one side, with its offset. */
static CUdeviceptr corner(CUmemorytype type, const void *host, CUdeviceptr device, size_t offset)
{
    return (type == CU_MEMORYTYPE_HOST ? (CUdeviceptr)host : device) + offset;
}

static CUresult copy_2d(const char *function, const CUDA_MEMCPY2D *what, CUstream handle, bool is_sync)
{
    struct fake_copy made = {.to_pitch = what->dstPitch,
                             .from_pitch = what->srcPitch,
                             .n_bytes = what->WidthInBytes,
                             .n_rows = what->Height,
                             .n_slices = 1};

    if (what->srcMemoryType == CU_MEMORYTYPE_ARRAY || what->dstMemoryType == CU_MEMORYTYPE_ARRAY)
        return CUDA_ERROR_NOT_SUPPORTED;
    made.to = corner(what->dstMemoryType, what->dstHost, what->dstDevice,
                     what->dstY * what->dstPitch + what->dstXInBytes);
    made.from = corner(what->srcMemoryType, what->srcHost, what->srcDevice,
                       what->srcY * what->srcPitch + what->srcXInBytes);
    return fake_copy(function, &made, FAKE_MEANT(handle), is_sync);
}

FAKE_EXPORT CUresult cuMemcpy2D(const CUDA_MEMCPY2D *what)
{
    return copy_2d(__func__, what, NULL, true);
}

FAKE_EXPORT CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *what)
{
    return copy_2d(__func__, what, NULL, true);
}

FAKE_EXPORT CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *what, CUstream stream)
{
    return copy_2d(__func__, what, stream, false);
}

/* CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER are two structs with the same names. */
#define COPY_3D(function, what, handle, is_sync)                                                           \
    do {                                                                                                   \
        size_t to_slice = (what)->dstPitch * (what)->dstHeight,                                            \
               from_slice = (what)->srcPitch * (what)->srcHeight;                                          \
        struct fake_copy made = {.to_pitch = (what)->dstPitch,                                             \
                                 .from_pitch = (what)->srcPitch,                                           \
                                 .to_slice = to_slice,                                                     \
                                 .from_slice = from_slice,                                                 \
                                 .n_bytes = (what)->WidthInBytes,                                          \
                                 .n_rows = (what)->Height,                                                 \
                                 .n_slices = (what)->Depth};                                               \
        if ((what)->srcMemoryType == CU_MEMORYTYPE_ARRAY || (what)->dstMemoryType == CU_MEMORYTYPE_ARRAY)  \
            return CUDA_ERROR_NOT_SUPPORTED;                                                               \
        made.to = corner((what)->dstMemoryType, (what)->dstHost, (what)->dstDevice,                        \
                         (what)->dstZ * to_slice + (what)->dstY * (what)->dstPitch + (what)->dstXInBytes); \
        made.from =                                                                                        \
            corner((what)->srcMemoryType, (what)->srcHost, (what)->srcDevice,                              \
                   (what)->srcZ * from_slice + (what)->srcY * (what)->srcPitch + (what)->srcXInBytes);     \
        return fake_copy(function, &made, FAKE_MEANT(handle), is_sync);                                    \
    } while (0)

FAKE_EXPORT CUresult cuMemcpy3D(const CUDA_MEMCPY3D *what)
{
    COPY_3D(__func__, what, NULL, true);
}

FAKE_EXPORT CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D *what, CUstream stream)
{
    COPY_3D(__func__, what, stream, false);
}

FAKE_EXPORT CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *what)
{
    COPY_3D(__func__, what, NULL, true);
}

FAKE_EXPORT CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *what, CUstream stream)
{
    COPY_3D(__func__, what, stream, false);
}

/* ---- Fills: each of one row and of several, with and without a stream ---- */

static CUresult fill(const char *function, CUdeviceptr to, unsigned value, unsigned value_bytes, size_t n,
                     size_t pitch, size_t n_rows, CUstream handle, bool is_sync)
{
    struct fake_fill what = {to, value, value_bytes, n, pitch, n_rows};

    return fake_fill(function, &what, FAKE_MEANT(handle), is_sync);
}

#define FILLS(name, name_async, name_2d, name_2d_async, type)                                             \
    FAKE_EXPORT CUresult name(CUdeviceptr to, type value, size_t n)                                       \
    {                                                                                                     \
        return fill(__func__, to, value, sizeof(type), n, 0, 1, NULL, true);                              \
    }                                                                                                     \
    FAKE_EXPORT CUresult name_async(CUdeviceptr to, type value, size_t n, CUstream stream)                \
    {                                                                                                     \
        return fill(__func__, to, value, sizeof(type), n, 0, 1, stream, false);                           \
    }                                                                                                     \
    FAKE_EXPORT CUresult name_2d(CUdeviceptr to, size_t pitch, type value, size_t n, size_t n_rows)       \
    {                                                                                                     \
        return fill(__func__, to, value, sizeof(type), n, pitch, n_rows, NULL, true);                     \
    }                                                                                                     \
    FAKE_EXPORT CUresult name_2d_async(CUdeviceptr to, size_t pitch, type value, size_t n, size_t n_rows, \
                                       CUstream stream)                                                   \
    {                                                                                                     \
        return fill(__func__, to, value, sizeof(type), n, pitch, n_rows, stream, false);                  \
    }

FILLS(cuMemsetD8, cuMemsetD8Async, cuMemsetD2D8, cuMemsetD2D8Async, unsigned char)
FILLS(cuMemsetD16, cuMemsetD16Async, cuMemsetD2D16, cuMemsetD2D16Async, unsigned short)
FILLS(cuMemsetD32, cuMemsetD32Async, cuMemsetD2D32, cuMemsetD2D32Async, unsigned)
