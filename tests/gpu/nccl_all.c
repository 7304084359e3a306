/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Large collectives between processes on device buffers have the same results as on the host, and go through
 * NCCL: all its operations, every root, in place, uneven counts, types that it lacks, below and above the
 * threshold, blocking and nonblocking (first argument). The second argument is the expectation: "used",
 * "unused" if NCCL is not available, or "shared" if processes share a GPU.
 */
#include "mcoll.h"
#include "nccl.h"

#define SMALL 1000  /* elements: below every threshold */
#define LARGE 70003 /* above, whatever the type */

static int is_used;

struct call {
    MPI_Comm comm;
    int me, n, count, root;
    MPI_Datatype type;
    MPI_Op op;
    int *counts, *displs;
};
typedef void (*body_fn)(struct call *call, void *send, void *recv);

#define N call->count
#define T call->type
#define C call->comm
#define BODY(name) static void name(struct call *call, void *send, void *recv)

BODY(allreduce)
{
    MCOLL(Allreduce, allreduce, send, recv, N, T, call->op, C);
}
BODY(allreduce_in_place)
{
    (void)send;
    MCOLL(Allreduce, allreduce, MPI_IN_PLACE, recv, N, T, call->op, C);
}
BODY(reduce)
{
    MCOLL(Reduce, reduce, send, recv, N, T, call->op, call->root, C);
}
BODY(reduce_in_place)
{
    MCOLL(Reduce, reduce, call->me == call->root ? MPI_IN_PLACE : send, recv, N, T, call->op, call->root, C);
}
BODY(bcast)
{
    (void)send;
    MCOLL(Bcast, bcast, recv, N, T, call->root, C);
}
BODY(allgather)
{
    MCOLL(Allgather, allgather, send, N / call->n, T, recv, N / call->n, T, C);
}
BODY(allgather_in_place)
{
    (void)send;
    MCOLL(Allgather, allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, N / call->n, T, C);
}
BODY(allgatherv)
{
    MCOLL(Allgatherv, allgatherv, send, call->counts[call->me], T, recv, call->counts, call->displs, T, C);
}
BODY(reduce_scatter_block)
{
    MCOLL(Reduce_scatter_block, reduce_scatter_block, send, recv, N / call->n, T, call->op, C);
}
BODY(reduce_scatter_block_in_place)
{
    (void)send;
    MCOLL(Reduce_scatter_block, reduce_scatter_block, MPI_IN_PLACE, recv, N / call->n, T, call->op, C);
}
BODY(reduce_scatter)
{
    MCOLL(Reduce_scatter, reduce_scatter, send, recv, call->counts, T, call->op, C);
}

/* Small whole numbers of a type: sums and products of them are exact. */
static void fill(char *buf, size_t n_bytes, const struct call *call, unsigned seed)
{
    int size;

    MTEST_OK(MPI_Type_size(call->type, &size));
    for (size_t i = 0; i < n_bytes / (size_t)size; i++) {
        unsigned char value = mtest_byte(i, seed) % 3;
        char *at = buf + i * (size_t)size;
        memset(at, 0, (size_t)size);
        if (call->type == MPI_FLOAT)
            *(float *)(void *)at = value;
        else if (call->type == MPI_DOUBLE)
            *(double *)(void *)at = value;
        else if (call->type == MPI_C_DOUBLE_COMPLEX)
            ((double *)(void *)at)[0] = value, ((double *)(void *)at)[1] = 2 - value;
        else
            *at = (char)value;
    }
}

static int is_large(const struct call *call)
{
    return call->count > SMALL;
}

/* Runs it on the host, then on GPUs. in_nccl: NCCL has it. */
static void compare(const char *what, struct call *call, body_fn body, int in_nccl)
{
    int size;
    size_t n_bytes;
    char *send, *recv, *image;
    struct gtest_buffer gpu_send, gpu_recv;
    unsigned long long before;
    long differs;
    int expected = is_used && in_nccl && is_large(call);

    MTEST_OK(MPI_Type_size(call->type, &size));
    n_bytes = (size_t)call->count * (size_t)size;
    send = mtest_alloc(n_bytes);
    recv = mtest_alloc(n_bytes);
    image = mtest_alloc(n_bytes);
    fill(send, n_bytes, call, (unsigned)(call->me + 1));
    fill(recv, n_bytes, call, (unsigned)(call->me + 77));
    memcpy(image, recv, n_bytes);
    gpu_send = gtest_alloc(nccl_place, n_bytes, send);
    gpu_recv = gtest_alloc(nccl_place, n_bytes, recv);
    body(call, send, image);
    MTEST_OK(MPI_Barrier(call->comm));
    before = nccl_count();
    MTEST_OK(MPI_Barrier(call->comm));
    body(call, gpu_send.data, gpu_recv.data);
    MTEST_OK(MPI_Barrier(call->comm));
    MTEST_CHECK(nccl_count() - before == (unsigned)expected,
                "%s, %d elements, root %d: %llu through NCCL, not %d", what, call->count, call->root,
                nccl_count() - before, expected);
    MTEST_OK(MPI_Barrier(call->comm));
    differs = gtest_differs(&gpu_recv, image);
    MTEST_CHECK(differs == -1, "%s, %d elements of %d bytes, root %d: wrong at byte %ld", what, call->count,
                size, call->root, differs);
    MTEST_CHECK(gtest_differs(&gpu_send, send) == -1, "%s: the send buffer has changed", what);
    gtest_free(&gpu_send);
    gtest_free(&gpu_recv);
    free(send);
    free(recv);
    free(image);
}

