/* SPDX-License-Identifier: BSD-3-Clause
 *
 * gpu_device.h: common parts of the unit tests of kernels: the driver (fake or real), device memory, and
 * random numbers.
 */
#ifndef GPU_DEVICE_H
#define GPU_DEVICE_H

#include <cuda.h>

#include "gpu/gpu.h"
#include "gpu/driver/query.h"
#include "ult_job.h"

/* Opens the driver and makes device 0's primary context current. On a ULT. */
static inline void device_open(void)
{
    CUcontext context;

    ULT_CHECK(gpu_driver_open(NULL));
    ULT_CHECK(cuInit(0) == CUDA_SUCCESS);
    ULT_CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    ULT_CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

static inline char *device_alloc(size_t n_bytes)
{
    CUdeviceptr made = 0;

    ULT_CHECK(cuMemAlloc(&made, n_bytes) == CUDA_SUCCESS);
    return (char *)made;
}

/* cuMemcpyHtoD may return while the bytes are on their way, and our queues do not wait for it. */
static inline void device_write(char *device, const void *host, size_t n_bytes)
{
    ULT_CHECK(cuMemcpyHtoD((CUdeviceptr)device, host, n_bytes) == CUDA_SUCCESS);
    ULT_CHECK(cuStreamSynchronize(NULL) == CUDA_SUCCESS);
}

static inline void device_read(void *host, const char *device, size_t n_bytes)
{
    ULT_CHECK(cuMemcpyDtoH(host, (CUdeviceptr)device, n_bytes) == CUDA_SUCCESS);
}

static uint64_t random_state = 88172645463325252u;

static inline uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* low <= result <= high */
static inline int64_t random_in(int64_t low, int64_t high)
{
    return low + (int64_t)(random_bits() % (uint64_t)(high - low + 1));
}

static inline void random_fill(void *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)(random_bits() >> 32);
}

#endif
