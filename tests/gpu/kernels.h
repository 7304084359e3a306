/* SPDX-License-Identifier: BSD-3-Clause
 *
 * kernels.h: kernels for the programs of tests/gpu: as PTX for a real GPU, and as functions of the CPU for
 * the fake driver. After gtest_init: gtest_load_kernels.
 */
#ifndef GPU_TEST_KERNELS_H
#define GPU_TEST_KERNELS_H

#include <unistd.h>

#include "device.h"
#include "fakecuda.h"

struct gtest_spin_args {
    CUdeviceptr flag; /* an unsigned: the kernel runs until it is not 0 */
};

/* to[i] = factor * to[i] + added: the order of several matters. */
struct gtest_update_args {
    CUdeviceptr to;
    unsigned n, factor, added, unused;
};

/* to[i] = 5 * to[i] + from[i] */
struct gtest_mix_args {
    CUdeviceptr to, from;
    unsigned n, unused;
};

static const char gtest_ptx[] =
    ".version 7.0\n"
    ".target sm_75\n"
    ".address_size 64\n"
    ".visible .entry gtest_spin(.param .u64 flag)\n"
    "{\n"
    "    .reg .u64 %a;\n"
    "    .reg .u32 %v;\n"
    "    .reg .pred %p;\n"
    "    ld.param.u64 %a, [flag];\n"
    "AGAIN:\n"
    "    ld.volatile.u32 %v, [%a];\n"
    "    setp.eq.u32 %p, %v, 0;\n"
    "    @%p bra AGAIN;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry gtest_update(.param .u64 to, .param .u32 n, .param .u32 factor, .param .u32 added, "
    ".param .u32 unused)\n"
    "{\n"
    "    .reg .u64 %a;\n"
    "    .reg .u32 %n, %i, %f, %b, %v;\n"
    "    .reg .pred %p;\n"
    "    ld.param.u64 %a, [to];\n"
    "    ld.param.u32 %n, [n];\n"
    "    ld.param.u32 %f, [factor];\n"
    "    ld.param.u32 %b, [added];\n"
    "    mov.u32 %i, 0;\n"
    "AGAIN:\n"
    "    setp.ge.u32 %p, %i, %n;\n"
    "    @%p bra OVER;\n"
    "    ld.u32 %v, [%a];\n"
    "    mad.lo.u32 %v, %v, %f, %b;\n"
    "    st.u32 [%a], %v;\n"
    "    add.u64 %a, %a, 4;\n"
    "    add.u32 %i, %i, 1;\n"
    "    bra AGAIN;\n"
    "OVER:\n"
    "    ret;\n"
    "}\n"
    ".visible .entry gtest_mix(.param .u64 to, .param .u64 from, .param .u32 n, .param .u32 unused)\n"
    "{\n"
    "    .reg .u64 %a, %c;\n"
    "    .reg .u32 %n, %i, %v, %w;\n"
    "    .reg .pred %p;\n"
    "    ld.param.u64 %a, [to];\n"
    "    ld.param.u64 %c, [from];\n"
    "    ld.param.u32 %n, [n];\n"
    "    mov.u32 %i, 0;\n"
    "AGAIN:\n"
    "    setp.ge.u32 %p, %i, %n;\n"
    "    @%p bra OVER;\n"
    "    ld.u32 %v, [%a];\n"
    "    ld.u32 %w, [%c];\n"
    "    mad.lo.u32 %v, %v, 5, %w;\n"
    "    st.u32 [%a], %v;\n"
    "    add.u64 %a, %a, 4;\n"
    "    add.u64 %c, %c, 4;\n"
    "    add.u32 %i, %i, 1;\n"
    "    bra AGAIN;\n"
    "OVER:\n"
    "    ret;\n"
    "}\n";

/* ---- The same on the CPU ---- */

static void gtest_cpu_spin(const void *args)
{
    const struct gtest_spin_args *spin = args;
    volatile unsigned *flag = fakecuda_alias(spin->flag, sizeof *flag);

    while (flag && *flag == 0)
        usleep(50);
}

