/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages in CUDA graphs (MPIX_Send_enqueue, ..., in a captured stream): every launch repeats them, whichever end is captured
 * or launched first, for any number of launches and messages, on one GPU or two, between processes, from any memory and
 * with any layout; they match captured operations only, in the order of the calls. Arguments: alone: the GPUs exchange them while no PE
 * makes progress; errors: wrong uses; lonely: an end that has no other is reported.
 */
#include "graphs.h"
#include "mpi-ext.h"

#define N_MAX (1 << 18)

static int device; /* of this rank */

static struct etest begin_test(void)
{
    gtest_select(gtest_gpu(device));
    return etest_begin(0, 0);
}

/* ---- Halos ---- */

static void blocking_step(struct etest *test, CUdeviceptr own, CUdeviceptr from_left, CUdeviceptr from_right,
                          unsigned n)
{
    int left = (mtest_rank + mtest_size - 1) % mtest_size, right = (mtest_rank + 1) % mtest_size;

    gtest_launch_update(own, n, 3, (unsigned)mtest_rank + 1, test->cuda);
    for (int turn = 0; turn < 2; turn++)
        if ((mtest_rank == 0) == (turn == 0)) {
            MTEST_OK(MPIX_Send_enqueue((void *)own, (int)n, MPI_UNSIGNED, right, 1, test->comm));
        } else {
            MTEST_OK(MPIX_Recv_enqueue((void *)from_left, N_MAX, MPI_UNSIGNED, left, 1, test->comm,
                                       MPI_STATUS_IGNORE));
        }
    for (int turn = 0; turn < 2; turn++)
        if ((mtest_rank == 0) == (turn == 0)) {
            MTEST_OK(MPIX_Send_enqueue_c((void *)own, n, MPI_UNSIGNED, left, 2, test->comm));
        } else {
            MTEST_OK(MPIX_Recv_enqueue_c((void *)from_right, N_MAX, MPI_UNSIGNED, right, 2, test->comm,
                                         MPI_STATUS_IGNORE));
        }
    gtest_launch_mix(own, from_left, n, test->cuda);
    gtest_launch_mix(own, from_right, n, test->cuda);
}

/* The ranks capture one after the other; the direction changes with is_reverse. Each launches at once, which is allowed on the fake
 * driver only. */
static void halo(enum halo order, unsigned n, int is_reverse)
{
    enum { LAUNCHES = 30 };
    struct etest test = begin_test();
    CUdeviceptr own = etest_alloc(N_MAX), from_left = etest_alloc(N_MAX), from_right = etest_alloc(N_MAX);
    CUgraphExec exec = NULL;

    for (int turn = 0; turn < mtest_size; turn++) {
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (turn != (is_reverse ? mtest_size - 1 - mtest_rank : mtest_rank))
            continue;
        graph_begin(&test);
        if (order == BLOCKING)
            blocking_step(&test, own, from_left, from_right, n);
        else
            halo_step(&test, order, own, from_left, from_right, n);
        exec = graph_end_and_make(&test);
        if (fakecuda_is_here())
            graph_launch(&test, exec, LAUNCHES / 2);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    graph_launch(&test, exec, fakecuda_is_here() ? LAUNCHES - 1 - LAUNCHES / 2 : LAUNCHES - 1);
    GTEST_CU(cuStreamSynchronize(test.cuda));
    graph_launch(&test, exec, 1);
    GTEST_CU(cuStreamSynchronize(test.cuda));
    etest_expect(own, n, halo_expected(LAUNCHES), "halo");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD)); /* nobody frees what another one's graph waits for */
    GTEST_CU(cuGraphExecDestroy(exec));
    GTEST_CU(cuMemFree(own));
    GTEST_CU(cuMemFree(from_left));
    GTEST_CU(cuMemFree(from_right));
    etest_end(&test);
}

/* ---- Messages in order ---- */

/* Many messages with one tag, to the next rank and to the rank itself, beside ordinary messages with that tag; more than a
 * launch of the library's kernel and a block of its memory have room for. */