static void compare_reductions(struct call *call, int in_nccl)
{
    compare("allreduce", call, allreduce, in_nccl);
    compare("allreduce in place", call, allreduce_in_place, in_nccl);
    compare("reduce_scatter_block", call, reduce_scatter_block, in_nccl);
    compare("reduce_scatter_block in place", call, reduce_scatter_block_in_place, in_nccl);
    compare("reduce_scatter", call, reduce_scatter, in_nccl);
    compare("reduce", call, reduce, in_nccl);
    compare("reduce in place", call, reduce_in_place, in_nccl);
}

static void all_on(MPI_Comm comm)
{
    static const MPI_Datatype types[] = {MPI_INT,    MPI_INT8_T, MPI_UINT64_T,        MPI_FLOAT,
                                         MPI_DOUBLE, MPI_SHORT,  MPI_C_DOUBLE_COMPLEX};
    static const MPI_Op ops[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_BXOR};
    struct call call = {.comm = comm, .type = MPI_INT, .op = MPI_SUM};

    MTEST_OK(MPI_Comm_rank(comm, &call.me));
    MTEST_OK(MPI_Comm_size(comm, &call.n));
    call.counts = mtest_alloc((size_t)call.n * sizeof(int));
    call.displs = mtest_alloc((size_t)call.n * sizeof(int));
    for (int size = 0; size < 2; size++) {
        int at = 0;
        call.count = (size ? LARGE : SMALL) / call.n * call.n;
        for (int i = 0; i < call.n; i++) {
            call.displs[i] = at;
            call.counts[i] = i == call.n - 1 ? call.count - at : call.count / call.n / (i + 2);
            at += call.counts[i];
        }
        for (call.root = 0; call.root < call.n; call.root++) {
            compare("bcast", &call, bcast, 1);
            compare("reduce", &call, reduce, 1);
            compare("reduce in place", &call, reduce_in_place, 1);
        }
        call.root = call.n - 1;
        compare("allgather", &call, allgather, 1);
        compare("allgather in place", &call, allgather_in_place, 1);
        compare("allgatherv", &call, allgatherv, 1);
        compare_reductions(&call, 1);
    }
    for (int i = 1; i < (int)(sizeof types / sizeof *types); i++) {
        call.type = types[i];
        compare_reductions(&call, types[i] != MPI_SHORT);
        compare("bcast", &call, bcast, 1);
        compare("allgather", &call, allgather, 1);
    }
    call.type = MPI_INT;
    for (int i = 1; i < (int)(sizeof ops / sizeof *ops); i++) {
        call.op = ops[i];
        compare_reductions(&call, ops[i] != MPI_BXOR);
    }
    free(call.counts);
    free(call.displs);
}

int main(int argc, char **argv)
{
    MPI_Comm copy, mirrored;

    mcoll_init(&argc, &argv, 2);
    is_used = argc > 2 && strcmp(argv[2], "used") == 0;
    nccl_init(argc > 2 && strcmp(argv[2], "shared") == 0);
    all_on(MPI_COMM_WORLD);
    MTEST_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -mtest_rank, &mirrored));
    if (is_used) {
        struct call call = {
            .comm = copy, .me = mtest_rank, .n = mtest_size, .type = MPI_INT, .op = MPI_SUM, .count = LARGE};
        compare("allreduce on a copy", &call, allreduce, 1);
        call.comm = mirrored;
        call.me = mtest_size - 1 - mtest_rank;
        compare("bcast, ranks reversed", &call, bcast, 1);
    }
    MTEST_OK(MPI_Comm_free(&copy));
    MTEST_OK(MPI_Comm_free(&mirrored));
    return mtest_end();
}
