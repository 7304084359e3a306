/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Every collective on device buffers has the same result as on the host: blocking, nonblocking and persistent
 * (first argument), large (second argument), in place, with different counts, on intercommunicators, with
 * buffers on one GPU, on two, and some on the host.
 */
#include "device.h"
#include "mcoll.h"

/* The memory of a rank's send and receive buffers; the mixes. */
enum { ONE_GPU, TWO_GPUS, MIXED, CROSSED, N_MIXES };
static const char *const mix_names[] = {"one GPU", "two GPUs", "mixed", "crossed"};
static int mix;

static enum gtest_place place_of(int rank, int is_recv)
{
    switch (mix) {
    case ONE_GPU:
        return GTEST_GPU0;
    case TWO_GPUS:
        return rank % 2 ? GTEST_GPU1 : GTEST_GPU0;
    case MIXED:
        return rank % 3 == 1 ? GTEST_HOST : rank % 3 ? GTEST_GPU1 : GTEST_GPU0;
    default:
        return (rank + is_recv) % 2 ? GTEST_HOST : GTEST_GPU0;
    }
}

/* A call under test, with any buffers: fills in the rest from these. */
struct call {
    MPI_Comm comm;
    int me, n; /* in the communicator; of an intercommunicator: n of the other side */
    int count; /* elements per rank */
    MPI_Datatype type;
    int *counts, *displs;
};
typedef void (*body_fn)(struct call *call, void *send, void *recv);

static void fill_long_doubles(char *buf, size_t n_bytes)
{
    for (size_t i = 0; i + sizeof(long double) <= n_bytes; i += sizeof(long double)) {
        long double value = buf[i];
        memset(buf + i, 0, sizeof value);
        memcpy(buf + i, &value, 10);
    }
}

/* Runs it on the host and on GPUs; the results must be the same. n_send and n_recv: bytes of the buffers. */
static void compare(const char *what, struct call *call, body_fn body, size_t send_bytes, size_t recv_bytes)
{
    char *send = mtest_alloc(send_bytes), *recv = mtest_alloc(recv_bytes),
         *recv_image = mtest_alloc(recv_bytes);
    struct gtest_buffer gpu_send, gpu_recv;
    long differs;

    mtest_fill(send, send_bytes, (unsigned)(mtest_rank + call->count));
    mtest_fill(recv, recv_bytes, (unsigned)(mtest_rank + 50));
    for (size_t i = 3; i < send_bytes; i += 4) /* small positive numbers: sums of them are exact */
        send[i] = send[i - 1] = 0;
    for (size_t i = 3; i < recv_bytes; i += 4)
        recv[i] = recv[i - 1] = 0;
    if (call->type == MPI_LONG_DOUBLE) { /* most of what bytes may be is none */
        fill_long_doubles(send, send_bytes);
        fill_long_doubles(recv, recv_bytes);
    }
    memcpy(recv_image, recv, recv_bytes);
    gpu_send = gtest_alloc(place_of(mtest_rank, 0), send_bytes, send);
    gpu_recv = gtest_alloc(place_of(mtest_rank, 1), recv_bytes, recv);
    body(call, send, recv_image);
    body(call, gpu_send.data, gpu_recv.data);
    differs = gtest_differs(&gpu_recv, recv_image);
    MTEST_CHECK(differs == -1, "%s, %s, %d elements: wrong at byte %ld of %zu", what, mix_names[mix],
                call->count, differs, recv_bytes);
    MTEST_CHECK(gtest_differs(&gpu_send, send) == -1, "%s, %s: the send buffer has changed", what,
                mix_names[mix]);
    gtest_free(&gpu_send);
    gtest_free(&gpu_recv);
    free(send);
    free(recv);
    free(recv_image);
}

#define N call->count
#define T call->type
#define C call->comm
#define BODY(name) static void name(struct call *call, void *send, void *recv)

