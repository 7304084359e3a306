/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI_Start of a persistent collective on device buffers of one process looks up no address, once it has been started: the driver is
 * asked nothing, and neither is the cache of its answers. The data is right, also after memory was freed and allocated again between
 * two starts; if a buffer was only freed, ranks that need its data get an error of the class MPI_ERR_BUFFER.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "lookups.h"

#define ROUNDS 4
#define WINDOWS_MAX 40

/* A collective with blocks of n numbers. The blocks of w forms have gaps. */
enum kind {
    ALLREDUCE,
    ALLREDUCE_IN_PLACE,
    REDUCE,
    BCAST,
    ALLGATHER,
    GATHER,
    ALLTOALL,
    ALLTOALLV,
    NEIGHBOR_ALLGATHER,
    NEIGHBOR_ALLTOALL,
    NEIGHBOR_ALLTOALLV,
    NEIGHBOR_ALLTOALLW,
    REDUCE_SCATTER,
    KINDS
};

static const char *const names[KINDS] = {"allreduce",
                                         "allreduce in place",
                                         "reduce",
                                         "bcast",
                                         "allgather",
                                         "gather",
                                         "alltoall",
                                         "alltoallv",
                                         "neighbor_allgather",
                                         "neighbor_alltoall",
                                         "neighbor_alltoallv",
                                         "neighbor_alltoallw",
                                         "reduce_scatter"};

#define NEIGHBORS 4
#define RANKS_MAX 8

static MPI_Comm grid; /* periodic, in two dimensions */
static int is_near;   /* all ranks are in one process: the lookups are counted */
static int
    has_peers; /* GPUs can use each other's memory; else reductions copy through scratch memory, and look that up */

struct collective {
    enum kind kind;
    int n;
    MPI_Datatype vector; /* of a block of a w form */
    struct gtest_buffer out, in;
    size_t n_out, n_in; /* numbers */
    char *image;        /* of out */
    int counts[RANKS_MAX], displs[RANKS_MAX];
    MPI_Aint bytes[RANKS_MAX];
    MPI_Datatype types[RANKS_MAX];
    MPI_Request request;
};

static void fill(struct collective *c)
{
    unsigned *numbers = (unsigned *)c->image;

    for (size_t i = 0; i < c->n_out; i++)
        numbers[i] = (unsigned)mtest_rank * 100000 + (unsigned)i * 7 + 1;
}

static struct collective describe(enum kind kind, int n)
{
    struct collective c = {.kind = kind, .n = n, .request = MPI_REQUEST_NULL};
    size_t n_blocks = kind >= NEIGHBOR_ALLGATHER && kind < REDUCE_SCATTER ? NEIGHBORS : (size_t)mtest_size;
    size_t stride = (size_t)n * (kind == NEIGHBOR_ALLTOALLW ? 2 : 1);

    c.n_out = c.n_in = n_blocks * stride;
    for (int i = 0; i < RANKS_MAX; i++) {
        c.counts[i] = kind == NEIGHBOR_ALLTOALLW ? 1 : n;
        c.displs[i] = i * n;
        c.bytes[i] = (MPI_Aint)((size_t)i * stride * sizeof(unsigned));
    }
    MTEST_OK(MPI_Type_vector(n, 1, 2, MPI_UNSIGNED, &c.vector));
    MTEST_OK(MPI_Type_commit(&c.vector));
    for (int i = 0; i < RANKS_MAX; i++)
        c.types[i] = c.vector;
    c.image = mtest_alloc(c.n_out * sizeof(unsigned));
    fill(&c);
    return c;
}

static void alloc(struct collective *c)
{
    c->out = gtest_alloc(gtest_gpu(mtest_rank % gtest_n_devices), c->n_out * sizeof(unsigned), c->image);
    c->in = gtest_alloc(gtest_gpu(mtest_rank % gtest_n_devices), c->n_in * sizeof(unsigned), NULL);
}

/* Calls MPI_NAME(arguments) or MPI_NAME_init(arguments, ..., request). */
#define CALL(request, name, ...) \
    ((request) ? MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, request) : MPI_##name(__VA_ARGS__))

