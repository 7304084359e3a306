/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives over all GPUs, with several ranks on each, in blocks, round robin, and with some buffers on the
 * host, return the same bits as on the host, below and above the sizes from which all GPUs take part; in
 * place, on floating-point numbers (whose sums depend on the order), at every root, and on a communicator of
 * some ranks whose order is not that of the GPUs.
 *
 *      many_gpus FORM [COUNT [short | exchange]]   that count alone; only what "main" says
 */
#include "device.h"
#include "mcoll.h"

enum { BLOCKS, DEALT, SOME_ON_HOST, SOME_BACKWARDS, N_PLACEMENTS };
static const char *const placement_names[] = {"in blocks", "dealt out", "some on the host",
                                              "some ranks backwards"};
static int placement;
static MPI_Comm comm;
static int me, n_ranks; /* on it */

struct buffer {
    char *data;
    int device; /* -1: the host's */
};

static int device_of(int is_recv)
{
    if (placement == BLOCKS)
        return mtest_rank * gtest_n_devices / mtest_size;
    if (placement == SOME_ON_HOST && (mtest_rank + is_recv) % 3 == 2)
        return -1;
    return mtest_rank % gtest_n_devices;
}

static struct buffer put(const void *image, size_t n_bytes, int is_recv)
{
    struct buffer buffer = {.device = device_of(is_recv)};
    CUdeviceptr made;

    if (buffer.device < 0) {
        buffer.data = mtest_alloc(n_bytes);
        memcpy(buffer.data, image, n_bytes);
        return buffer;
    }
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[buffer.device]));
    GTEST_CU(cuMemAlloc(&made, n_bytes));
    GTEST_CU(cuMemcpyHtoD(made, image, n_bytes));
    GTEST_CU(cuCtxSynchronize());
    buffer.data = (char *)(uintptr_t)made;
    return buffer;
}

static void take(struct buffer buffer, void *image, size_t n_bytes)
{
    if (buffer.device < 0) {
        memcpy(image, buffer.data, n_bytes);
        free(buffer.data);
        return;
    }
    GTEST_CU(cuCtxSetCurrent(gtest_contexts[buffer.device]));
    GTEST_CU(cuMemcpyDtoH(image, (CUdeviceptr)buffer.data, n_bytes));
    GTEST_CU(cuMemFree((CUdeviceptr)buffer.data));
}

/* ---- The calls ---- */

struct call {
    int n; /* elements per rank */
    int root;
    MPI_Datatype type;
    MPI_Op op;
};
typedef void (*body_fn)(const struct call *c, void *send, void *recv);
#define BODY(name) static void name(const struct call *c, void *send, void *recv)

BODY(allreduce)
{
    MCOLL(Allreduce, allreduce, send, recv, c->n, c->type, c->op, comm);
}
BODY(allreduce_in_place)
{
    (void)send;
    MCOLL(Allreduce, allreduce, MPI_IN_PLACE, recv, c->n, c->type, c->op, comm);
}
BODY(reduce)
{
    MCOLL(Reduce, reduce, send, recv, c->n, c->type, c->op, c->root, comm);
}
BODY(reduce_in_place)
{
    MCOLL(Reduce, reduce, me == c->root ? MPI_IN_PLACE : send, recv, c->n, c->type, c->op, c->root, comm);
}
BODY(reduce_scatter)
{
    MCOLL(Reduce_scatter_block, reduce_scatter_block, send, recv, c->n, c->type, c->op, comm);
}
BODY(reduce_scatter_in_place)
{
    (void)send;
    MCOLL(Reduce_scatter_block, reduce_scatter_block, MPI_IN_PLACE, recv, c->n, c->type, c->op, comm);
}
BODY(scan)
{
    MCOLL(Scan, scan, send, recv, c->n, c->type, c->op, comm);
}
BODY(scan_in_place)
{
    (void)send;
    MCOLL(Scan, scan, MPI_IN_PLACE, recv, c->n, c->type, c->op, comm);
}
BODY(exscan)
{
    MCOLL(Exscan, exscan, send, recv, c->n, c->type, c->op, comm);
}
BODY(exscan_in_place)
{
    (void)send;
    MCOLL(Exscan, exscan, MPI_IN_PLACE, recv, c->n, c->type, c->op, comm);
}
BODY(bcast)
{
    (void)send;
    MCOLL(Bcast, bcast, recv, c->n, c->type, c->root, comm);
}
BODY(allgather)
{
    MCOLL(Allgather, allgather, send, c->n, c->type, recv, c->n, c->type, comm);
}
BODY(allgather_in_place)
{
    (void)send;
    MCOLL(Allgather, allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, c->n, c->type, comm);
}
BODY(alltoall)
{
    MCOLL(Alltoall, alltoall, send, c->n, c->type, recv, c->n, c->type, comm);
}

