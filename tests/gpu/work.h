/* SPDX-License-Identifier: BSD-3-Clause
 *
 * work.h: the combined kernel of the tests' work requests, as a function of the fake driver.
 */
#ifndef GPU_TEST_WORK_H
#define GPU_TEST_WORK_H

#include <stdatomic.h>
#include <time.h>

#include "../mpi_conformance/work_model.h"
#include "device.h"
#include "fakecuda.h"
#include "heddle_work.h"

static atomic_int wtest_n_launches; /* with this rank's kernel */

/* What a block does; addresses of the fake driver. */
typedef void wtest_block_fn(const void *args, const uint64_t *addresses, unsigned block, unsigned n_blocks);

static atomic_int wtest_n_orders; /* that launches which stay have done */
static atomic_bool
    wtest_is_deaf; /* a launch that stays leaves when it sees its first order, without doing it */

/* A place takes an order, if it is there. */
static inline bool wtest_take_order(struct HEDDLE_Work_stay *stay, int place, wtest_block_fn *run_block,
                                    bool is_deaf)
{
    uint32_t order[HEDDLE_WORK_WORDS] __attribute__((aligned(16))), number = stay->places[place].done + 1;

    for (int i = 0; i < HEDDLE_WORK_LEAVE; i++) {
        uint64_t word = __atomic_load_n(&stay->orders[place].words[i], __ATOMIC_ACQUIRE);
        if (word >> 32 != number)
            return false;
        order[i] = (uint32_t)word;
    }
    if (is_deaf)
        return true;
    run_block(&order[HEDDLE_WORK_ARGS], (const void *)&order[order[2]], order[0], order[1]);
    __atomic_store_n(&stay->places[place].done, number, __ATOMIC_RELEASE);
    atomic_fetch_add(&wtest_n_orders, 1);
    return true;
}

static inline uint64_t wtest_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline void wtest_say(struct HEDDLE_Work_stay *stay, const struct HEDDLE_Work_launch *launch,
                             uint32_t state)
{
    for (int i = 0; i < HEDDLE_WORK_PLACES; i++)
        __atomic_store_n(&stay->places[i].state, HEDDLE_WORK_SAYS(launch->n_blocks, state), __ATOMIC_RELEASE);
}

/* What the kernel that stays does, for all its blocks. */
static inline void wtest_stay(const struct HEDDLE_Work_launch *launch, wtest_block_fn *run_block)
{
    struct HEDDLE_Work_stay *stay = fakecuda_alias(launch->table, sizeof *stay);
    uint64_t *last_ns = fakecuda_alias(stay->last_ns, sizeof *last_ns);
    bool is_deaf = atomic_exchange(&wtest_is_deaf, false), is_over = false;

    *last_ns = wtest_now_ns();
    wtest_say(stay, launch, HEDDLE_WORK_HERE);
    while (!is_over) {
        bool has_order = false;
        is_over = __atomic_load_n(&stay->orders[0].words[HEDDLE_WORK_LEAVE], __ATOMIC_ACQUIRE) != 0 ||
                  (!is_deaf && wtest_now_ns() - *last_ns > stay->wait_ns);
        for (int i = 0; i < HEDDLE_WORK_PLACES; i++)
            has_order |= wtest_take_order(stay, i, run_block, is_deaf);
        if (has_order)
            *last_ns = wtest_now_ns();
        is_over = has_order ? is_deaf : is_over;
        if (!has_order)
            nanosleep(&(struct timespec){.tv_nsec = 2000}, NULL);
    }
    wtest_say(stay, launch, HEDDLE_WORK_LEFT);
}

/* What the combined kernel does, for all its blocks. */
static inline void wtest_run(const struct HEDDLE_Work_launch *launch, wtest_block_fn *run_block)
{
    const char *table = fakecuda_alias(launch->table, 16);
    const struct HEDDLE_Work_entry *entries = (const void *)table;
    unsigned next_block = 0;

    if (launch->n_requests == 0) {
        wtest_stay(launch, run_block);
        return;
    }
    atomic_fetch_add(&wtest_n_launches, 1);
    for (unsigned i = 0; table && i < launch->n_requests; i++) {
        if (entries[i].first_block != next_block)
            abort();
        for (unsigned block = 0; block < entries[i].n_blocks; block++)
            run_block(table + entries[i].args_at, (const void *)(table + entries[i].buffers_at), block,
                      entries[i].n_blocks);
        next_block += entries[i].n_blocks;
    }
    if (next_block != launch->n_blocks)
        abort();
}

/* A request's first block does its work. */
static inline void run_block(const void *args, const uint64_t *addresses, unsigned block, unsigned n_blocks)
{
    const struct wm_task *task = args;
    unsigned *buffers[WM_BUFFERS];

    (void)n_blocks;
    if (block > 0)
        return;
    for (int j = 0; j < task->n_buffers; j++) {
        const struct wm_rows *rows = &task->rows[j];
        buffers[j] =
            fakecuda_alias(addresses[j], ((rows->n - 1) * rows->stride + rows->row) * sizeof(unsigned));
        if (!buffers[j])
            abort();
    }
    wm_do(task, buffers);
}

static inline void run_launch(const void *args)
{
    wtest_run(args, run_block);
}

/* The launches of work requests so far that are done, by all ranks. The library launches kernels of its own, which copy. */
static inline int wtest_count_launches(void)
{
    int own = atomic_load(&wtest_n_launches), all;

    MTEST_OK(MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    return all;
}

static inline void wtest_init(int *argc, char ***argv)
{
    mtest_init(argc, argv, 1);
    if (!fakecuda_is_here())
        mtest_skip("the kernel is a function of the CPU: see examples/work_jacobi");
    gtest_init();
}

/* For the current GPU; run: what a launch does; threads: also AMPI_GPU_WORK_STAYS. */
static inline void wtest_register_as(void (*run)(const void *args), const char *name, int threads,
                                     AMPI_GPU_Work_cpu_fn *cpu, AMPI_GPU_Work *work)
{
    CUfunction kernel;
    CUmodule module;
    void *kernels[2];

    fakecuda_add_kernel_of(name, run, sizeof(struct HEDDLE_Work_launch));
    GTEST_CU(cuModuleLoadData(&module, "work"));
    GTEST_CU(cuModuleGetFunction(&kernel, module, name));
    kernels[0] = kernels[1] = (void *)kernel;
    MTEST_OK(AMPI_GPU_Work_register(name, threads & AMPI_GPU_WORK_STAYS ? (void *)kernels : kernels[0],
                                    threads, sizeof(struct wm_task), cpu, work));
}

static inline void wtest_register(const char *name, AMPI_GPU_Work_cpu_fn *cpu, AMPI_GPU_Work *work)
{
    wtest_register_as(run_launch, name, 32, cpu, work);
}

#endif