static void many(void)
{
    enum { N = 230, LAUNCHES = 4 };
    struct etest test = begin_test();
    CUdeviceptr from = etest_alloc(2 * N), to = etest_alloc(2 * N);
    MPI_Request requests[4 * N], ordinary[2];
    unsigned *got = mtest_alloc(2 * N * sizeof *got);
    int next = (mtest_rank + 1) % mtest_size, before = (mtest_rank + mtest_size - 1) % mtest_size, word = -1;
    CUgraphExec exec;

    MTEST_OK(MPI_Irecv(&word, 1, MPI_INT, before, 3, test.comm, &ordinary[0]));
    graph_begin(&test);
    gtest_launch_update(from, 2 * N, 1, 1000 * (unsigned)mtest_rank + 1, test.cuda);
    for (int i = 0; i < N; i++) {
        size_t at = (size_t)i * 2 * sizeof(unsigned);
        gtest_launch_update(from + at, 2, 1, (unsigned)i, test.cuda);
        MTEST_OK(
            MPIX_Isend_enqueue((void *)(from + at), 1, MPI_UNSIGNED, next, 3, test.comm, &requests[4 * i]));
        MTEST_OK(MPIX_Irecv_enqueue((void *)(to + at), 1, MPI_UNSIGNED, before, 3, test.comm,
                                    &requests[4 * i + 1]));
        MTEST_OK(MPIX_Irecv_enqueue((void *)(to + at + 4), 1, MPI_UNSIGNED, mtest_rank, 4, test.comm,
                                    &requests[4 * i + 2]));
        MTEST_OK(MPIX_Isend_enqueue((void *)(from + at + 4), 1, MPI_UNSIGNED, mtest_rank, 4, test.comm,
                                    &requests[4 * i + 3]));
    }
    MTEST_OK(MPIX_Recv_enqueue(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, test.comm, MPI_STATUS_IGNORE));
    MTEST_OK(MPIX_Waitall_enqueue(4 * N, requests, MPI_STATUSES_IGNORE));
    exec = graph_end_and_make_all(&test);
    graph_launch(&test, exec, LAUNCHES);
    MTEST_OK(MPI_Isend(&mtest_rank, 1, MPI_INT, next, 3, test.comm, &ordinary[1]));
    MTEST_OK(MPI_Waitall(2, ordinary, MPI_STATUSES_IGNORE));
    GTEST_CU(cuStreamSynchronize(test.cuda));
    MTEST_CHECK(word == before, "an ordinary message beside captured ones is %d, not %d", word, before);
    GTEST_CU(cuMemcpyDtoH(got, to, 2 * N * sizeof *got));
    for (int i = 0; i < 2 * N; i++) {
        unsigned right = LAUNCHES * (1000 * (unsigned)(i % 2 ? mtest_rank : before) + 1 + (unsigned)i / 2);
        MTEST_CHECK(got[i] == right, "message %d is %u, not %u", i, got[i], right);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuGraphExecDestroy(exec));
    GTEST_CU(cuMemFree(from));
    GTEST_CU(cuMemFree(to));
    free(got);
    etest_end(&test);
}

/* ---- Other memory and layouts ---- */

/* Even ranks send any layout from memory of one kind, odd ranks receive it elsewhere. */
static void places(void)
{
    struct gtest_data from = gtest_data(GTEST_VECTOR, 5600), to = gtest_data(GTEST_STRUCT, 5600);
    struct etest test = begin_test();
    char *image = mtest_alloc(from.span_bytes), *right;

    mtest_fill(image, from.span_bytes, 3);
    right = gtest_expected(image, &from, &to);
    for (int place = 0; place < GTEST_PLACES && (mtest_rank ^ 1) < mtest_size; place++) {
        struct gtest_buffer buffer =
            gtest_alloc((enum gtest_place)place, mtest_rank % 2 ? to.span_bytes : from.span_bytes,
                        mtest_rank % 2 ? NULL : image);
        CUgraphExec exec;
        gtest_select(gtest_gpu(device));
        graph_begin(&test);
        if (mtest_rank % 2 == 0) {
            MTEST_OK(MPIX_Send_enqueue(buffer.data, from.count, from.type, mtest_rank + 1, 0, test.comm));
        } else {
            MTEST_OK(MPIX_Recv_enqueue(buffer.data, to.count, to.type, mtest_rank - 1, 0, test.comm,
                                       MPI_STATUS_IGNORE));
        }
        exec = graph_end_and_make_all(&test);
        for (int i = 0; i < 3; i++) {
            graph_launch(&test, exec, 2);
            GTEST_CU(cuStreamSynchronize(test.cuda));
            if (mtest_rank % 2)
                MTEST_CHECK(gtest_differs(&buffer, right) == -1, "wrong data in %s",
                            gtest_place_names[place]);
            if (mtest_rank % 2)
                gtest_set(&buffer, NULL);
            gtest_select(gtest_gpu(device));
        }
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
        GTEST_CU(cuGraphExecDestroy(exec));
        gtest_free(&buffer);
        gtest_select(gtest_gpu(device));
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD)); /* nor waits for a graph of the next turn by freeing memory */
    }
    gtest_data_free(&from);
    gtest_data_free(&to);
    free(image);
    free(right);
    etest_end(&test);
}

