/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Persistent requests that streams start (MPIX_Start_enqueue): sends, receives and collectives, again and again
 * without the host, in CUDA graphs, beside MPI_Start of the same requests, and waited for by MPI_Wait; wrong uses are errors.
 */
#include "graphs.h"
#include "mpi-ext.h"

#define N 3000
#define STEPS 30

/* Persistent requests of a halo exchange around a ring. */
struct ring {
    CUdeviceptr own, from_left, from_right;
    MPI_Request requests[4];
};

static struct ring begin_halo(struct etest *test)
{
    struct ring made = {etest_alloc(N), etest_alloc(N), etest_alloc(N), {MPI_REQUEST_NULL}};
    int left = (mtest_rank + mtest_size - 1) % mtest_size, right = (mtest_rank + 1) % mtest_size;

    MTEST_OK(MPI_Recv_init((void *)made.from_left, N, MPI_UNSIGNED, left, 1, test->comm, &made.requests[0]));
    MTEST_OK(
        MPI_Recv_init_c((void *)made.from_right, N, MPI_UNSIGNED, right, 2, test->comm, &made.requests[1]));
    MTEST_OK(MPI_Send_init((void *)made.own, N, MPI_UNSIGNED, left, 2, test->comm, &made.requests[2]));
    MTEST_OK(MPI_Ssend_init((void *)made.own, N, MPI_UNSIGNED, right, 1, test->comm, &made.requests[3]));
    return made;
}

static void end_halo(struct ring *halo)
{
    for (int i = 0; i < 4; i++)
        MTEST_OK(MPI_Request_free(&halo->requests[i]));
    GTEST_CU(cuMemFree(halo->own));
    GTEST_CU(cuMemFree(halo->from_left));
    GTEST_CU(cuMemFree(halo->from_right));
}

static void exchange(struct etest *test, struct ring *halo, MPI_Status *statuses)
{
    MPI_Request before[4];

    memcpy(before, halo->requests, sizeof before);
    gtest_launch_update(halo->own, N, 3, (unsigned)mtest_rank + 1, test->cuda);
    MTEST_OK(MPIX_Start_enqueue(&halo->requests[3]));
    MTEST_OK(MPIX_Startall_enqueue(3, halo->requests));
    MTEST_OK(MPIX_Wait_enqueue(&halo->requests[2], MPI_STATUS_IGNORE));
    MTEST_OK(MPIX_Waitall_enqueue(4, halo->requests, statuses));
    MTEST_CHECK(memcmp(before, halo->requests, sizeof before) == 0, "a persistent request has changed");
    gtest_launch_mix(halo->own, halo->from_left, N, test->cuda);
    gtest_launch_mix(halo->own, halo->from_right, N, test->cuda);
}

/* The values of all ranks after a step. */
static void advance(unsigned *values)
{
    unsigned next[64];

    for (int i = 0; i < mtest_size; i++)
        values[i] = 3 * values[i] + (unsigned)i + 1;
    for (int i = 0; i < mtest_size; i++)
        next[i] =
            5 * (5 * values[i] + values[(i + mtest_size - 1) % mtest_size]) + values[(i + 1) % mtest_size];
    memcpy(values, next, (size_t)mtest_size * sizeof *values);
}

/* The host is far ahead of the stream. */
static void halos(void)
{
    struct etest test = etest_begin(0, 0);
    struct ring halo = begin_halo(&test);
    static MPI_Status statuses[STEPS][4];
    unsigned values[64] = {0};
    int flag = 0, count;

    etest_hold(&test);
    for (int i = 0; i < STEPS; i++) {
        exchange(&test, &halo, statuses[i]);
        advance(values);
    }
    MTEST_OK(MPI_Testall(4, halo.requests, &flag, MPI_STATUSES_IGNORE));
    MTEST_CHECK(flag, "requests that a stream waits for are active");
    etest_release(&test);
    etest_expect(halo.own, N, values[mtest_rank], "persistent requests in a stream");
    for (int i = 0; i < STEPS; i++) {
        MTEST_OK(MPI_Get_count(&statuses[i][0], MPI_UNSIGNED, &count));
        MTEST_CHECK(count == N && statuses[i][0].MPI_TAG == 1 && statuses[i][1].MPI_TAG == 2 &&
                        statuses[i][1].MPI_ERROR == MPI_SUCCESS,
                    "the statuses of step %d", i);
    }

    /* A graph has the same, and leaves the requests inactive. */
    graph_begin(&test);
    exchange(&test, &halo, MPI_STATUSES_IGNORE);
    CUgraphExec exec = graph_end_and_make_all(&test);
    for (int i = 0; i < STEPS; i++) {
        graph_launch(&test, exec, 1);
        advance(values);
        if (i % 10 == 9) { /* and goes on, outside */
            exchange(&test, &halo, MPI_STATUSES_IGNORE);
            advance(values);
        }
    }
    GTEST_CU(cuStreamSynchronize(test.cuda));
    etest_expect(halo.own, N, values[mtest_rank], "persistent requests in a graph");
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuGraphExecDestroy(exec));
    end_halo(&halo);
    etest_end(&test);
}

