/* SPDX-License-Identifier: BSD-3-Clause
 *
 * measure.cuh: common parts of the measurements of copies on GPUs.
 */
#ifndef MEASURE_CUH
#define MEASURE_CUH

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>

/* Ends the program if a call of the driver's, or of the runtime's (whose codes are the same), fails. */
#define CHECK(call)                                                               \
    do {                                                                          \
        CUresult result_ = (CUresult)(call);                                      \
        if (result_ != CUDA_SUCCESS) {                                            \
            const char *name_ = "?";                                              \
            cuGetErrorName(result_, &name_);                                      \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, name_); \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

static double now_us()
{
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

#endif
