/* SPDX-License-Identifier: BSD-3-Clause
 *
 * found.h: for programs that find all functions of CUDA's driver by dlsym, as a runtime does: FIND(function) declares
 * call_function, CU(call) must succeed, and a communicator of a stream.
 */
#ifndef GPU_TEST_FOUND_H
#define GPU_TEST_FOUND_H

#include <cuda.h>
#include <dlfcn.h>

#include "mtest.h"

static void *driver;

/* cuda.h's macros give the names of the current versions. */
#define AS_TEXT(name) AS_TEXT_2(name)
#define AS_TEXT_2(name) #name
#define FIND(name) __typeof__(&name) call_##name = (__typeof__(&name))dlsym(driver, AS_TEXT(name))
#define CU(call) MTEST_CHECK((call) == CUDA_SUCCESS, "%s", #call)

/* After mtest_init or mtest_learn_world. */
static inline void found_open(void)
{
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        mtest_skip("there is no driver here");
}

static inline void found_make_stream(CUstream *cuda, MPIX_Stream *stream_out, MPI_Comm *comm_out)
{
    MPI_Info info;

    MTEST_OK(MPI_Info_create(&info));
    MTEST_OK(MPI_Info_set(info, "type", "cudaStream_t"));
    MTEST_OK(MPIX_Info_set_hex(info, "value", cuda, sizeof *cuda));
    MTEST_OK(MPIX_Stream_create(info, stream_out));
    MTEST_OK(MPI_Info_free(&info));
    MTEST_OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, *stream_out, comm_out));
}

#endif