static void gtest_cpu_update(const void *args)
{
    const struct gtest_update_args *update = args;
    unsigned *to = fakecuda_alias(update->to, update->n * sizeof *to);

    for (unsigned i = 0; to && i < update->n; i++)
        to[i] = update->factor * to[i] + update->added;
}

static void gtest_cpu_mix(const void *args)
{
    const struct gtest_mix_args *mix = args;
    unsigned *to = fakecuda_alias(mix->to, mix->n * sizeof *to);
    unsigned *from = fakecuda_alias(mix->from, mix->n * sizeof *from);

    for (unsigned i = 0; to && from && i < mix->n; i++)
        to[i] = 5 * to[i] + from[i];
}

/* ---- Launching ---- */

static CUfunction gtest_spin, gtest_update, gtest_mix;

static inline CUresult gtest_launch(CUfunction function, const void *args, size_t args_bytes, CUstream stream)
{
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)args, CU_LAUNCH_PARAM_BUFFER_SIZE, &args_bytes,
                     CU_LAUNCH_PARAM_END};

    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra);
}

static inline void gtest_launch_spin(CUdeviceptr flag, CUstream stream)
{
    GTEST_CU(
        gtest_launch(gtest_spin, &(struct gtest_spin_args){flag}, sizeof(struct gtest_spin_args), stream));
}

static inline void gtest_launch_update(CUdeviceptr to, unsigned n, unsigned factor, unsigned added,
                                       CUstream stream)
{
    struct gtest_update_args args = {to, n, factor, added, 0};

    GTEST_CU(gtest_launch(gtest_update, &args, sizeof args, stream));
}

static inline void gtest_launch_mix(CUdeviceptr to, CUdeviceptr from, unsigned n, CUstream stream)
{
    struct gtest_mix_args args = {to, from, n, 0};

    GTEST_CU(gtest_launch(gtest_mix, &args, sizeof args, stream));
}

/* For the current context, with a first launch of each, since that may wait for all that runs. Collective:
 * nothing runs when it returns. */
static inline void gtest_load_kernels(void)
{
    CUdeviceptr memory;
    CUmodule module;

    if (fakecuda_is_here()) {
        fakecuda_add_kernel_of("gtest_spin", gtest_cpu_spin, sizeof(struct gtest_spin_args));
        fakecuda_add_kernel("gtest_update", gtest_cpu_update);
        fakecuda_add_kernel("gtest_mix", gtest_cpu_mix);
    }
    GTEST_CU(cuModuleLoadData(&module, gtest_ptx));
    GTEST_CU(cuModuleGetFunction(&gtest_spin, module, "gtest_spin"));
    GTEST_CU(cuModuleGetFunction(&gtest_update, module, "gtest_update"));
    GTEST_CU(cuModuleGetFunction(&gtest_mix, module, "gtest_mix"));
    GTEST_CU(cuMemAlloc(&memory, 64));
    GTEST_CU(cuMemsetD32(memory, 1, 16));
    gtest_launch_spin(memory, NULL);
    gtest_launch_update(memory, 4, 1, 1, NULL);
    gtest_launch_mix(memory, memory + 16, 4, NULL);
    GTEST_CU(cuCtxSynchronize());
    GTEST_CU(cuMemFree(memory));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* ---- A kernel that runs until another rank wants ---- */

/* An unsigned that CPU and GPU see. */
static inline volatile unsigned *gtest_flag(void)
{
    void *flag;

    GTEST_CU(cuMemAllocHost(&flag, sizeof(unsigned)));
    *(unsigned *)flag = 0;
    return flag;
}

/* Sends another rank of the process where a flag is; that one receives it, and sets it. */
static inline void gtest_send_flag(volatile unsigned *flag, int to)
{
    MTEST_OK(MPI_Send(&flag, sizeof flag, MPI_BYTE, to, 77, MPI_COMM_WORLD));
}

static inline volatile unsigned *gtest_recv_flag(int from)
{
    volatile unsigned *flag = NULL;

    MTEST_OK(MPI_Recv(&flag, sizeof flag, MPI_BYTE, from, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return flag;
}

#endif