/* MPI_Wait accepts starts of streams, and MPI_Start the same requests; one end of a message may be either. */
static void with_host(void)
{
    struct etest test = etest_begin(0, 0);
    struct ring halo = begin_halo(&test);
    MPI_Status statuses[4];
    unsigned values[64] = {0};
    int left = (mtest_rank + mtest_size - 1) % mtest_size;

    mtest_errors_return(test.comm);
    for (int i = 0; i < 12; i++) {
        unsigned expected = 0;
        gtest_launch_update(halo.own, N, 3, (unsigned)mtest_rank + 1, test.cuda);
        for (int r = 0; r < mtest_size; r++)
            values[r] = 3 * values[r] + (unsigned)r + 1;
        expected = values[left];
        if ((i + mtest_rank) % 3 == 0) {
            GTEST_CU(cuStreamSynchronize(test.cuda));
            MTEST_OK(MPI_Startall(4, halo.requests));
        } else {
            MTEST_OK(MPIX_Startall_enqueue(4, halo.requests));
            MTEST_CLASS(MPI_Start(&halo.requests[0]), MPI_ERR_REQUEST);
            MTEST_CLASS(MPIX_Start_enqueue(&halo.requests[1]), MPI_ERR_REQUEST);
            MTEST_OK(MPI_Cancel(&halo.requests[2])); /* without effect: the stream starts it */
        }
        MTEST_OK(MPI_Waitall(4, halo.requests, statuses));
        MTEST_CHECK(statuses[0].MPI_SOURCE == left && statuses[0].MPI_TAG == 1, "the status of step %d", i);
        etest_expect(halo.from_left, N, expected, "a message between a stream and the host");
        MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    end_halo(&halo);
    etest_end(&test);
}

static void collectives(void)
{
    struct etest test = etest_begin(0, 0);
    CUdeviceptr own = etest_alloc(N), sum = etest_alloc(N), last = etest_alloc(N);
    MPI_Request requests[3];
    unsigned values[64] = {0}, total = 0;
    CUgraphExec exec = NULL;

    mtest_errors_return(test.comm);
    MTEST_OK(MPI_Allreduce_init((void *)own, (void *)sum, N, MPI_UNSIGNED, MPI_SUM, test.comm, MPI_INFO_NULL,
                                &requests[0]));
    MTEST_OK(MPI_Bcast_init((void *)last, N, MPI_UNSIGNED, mtest_size - 1, test.comm, MPI_INFO_NULL,
                            &requests[1]));
    MTEST_OK(MPI_Barrier_init(test.comm, MPI_INFO_NULL, &requests[2]));
    for (int is_graph = 0; is_graph < 2; is_graph++) {
        if (is_graph)
            graph_begin(&test);
        else
            etest_hold(&test);
        for (int i = 0; i < (is_graph ? 1 : STEPS); i++) {
            gtest_launch_update(own, N, 3, (unsigned)mtest_rank + 1, test.cuda);
            gtest_launch_update(last, N, 1, (unsigned)mtest_rank, test.cuda);
            MTEST_OK(MPIX_Startall_enqueue(3, requests));
            MTEST_OK(MPIX_Waitall_enqueue(3, requests, MPI_STATUSES_IGNORE));
        }
        if (is_graph) {
            exec = graph_end_and_make_all(&test);
            graph_launch(&test, exec, STEPS);
            GTEST_CU(cuStreamSynchronize(test.cuda));
        } else {
            etest_release(&test);
        }
        for (int i = 0; i < STEPS; i++) {
            total = 0;
            for (int r = 0; r < mtest_size; r++)
                total += values[r] = 3 * values[r] + (unsigned)r + 1;
        }
        etest_expect(sum, N, total, "a persistent sum");
        etest_expect(last, N, (unsigned)((is_graph + 1) * STEPS * (mtest_size - 1)),
                     "a persistent broadcast");
    }
    etest_hold(&test);
    MTEST_OK(MPIX_Start_enqueue(&requests[0]));
    MTEST_CLASS(MPI_Request_free(&requests[0]), MPI_ERR_REQUEST);
    etest_release(&test);
    MTEST_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 3; i++)
        MTEST_OK(MPI_Request_free(&requests[i])); /* the graph has what it needs */
    graph_launch(&test, exec, 1);
    GTEST_CU(cuStreamSynchronize(test.cuda));
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    GTEST_CU(cuGraphExecDestroy(exec));
    GTEST_CU(cuMemFree(own));
    GTEST_CU(cuMemFree(sum));
    GTEST_CU(cuMemFree(last));
    etest_end(&test);
}

