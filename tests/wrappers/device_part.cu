// SPDX-License-Identifier: BSD-3-Clause
// The other file of device.cu.
__device__ int device_value = 21;

__device__ int device_twice(int value)
{
    return 2 * value;
}