/* One end is consecutive memory of the GPU, and the other one in host memory or a vector; of several lengths. */
static void unlike(void)
{
    enum { N = 3000 };
    struct etest test = begin_test();
    CUdeviceptr data = etest_alloc(2 * N);
    unsigned *host = mtest_alloc(2 * N * sizeof *host);
    int partner = mtest_rank ^ 1, is_first = mtest_rank % 2 == 0;
    MPI_Datatype vector;
    CUgraphExec exec;

    MTEST_OK(MPI_Type_vector(N, 1, 2, MPI_UNSIGNED, &vector));
    MTEST_OK(MPI_Type_commit(&vector));
    graph_begin(&test);
    if (is_first) {
        gtest_launch_update(data, N, 1, 7, test.cuda);
        MTEST_OK(MPIX_Send_enqueue((void *)data, N, MPI_UNSIGNED, partner, 0, test.comm));
        MTEST_OK(
            MPIX_Recv_enqueue((void *)data, 2 * N, MPI_UNSIGNED, partner, 0, test.comm, MPI_STATUS_IGNORE));
    } else {
        MTEST_OK(MPIX_Recv_enqueue(host, 2 * N, MPI_UNSIGNED, partner, 0, test.comm, MPI_STATUS_IGNORE));
        MTEST_OK(MPIX_Send_enqueue(host, N / 2, MPI_UNSIGNED, partner, 0, test.comm));
    }
    if (is_first) {
        MTEST_OK(MPIX_Send_enqueue((void *)data, N, MPI_UNSIGNED, partner, 1, test.comm));
    } else {
        MTEST_OK(MPIX_Recv_enqueue((void *)data, 1, vector, partner, 1, test.comm, MPI_STATUS_IGNORE));
    }
    exec = graph_end_and_make_all(&test);
    MTEST_OK(MPI_Type_free(&vector)); /* graphs keep it */
    graph_launch(&test, exec, 10);
    GTEST_CU(cuStreamSynchronize(test.cuda));
    GTEST_CU(cuMemcpyDtoH(host, data, 2 * N * sizeof *host));
    for (int i = 0; i < 2 * N; i++) {
        unsigned right = is_first ? (i < N ? 70 : 0) : (i % 2 ? 0 : 70);
        MTEST_CHECK(host[i] == right, "element %d is %u, not %u", i, host[i], right);
    }
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuGraphExecDestroy(exec));
    GTEST_CU(cuMemFree(data));
    free(host);
    etest_end(&test);
}

/* ---- Several executable graphs ---- */