/* request NULL: blocking. */
static void call(const struct collective *c, void *out, void *in, MPI_Request *request)
{
    int n = c->n, root = mtest_size - 1, error = MPI_SUCCESS;
    const MPI_Datatype type = MPI_UNSIGNED;

    switch (c->kind) {
    case ALLREDUCE:
        error = CALL(request, Allreduce, out, in, n, type, MPI_SUM, MPI_COMM_WORLD);
        break;
    case ALLREDUCE_IN_PLACE:
        error = CALL(request, Allreduce, MPI_IN_PLACE, in, n, type, MPI_BAND, MPI_COMM_WORLD);
        break;
    case REDUCE:
        error = CALL(request, Reduce, out, in, n, type, MPI_SUM, root, MPI_COMM_WORLD);
        break;
    case BCAST:
        error = CALL(request, Bcast, mtest_rank == root ? out : in, n, type, root, MPI_COMM_WORLD);
        break;
    case ALLGATHER:
        error = CALL(request, Allgather, out, n, type, in, n, type, MPI_COMM_WORLD);
        break;
    case GATHER:
        error = CALL(request, Gather, out, n, type, in, n, type, root, MPI_COMM_WORLD);
        break;
    case ALLTOALL:
        error = CALL(request, Alltoall, out, n, type, in, n, type, MPI_COMM_WORLD);
        break;
    case ALLTOALLV:
        error = CALL(request, Alltoallv, out, c->counts, c->displs, type, in, c->counts, c->displs, type,
                     MPI_COMM_WORLD);
        break;
    case NEIGHBOR_ALLGATHER:
        error = CALL(request, Neighbor_allgather, out, n, type, in, n, type, grid);
        break;
    case NEIGHBOR_ALLTOALL:
        error = CALL(request, Neighbor_alltoall, out, n, type, in, n, type, grid);
        break;
    case NEIGHBOR_ALLTOALLV:
        error = CALL(request, Neighbor_alltoallv, out, c->counts, c->displs, type, in, c->counts, c->displs,
                     type, grid);
        break;
    case NEIGHBOR_ALLTOALLW:
        error = CALL(request, Neighbor_alltoallw, out, c->counts, c->bytes, c->types, in, c->counts, c->bytes,
                     c->types, grid);
        break;
    default:
        error = CALL(request, Reduce_scatter, out, in, c->counts, type, MPI_SUM, MPI_COMM_WORLD);
    }
    MTEST_OK(error);
}

static void play(struct collective *c)
{
    MTEST_OK(MPI_Start(&c->request));
    MTEST_OK(MPI_Wait(&c->request, MPI_STATUS_IGNORE));
}

/* The same in host memory has the same result. */
static void check(struct collective *c, const char *when)
{
    char *expected = mtest_alloc(c->n_in * sizeof(unsigned));

    gtest_set(&c->in, NULL);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    play(c);
    memset(expected, GTEST_FILL_BYTE, c->n_in * sizeof(unsigned));
    call(c, c->image, expected, NULL);
    MTEST_CHECK(gtest_differs(&c->in, expected) == -1, "%s of %d: wrong data %s", names[c->kind], c->n, when);
    free(expected);
}

/* Without peer access, reductions look up the memory that they copy through, and large data may need more of it in any round, which
 * changes mappings. */
static int is_counted(const struct collective *c)
{
    int is_reduction = c->kind <= REDUCE || c->kind == REDUCE_SCATTER;

    return is_near && (has_peers || (!is_reduction && c->n <= 2000));
}

/* When the library first uses a way it makes streams and memory for it, which changes mappings: the counts become 0 after
 * some rounds. */
static void test_counts(struct collective *c)
{
    unsigned long long lookups = 0;
    int queries = 0, is_any = 1;

    for (int i = 0; i < (is_counted(c) ? WINDOWS_MAX : 2) && is_any; i++) {
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        lookups = lookups_count();
        queries = lookups_queries();
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int round = 0; round < ROUNDS; round++)
            play(c);
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        lookups = lookups_count() - lookups;
        queries = lookups_queries() - queries;
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        is_any = lookups > 0 || queries > 0;
        MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, &is_any, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD));
    }
    MTEST_CHECK(!is_counted(c) || !is_any, "%s of %d: %llu lookups, %d queries in %d rounds", names[c->kind],
                c->n, lookups, queries, ROUNDS);
}