BODY(bcast)
{
    (void)send;
    MCOLL(Bcast, bcast, recv, N, T, call->n - 1, C);
}
BODY(gather)
{
    MCOLL(Gather, gather, send, N, T, recv, N, T, 0, C);
}
BODY(gather_in_place)
{
    MCOLL(Gather, gather, call->me == 1 % call->n ? MPI_IN_PLACE : send, N, T, recv, N, T, 1 % call->n, C);
}
BODY(gatherv)
{
    MCOLL(Gatherv, gatherv, send, call->counts[call->me], T, recv, call->counts, call->displs, T, 0, C);
}
BODY(scatter)
{
    MCOLL(Scatter, scatter, send, N, T, recv, N, T, call->n - 1, C);
}
BODY(scatterv)
{
    MCOLL(Scatterv, scatterv, send, call->counts, call->displs, T, recv, call->counts[call->me], T, 0, C);
}
BODY(allgather)
{
    MCOLL(Allgather, allgather, send, N, T, recv, N, T, C);
}
BODY(allgather_in_place)
{
    (void)send;
    MCOLL(Allgather, allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, N, T, C);
}
BODY(allgatherv)
{
    MCOLL(Allgatherv, allgatherv, send, call->counts[call->me], T, recv, call->counts, call->displs, T, C);
}
BODY(alltoall)
{
    MCOLL(Alltoall, alltoall, send, N, T, recv, N, T, C);
}
BODY(alltoall_in_place)
{
    (void)send;
    MCOLL(Alltoall, alltoall, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, N, T, C);
}
BODY(alltoallw)
{
    int displs[64], counts[64];
    MPI_Datatype types[64];
    for (int i = 0; i < call->n; i++) {
        displs[i] = i * N * (int)sizeof(int);
        counts[i] = N;
        types[i] = T;
    }
    MCOLL(Alltoallw, alltoallw, send, counts, displs, types, recv, counts, displs, types, C);
}
BODY(alltoallv)
{
    int counts[64];
    for (int i = 0; i < call->n; i++) /* what each pair of ranks exchanges is the same both ways */
        counts[i] = N + (call->me + i) % 2;
    MCOLL(Alltoallv, alltoallv, send, counts, call->displs, T, recv, counts, call->displs, T, C);
}
BODY(reduce)
{
    MCOLL(Reduce, reduce, send, recv, N, T, MPI_SUM, call->n - 1, C);
}
BODY(reduce_in_place)
{
    MCOLL(Reduce, reduce, call->me == 0 ? MPI_IN_PLACE : (call->me % 2 ? send : recv), recv, N, T, MPI_MAX, 0,
          C);
}
BODY(allreduce)
{
    MCOLL(Allreduce, allreduce, send, recv, N, T, MPI_SUM, C);
}
BODY(allreduce_in_place)
{
    (void)send;
    MCOLL(Allreduce, allreduce, MPI_IN_PLACE, recv, N, T, MPI_BXOR, C);
}
BODY(reduce_scatter_block)
{
    MCOLL(Reduce_scatter_block, reduce_scatter_block, send, recv, N, T, MPI_SUM, C);
}
BODY(reduce_scatter_in_place)
{
    (void)send;
    MCOLL(Reduce_scatter_block, reduce_scatter_block, MPI_IN_PLACE, recv, N, T, MPI_MIN, C);
}
BODY(reduce_scatter)
{
    MCOLL(Reduce_scatter, reduce_scatter, send, recv, call->counts, T, MPI_SUM, C);
}
BODY(scan)
{
    MCOLL(Scan, scan, send, recv, N, T, MPI_SUM, C);
}
BODY(scan_in_place)
{
    (void)send;
    MCOLL(Scan, scan, MPI_IN_PLACE, recv, N, T, MPI_SUM, C);
}
BODY(exscan)
{
    MCOLL(Exscan, exscan, send, recv, N, T, MPI_SUM, C);
}
BODY(neighbor_allgather)
{
    MCOLL(Neighbor_allgather, neighbor_allgather, send, N, T, recv, N, T, C);
}
BODY(neighbor_alltoall)
{
    MCOLL(Neighbor_alltoall, neighbor_alltoall, send, N, T, recv, N, T, C);
}

BODY(neighbor_allgatherv)
{
    int counts[4] = {N, N, N, N}, displs[4] = {3 * N, 2 * N, N, 0};
    MCOLL(Neighbor_allgatherv, neighbor_allgatherv, send, N, T, recv, counts, displs, T, C);
}
BODY(neighbor_alltoallv)
{
    int counts[4] = {N, N, N, N}, displs[4] = {3 * N, 2 * N, N, 0};
    MCOLL(Neighbor_alltoallv, neighbor_alltoallv, send, counts, displs, T, recv, counts, displs, T, C);
}
BODY(neighbor_alltoallw)
{
    int counts[4] = {N, N, N, N};
    MPI_Aint bytes = N * (MPI_Aint)sizeof(int), displs[4] = {3 * bytes, 2 * bytes, bytes, 0};
    MPI_Datatype types[4] = {T, T, T, T};
    MCOLL(Neighbor_alltoallw, neighbor_alltoallw, send, counts, displs, types, recv, counts, displs, types,
          C);
}