/* Two executable graphs of one capture, and one that is updated by a second capture. */
static void executables(void)
{
    enum { N = 700 };
    struct etest test = begin_test();
    CUdeviceptr own = etest_alloc(N), from_left = etest_alloc(N), from_right = etest_alloc(N);
    CUgraphExecUpdateResultInfo info;
    CUgraphExec first, second;
    CUgraph graph;

    graph_begin(&test);
    halo_step(&test, RECVS_FIRST, own, from_left, from_right, N);
    graph = graph_end(&test);
    first = graph_make(graph);
    second = graph_make(graph);
    GTEST_CU(cuGraphDestroy(graph));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 6; i++)
        graph_launch(&test, i % 3 ? first : second, 1);
    GTEST_CU(cuStreamSynchronize(test.cuda));
    graph_begin(&test);
    halo_step(&test, RECVS_FIRST, own, from_left, from_right, N);
    graph = graph_end(&test);
    GTEST_CU(cuGraphExecUpdate(first, graph, &info));
    GTEST_CU(cuGraphDestroy(graph));
    GTEST_CU(cuGraphUpload(first, test.cuda)); /* no function has made it anew */
    GTEST_CU(cuStreamSynchronize(test.cuda));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    graph_launch(&test, first, 6);
    GTEST_CU(cuStreamSynchronize(test.cuda));
    etest_expect(own, N, halo_expected(12), "several executable graphs");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuGraphExecDestroy(first));
    GTEST_CU(cuGraphExecDestroy(second));
    GTEST_CU(cuMemFree(own));
    GTEST_CU(cuMemFree(from_left));
    GTEST_CU(cuMemFree(from_right));
    etest_end(&test);
}

/* ---- Without the PE ---- */

/* After the launches no rank calls MPI or CUDA until its stream has written a word behind them. */
static void alone(void)
{
    enum { N = 20000, LAUNCHES = 50 };
    struct etest test = begin_test();
    CUdeviceptr own = etest_alloc(N), from_left = etest_alloc(N), from_right = etest_alloc(N);
    CUgraphExec exec;

    graph_begin(&test);
    halo_step(&test, MIXED, own, from_left, from_right, N);
    exec = graph_end_and_make_all(&test);
    graph_launch(&test, exec, LAUNCHES);
    GTEST_CU(cuStreamWriteValue32(test.cuda, (CUdeviceptr)test.flag, 1, 0));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD)); /* all have launched */
    while (*test.flag == 0)
        ;
    GTEST_CU(cuStreamSynchronize(test.cuda));
    etest_expect(own, N, halo_expected(LAUNCHES), "an exchange without the PE");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuGraphExecDestroy(exec));
    GTEST_CU(cuMemFree(own));
    GTEST_CU(cuMemFree(from_left));
    GTEST_CU(cuMemFree(from_right));
    etest_end(&test);
}

/* ---- Errors ---- */

