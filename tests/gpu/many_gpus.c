/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives over all GPUs that there are, several ranks on each, in blocks, dealt out, and with some
 * buffers on the host, give the bits that they give on the host, below and above the sizes from which all
 * GPUs take part; in place, on floating-point numbers (whose sums depend on the order), and at every root.
 */
#include "device.h"
#include "mcoll.h"

enum { BLOCKS, DEALT, SOME_ON_HOST, N_PLACEMENTS };
static const char *const placement_names[] = {"in blocks", "dealt out", "some on the host"};
static int placement;

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
#define WORLD MPI_COMM_WORLD

BODY(allreduce)
{
    MCOLL(Allreduce, allreduce, send, recv, c->n, c->type, c->op, WORLD);
}
BODY(allreduce_in_place)
{
    (void)send;
    MCOLL(Allreduce, allreduce, MPI_IN_PLACE, recv, c->n, c->type, c->op, WORLD);
}
BODY(reduce)
{
    MCOLL(Reduce, reduce, send, recv, c->n, c->type, c->op, c->root, WORLD);
}
BODY(reduce_in_place)
{
    MCOLL(Reduce, reduce, mtest_rank == c->root ? MPI_IN_PLACE : send, recv, c->n, c->type, c->op, c->root,
          WORLD);
}
BODY(reduce_scatter)
{
    MCOLL(Reduce_scatter_block, reduce_scatter_block, send, recv, c->n, c->type, c->op, WORLD);
}
BODY(reduce_scatter_in_place)
{
    (void)send;
    MCOLL(Reduce_scatter_block, reduce_scatter_block, MPI_IN_PLACE, recv, c->n, c->type, c->op, WORLD);
}
BODY(scan)
{
    MCOLL(Scan, scan, send, recv, c->n, c->type, c->op, WORLD);
}
BODY(scan_in_place)
{
    (void)send;
    MCOLL(Scan, scan, MPI_IN_PLACE, recv, c->n, c->type, c->op, WORLD);
}
BODY(exscan)
{
    MCOLL(Exscan, exscan, send, recv, c->n, c->type, c->op, WORLD);
}
BODY(exscan_in_place)
{
    (void)send;
    MCOLL(Exscan, exscan, MPI_IN_PLACE, recv, c->n, c->type, c->op, WORLD);
}
BODY(bcast)
{
    (void)send;
    MCOLL(Bcast, bcast, recv, c->n, c->type, c->root, WORLD);
}
BODY(allgather)
{
    MCOLL(Allgather, allgather, send, c->n, c->type, recv, c->n, c->type, WORLD);
}
BODY(alltoall)
{
    MCOLL(Alltoall, alltoall, send, c->n, c->type, recv, c->n, c->type, WORLD);
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

int main(int argc, char **argv)
{
    static const int counts[] = {1, 1000, 33333};
    int only = argc > 2 ? atoi(argv[2]) : -1; /* a count alone, */
    int is_short = argc > 3;                  /* and only to all and to one root */

    mcoll_init(&argc, &argv, 1);
    gtest_init();
    for (placement = 0; placement < N_PLACEMENTS; placement++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
            for (size_t b = 0; b < sizeof bodies / sizeof bodies[0]; b++) {
                struct call c = {.n = only < 0 ? counts[i] : only};
                int is_large = c.n > 1000, n_blocks = bodies[b].is_long ? mtest_size : 1;
                if ((only >= 0 && i > 0) || (is_short && (b > 3 || (b > 1 && placement != BLOCKS))))
                    break;
                for (c.root = 0; c.root < (bodies[b].has_root ? mtest_size : 1); c.root += is_large ? 2 : 1) {
                    c.type = MPI_FLOAT;
                    c.op = MPI_SUM;
                    compare(bodies[b].name, bodies[b].body, &c, n_blocks);
                    c.type = MPI_INT;
                    c.op = MPI_BXOR;
                    if (bodies[b].has_op)
                        compare(bodies[b].name, bodies[b].body, &c, n_blocks);
                }
            }
    return mtest_end();
}