/* An operation of the program's, which does not commute: a + 2 b, in rank order, on whole numbers. */
static void twice(void *in, void *inout, int *len, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *len; i++)
        ((int *)inout)[i] = ((int *)in)[i] + 2 * ((int *)inout)[i];
}
static MPI_Op twice_op;
BODY(allreduce_user)
{
    MCOLL(Allreduce, allreduce, send, recv, N, T, twice_op, C);
}
BODY(scan_user)
{
    MCOLL(Scan, scan, send, recv, N, T, twice_op, C);
}

static const struct {
    const char *name;
    body_fn body;
    int is_v; /* counts differ */
} bodies[] = {
    {"bcast", bcast, 0},
    {"gather", gather, 0},
    {"gather in place", gather_in_place, 0},
    {"gatherv", gatherv, 1},
    {"scatter", scatter, 0},
    {"scatterv", scatterv, 1},
    {"allgather", allgather, 0},
    {"allgather in place", allgather_in_place, 0},
    {"allgatherv", allgatherv, 1},
    {"alltoall", alltoall, 0},
    {"alltoall in place", alltoall_in_place, 0},
    {"alltoallw", alltoallw, 0},
    {"alltoallv", alltoallv, 1},
    {"reduce", reduce, 0},
    {"reduce in place", reduce_in_place, 0},
    {"allreduce", allreduce, 0},
    {"allreduce in place", allreduce_in_place, 0},
    {"reduce_scatter_block", reduce_scatter_block, 0},
    {"reduce_scatter in place", reduce_scatter_in_place, 0},
    {"reduce_scatter", reduce_scatter, 1},
    {"scan", scan, 0},
    {"scan in place", scan_in_place, 0},
    {"exscan", exscan, 0},
    {"allreduce with a user's function", allreduce_user, 0},
    {"scan with a user's function", scan_user, 0},
};

static void run_all(struct call *call)
{
    size_t bytes =
        (size_t)call->n * (size_t)(call->count + 2) * sizeof(int) + 64; /* the largest displacement */

    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
        compare(bodies[i].name, call, bodies[i].body, bytes, bytes);
}

/* Kinds of data whose bits may be anything. */
BODY(allreduce_max)
{
    MCOLL(Allreduce, allreduce, send, recv, N, T, MPI_MAX, C);
}
BODY(scan_max)
{
    MCOLL(Scan, scan, send, recv, N, T, MPI_MAX, C);
}
BODY(allreduce_maxloc)
{
    MCOLL(Allreduce, allreduce, send, recv, N, T, MPI_MAXLOC, C);
}

/* Derived types on the GPU: every second integer. */
static void run_strided(struct call *call)
{
    size_t bytes = (size_t)call->n * (size_t)call->count * 2 * sizeof(int) + 64;
    MPI_Datatype pair;

    MTEST_OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &pair));
    MTEST_OK(MPI_Type_commit(&pair));
    call->type = pair;
    compare("bcast of every second", call, bcast, bytes, bytes);
    compare("gather of every second", call, gather, bytes, bytes);
    compare("allgather of every second", call, allgather, bytes, bytes);
    compare("alltoall of every second", call, alltoall, bytes, bytes);
    compare("alltoall in place of every second", call, alltoall_in_place, bytes, bytes);
    call->type = MPI_INT;
    MTEST_OK(MPI_Type_free(&pair));
}

BODY(inter_alltoall)
{
    MCOLL(Alltoall, alltoall, send, N, T, recv, N, T, C);
}
BODY(inter_allgather)
{
    MCOLL(Allgather, allgather, send, N, T, recv, N, T, C);
}
BODY(inter_allreduce)
{
    MCOLL(Allreduce, allreduce, send, recv, N, T, MPI_SUM, C);
}

/* Rooted ones: the last rank of the first group has the root's part. */
static int inter_root(const struct call *call)
{
    int last;
    MTEST_OK(MPI_Comm_size(C, &last));
    if (mtest_rank % 2)
        return call->n - 1;
    return call->me == last - 1 ? MPI_ROOT : MPI_PROC_NULL;
}
BODY(inter_bcast)
{
    (void)send;
    MCOLL(Bcast, bcast, recv, N, T, inter_root(call), C);
}
BODY(inter_gather)
{
    MCOLL(Gather, gather, send, N, T, recv, N, T, inter_root(call), C);
}
BODY(inter_scatter)
{
    MCOLL(Scatter, scatter, send, N, T, recv, N, T, inter_root(call), C);
}
BODY(inter_reduce)
{
    MCOLL(Reduce, reduce, send, recv, N, T, MPI_SUM, inter_root(call), C);
}

