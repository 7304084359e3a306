// SPDX-License-Identifier: BSD-3-Clause
// Compiled by nvcc; runs on the CPU only, so no GPU is needed.
#include "hello.h"

__global__ void twice(double *x)
{
    x[threadIdx.x] *= 2;
}

int main(int argc, char **argv)
{
    if (argc == 100)
        twice<<<1, 32>>>(nullptr);
    return hello(argc, argv);
}
