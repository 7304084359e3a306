/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages run handlers once each and with their data, from hosts, kernels and handlers, by blocks and by the whole grid, in queues that are often full;
 * AMPI_GPU_Handlers_wait returns when there are none left; the kernel is launched only when there are messages, and leaves.
 */
#include "handlers.h"

#define ROUNDS 8
#define HOPS 25
#define N_SENT 60

enum { FORWARD, COUNT, GRID, BIG = 255 };

/* The results of a rank: the handlers' argument. All atomic. */
struct state {
    long n_forwards, n_counts, sum, n_grids, n_grid_blocks, n_wrong;
    int next;
    long partial[16];
};
static struct state state;

static void add(long *word, long value)
{
    __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}

struct hop {
    int left;
    int from;
    unsigned check;
};

static unsigned check_of(int left, int from)
{
    return (unsigned)left * 2654435761u + (unsigned)from;
}

static void forward(const struct HEDDLE_Handlers_message *message)
{
    struct state *own = message->argument;
    const struct hop *hop = message->data;
    struct hop next = {hop->left - 1, hop->from, check_of(hop->left - 1, hop->from)};
    enum HEDDLE_Handlers_fault fault = HEDDLE_HANDLERS_FINE;

    if (message->n_bytes != sizeof *hop || hop->check != check_of(hop->left, hop->from) ||
        message->block != 0 || message->n_blocks != 1 || message->tag != FORWARD)
        add(&own->n_wrong, 1);
    add(&own->n_forwards, 1);
    if (hop->left > 0)
        do
            fault = heddle_handlers_send(&next, sizeof next, (uint32_t)own->next, FORWARD, message->device);
        while (fault == HEDDLE_HANDLERS_NO_SLOT);
    if (fault != HEDDLE_HANDLERS_FINE)
        add(&own->n_wrong, 1);
}

static void count(const struct HEDDLE_Handlers_message *message)
{
    struct state *own = message->argument;

    if (message->n_bytes != sizeof(long))
        add(&own->n_wrong, 1);
    add(&own->n_counts, 1);
    add(&own->sum, *(const long *)message->data);
}

/* All bytes of the largest message. */
static void big(const struct HEDDLE_Handlers_message *message)
{
    struct state *own = message->argument;
    const unsigned char *bytes = message->data;

    for (int i = 0; i < message->n_bytes; i++)
        if (bytes[i] != (unsigned char)(message->n_bytes + i + message->source))
            add(&own->n_wrong, 1);
    add(&own->n_counts, 1);
}

/* Each block writes a word, and behind the grid's barrier reads all of them. */
static void grid(const struct HEDDLE_Handlers_message *message)
{
    struct state *own = message->argument;
    long number = *(const long *)message->data;

    __atomic_store_n(&own->partial[message->block], number + message->block, __ATOMIC_RELAXED);
    heddle_handlers_grid_sync(message);
    for (int i = 0; i < message->n_blocks; i++)
        if (__atomic_load_n(&own->partial[i], __ATOMIC_RELAXED) != number + i)
            add(&own->n_wrong, 1);
    heddle_handlers_grid_sync(message);
    add(&own->n_grid_blocks, 1);
    if (message->block == 0)
        add(&own->n_grids, 1);
}

/* A block of a kernel of the program. */
static void send_many(const struct htest_kernel *kernel, int block)
{
    for (int i = 0; i < kernel->n; i++) {
        long value = block * kernel->n + i;
        enum HEDDLE_Handlers_fault fault;
        while ((fault = heddle_handlers_send(&value, sizeof value, (uint32_t)kernel->dest, COUNT,
                                             kernel->device)) == HEDDLE_HANDLERS_NO_SLOT)
            sched_yield();
        if (fault != HEDDLE_HANDLERS_FINE)
            __atomic_fetch_add((int *)&kernel->n_faults, 1, __ATOMIC_RELAXED);
    }
}

static AMPI_GPU_Handlers make(int n_blocks, const char *slots, const struct htest_kernels *kernels)
{
    char blocks[16];
    const char *pairs[] = {"blocks",  blocks, "slots",   slots, "slot_bytes", "100",
                           "threads", "32",   "idle_us", "200", NULL};
    AMPI_GPU_Handlers made = AMPI_GPU_HANDLERS_NULL;
    MPI_Info info;

    snprintf(blocks, sizeof blocks, "%d", n_blocks);
    info = htest_info(pairs);
    MTEST_OK(AMPI_GPU_Handlers_create(MPI_COMM_WORLD, info, &made));
    MTEST_OK(MPI_Info_free(&info));
    MTEST_OK(htest_register(FORWARD, AMPI_GPU_BY_BLOCK, forward, &state, kernels, made));
    MTEST_OK(htest_register(COUNT, AMPI_GPU_BY_BLOCK, count, &state, kernels, made));
    MTEST_OK(htest_register(GRID, AMPI_GPU_BY_GRID, grid, &state, kernels, made));
    MTEST_OK(htest_register(BIG, AMPI_GPU_BY_BLOCK, big, &state, kernels, made));
    MTEST_OK(AMPI_GPU_Handlers_start(made));
    return made;
}

