// SPDX-License-Identifier: BSD-3-Clause
// Device code in two files, for nvcc's separate compilation (device_part.cu is the other). Each rank prints
// CUDA's answer; if there is a GPU, a kernel calls a function and reads a variable of the other file.
#include "hello.h"

extern __device__ int device_value;
extern __device__ int device_twice(int value);

__global__ void compute(int *out)
{
    *out = device_twice(device_value);
}

int main(int argc, char **argv)
{
    int n_devices, *on_device, result = 0;
    cudaError_t error = cudaGetDeviceCount(&n_devices);

    printf("CUDA: %s\n", cudaGetErrorName(error));
    if (error == cudaSuccess) {
        if (cudaMalloc(&on_device, sizeof result) != cudaSuccess)
            return 1;
        compute<<<1, 1>>>(on_device);
        if (cudaMemcpy(&result, on_device, sizeof result, cudaMemcpyDeviceToHost) != cudaSuccess || result != 42)
            return 1;
    }
    return hello(argc, argv);
}