static void errors(void)
{
    struct etest test = begin_test(), other = begin_test();
    CUdeviceptr data = etest_alloc(64);
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL}, ordinary, late;
    MPI_Status status;
    CUgraphExec exec;
    CUgraph graph;

    mtest_errors_return(test.comm);
    mtest_errors_return(other.comm);
    MTEST_OK(MPIX_Irecv_enqueue((void *)data, 1, MPI_INT, mtest_rank, 9, test.comm, &ordinary));
    graph_begin(&test);
    graph_begin(&other);
    MTEST_CLASS(MPIX_Recv_enqueue((void *)data, 1, MPI_INT, MPI_ANY_SOURCE, 0, test.comm, MPI_STATUS_IGNORE),
                MPI_ERR_UNSUPPORTED_OPERATION);
    MTEST_CLASS(
        MPIX_Irecv_enqueue((void *)data, 1, MPI_INT, mtest_rank, MPI_ANY_TAG, test.comm, &requests[0]),
        MPI_ERR_UNSUPPORTED_OPERATION);
    MTEST_CLASS(MPIX_Recv_enqueue((void *)data, 1, MPI_INT, mtest_rank, 0, test.comm, &status), MPI_ERR_ARG);
    MTEST_CLASS(MPIX_Wait_enqueue(&ordinary, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);

    MTEST_OK(MPIX_Irecv_enqueue((void *)data, 1, MPI_INT, mtest_rank, 0, test.comm, &requests[0]));
    MTEST_CLASS(MPIX_Send_enqueue((void *)data, 2, MPI_INT, mtest_rank, 0, test.comm), MPI_ERR_TRUNCATE);
    MTEST_OK(MPIX_Isend_enqueue((void *)(data + 8), 1, MPI_INT, mtest_rank, 0, test.comm, &requests[1]));
    MTEST_OK(MPIX_Irecv_enqueue((void *)(data + 16), 1, MPI_INT, mtest_rank, 0, other.comm, &requests[2]));
    MTEST_CLASS(MPIX_Waitall_enqueue(3, requests, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
    MTEST_CLASS(MPIX_Waitall_enqueue(2, (MPI_Request[]){requests[0], requests[0]}, MPI_STATUSES_IGNORE),
                MPI_ERR_REQUEST);
    MTEST_CLASS(MPIX_Waitall_enqueue(2, (MPI_Request[]){requests[0], ordinary}, MPI_STATUSES_IGNORE),
                MPI_ERR_REQUEST);
    MTEST_CLASS(MPIX_Wait_enqueue(&requests[0], &status), MPI_ERR_ARG);
    MTEST_OK(MPIX_Isend_enqueue((void *)(data + 20), 1, MPI_INT, mtest_rank, 0, other.comm, &late));
    MTEST_OK(MPIX_Waitall_enqueue(1, &requests[2], MPI_STATUSES_IGNORE));
    GTEST_CU(cuStreamEndCapture(other.cuda, &graph));
    GTEST_CU(cuGraphDestroy(graph));
    MTEST_CLASS(MPIX_Wait_enqueue(&late, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    MTEST_CLASS(MPI_Wait(&late, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);

    /* The operations that were captured correctly are in the graph. */
    MTEST_OK(MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE));
    exec = graph_end_and_make(&test);
    GTEST_CU(cuMemsetD32(data + 8, 5, 1));
    graph_launch(&test, exec, 3);
    GTEST_CU(cuStreamSynchronize(test.cuda));
    etest_expect(data, 1, 5, "a message to itself");
    GTEST_CU(cuGraphExecDestroy(exec));

    /* A capture whose operation nothing waits for is found by the next one. */
    graph_begin(&other);
    MTEST_CLASS(MPIX_Send_enqueue((void *)data, 1, MPI_INT, mtest_rank, 0, other.comm), MPI_ERR_REQUEST);
    GTEST_CU(cuStreamEndCapture(other.cuda, &graph));
    GTEST_CU(cuGraphDestroy(graph));

    MTEST_OK(MPI_Send((void *)data, 1, MPI_INT, mtest_rank, 9, test.comm));
    MTEST_OK(MPI_Wait(&ordinary, MPI_STATUS_IGNORE));
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
    etest_end(&other);
}

static void lonely(void)
{
    struct etest test = begin_test();
    CUgraphExec exec;
    int word = 0;

    graph_begin(&test);
    if (mtest_rank == 0)
        MTEST_OK(MPIX_Recv_enqueue(&word, 1, MPI_INT, 1, 5, test.comm, MPI_STATUS_IGNORE));
    exec = graph_end_and_make(&test);
    graph_launch(&test, exec, 1);
    GTEST_CU(cuStreamSynchronize(test.cuda));
    MTEST_CHECK(mtest_rank > 0 || word == 17, "the late message is %d", word);
    if (mtest_rank != 1)
        return;
    /* This end comes after the report, which comes when the graph has waited for 5 s. */
    etest_yield_until_report(15);
    word = 17;
    graph_begin(&test);
    MTEST_OK(MPIX_Send_enqueue(&word, 1, MPI_INT, 0, 5, test.comm));
    exec = graph_end_and_make(&test);
    graph_launch(&test, exec, 1);
    GTEST_CU(cuStreamSynchronize(test.cuda));
}

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";

    mtest_init(&argc, &argv, 1);
    gtest_init();
    device = mtest_rank % gtest_n_devices;
    if (strcmp(part, "one") == 0)
        device = 0;
    gtest_select(gtest_gpu(device));
    gtest_load_kernels();
    if (strcmp(part, "errors") == 0) {
        mtest_errors_return(MPI_COMM_WORLD);
        mtest_errors_return(MPI_COMM_SELF);
        errors();
    } else if (strcmp(part, "alone") == 0) {
        alone();
    } else if (strcmp(part, "lonely") == 0) {
        lonely();
    } else {
        for (enum halo order = 0; order < HALOS; order++)
            for (unsigned n = 1, is_reverse = 0; n <= N_MAX; n *= 64, is_reverse ^= 1)
                if (order != BLOCKING || mtest_size > 1)
                    halo(order, n, (int)is_reverse);
        many();
        if (mtest_size % 2 == 0) {
            places();
            unlike();
        }
        executables();
    }
    return mtest_end();
}