static void check_hops(AMPI_GPU_Handlers handlers)
{
    struct hop hop = {HOPS - 1, mtest_rank, check_of(HOPS - 1, mtest_rank)};
    long before = state.n_forwards, mine, all = 0;

    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD)); /* all have read their counters */
    MTEST_OK(AMPI_GPU_Send(&hop, sizeof hop, state.next, FORWARD, handlers));
    MTEST_OK(AMPI_GPU_Handlers_wait(handlers));
    mine = state.n_forwards - before;
    MTEST_OK(MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    MTEST_CHECK(all == (long)HOPS * mtest_size, "%ld hops instead of %d", all, HOPS * mtest_size);
}

static void check_kernel(AMPI_GPU_Handlers handlers, CUstream stream, int n_blocks)
{
    struct htest_kernel kernel = {.block = send_many, .n_blocks = n_blocks, .dest = state.next, .n = N_SENT};
    long counts = state.n_counts, sum = state.sum, n = (long)n_blocks * N_SENT;

    MTEST_OK(AMPI_GPU_Handlers_device(handlers, &kernel.device));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU((CUresult)fakecuda_launch(stream, htest_run_kernel, &kernel));
    MTEST_OK(AMPI_GPU_Invoke(stream)); /* lets the PE launch the kernel that makes room */
    MTEST_OK(AMPI_GPU_Handlers_wait(handlers));
    MTEST_CHECK(kernel.n_faults == 0, "%d sends were wrong", kernel.n_faults);
    MTEST_CHECK(state.n_counts - counts == n, "%ld messages instead of %ld", state.n_counts - counts, n);
    MTEST_CHECK(state.sum - sum == n * (n - 1) / 2, "the sum of the messages is %ld", state.sum - sum);
}

static void check_grid(AMPI_GPU_Handlers handlers, int n_blocks, int round)
{
    long grids = state.n_grids, blocks = state.n_grid_blocks, counts = state.n_counts;

    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (long i = 0; i < 6; i++) {
        long number = round * 100 + i;
        MTEST_OK(AMPI_GPU_Send(&number, sizeof number, state.next, GRID, handlers));
        MTEST_OK(AMPI_GPU_Send(&number, sizeof number, state.next, COUNT, handlers));
    }
    MTEST_OK(AMPI_GPU_Handlers_wait(handlers));
    MTEST_CHECK(state.n_grids - grids == 6 && state.n_grid_blocks - blocks == 6 * n_blocks,
                "%ld grids and %ld of their blocks", state.n_grids - grids, state.n_grid_blocks - blocks);
    MTEST_CHECK(state.n_counts - counts == 6, "%ld messages instead of 6", state.n_counts - counts);
}

/* Messages of all lengths. */
static void check_lengths(AMPI_GPU_Handlers handlers)
{
    long counts = state.n_counts;
    unsigned char bytes[112];

    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int n = 0; n <= 112; n++) {
        for (int i = 0; i < n; i++)
            bytes[i] = (unsigned char)(n + i + mtest_rank);
        MTEST_OK(AMPI_GPU_Send(bytes, n, state.next, BIG, handlers));
    }
    MTEST_OK(AMPI_GPU_Handlers_wait(handlers));
    MTEST_CHECK(state.n_counts - counts == 113, "%ld messages instead of 113", state.n_counts - counts);
}

static void run(int n_blocks, const char *slots, const struct htest_kernels *kernels, CUstream stream)
{
    AMPI_GPU_Handlers handlers = make(n_blocks, slots, kernels);
    int before;

    for (int round = 0; round < ROUNDS; round++) {
        check_hops(handlers);
        check_kernel(handlers, stream, 1 + round % 3);
        check_grid(handlers, n_blocks, round);
    }
    check_lengths(handlers);
    before = __atomic_load_n(&htest_n_launches, __ATOMIC_RELAXED);
    MTEST_CHECK(before > 0, "the kernel was never launched");
    MTEST_OK(AMPI_GPU_Handlers_wait(handlers));
    MTEST_CHECK(__atomic_load_n(&htest_n_launches, __ATOMIC_RELAXED) == before,
                "the kernel was launched without a message");
    MTEST_CHECK(state.n_wrong == 0, "%ld errors in handlers", state.n_wrong);
    MTEST_OK(AMPI_GPU_Handlers_free(&handlers));
    MTEST_CHECK(handlers == AMPI_GPU_HANDLERS_NULL, "the handle is not reset");
}

int main(int argc, char **argv)
{
    struct htest_kernels kernels;
    CUstream stream;
    int n_gpus, n_near;

    htest_init(&argc, &argv, 1);
    n_gpus = htest_select();
    n_near = (mtest_size + n_gpus - 1) / n_gpus;
    state.next = (mtest_rank + 1) % mtest_size;
    kernels = htest_load();
    GTEST_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    run(1, "64", &kernels, stream);
    run(HTEST_BLOCKS_MAX / n_near, "8", &kernels, stream);
    return mtest_end();
}