/* Both buffers are freed, and allocated again: the addresses may be the same or not, so it is a new request if not. */
static void test_new_memory(struct collective *c)
{
    const char *before[2] = {c->out.data, c->in.data};
    int is_elsewhere;

    gtest_free(&c->in);
    gtest_free(&c->out);
    alloc(c);
    is_elsewhere = c->out.data != before[0] || c->in.data != before[1];
    MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, &is_elsewhere, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD));
    if (is_elsewhere) {
        MTEST_OK(MPI_Request_free(&c->request));
        call(c, c->out.data, c->in.data, &c->request);
    }
    check(c, "in new memory");
}

static void test(enum kind kind, int n)
{
    struct collective c = describe(kind, n);

    alloc(&c);
    call(&c, c.out.data, c.in.data, &c.request);
    check(&c, "at first");
    test_counts(&c);
    check(&c, "later");
    test_new_memory(&c);
    MTEST_OK(MPI_Request_free(&c.request));
    gtest_free(&c.out);
    gtest_free(&c.in);
    MTEST_OK(MPI_Type_free(&c.vector));
    free(c.image);
}

/* A rank frees its buffer between two starts: a program error, which MPI reports. */
static void test_freed(enum kind kind, int n)
{
    struct collective c = describe(kind, n);
    int error, is_any;

    alloc(&c);
    call(&c, c.out.data, c.in.data, &c.request);
    for (int round = 0; round < 3; round++)
        play(&c);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mtest_rank == mtest_size - 1)
        gtest_free(&c.out);
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    error = MPI_Start(&c.request);
    if (error == MPI_SUCCESS)
        error = MPI_Wait(&c.request, MPI_STATUS_IGNORE);
    MTEST_CHECK(error == MPI_SUCCESS || mtest_class(error) == MPI_ERR_BUFFER, "%s of freed memory: error %d",
                names[kind], error);
    is_any = error != MPI_SUCCESS;
    MTEST_OK(MPI_Allreduce(MPI_IN_PLACE, &is_any, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD));
    MTEST_CHECK(is_any, "%s of freed memory: no rank has an error", names[kind]);
    MTEST_OK(MPI_Request_free(&c.request));
    if (mtest_rank < mtest_size - 1)
        gtest_free(&c.out);
    gtest_free(&c.in);
    MTEST_OK(MPI_Type_free(&c.vector));
    free(c.image);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {2, 2000, 300000};
    int dims[2] = {0, 0}, periods[2] = {1, 1}, pids[2];

    mtest_init(&argc, &argv, 2);
    gtest_init();
    mtest_errors_return(MPI_COMM_WORLD);
    lookups_open();
    MTEST_OK(MPI_Allreduce((int[]){(int)syscall(SYS_getpid), -(int)syscall(SYS_getpid)}, pids, 2, MPI_INT,
                           MPI_MAX, MPI_COMM_WORLD));
    is_near = pids[0] == -pids[1];
    has_peers = 1;
    if (gtest_n_devices > 1)
        GTEST_CU(cuDeviceCanAccessPeer(&has_peers, 0, 1));
    MTEST_OK(MPI_Dims_create(mtest_size, 2, dims));
    MTEST_OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid));
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < (kind == ALLREDUCE || kind == BCAST || kind == NEIGHBOR_ALLTOALLW ? 3 : 2); i++)
            test(kind, sizes[i]);
    if (is_near && fakecuda_is_here()) { /* on a GPU, the memory of a freed buffer may stay mapped */
        test_freed(BCAST, 2000);
        test_freed(ALLREDUCE, 2000);
        test_freed(NEIGHBOR_ALLTOALLW, 2000);
    }
    MTEST_OK(MPI_Comm_free(&grid));
    return mtest_end();
}