static void errors(void)
{
    struct etest test = etest_begin(0, 0);
    CUdeviceptr data = etest_alloc(4);
    MPI_Request send, recv, any, buffered, partitioned, plain, nothing = MPI_REQUEST_NULL, both[2], ordinary;
    MPI_Status status;
    CUgraph graph;

    mtest_errors_return(test.comm);
    MTEST_OK(MPI_Send_init((void *)data, 1, MPI_INT, mtest_rank, 1, test.comm, &send));
    MTEST_OK(MPI_Recv_init((void *)(data + 4), 1, MPI_INT, mtest_rank, 1, test.comm, &recv));
    MTEST_OK(MPI_Recv_init((void *)(data + 4), 1, MPI_INT, MPI_ANY_SOURCE, 1, test.comm, &any));
    MTEST_OK(MPI_Bsend_init((void *)data, 1, MPI_INT, mtest_rank, 1, test.comm, &buffered));
    MTEST_OK(
        MPI_Psend_init((void *)data, 1, 1, MPI_INT, mtest_rank, 1, test.comm, MPI_INFO_NULL, &partitioned));
    MTEST_OK(MPI_Send_init((void *)data, 1, MPI_INT, mtest_rank, 1, MPI_COMM_WORLD, &plain));
    MTEST_CLASS(MPIX_Start_enqueue(NULL), MPI_ERR_REQUEST);
    MTEST_CLASS(MPIX_Start_enqueue(&nothing), MPI_ERR_REQUEST);
    MTEST_CLASS(MPIX_Startall_enqueue(-1, &send), MPI_ERR_COUNT);
    MTEST_CLASS(MPIX_Startall_enqueue(1, NULL), MPI_ERR_REQUEST);
    MTEST_OK(MPIX_Startall_enqueue(0, NULL));
    MTEST_CLASS(MPIX_Start_enqueue(&buffered), MPI_ERR_UNSUPPORTED_OPERATION);
    MTEST_CLASS(MPIX_Start_enqueue(&partitioned), MPI_ERR_UNSUPPORTED_OPERATION);
    MTEST_CLASS(MPIX_Start_enqueue(&plain), MPI_ERR_OTHER);
    MTEST_OK(MPIX_Irecv_enqueue((void *)data, 1, MPI_INT, mtest_rank, 7, test.comm, &ordinary));
    MTEST_CLASS(MPIX_Start_enqueue(&ordinary), MPI_ERR_REQUEST);

    /* Inactive requests have empty statuses; a complete one has its own. */
    MTEST_OK(MPIX_Wait_enqueue(&send, &status));
    MTEST_CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE, "the status of an inactive request");
    MTEST_OK(MPIX_Startall_enqueue(2, (MPI_Request[]){send, recv}));
    GTEST_CU(cuStreamSynchronize(test.cuda));
    for (int flag = 0; !flag;)
        MTEST_OK(MPI_Request_get_status(recv, &flag, MPI_STATUS_IGNORE));
    both[0] = both[1] = recv;
    MTEST_OK(MPIX_Waitall_enqueue(2, (MPI_Request[]){recv, send}, MPI_STATUSES_IGNORE));
    MTEST_OK(MPIX_Start_enqueue(&recv));
    MTEST_CLASS(MPIX_Waitall_enqueue(2, both, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);

    /* An operation from before the capture, and one that cannot be captured. */
    graph_begin(&test);
    MTEST_CLASS(MPIX_Wait_enqueue(&recv, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
    MTEST_CLASS(MPIX_Start_enqueue(&any), MPI_ERR_UNSUPPORTED_OPERATION);
    MTEST_OK(MPIX_Wait_enqueue(&any, MPI_STATUS_IGNORE));
    MTEST_CLASS(MPIX_Wait_enqueue(&any, &status), MPI_ERR_ARG);
    GTEST_CU(cuStreamEndCapture(test.cuda, &graph));
    GTEST_CU(cuGraphDestroy(graph));

    /* A request that is freed while its stream has not started it. */
    etest_hold(&test);
    MTEST_OK(MPIX_Start_enqueue(&send));
    MTEST_OK(MPI_Request_free(&send));
    etest_release(&test);
    MTEST_OK(MPI_Wait(&recv, &status));
    MTEST_CHECK(status.MPI_TAG == 1, "the message of a freed request");
    MTEST_OK(MPI_Send((void *)data, 1, MPI_INT, mtest_rank, 7, test.comm));
    MTEST_OK(MPI_Wait(&ordinary, MPI_STATUS_IGNORE));
    MTEST_OK(MPI_Request_free(&recv));
    MTEST_OK(MPI_Request_free(&any));
    MTEST_OK(MPI_Request_free(&buffered));
    MTEST_OK(MPI_Request_free(&partitioned));
    MTEST_OK(MPI_Request_free(&plain));
    GTEST_CU(cuMemFree(data));
    etest_end(&test);
}

int main(int argc, char **argv)
{
    mtest_init(&argc, &argv, 1);
    gtest_init();
    gtest_load_kernels();
    halos();
    with_host();
    collectives();
    MTEST_OK(MPI_Barrier(MPI_COMM_WORLD));
    mtest_errors_return(MPI_COMM_WORLD);
    mtest_errors_return(MPI_COMM_SELF);
    errors();
    return mtest_end();
}