/* Ranks that alternate between the processes of the job. */
static void run_dealt(const struct call *call)
{
    struct call inner = *call;

    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, mtest_rank % 2 * mtest_size - mtest_rank, &inner.comm));
    MTEST_OK(MPI_Comm_rank(inner.comm, &inner.me));
    run_all(&inner);
    MTEST_OK(MPI_Comm_free(&inner.comm));
}

/* Types that GPUs have no kernels for, or that have holes. */
static void run_types(struct call *call)
{
    static const size_t size = 32;
    size_t bytes = (size_t)call->n * (size_t)call->count * size + 64;
    MPI_Datatype types[] = {MPI_LONG_DOUBLE, MPI_DOUBLE, MPI_UINT8_T};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        call->type = types[i];
        compare("maximum", call, allreduce_max, bytes, bytes);
        compare("scan of maxima", call, scan_max, bytes, bytes);
    }
    call->type = MPI_SHORT_INT;
    compare("maximum and where", call, allreduce_maxloc, bytes, bytes);
    call->type = MPI_INT;
}

static void run_inter(struct call *call)
{
    MPI_Comm half, inter;
    int side = mtest_rank % 2, n;
    size_t bytes = (size_t)mtest_size * (size_t)call->count * sizeof(int) + 64;
    struct call inner = *call;

    MTEST_OK(MPI_Comm_split(MPI_COMM_WORLD, side, mtest_rank, &half));
    MTEST_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 7, &inter));
    MTEST_OK(MPI_Comm_remote_size(inter, &n));
    inner.comm = inter;
    inner.n = n;
    MTEST_OK(MPI_Comm_rank(inter, &inner.me));
    compare("alltoall between groups", &inner, inter_alltoall, bytes, bytes);
    compare("allgather between groups", &inner, inter_allgather, bytes, bytes);
    compare("allreduce between groups", &inner, inter_allreduce, bytes, bytes);
    compare("bcast between groups", &inner, inter_bcast, bytes, bytes);
    compare("gather between groups", &inner, inter_gather, bytes, bytes);
    compare("scatter between groups", &inner, inter_scatter, bytes, bytes);
    compare("reduce between groups", &inner, inter_reduce, bytes, bytes);
    MTEST_OK(MPI_Comm_free(&inter));
    MTEST_OK(MPI_Comm_free(&half));
}

static void run_neighbors(struct call *call)
{
    int dims[2] = {0, 0}, periods[2] = {1, 0};
    size_t bytes = 4 * (size_t)call->count * sizeof(int) + 64;
    struct call inner = *call;

    MTEST_OK(MPI_Dims_create(mtest_size, 2, dims));
    MTEST_OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &inner.comm));
    compare("neighbor_allgather", &inner, neighbor_allgather, bytes, bytes);
    compare("neighbor_alltoall", &inner, neighbor_alltoall, bytes, bytes);
    compare("neighbor_allgatherv", &inner, neighbor_allgatherv, bytes, bytes);
    compare("neighbor_alltoallv", &inner, neighbor_alltoallv, bytes, bytes);
    compare("neighbor_alltoallw", &inner, neighbor_alltoallw, bytes, bytes);
    MTEST_OK(MPI_Comm_free(&inner.comm));
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 13, 0, 700, 40000, 150000};
    int is_large = argc > 2 && strcmp(argv[2], "large") == 0; /* the last one alone, else all others */
    struct call call = {.comm = MPI_COMM_WORLD, .type = MPI_INT};

    mcoll_init(&argc, &argv, 1);
    gtest_init();
    call.me = mtest_rank;
    call.n = mtest_size;
    call.counts = mtest_alloc((size_t)call.n * sizeof(int));
    call.displs = mtest_alloc((size_t)call.n * sizeof(int));
    MTEST_OK(MPI_Op_create(twice, 0, &twice_op));
    for (mix = 0; mix < N_MIXES; mix++)
        for (size_t i = is_large ? 5 : 0; i < (is_large ? 6 : 5); i++) {
            call.count = counts[i];
            for (int r = 0, at = 0; r < call.n; at += call.counts[r++] + 1) {
                call.counts[r] = call.count + r % 2;
                call.displs[r] = at;
            }
            run_all(&call);
            run_strided(&call);
            if (call.count < 1000)
                run_types(&call);
            if (mtest_size > 2 && call.count < 20000)
                run_dealt(&call);
            if (mtest_size > 1)
                run_inter(&call);
            run_neighbors(&call);
        }
    MTEST_OK(MPI_Op_free(&twice_op));
    free(call.counts);
    free(call.displs);
    return mtest_end();
}