static const struct {
    const char *name;
    body_fn body;
    int is_long; /* buffers have a block for each rank */
    int has_root;
    int has_op;
} bodies[] = {
    {"allreduce", allreduce, 0, 0, 1},
    {"allreduce in place", allreduce_in_place, 0, 0, 1},
    {"reduce", reduce, 0, 1, 1},
    {"reduce in place", reduce_in_place, 0, 1, 1},
    {"reduce_scatter", reduce_scatter, 1, 0, 1},
    {"reduce_scatter in place", reduce_scatter_in_place, 1, 0, 1},
    {"scan", scan, 0, 0, 1},
    {"scan in place", scan_in_place, 0, 0, 1},
    {"exscan", exscan, 0, 0, 1},
    {"exscan in place", exscan_in_place, 0, 0, 1},
    {"bcast", bcast, 0, 1, 0},
    {"allgather", allgather, 1, 0, 0},
    {"allgather in place", allgather_in_place, 1, 0, 0},
    {"alltoall", alltoall, 1, 0, 0},
};

/* Numbers whose sum depends on the order: of many sizes. */
static void fill(void *buf, size_t n_bytes, MPI_Datatype type, int seed)
{
    uint64_t state = (uint64_t)(mtest_rank * 77 + seed + 1);

    for (size_t i = 0; i < n_bytes / sizeof(float); i++) {
        uint32_t bits = mtest_random(&state);
        float value = (float)(int)(bits & 0xffff) / (float)(1u << (bits >> 16 & 15));
        if (type == MPI_FLOAT)
            ((float *)buf)[i] = bits >> 31 ? value : -value;
        else
            ((uint32_t *)buf)[i] = bits % 1000;
    }
}

static void compare(const char *name, body_fn body, const struct call *c, int n_blocks)
{
    size_t n_bytes = (size_t)c->n * (size_t)n_blocks * 4 + 64;
    char *send = mtest_alloc(n_bytes), *recv = mtest_alloc(n_bytes), *seen = mtest_alloc(n_bytes);
    struct buffer gpu_send, gpu_recv;

    fill(send, n_bytes, c->type, 1);
    fill(recv, n_bytes, c->type, 2);
    gpu_send = put(send, n_bytes, 0);
    gpu_recv = put(recv, n_bytes, 1);
    body(c, send, recv);
    body(c, gpu_send.data, gpu_recv.data);
    take(gpu_recv, seen, n_bytes);
    MTEST_CHECK(memcmp(seen, recv, n_bytes) == 0, "%s, %s, %d elements, root %d: not what it is on the host",
                name, placement_names[placement], c->n, c->root);
    take(gpu_send, seen, n_bytes);
    MTEST_CHECK(memcmp(seen, send, n_bytes) == 0, "%s: the send buffer has changed", name);
    free(send);
    free(recv);
    free(seen);
}

/* All roots, operations and types that one of the calls is tested with. */
static void test(size_t body, int n)
{
    struct call c = {.n = n};
    int n_blocks = bodies[body].is_long ? n_ranks : 1;

    for (c.root = 0; c.root<(bodies[body].has_root ? n_ranks : 1); c.root += n> 1000 ? 2 : 1) {
        c.type = MPI_FLOAT;
        c.op = MPI_SUM;
        compare(bodies[body].name, bodies[body].body, &c, n_blocks);
        c.type = MPI_INT;
        c.op = MPI_BXOR;
        if (bodies[body].has_op)
            compare(bodies[body].name, bodies[body].body, &c, n_blocks);
    }
}

/* The ranks that take part, on the communicator of the placement. */
static int begin_placement(void)
{
    int is_out = placement == SOME_BACKWARDS && mtest_size > 2 && mtest_rank == mtest_size - 1;

    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, is_out ? MPI_UNDEFINED : 0,
                            placement == SOME_BACKWARDS ? -mtest_rank : mtest_rank, &comm));
    if (is_out)
        return 0;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &n_ranks);
    return 1;
}

/* "short": reductions to all and to one root; "exchange": what passes vectors on, or deals a result out. */
static int is_in(size_t body, const char *choice)
{
    const char *name = bodies[body].name;

    if (strcmp(choice, "exchange") == 0)
        return strncmp(name, "bcast", 5) == 0 || strncmp(name, "al", 2) == 0 ||
               strncmp(name, "reduce_scatter", 14) == 0;
    return strcmp(choice, "short") != 0 || body < 2 || (body < 4 && placement == BLOCKS);
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 1000, 33333};
    int only = argc > 2 ? atoi(argv[2]) : -1; /* a count alone */

    mcoll_init(&argc, &argv, 1);
    gtest_init();
    for (placement = 0; placement < N_PLACEMENTS; placement++) {
        if (!begin_placement())
            continue;
        for (size_t i = 0; i < (only < 0 ? sizeof counts / sizeof counts[0] : 1); i++)
            for (size_t body = 0; body < sizeof bodies / sizeof bodies[0]; body++)
                if (is_in(body, argc > 3 ? argv[3] : ""))
                    test(body, only < 0 ? counts[i] : only);
        MTEST_OK(MPI_Comm_free(&comm));
    }
    return mtest_end();
}
