/* SPDX-License-Identifier: BSD-3-Clause
 *
 * prequest.h: common parts of the tests of partitioned messages that kernels send. The kernels run on the fake driver: functions of the CPU
 * whose blocks are threads, with the library's own device code. tests/gpu/prequests.cu is the same on a GPU.
 */
#ifndef GPU_TEST_PREQUEST_H
#define GPU_TEST_PREQUEST_H

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "device.h"
#include "fakecuda.h"

#define HEDDLE_PREQUEST_ALIAS(address, n_bytes) ((char *)fakecuda_alias((uintptr_t)(address), (n_bytes)))
#include "heddle_prequest.h"

static inline void ptest_init(int *argc, char ***argv, int min_ranks)
{
    mtest_init(argc, argv, min_ranks);
    if (!fakecuda_is_here())
        mtest_skip("the kernels are functions of the CPU: see prequests.cu");
    gtest_init();
}

/* The marks of the kernels: arguments queue and device of the program, in any order; else flags in pinned memory. */
static MPI_Info ptest_info = MPI_INFO_NULL;
static int ptest_has_queue, ptest_is_on_device;

static inline void ptest_choose(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        ptest_has_queue |= strcmp(argv[i], "queue") == 0;
        ptest_is_on_device |= strcmp(argv[i], "device") == 0;
    }
    MTEST_OK(MPI_Info_create(&ptest_info));
    MTEST_OK(MPI_Info_set(ptest_info, "heddle_prequest_marks", ptest_has_queue ? "queue" : "flags"));
    MTEST_OK(MPI_Info_set(ptest_info, "heddle_prequest_memory", ptest_is_on_device ? "device" : "pinned"));
}

/* Is the neighbour in a ring of ranks in this process? by: 1: the next one, -1: the previous one. Collective. */
static inline int ptest_is_near(int by)
{
    int own = (int)syscall(SYS_getpid), other = 0;

    MTEST_OK(MPI_Sendrecv(&own, 1, MPI_INT, (mtest_rank - by + mtest_size) % mtest_size, 6, &other, 1,
                          MPI_INT, (mtest_rank + by + mtest_size) % mtest_size, 6, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
    return own == other;
}

/* The element of partition `part` at index i of a rank's data in a round. */
static inline unsigned ptest_value(int rank, int round, int part, unsigned i)
{
    return (unsigned)rank * 1000003u + (unsigned)round * 10007u + (unsigned)part * 101u + i;
}

/* A launch: n_blocks threads, of which each does some partitions. */
struct ptest_kernel {
    void (*part)(const struct ptest_kernel *kernel, int part);
    MPIX_Prequest prequest;
    int n_blocks, n_parts;
    int from_part;    /* the partitions before it are not this kernel's */
    unsigned n_each;  /* elements of a partition */
    uintptr_t data;   /* of all partitions */
    int rank, round;  /* of the data */
    unsigned n_lanes; /* 0: MPIX_Pready; else MPIX_Pready_block with so many threads */
    int n_wrong;      /* atomic: wrong elements */
    int n_faults;     /* atomic: calls that returned an error */
};

struct ptest_block {
    struct ptest_kernel *kernel;
    int number;
    pthread_t thread;
};

static inline void *ptest_run_block(void *arg)
{
    struct ptest_block *block = arg;

    for (int i = block->kernel->from_part + block->number; i < block->kernel->n_parts;
         i += block->kernel->n_blocks)
        block->kernel->part(block->kernel, i);
    return NULL;
}

static inline void ptest_run(void *data)
{
    struct ptest_kernel *kernel = data;
    struct ptest_block *blocks = calloc((size_t)kernel->n_blocks, sizeof *blocks);

    for (int i = 0; i < kernel->n_blocks; i++) {
        blocks[i].kernel = kernel;
        blocks[i].number = i;
        if (pthread_create(&blocks[i].thread, NULL, ptest_run_block, &blocks[i]) != 0)
            abort();
    }
    for (int i = 0; i < kernel->n_blocks; i++)
        pthread_join(blocks[i].thread, NULL);
    free(blocks);
}

/* *kernel must exist until the stream has passed it. */
static inline void ptest_launch(struct ptest_kernel *kernel, CUstream stream)
{
    kernel->n_wrong = kernel->n_faults = 0;
    GTEST_CU((CUresult)fakecuda_launch(stream, ptest_run, kernel));
}

static inline unsigned *ptest_at(const struct ptest_kernel *kernel, int part)
{
    size_t n_bytes = kernel->n_each * sizeof(unsigned);

    return (unsigned *)fakecuda_alias(kernel->data + (size_t)part * n_bytes, n_bytes);
}

/* Writes a partition and marks it ready. */
static inline void ptest_send_part(const struct ptest_kernel *kernel, int part)
{
    unsigned *to = ptest_at(kernel, part);
    enum HEDDLE_Prequest_fault fault;

    for (unsigned i = 0; i < kernel->n_each; i++)
        to[i] = ptest_value(kernel->rank, kernel->round, part, i);
    fault = heddle_prequest_ready_as(kernel->prequest, part, kernel->n_lanes ? kernel->n_lanes : 1);
    if (fault != HEDDLE_PREQUEST_FINE)
        __atomic_fetch_add((int *)&kernel->n_faults, 1, __ATOMIC_RELAXED);
}

/* Waits for a partition and checks its data. */
static inline void ptest_recv_part(const struct ptest_kernel *kernel, int part)
{
    const unsigned *from = ptest_at(kernel, part);
    int flag = 0;

    while (!flag) {
        if (heddle_prequest_arrived(kernel->prequest, part, &flag) != HEDDLE_PREQUEST_FINE)
            __atomic_fetch_add((int *)&kernel->n_faults, 1, __ATOMIC_RELAXED);
        sched_yield();
    }
    for (unsigned i = 0; i < kernel->n_each; i++)
        if (from[i] != ptest_value(kernel->rank, kernel->round, part, i))
            __atomic_fetch_add((int *)&kernel->n_wrong, 1, __ATOMIC_RELAXED);
}

#endif
