/* SPDX-License-Identifier: BSD-3-Clause
 *
 * handlers.h: for tests of handlers. The kernels run on the fake driver: functions of the CPU whose blocks are threads, with the library's own device
 * code. tests/gpu/handlers.cu is the same on a GPU.
 */
#ifndef GPU_TEST_HANDLERS_H
#define GPU_TEST_HANDLERS_H

#include <pthread.h>

#include <mpi-ext.h>

#include "device.h"
#include "fakecuda.h"

#define HEDDLE_HANDLERS_ALIAS(address, n_bytes) fakecuda_alias((address), (n_bytes))
#include "heddle_handlers_device.h"

static inline void htest_init(int *argc, char ***argv, int min_ranks)
{
    mtest_init(argc, argv, min_ranks);
    if (!fakecuda_is_here())
        mtest_skip("the kernels are functions of the CPU: see handlers.cu");
    gtest_init();
}

/* On a GPU of the fake driver, which has 4 multiprocessors. */
#define HTEST_BLOCKS_MAX (4 * HEDDLE_HANDLERS_BLOCKS_MAX)

/* Makes a GPU current, another one for each second rank if they can use each other's memory. Returns how many the ranks use. */
static inline int htest_select(void)
{
    int can = 0;

    if (gtest_n_devices > 1)
        GTEST_CU(cuDeviceCanAccessPeer(&can, 0, 1));
    gtest_select(can && mtest_rank % 2 ? GTEST_GPU1 : GTEST_GPU0);
    return can ? 2 : 1;
}

/* ---- The kernels ---- */

struct htest_block {
    const struct HEDDLE_Handlers_launch *launch;
    uint32_t number;
    pthread_t thread;
};

static int htest_n_launches; /* atomic: of the rank's resident kernel, without those that load it */

static inline void *htest_run_block(void *arg)
{
    struct htest_block *block = arg;
    struct heddle_handlers_block *shared = aligned_alloc(16, sizeof *shared);

    heddle_handlers_serve(block->launch, block->number, 0, 1, shared);
    free(shared);
    return NULL;
}

/* The resident kernel. */
static inline void htest_run(const void *args)
{
    const struct HEDDLE_Handlers_launch *launch = args;
    const struct HEDDLE_Handlers_device *device = fakecuda_alias(launch->device, sizeof *device);
    struct htest_block *blocks;
    uint32_t n = device->n_blocks;

    if (launch->number == 0)
        return;
    __atomic_fetch_add(&htest_n_launches, 1, __ATOMIC_RELAXED);
    blocks = calloc(n, sizeof *blocks);
    for (uint32_t i = 0; i < n; i++) {
        blocks[i].launch = launch;
        blocks[i].number = i;
        if (pthread_create(&blocks[i].thread, NULL, htest_run_block, &blocks[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(blocks[i].thread, NULL);
    free(blocks);
}

static inline void htest_post(const void *args)
{
    heddle_handlers_post(args);
}

/* Both, as CUfunctions of the current context. */
struct htest_kernels {
    CUfunction resident, post;
};

static inline struct htest_kernels htest_load(void)
{
    struct htest_kernels kernels;
    CUmodule module;
    char name[64];

    GTEST_CU(cuModuleLoadData(&module, "kernels"));
    snprintf(name, sizeof name, "htest_resident_%d", mtest_rank);
    fakecuda_add_kernel_of(name, htest_run, sizeof(struct HEDDLE_Handlers_launch));
    GTEST_CU(cuModuleGetFunction(&kernels.resident, module, name));
    snprintf(name, sizeof name, "htest_post_%d", mtest_rank);
    fakecuda_add_kernel_of(name, htest_post, sizeof(struct HEDDLE_Handlers_post));
    GTEST_CU(cuModuleGetFunction(&kernels.post, module, name));
    return kernels;
}

/* ---- Sets ---- */

/* An info object with keys and values; the last key is NULL. */
static inline MPI_Info htest_info(const char *const *pairs)
{
    MPI_Info info;

    MTEST_OK(MPI_Info_create(&info));
    for (; pairs[0]; pairs += 2)
        MTEST_OK(MPI_Info_set(info, pairs[0], pairs[1]));
    return info;
}

static inline int htest_register(int tag, int by, heddle_handlers_fn handler, void *argument,
                                 const struct htest_kernels *kernels, AMPI_GPU_Handlers handlers)
{
    return AMPI_GPU_Register_entry(tag, by, (unsigned long long)(uintptr_t)handler, argument,
                                   kernels->resident, kernels->post, handlers);
}

/* A kernel of the program: n_blocks threads. */
struct htest_kernel {
    void (*block)(const struct htest_kernel *kernel, int block);
    struct HEDDLE_Handlers_device *device;
    int n_blocks;
    int dest;
    int n;        /* messages of each block */
    int n_faults; /* atomic: sends that were wrong */
};

struct htest_kernel_block {
    struct htest_kernel *kernel;
    int number;
    pthread_t thread;
};

static inline void *htest_run_kernel_block(void *arg)
{
    struct htest_kernel_block *block = arg;

    block->kernel->block(block->kernel, block->number);
    return NULL;
}

static inline void htest_run_kernel(void *data)
{
    struct htest_kernel *kernel = data;
    struct htest_kernel_block *blocks = calloc((size_t)kernel->n_blocks, sizeof *blocks);

    for (int i = 0; i < kernel->n_blocks; i++) {
        blocks[i].kernel = kernel;
        blocks[i].number = i;
        if (pthread_create(&blocks[i].thread, NULL, htest_run_kernel_block, &blocks[i]) != 0)
            abort();
    }
    for (int i = 0; i < kernel->n_blocks; i++)
        pthread_join(blocks[i].thread, NULL);
    free(blocks);
}

#endif
